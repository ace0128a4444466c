"""Stationary law of a QBD with level-dependent boundary levels, by linear level reduction.

Levels 0 .. b-1 are given block by block and may have any number of phases each; from level b on the blocks
repeat. G is carried down through the boundary (Gaver, Jacobs, Latouche 1984, "Finite birth-and-death models in
randomly changing environments", Adv. Appl. Probab. 16), which leaves one small chain on level 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, log

import numpy as np

from qtheory.models.errors import InvalidModel
from qtheory.queues.linear import Array, Matrix, dense, factor
from qtheory.queues.markov import stationary, stationary_signed
from qtheory.queues.qbd import Reduction, check_leak, reduce

_HUGE = 1e150


@dataclass(frozen=True, eq=False, kw_only=True)
class Level:
    """Blocks of one boundary level j: `up` to level j + 1, `local`, `down` to level j - 1 (None at level 0)."""

    up: Matrix
    local: Matrix
    down: Matrix | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelLaw:
    """Stationary law of (level, phase): pi_0 .. pi_(b-1) given, pi_(b+k) = pi_b R^k.

    Attributes
    ----------
    boundary : the vectors pi_0 .. pi_(b-1).
    first : pi_b, the first repeating level.
    core : the repeating part, with G, R, load and residual.
    """

    boundary: tuple[Array, ...]
    first: Array
    core: Reduction

    @property
    def start(self) -> int:
        """b, the first repeating level."""
        return len(self.boundary)

    @cached_property
    def _sums(self) -> tuple[Array, Array, Array]:
        """pi_b (I - R)^-1, pi_b (I - R)^-2 and pi_b (I - R)^-3."""
        one, two, three = self.core.geometric_sums(self.first, orders=3)
        return one, two, three

    @property
    def phases(self) -> Array:
        """P(level >= b, phase): the sum of pi_n over the repeating levels."""
        return self._sums[0]

    @property
    def decay_rate(self) -> float:
        """Spectral radius of R: P(level > n) falls by this factor per level in the end."""
        return self.core.decay_rate

    def level(self, n: int) -> Array:
        """pi_n, the probabilities of the phases at level n."""
        if n < 0:
            raise InvalidModel(field="level", rule="must be at least 0", value=n)
        if n < self.start:
            return self.boundary[n]
        return np.asarray(self.first @ np.linalg.matrix_power(self.core.rate, n - self.start))

    def probabilities(self, last: int) -> Array:
        """P(level = n) for n = 0 .. last."""
        result = np.empty(last + 1)
        vector = self.first
        for n in range(last + 1):
            if n < self.start:
                result[n] = self.boundary[n].sum()
            else:
                result[n] = vector.sum()
                vector = vector @ self.core.rate
        return result

    def tail(self, n: int) -> float:
        """P(level > n), without cancellation.

        >>> law = stationary_levels([Level(up=np.eye(1), local=-np.eye(1))], up=np.eye(1), local=-3 * np.eye(1),
        ...                         down=2 * np.eye(1))
        >>> round(law.tail(3), 12)
        0.0625
        """
        if n + 1 >= self.start:
            power = np.linalg.matrix_power(self.core.rate, n + 1 - self.start)
            return float((self.phases @ power).sum())
        inner = sum(float(vector.sum()) for vector in self.boundary[max(n + 1, 0) :])
        return float(self.phases.sum()) + inner

    def moment_by_phase(self, order: int) -> Array:
        """sum over n >= b of n^order pi_n, for order 0, 1 or 2: moments of the level kept apart by phase."""
        one, two, three = self._sums
        # sum_k k R^k = (I-R)^-2 - (I-R)^-1; sum_k k^2 R^k = 2 (I-R)^-3 - 3 (I-R)^-2 + (I-R)^-1
        powers = (one, two - one, 2.0 * three - 3.0 * two + one)
        if order not in (0, 1, 2):
            raise InvalidModel(field="order", rule="must be 0, 1 or 2", value=order)
        b = self.start
        return np.asarray(sum(comb(order, k) * b ** (order - k) * powers[k] for k in range(order + 1)))

    def moment(self, order: int) -> float:
        """E[level^order] for order 0, 1 or 2."""
        inner = sum(float(n**order * vector.sum()) for n, vector in enumerate(self.boundary))
        return float(inner + self.moment_by_phase(order).sum())

    @property
    def mean(self) -> float:
        """E[level]."""
        return self.moment(1)

    @property
    def variance(self) -> float:
        """Variance of the level."""
        return self.moment(2) - self.mean**2

    @property
    def rounding(self) -> float:
        """Estimate of the relative error of the mean excess from rounding.

        Large where slow but rare phases decide it: their weight is small against what rounding leaves.
        """
        mass = float(np.abs(self.first).sum())
        return 2e-16 * mass * self.core.reach**2 / abs(self.mean_excess) if mass else 0.0

    @property
    def mean_excess(self) -> float:
        """E[(level - b)^+], e.g. the mean number waiting when b is the number of servers."""
        return float((self._sums[1] - self._sums[0]).sum())


def stationary_levels(
    boundary: Sequence[Level],
    *,
    up: Matrix,
    local: Matrix,
    down: Matrix,
    entry: Matrix | None = None,
    where: str = "queue",
    load: float | None = None,
) -> LevelLaw:
    """Stationary law of a QBD whose levels 0 .. b-1 are `boundary` and whose blocks repeat from level b on.

    `entry` is the down block of level b where it differs from `down` (level b-1 may have other phases). All
    rows of the whole generator must sum to 0. Boundary blocks may be scipy sparse arrays. With signed blocks
    (matrix-exponential pieces) the vectors are signed too, their sums over phases are probabilities.

    Raises `InvalidModel` for blocks that do not fit together, `Unstable` and `NotConverged` as `qbd.reduce`.

    M/M/1 at load 1/2, whose mean number is 1:

    >>> law = stationary_levels([Level(up=np.eye(1), local=-np.eye(1))], up=np.eye(1), local=-3 * np.eye(1),
    ...                         down=2 * np.eye(1))
    >>> round(law.mean, 12), round(law.variance, 12), law.decay_rate
    (1.0, 2.0, 0.5)
    """
    core = reduce(up=up, local=local, down=down, where=where, load=load)
    entry = down if entry is None else entry
    _check_shapes(boundary, len(core.rate), entry)
    first_local = dense(local) + dense(up) @ core.passage
    return attach_boundary(boundary, core=core, local=first_local, entry=entry, where=where)


def attach_boundary(
    boundary: Sequence[Level], *, core: Reduction, local: Array, entry: Matrix, where: str = "queue"
) -> LevelLaw:
    """The law from a solved repeating part: `local` is the block of level b with all higher levels folded in."""
    vectors = boundary_vectors(boundary, top=local, entry=entry, where=where)
    first = vectors.pop()
    total = float(core.geometric_sums(first, orders=1)[0].sum()) + sum(float(vector.sum()) for vector in vectors)
    return LevelLaw(boundary=tuple(vector / total for vector in vectors), first=first / total, core=core)


def boundary_vectors(
    boundary: Sequence[Level], *, top: Array, entry: Matrix | None, where: str = "queue"
) -> list[Array]:
    """pi_0 .. pi_b up to a common factor, for levels 0 .. b-1 below a level b with local block `top`.

    Everything above b is folded into `top`; `entry` leads from b to b - 1 (None if there is no level below).
    """
    # Going down: the local block of each level with all levels above it folded in, as LU factors. The rows of
    # first-passage matrices are made to sum to 1 at every level: a leak of rounding size at a level left e^30
    # times before the next lower one is reached would grow to order 1.
    factors = []
    leak = 0.0
    block, down = top, entry
    for level in reversed(boundary):
        lu = factor(-block, where=where)
        factors.append(lu)
        passage = lu.solve(dense(down))
        sums = passage.sum(axis=1)
        leak = max(leak, float(np.abs(sums - 1.0).max()))
        passage /= sums[:, None]
        block = dense(level.local) + level.up @ passage
        down = level.down
    check_leak(leak, where=where)
    factors.reverse()
    # Going up: pi_(j+1) = pi_j up_j (-block_(j+1))^-1, rescaled so that hundreds of levels neither over- nor underflow.
    vectors, logs = [_bottom(block, where=where)], [0.0]
    for level, lu in zip(boundary, factors, strict=True):
        vector = lu.solve_left(vectors[-1] @ level.up)
        size = float(np.abs(vector).sum())
        shift = log(size) if size > _HUGE or 0.0 < size < 1.0 / _HUGE else 0.0
        vectors.append(vector * np.exp(-shift))
        logs.append(logs[-1] + shift)
    highest = max(logs)
    return [vector * np.exp(shift - highest) for vector, shift in zip(vectors, logs, strict=True)]


def _bottom(block: Array, *, where: str) -> Array:
    """Stationary vector of level 0 with everything above folded in."""
    if len(block) == 1:
        return np.ones(1)
    off = block - np.diag(np.diag(block))
    signed = off.min() < -1e-9 * np.abs(block).max()
    return stationary_signed(block, where=where) if signed else stationary(np.maximum(off, 0.0))


def _check_shapes(boundary: Sequence[Level], order: int, entry: Matrix) -> None:
    if not boundary:
        raise InvalidModel(field="boundary", rule="must hold at least level 0")
    sums = boundary[0].local.sum(axis=1) + boundary[0].up.sum(axis=1)
    if np.abs(sums).max() > 1e-8 * np.abs(dense(boundary[0].local)).max():
        raise InvalidModel(field="boundary.0", rule="rows of local + up must sum to 0", value=float(np.abs(sums).max()))
    sizes = [level.local.shape[0] for level in boundary] + [order]
    for j, level in enumerate(boundary):
        below = None if j == 0 else (sizes[j], sizes[j - 1])
        found = None if level.down is None else level.down.shape
        if level.local.shape != (sizes[j], sizes[j]) or level.up.shape != (sizes[j], sizes[j + 1]) or found != below:
            raise InvalidModel(
                field=f"boundary.{j}",
                rule="blocks must fit the numbers of phases of the neighbouring levels (down is None at level 0)",
                value=(level.up.shape, level.local.shape, found),
            )
    if entry.shape != (sizes[-1], sizes[-2]):
        raise InvalidModel(field="entry", rule="must lead from level b to level b - 1", value=entry.shape)
