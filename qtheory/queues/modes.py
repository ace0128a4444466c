"""Busy servers by collective modes: the occupancy of many servers in a handful of states.

The operators of `occupancy` are second quantised: written in a basis of one-server vectors they become those of
bosons. With the basis {equilibrium phase law, deviations from it}, states are "so many servers deviate", and
each deviation costs: in an infinite-server queue the phases are independent and in equilibrium given the
number busy, so no server deviates at all. Keeping at most `depth` deviating servers therefore converges
geometrically; depth 10 gives 9 digits of M/H2/50 from 11 states a level instead of 51, and M/PH(4)/20 takes
84 states instead of 1771. It is a Galerkin projection: right space, polynomials of degree `depth` in the
occupancy counts; mass is conserved exactly.

Blocks are signed; sums over states are probabilities, as everywhere in this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import sqrt

import numpy as np
from scipy.linalg import matrix_balance

from qtheory.models.errors import InvalidModel
from qtheory.queues.linear import Array, factor
from qtheory.queues.occupancy import Indices, grown, size, states


@dataclass(frozen=True, eq=False, kw_only=True)
class Modes:
    """Operators on the modes of identical servers; the same interface as `occupancy.Occupancy`.

    Attributes
    ----------
    generator : sub-generator of the service (of all types of service together, block by block).
    equilibrium : phase law of a busy server, the reference all deviations are measured from; it sums to 1.
    depth : most servers that may deviate.
    """

    generator: Array
    equilibrium: Array
    depth: int

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise InvalidModel(field="depth", rule="must be at least 1", value=self.depth)

    @property
    def phases(self) -> int:
        """Number of service phases, and of modes."""
        return len(self.generator)

    @cached_property
    def basis(self) -> Array:
        """Columns: e, then functions of the phase whose mean in equilibrium is 0.

        They are orthonormal under |equilibrium|, then balanced: signed laws would otherwise lose their digits to
        powers of an imbalance that one server does not show.
        """
        weights = np.sqrt(np.maximum(np.abs(self.equilibrium), 1e-6))
        columns = np.eye(self.phases)
        columns[:, 0] = 1.0
        orthonormal, triangle = np.linalg.qr(weights[:, None] * columns)
        functions = orthonormal / weights[:, None] * np.sign(triangle[0, 0])
        functions -= self.equilibrium @ functions
        functions[:, 0] = 1.0
        return self._balanced(np.asarray(functions, dtype=np.float64))

    def _balanced(self, functions: Array) -> Array:
        """The functions rescaled so that each mode is excited and calmed at like rates, in powers of 2."""
        into = factor(functions, where="modes")
        moves = np.abs(into.solve(self.generator @ functions))
        ends = np.abs(into.solve(-self.generator.sum(axis=1)))
        starts = np.abs(self.equilibrium @ -self.generator @ functions) / ends[0]
        coupling = moves + np.outer(ends, starts)
        _, (scale, _) = matrix_balance(coupling, permute=False, separate=True)
        return np.asarray(functions * (scale / scale[0]), dtype=np.float64)

    @cached_property
    def _rotated(self) -> Array:
        """The sub-generator in the basis of modes."""
        return factor(self.basis, where="modes").solve(self.generator @ self.basis)

    @cached_property
    def _exits(self) -> Array:
        return factor(self.basis, where="modes").solve(-self.generator.sum(axis=1))

    def size(self, servers: int) -> int:
        """Number of states of `servers` busy servers."""
        return size(servers=min(servers, self.depth), phases=self.phases)

    def _counts(self, servers: int) -> Array:
        """Servers in each mode; the first column holds those in equilibrium."""
        counts = states(servers=min(servers, self.depth), phases=self.phases).astype(np.float64)
        counts[:, 0] += servers - min(servers, self.depth)
        return counts

    def local(self, servers: int) -> Array:
        """Phase changes within the services: rows sum to minus the departure rates."""
        counts = self._counts(servers)
        n = len(counts)
        matrix = np.zeros((n, n))
        if servers == 0:
            return matrix
        start, end, before, after = _changes(min(servers, self.depth), self.phases, servers > self.depth)
        factors = np.sqrt(counts[start, before] * (counts[start, after] + 1.0))
        matrix[start, end] = factors * self._rotated[before, after]
        matrix.flat[:: n + 1] = counts @ np.diag(self._rotated)
        return _closed(matrix)

    def departures(self, servers: int, exits: Array | None = None) -> Array:
        """Ends of service, from `servers` busy servers to one fewer; only some of them with `exits` of one's own."""
        rates = self._exits if exits is None else factor(self.basis, where="modes").solve(exits)
        counts = self._counts(servers)
        matrix = np.zeros((len(counts), self.size(servers - 1)))
        start, end, mode = _steps(min(servers - 1, self.depth), self.phases, servers > self.depth)
        matrix[end, start] = np.sqrt(counts[end, mode] * servers) * rates[mode]
        return _closed(matrix)

    def entries(self, servers: int, alpha: Array) -> Array:
        """Start of a service, from `servers` busy servers to one more; the phase is drawn from `alpha`."""
        counts = self._counts(servers)
        matrix = np.zeros((len(counts), self.size(servers + 1)))
        start, end, mode = _steps(min(servers, self.depth), self.phases, servers >= self.depth)
        matrix[start, end] = np.sqrt(counts[start, mode] + 1.0) * (alpha @ self.basis)[mode] / sqrt(servers + 1.0)
        return _closed(matrix)


@lru_cache(maxsize=1024)
def _steps(servers: int, phases: int, full: bool) -> tuple[Indices, Indices, Indices]:
    """One more server: from state, to state, in which mode; `full` if no further server may deviate."""
    index = grown(servers=servers, phases=phases)
    start, mode = np.divmod(np.arange(index.size), phases)
    end = index.ravel()
    kept = end < len(index) if full else np.ones(len(end), dtype=bool)
    return start[kept], end[kept], mode[kept]


@lru_cache(maxsize=1024)
def _changes(servers: int, phases: int, more: bool) -> tuple[Indices, Indices, Indices, Indices]:
    """One server changes mode: from state, to state, from mode, to mode; `more` servers are in equilibrium."""
    # Both states follow from the one without that server.
    index = grown(servers=servers if more else servers - 1, phases=phases)
    pairs = np.array([(i, k) for i in range(phases) for k in range(phases) if i != k]).reshape(-1, 2)
    start, end = index[:, pairs[:, 0]].ravel(), index[:, pairs[:, 1]].ravel()
    before, after = (np.tile(modes, len(index)) for modes in pairs.T)
    limit = size(servers=servers, phases=phases)
    kept = (start < limit) & (end < limit)
    return start[kept], end[kept], before[kept], after[kept]


def _closed(matrix: Array) -> Array:
    """The operator in the basis where probabilities are sums over states instead of the first entry alone."""
    matrix[1:] += matrix[0]
    matrix[:, 0] -= matrix[:, 1:].sum(axis=1)
    return matrix
