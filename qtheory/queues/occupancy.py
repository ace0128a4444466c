"""How many of j busy servers are in each service phase: states, transitions, departures, entries.

Servers of one kind are exchangeable, so j servers with m phases need C(j + m - 1, m - 1) states instead of
m^j. States are in lexicographic order, most servers in the first phase first; the operators are scipy sparse
arrays with a handful of entries per row (dense where small, which is faster). Signed phases are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import comb
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from qtheory.models.errors import InvalidModel
from qtheory.queues.linear import Array, Matrix

Indices: TypeAlias = NDArray[np.int64]

_DENSE = 250


def size(*, servers: int, phases: int) -> int:
    """Number of states, C(servers + phases - 1, phases - 1).

    >>> size(servers=20, phases=4)
    1771
    """
    return comb(servers + phases - 1, phases - 1)


@lru_cache(maxsize=1024)
def states(*, servers: int, phases: int) -> Indices:
    """The states, one row each: how many servers are in each phase.

    >>> states(servers=2, phases=2).tolist()
    [[2, 0], [1, 1], [0, 2]]
    """
    if phases == 1:
        return np.array([[servers]])
    if phases == 2:
        second = np.arange(servers + 1)
        return np.column_stack([servers - second, second])
    bars = np.array(list(combinations(range(servers + phases - 1), phases - 1)), dtype=np.int64)
    edges = np.column_stack([np.full(len(bars), -1), bars, np.full(len(bars), servers + phases - 1)])
    return np.ascontiguousarray((np.diff(edges, axis=1) - 1)[::-1])


@lru_cache(maxsize=1024)
def grown(*, servers: int, phases: int) -> Indices:
    """Where each state of `servers` servers goes when one more enters phase i: indices, one column a phase."""
    base = states(servers=servers, phases=phases)
    # Rank in lexicographic order: states with a smaller tail sum n_(i+1) + .. + n_m come first.
    most = servers + phases
    binomials = np.array([[comb(n, k) for k in range(phases)] for n in range(most + 1)], dtype=np.int64)
    ranks = np.empty((len(base), phases), dtype=np.int64)
    for phase in range(phases):
        more = base.copy()
        more[:, phase] += 1
        tails = np.cumsum(more[:, ::-1], axis=1)[:, ::-1][:, 1:]
        rank = np.zeros(len(base), dtype=np.int64)
        for i in range(phases - 1):
            rank += binomials[tails[:, i] + phases - 2 - i, phases - 1 - i]
        ranks[:, phase] = rank
    return ranks


@lru_cache(maxsize=1024)
def _changes(*, servers: int, phases: int) -> tuple[Indices, Indices, Array, Indices]:
    """Phase changes of one of `servers` servers: from, to, number of servers that can, and (i, k) as m i + k."""
    index = grown(servers=servers - 1, phases=phases)
    fewer = states(servers=servers - 1, phases=phases)
    pairs = [(i, k) for i in range(phases) for k in range(phases) if i != k]
    start = np.concatenate([index[:, i] for i, _ in pairs])
    end = np.concatenate([index[:, k] for _, k in pairs])
    able = np.concatenate([fewer[:, i] + 1.0 for i, _ in pairs])
    return start, end, able, np.repeat([phases * i + k for i, k in pairs], len(fewer))


@dataclass(frozen=True, eq=False, kw_only=True)
class Occupancy:
    """Operators on the occupancy of identical servers whose service has sub-generator `generator`."""

    generator: Array

    @cached_property
    def exits(self) -> Array:
        """Rates of ending by phase."""
        return np.asarray(-self.generator.sum(axis=1))

    @cached_property
    def _diagonal(self) -> Array:
        return np.diag(self.generator).copy()

    @property
    def phases(self) -> int:
        """Number of service phases."""
        return len(self.generator)

    def size(self, servers: int) -> int:
        """Number of states of `servers` busy servers."""
        return size(servers=servers, phases=self.phases)

    def local(self, servers: int) -> Matrix:
        """Phase changes within the services, diagonal included: rows sum to minus the departure rates."""
        counts = states(servers=servers, phases=self.phases)
        n = len(counts)
        own = np.arange(n)
        if servers == 0 or self.phases == 1:
            return _assemble(own, own, counts @ self._diagonal, shape=(n, n))
        start, end, able, pair = _changes(servers=servers, phases=self.phases)
        matrix = _assemble(start, end, able * self.generator.ravel()[pair], shape=(n, n))
        if isinstance(matrix, np.ndarray):
            matrix.flat[:: n + 1] = counts @ self._diagonal
            return matrix
        return matrix + _assemble(own, own, counts @ self._diagonal, shape=(n, n))

    def departures(self, servers: int, exits: Array | None = None) -> Matrix:
        """Ends of service, from `servers` busy servers to one fewer; only some of them with `exits` of one's own."""
        index = grown(servers=servers - 1, phases=self.phases)
        fewer = states(servers=servers - 1, phases=self.phases)
        end = np.arange(len(fewer))[:, None]
        rates = (fewer + 1) * (self.exits if exits is None else exits)
        return _assemble(index, end, rates, shape=(self.size(servers), len(fewer)))

    def entries(self, servers: int, alpha: Array) -> Matrix:
        """Start of a service, from `servers` busy servers to one more; the phase is drawn from `alpha`."""
        index = grown(servers=servers, phases=self.phases)
        start = np.arange(len(index))[:, None]
        return _assemble(start, index, alpha, shape=(len(index), self.size(servers + 1)))


def check_size(states: int, *, budget: int, what: str) -> None:
    """Refuse, before memory is asked for, a chain with more than `budget` states per level."""
    if states > budget:
        raise InvalidModel(
            field="servers",
            rule=f"{what} is solved up to {budget} states a level: use fewer servers or phases, or an approximation",
            value=states,
        )


def _assemble(rows: Indices, columns: Indices, rates: Array, *, shape: tuple[int, int]) -> Matrix:
    """The matrix with `rates` at distinct places; the three arrays are broadcast together."""
    if shape[0] <= _DENSE:
        matrix = np.zeros(shape)
        matrix[rows, columns] = rates
        return matrix
    row, column, rate = (array.ravel() for array in np.broadcast_arrays(rows, columns, rates))
    used = np.flatnonzero(rate)
    return sparse.coo_array((rate[used], (row[used], column[used])), shape=shape).tocsr()
