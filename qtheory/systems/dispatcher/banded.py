"""Block-tridiagonal matrices: products, and solves with shifts, level by level."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from qtheory.queues.linear import Array, Factors, factor
from qtheory.queues.markov import stationary_signed

Block = Array | None
#: Relative change at which the elimination of equal levels has settled.
_SETTLED = 1e-14


@dataclass(frozen=True, eq=False, kw_only=True)
class Banded:
    """A matrix of blocks `up[j]` from level j to j + 1, `local[j]` within j, `down[j]` from j to j - 1.

    None stands for a block of zeros. Vectors are flat, level after level.
    """

    sizes: tuple[int, ...]
    up: tuple[Block, ...]
    local: tuple[Block, ...]
    down: tuple[Block, ...]

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """Where each level stands in a flat vector."""
        edges = np.cumsum([0, *self.sizes])
        return tuple(slice(int(low), int(high)) for low, high in pairwise(edges))

    @cached_property
    def levels(self) -> Array:
        """The level of each state, counted from the lowest."""
        return np.repeat(np.arange(len(self.sizes), dtype=np.float64), self.sizes)

    @property
    def order(self) -> int:
        """Number of states."""
        return sum(self.sizes)

    def __sub__(self, other: Banded) -> Banded:
        return Banded(
            sizes=self.sizes,
            up=_minus(self.up, other.up),
            local=_minus(self.local, other.local),
            down=_minus(self.down, other.down),
        )

    def right(self, x: Array) -> Array:
        """Matrix times x; x may have several columns."""
        y = np.zeros_like(x)
        for j, place in enumerate(self.places):
            for block, i in ((self.up[j], j + 1), (self.local[j], j), (self.down[j], j - 1)):
                if block is not None:
                    y[place] += block @ x[self.places[i]]
        return y

    def left(self, x: Array) -> Array:
        """x times matrix."""
        y = np.zeros_like(x)
        for j, place in enumerate(self.places):
            for block, i in ((self.up[j], j + 1), (self.local[j], j), (self.down[j], j - 1)):
                if block is not None:
                    y[..., self.places[i]] += x[..., place] @ block
        return y

    def stationary(self, *, where: str) -> Array:
        """x with x M = 0 and sum 1, for a matrix with zero row sums; signed entries are allowed."""
        kernels, block = [], self._local(len(self.sizes) - 1)
        for j in range(len(self.sizes) - 1, 0, -1):
            kernel = factor(-block, where=where)
            kernels.append(kernel)
            passage = kernel.solve(self._down(j))
            passage /= passage.sum(axis=1)[:, None]
            block = self._local(j - 1) + self._up(j - 1) @ passage
        parts = [np.ones(1) if len(block) == 1 else stationary_signed(block, where=where)]
        for j, kernel in enumerate(reversed(kernels)):
            parts.append(kernel.solve_left(parts[-1] @ self._up(j)))
        x = np.concatenate(parts)
        return np.asarray(x / x.sum())

    def shifted(self, shift: float, *, where: str) -> Shifted:
        """Factors of shift I - M."""
        return Shifted.of(self, shift, where)

    def alike(self, i: int, j: int) -> bool:
        """Whether two levels have the very same blocks, above and below included."""
        above = i > 0 and self.up[i - 1] is self.up[j - 1]
        return above and self.local[i] is self.local[j] and self.down[i] is self.down[j]

    def _up(self, j: int) -> Array:
        return _filled(self.up[j], self.sizes[j], self.sizes[j + 1])

    def _local(self, j: int) -> Array:
        return _filled(self.local[j], self.sizes[j], self.sizes[j])

    def _down(self, j: int) -> Array:
        return _filled(self.down[j], self.sizes[j], self.sizes[j - 1])


@dataclass(frozen=True, eq=False)
class Shifted:
    """shift I - M, eliminated from the top level down."""

    matrix: Banded
    kernels: tuple[Factors, ...]

    @classmethod
    def of(cls, matrix: Banded, shift: float, where: str) -> Shifted:
        kernels: list[Factors] = []
        before: Array | float = np.inf
        carried: Array | float = 0.0
        for j in range(len(matrix.sizes) - 1, -1, -1):
            # Equal levels soon have equal kernels: far from the top the elimination has settled.
            if (
                kernels
                and matrix.alike(j, j + 1)
                and np.abs(carried - before).max() <= _SETTLED * np.abs(carried).max()
            ):
                kernels.append(kernels[-1])
                continue
            kernels.append(factor(shift * np.eye(matrix.sizes[j]) - matrix._local(j) - carried, where=where))
            if j:
                before, carried = carried, matrix._up(j - 1) @ kernels[-1].solve(matrix._down(j))
        return cls(matrix, tuple(reversed(kernels)))

    def solve(self, b: Array) -> Array:
        """x with (shift I - M) x = b."""
        m, places, last = self.matrix, self.matrix.places, len(self.kernels) - 1
        x = b.copy()
        for j in range(last - 1, -1, -1):
            x[places[j]] += m._up(j) @ self.kernels[j + 1].solve(x[places[j + 1]])
        for j, place in enumerate(places):
            if j:
                x[place] += m._down(j) @ x[places[j - 1]]
            x[place] = self.kernels[j].solve(x[place])
        return x

    def solve_left(self, b: Array) -> Array:
        """x with x (shift I - M) = b."""
        m, places, last = self.matrix, self.matrix.places, len(self.kernels) - 1
        x = b.copy()
        for j in range(last - 1, -1, -1):
            x[..., places[j]] += self.kernels[j + 1].solve_left(x[..., places[j + 1]]) @ m._down(j + 1)
        for j, place in enumerate(places):
            if j:
                x[..., place] += x[..., places[j - 1]] @ m._up(j - 1)
            x[..., place] = self.kernels[j].solve_left(x[..., place])
        return x


def _minus(first: tuple[Block, ...], second: tuple[Block, ...]) -> tuple[Block, ...]:
    """Differences; levels that share their blocks share the result."""
    known: dict[tuple[int, int], Block] = {}
    for one, two in zip(first, second, strict=True):
        if (id(one), id(two)) not in known:
            known[id(one), id(two)] = one if two is None else (-two if one is None else one - two)
    return tuple(known[id(one), id(two)] for one, two in zip(first, second, strict=True))


def _filled(block: Block, rows: int, columns: int) -> Array:
    return np.zeros((rows, columns)) if block is None else block
