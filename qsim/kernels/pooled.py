"""A control for waits: the same jobs on one server a group that works as fast as all servers of the group together.

Lindley's recursion (Proc. Cambridge Philos. Soc. 48, 1952, 277-289).  A killed job joins the one server of Group 1 at
its arrival plus the limit, as if it had not waited in Group 0: with Poisson arrivals what joins there is then a
Poisson process as well, and the mean wait is known exactly.
"""

from __future__ import annotations

from qsim.kernels._jit import helper
from qsim.kernels.random import Array

#: Columns of a table of pooled groups, one group a row: when the server becomes free, jobs counted, their waits.
FREE, POOLED, POOLED_WAIT = range(3)


@helper
def pool(row: Array, joins: Array, sizes: Array, limit: float, share: float, counted: bool) -> None:
    """Serve jobs that join in this order and need min(size, limit) * share."""
    free, waits = row[FREE], 0.0
    for k in range(joins.size):
        join, size = joins[k], sizes[k]
        start = join if join > free else free
        waits += start - join
        free = start + (size if size < limit else limit) * share
    row[FREE] = free
    if counted:
        row[POOLED] += joins.size
        row[POOLED_WAIT] += waits


@helper
def pool_both(
    row: Array,
    kills: Array,
    kill_sizes: Array,
    kill_waits: Array,
    first: int,
    end: int,
    joins: Array,
    sizes: Array,
    now: float,
    share: float,
    counted: bool,
) -> int:
    """Serve killed jobs in line from `first` on and submitted ones, all up to `now`; returns the next in line.

    Killed jobs stay in line until their real kill, never earlier than the instant at which they join here.
    """
    free, waits, i, j = row[FREE], 0.0, 0, first
    while True:
        killed = j < end and kills[j] - kill_waits[j] <= (joins[i] if i < joins.size else now)
        if killed:
            join, size = kills[j] - kill_waits[j], kill_sizes[j]
            j += 1
        elif i < joins.size:
            join, size = joins[i], sizes[i]
            i += 1
        else:
            break
        start = join if join > free else free
        waits += start - join
        free = start + size * share
    row[FREE] = free
    if counted:
        row[POOLED] += i + j - first
        row[POOLED_WAIT] += waits
    return j
