"""Homogeneous quasi-birth-death processes: the matrices G and R, drift and decay rate.

A QBD has states (level, phase). From a level the chain moves up one level at the rates in `up`, within the
level at `local`, down one level at `down` (often written A0, A1, A2). The blocks may carry signed entries, as
matrix-exponential service times and rational arrival processes give them, as long as up + local + down has
zero row sums and the process behind it is a true one.

Blocks are treated as dense; cost and memory grow as the cube and the square of their order, about 0.1 s at
order 300 and 3 s at order 1000 on one thread. For small blocks BLAS with one thread (OPENBLAS_NUM_THREADS=1)
is several times faster than with many. Blocks of thousands of phases belong to `qbd_lowrank` where `up` has
low rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import linalg as sparse_linalg

from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.queues.linear import Array, Matrix, dense, factor
from qtheory.queues.markov import closed_classes, stationary, stationary_signed

_NEAR_CRITICAL = 1e-11
_LIMIT = 64
_FLUSH = 1e-150
_ADVICE = "check that the blocks describe a stable process whose rows sum to 0; try fewer phases or a lower load"


@dataclass(frozen=True, eq=False)
class Reduction:
    """The repeating part of a stable QBD, solved.

    Attributes
    ----------
    passage : G, phases at the first visit one level below; down + local G + up G^2 = 0, G e = e.
    rate : R, with pi_(n+1) = pi_n R; up + R local + R^2 down = 0.
    load : mean upward drift over mean downward drift.
    falling : down e, the rate of falling a level by phase.
    deficit : (down - up) e, which is (I - R) down e and so pins down I - R where it is nearly singular.
    residual : largest row sum of down + local G + up G^2 relative to that of `local`.
    iterations : steps of cyclic reduction.
    """

    passage: Array
    rate: Array
    load: float
    falling: Array
    deficit: Array
    residual: float
    iterations: int

    @property
    def decay_rate(self) -> float:
        """Spectral radius of R: P(level > n) falls by this factor per level."""
        return spectral_radius(self.rate)

    def _pinned(self) -> tuple[Array, int]:
        """I - R with one column replaced by (I - R) down e = (down - up) e, which is known without cancellation."""
        matrix = np.eye(len(self.rate)) - self.rate
        column = int(np.abs(self.falling).argmax())
        matrix[:, column] = self.deficit
        return matrix, column

    def geometric_sums(self, first: Array, *, orders: int) -> list[Array]:
        """first (I - R)^-1, first (I - R)^-2, ... up to the power `orders`, losing 1 / (1 - load) in accuracy only."""
        matrix, column = self._pinned()
        factors = factor(matrix, where="sum of the levels")
        sums = []
        for _ in range(orders):
            right = first.copy()
            right[column] = first @ self.falling
            first = factors.solve_left(right)
            sums.append(first)
        return sums

    @cached_property
    def reach(self) -> float:
        """Largest entry of (I - R)^-1 e: how many levels, summed over a geometric tail, a unit of mass reaches."""
        matrix, column = self._pinned()
        solved = factor(matrix, where="sum of the levels").solve(np.ones(len(matrix)))
        lifted = solved + solved[column] * self.falling
        lifted[column] -= solved[column]
        return float(np.abs(lifted).max())


def drift_load(*, up: Matrix, local: Matrix, down: Matrix) -> float:
    """Upward over downward drift, x up e / x down e, with x the stationary vector of up + local + down.

    The QBD is positive recurrent iff this is below 1 (Neuts 1981, Matrix-Geometric Solutions, th. 3.1.1). With
    several closed classes of phases the largest of their loads is returned; ``inf`` if levels never go down.
    """
    up, local, down = dense(up), dense(local), dense(down)
    _check_blocks(up, local, down)
    phases = up + local + down
    off = phases.copy()
    np.fill_diagonal(off, 0.0)
    if off.min() < -1e-9 * np.abs(local).max():
        return _ratio(stationary_signed(phases, where="phases of the QBD"), up, down)
    try:
        return _ratio(stationary(phases), up, down)
    except InvalidModel:
        loads = []
        for states in closed_classes(phases):
            x = np.zeros(len(phases))
            x[states] = stationary(phases[np.ix_(states, states)])
            loads.append(_ratio(x, up, down))
        return max(loads)


def reduce(*, up: Matrix, local: Matrix, down: Matrix, where: str = "queue", load: float | None = None) -> Reduction:
    """G and R by cyclic reduction.

    The method is that of Bini, Latouche, Meini (2005), Numerical Methods for Structured Markov Chains, sec. 7.3.
    It converges quadratically; the steps stop when the increment is below rounding, entries below 1e-150 are
    flushed to zero (denormal numbers slow the processor down by a factor of ten or more), and one step of the
    natural iteration polishes the result. `load` may be given where it is known in closed form.

    Raises `Unstable` at load >= 1, and `NotConverged` above a relative residual of 1e-10 or with a load within
    1e-11 of 1, where double precision cannot tell the drift from 0; results have about 1e-15 / (1 - load)
    relative accuracy.

    >>> m = reduce(up=np.array([[1.0]]), local=np.array([[-3.0]]), down=np.array([[2.0]]))
    >>> m.rate.item(), m.passage.item()
    (0.5, 1.0)
    """
    a0, a1, a2 = (np.ascontiguousarray(dense(block)) for block in (up, local, down))
    if load is None:
        load = drift_load(up=a0, local=a1, down=a2)
    require_stable(load, where=where)
    scale = float(np.abs(a1).sum(axis=1).max())
    # The eigenvalue 1 of G is moved to 0 (He, Meini, Rhee 2001, "A shifted cyclic reduction algorithm for
    # quasi-birth-death problems", SIAM J. Matrix Anal. Appl. 23): without it accuracy and speed fade near load 1.
    n = len(a1)
    rising, falling = a0.sum(axis=1), a2.sum(axis=1)
    down_shifted = a2 - falling[:, None] / n
    hat, iterations = _cyclic_reduction(a0, a1 + rising[:, None] / n, down_shifted, where)
    passage = factor(-hat, where=where).solve(down_shifted) + 1.0 / n
    kernel = factor(-(a1 + a0 @ passage), where=where)
    passage, rate = kernel.solve(a2), kernel.solve_left(a0)
    residual = float(np.abs(a2 + (a1 + a0 @ passage) @ passage).sum(axis=1).max()) / scale
    if not residual <= 1e-10:
        raise NotConverged(where=where, residual=residual, iterations=iterations, advice=_ADVICE)
    sums = passage.sum(axis=1)
    check_leak(float(np.abs(sums - 1.0).max()), where=where)
    passage /= sums[:, None]
    return Reduction(
        passage=passage,
        rate=rate,
        load=load,
        falling=falling,
        deficit=falling - rising,
        residual=residual,
        iterations=iterations,
    )


def require_stable(load: float, *, where: str) -> None:
    """Raise `Unstable` at load >= 1 and `NotConverged` where the load cannot be told from 1."""
    if not load < 1.0:
        raise Unstable(where=where, load=load)
    if 1.0 - load < _NEAR_CRITICAL:
        raise NotConverged(
            where=where,
            residual=1.0 - load,
            iterations=0,
            advice="the load is within 1e-11 of 1, too near for double precision; lower it",
        )


def check_leak(leak: float, *, where: str) -> None:
    """Raise `NotConverged` if rows of a first-passage matrix miss the sum 1 by more than 1e-6."""
    if not leak <= 1e-6:
        raise NotConverged(where=where, residual=leak, iterations=1, advice=_ADVICE)


def spectral_radius(matrix: Array) -> float:
    """Largest modulus of an eigenvalue."""
    if len(matrix) <= 400:
        return float(np.abs(np.linalg.eigvals(matrix)).max())
    values = sparse_linalg.eigs(matrix, k=1, which="LM", v0=np.ones(len(matrix)), return_eigenvectors=False)
    return float(np.abs(values).max())


def _cyclic_reduction(a0: Array, a1: Array, a2: Array, where: str) -> tuple[Array, int]:
    """The local block censored on one level with all higher levels folded in, and the number of steps."""
    n = len(a1)
    up, mid, down, hat = a0, a1, a2, a1.copy()
    tiny = float(np.finfo(float).eps) * float(np.abs(a1).max()) / 8
    increment = np.inf
    for step in range(1, _LIMIT + 1):
        x = factor(-mid, where=where).solve(np.concatenate([up, down], axis=1))
        with np.errstate(over="ignore", invalid="ignore"):  # a runaway is caught below
            products = np.concatenate([up, down]) @ x
        products[np.abs(products) < _FLUSH] = 0.0
        lifted = products[:n, n:]
        hat += lifted
        increment = float(np.abs(lifted).max())
        if not np.isfinite(increment):
            break
        if increment <= tiny:
            return hat, step
        mid = mid + lifted + products[n:, :n]
        up, down = products[:n, :n], products[n:, n:]
    raise NotConverged(
        where=where,
        residual=increment,
        iterations=_LIMIT,
        advice=_ADVICE,
    )


def _ratio(x: Array, up: Array, down: Array) -> float:
    rising, falling = float((x @ up).sum()), float((x @ down).sum())
    return rising / falling if falling > 0.0 else float("inf")


def _check_blocks(up: Array, local: Array, down: Array) -> None:
    shapes = (up.shape, local.shape, down.shape)
    if local.ndim != 2 or len(set(shapes)) > 1 or local.shape[0] != local.shape[1]:
        raise InvalidModel(field="blocks", rule="up, local and down must be square and of one order", value=shapes)
    sums = (up + local + down).sum(axis=1)
    if not np.isfinite(sums).all():
        raise InvalidModel(field="blocks", rule="must have finite entries only")
    gap = float(np.abs(sums).max())
    if gap > 1e-8 * float(np.abs(local).max()):
        raise InvalidModel(field="blocks", rule="rows of up + local + down must sum to 0", value=gap)
