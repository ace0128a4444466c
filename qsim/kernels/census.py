"""Visits present at an instant: what the ends of a window cut off the stays of which a time average is made.

The time average of the number present over a window is the integral of the stays of all that joined in it, plus
what is left at its beginning of the stays of those present then, less what is left at its end.  A visit is noted
when it lasts beyond the instant reached so far, and forgotten some time after it has ended.
"""

from __future__ import annotations

from qsim.kernels._jit import helper
from qsim.kernels.random import Array

#: Columns of a table of visits, one kind a row: what joined in the window, its waits and services; then what was
#: present at the beginning less what is present at the end: how many, the rest of their waits, of their stays.
JOINED, QUEUED, SERVED, PRESENT, WAIT_LEFT, STAY_LEFT = range(6)


@helper
def note(
    kind: float, cut_kind: float, starts: Array, sizes: Array, limit: float, until: float, present: Array, count: int
) -> int:
    """Append (kind, start, end) of the visits that last beyond `until`; those cut at the limit have `cut_kind`."""
    for k in range(starts.size):
        size = sizes[k]
        end = starts[k] + (size if size < limit else limit)
        if end > until:
            present[3 * count] = cut_kind if size > limit else kind
            present[3 * count + 1] = starts[k]
            present[3 * count + 2] = end
            count += 1
    return count


@helper
def forget(present: Array, count: int, until: float) -> int:
    """Drop the visits that have ended."""
    kept = 0
    for k in range(count):
        if present[3 * k + 2] > until:
            for part_of_it in range(3):
                present[3 * kept + part_of_it] = present[3 * k + part_of_it]
            kept += 1
    return kept


@helper
def census(present: Array, count: int, until: float, sign: float, visits: Array) -> None:
    """Add (or take away) the visits present at an end of the window and what is left of their waits and stays."""
    for k in range(count):
        kind, start, end = int(present[3 * k]), present[3 * k + 1], present[3 * k + 2]
        if end > until:
            visits[kind, PRESENT] += sign
            visits[kind, STAY_LEFT] += sign * (end - until)
            if start > until:
                visits[kind, WAIT_LEFT] += sign * (start - until)
