"""The sorted queue lengths of N symmetric queues, cut at a spread: two models that bracket the truth.

A state is the shortest length m with the phase, the sorted differences 0 = d_1 <= ... <= d_N of the others from it.
Both models keep d_N <= K (Adan, van Houtum and van der Wal 1994, "Upper and lower bounds for the waiting time in the
symmetric shortest queue system", Ann. Oper. Res. 48, 197-217):

- threshold jockeying: a departure from a shortest queue that would make the spread K + 1 is taken from a longest one,
  an arrival that would do so goes to a shortest one; fewer jobs than in truth.
- threshold blocking: such a departure is blocked, and with such an arrival every shortest queue gets one more job; more
  jobs than in truth.

The number present T changes by 1 at each event (with blocking, an arrival may bring up to N jobs). Levels are therefore
taken by T: the phases with sum of differences congruent to T modulo N and at most T, a share 1/N of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import comb
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from qtheory.queues.linear import Array, Matrix

Variant = Literal["jockeying", "blocking"]
Phase = tuple[int, ...]
Integers = NDArray[np.int64]


def position_weights(*, queues: int, choices: int, sampling: str) -> Array:
    """P(a flexible job joins the i-th shortest queue), i = 1 .. N, ties broken by position.

    With d distinct queues C(N - i, d - 1) / C(N, d), with d draws ((N - i + 1)^d - (N - i)^d) / N^d.

    >>> position_weights(queues=3, choices=2, sampling="distinct").tolist()
    [0.6666666666666666, 0.3333333333333333, 0.0]
    """
    longer = [queues - i for i in range(1, queues + 1)]
    if sampling == "distinct":
        return np.array([comb(n, choices - 1) / comb(queues, choices) for n in longer])
    return np.array([((n + 1) ** choices - n**choices) / queues**choices for n in longer])


@dataclass(frozen=True, eq=False, kw_only=True)
class Level:
    """Transitions out of the states with T jobs: `ups[k - 1]` to T + k, `down` to T - 1, `out` the total rates."""

    ups: tuple[Matrix, ...]
    down: Matrix
    out: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class SortedQueues:
    """One of the two models; `arrivals[i]` is the arrival rate to the i-th shortest queue, services have rate 1."""

    arrivals: tuple[float, ...]
    spread: int
    variant: Variant

    @property
    def queues(self) -> int:
        return len(self.arrivals)

    @cached_property
    def phases(self) -> list[Phase]:
        """The sorted differences, by their sum."""
        rest = combinations_with_replacement(range(self.spread + 1), self.queues - 1)
        return sorted(((0, *some) for some in rest), key=sum)

    @cached_property
    def members(self) -> list[Integers]:
        """The phases of levels T = r modulo N, by their sum."""
        sums = np.array([sum(phase) for phase in self.phases])
        return [np.flatnonzero(sums % self.queues == r) for r in range(self.queues)]

    @cached_property
    def sums(self) -> list[Integers]:
        """The sums of differences of `members`."""
        sums = np.array([sum(phase) for phase in self.phases])
        return [sums[member] for member in self.members]

    @property
    def first_full(self) -> int:
        """From this T on no queue of any phase is empty, and levels repeat with period N."""
        return (self.queues - 1) * self.spread + self.queues

    def size(self, level: int) -> int:
        """Number of states with `level` jobs."""
        return int(np.searchsorted(self.sums[level % self.queues], level, side="right"))

    def lengths(self, level: int) -> Integers:
        """The sorted queue lengths of the states of a level, one a row."""
        r = level % self.queues
        count = self.size(level)
        shortest = (level - self.sums[r][:count]) // self.queues
        return np.asarray(self._differences[self.members[r][:count]] + shortest[:, None])

    def level(self, level: int) -> Level:
        """The transitions of one level."""
        r, count = level % self.queues, self.size(level)
        empty = self.sums[r][:count] == level
        found: dict[int, Matrix] = {}
        for step, served, matrix in self._steps[r]:
            width = self.size(level + step)
            block = matrix[:count, :width]
            if served:
                # A departure from a shortest queue needs that queue to hold a job.
                block = sparse.csr_array(sparse.diags_array((~empty).astype(float)) @ block)
            found[step] = found[step] + block if step in found else block
        out = np.zeros(count)
        for matrix in found.values():
            out += np.asarray(matrix.sum(axis=1)).ravel()
        down = found.pop(-1) if -1 in found else sparse.csr_array((count, self.size(level - 1) if level else 0))
        highest = max(found)
        ups = tuple(found.get(k, sparse.csr_array((count, self.size(level + k)))) for k in range(1, highest + 1))
        return Level(ups=ups, down=down, out=out)

    @cached_property
    def _differences(self) -> Integers:
        return np.array(self.phases, dtype=np.int64)

    @cached_property
    def _steps(self) -> list[list[tuple[int, bool, Matrix]]]:
        """By residue: (change of T, is it a departure from a shortest queue, rates between members)."""
        place = {}
        for r, member in enumerate(self.members):
            for position, index in enumerate(member):
                place[self.phases[index]] = (r, position)
        entries: dict[tuple[int, int, bool], list[tuple[int, int, float]]] = {}
        for phase, (r, row) in place.items():
            for rate, step, served, target in self._moves(phase):
                entries.setdefault((r, step, served), []).append((row, place[target][1], rate))
        steps: list[list[tuple[int, bool, Matrix]]] = [[] for _ in range(self.queues)]
        for (r, step, served), triples in entries.items():
            rows, columns, rates = (np.array(column) for column in zip(*triples, strict=True))
            shape = (len(self.members[r]), len(self.members[(r + step) % self.queues]))
            steps[r].append((step, served, sparse.csr_array((rates, (rows, columns)), shape=shape)))
        return steps

    def _moves(self, phase: Phase) -> Iterator[tuple[float, int, bool, Phase]]:
        """(rate, change of T, departure from a shortest queue, new phase) of every event."""
        for length, tied in Counter(phase).items():
            first = phase.index(length)
            last = first + tied - 1
            rate = sum(self.arrivals[first : last + 1])
            if rate > 0.0:
                if length < self.spread:
                    yield rate, 1, False, _shifted(phase, last, 1)
                elif self.variant == "jockeying":
                    yield rate, 1, False, _shifted(phase, phase.count(0) - 1, 1)
                else:
                    filled = _normal([max(d, 1) for d in phase[:-1]] + [length + 1])
                    yield rate, 1 + phase.count(0), False, filled
            if length > 0:
                yield float(tied), -1, False, _shifted(phase, first, -1)
            elif phase[-1] < self.spread:
                yield float(tied), -1, True, _shifted(phase, first, -1)
            elif self.variant == "jockeying":
                yield float(tied), -1, True, _shifted(phase, phase.index(self.spread), -1)


def _shifted(phase: Phase, position: int, change: int) -> Phase:
    lengths = list(phase)
    lengths[position] += change
    return _normal(lengths)


def _normal(lengths: list[int]) -> Phase:
    least = min(lengths)
    return tuple(sorted(length - least for length in lengths))
