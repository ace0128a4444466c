"""QBDs of thousands of phases whose up block has low rank: levels are gained from few phases, or into few.

If `up` = C F with C of r columns, R = C X has rank r, and only the r x r matrix xi = X C is needed: it solves a
G/M/1-type equation whose coefficients are r x r too (Latouche and Ramaswami 1999, Introduction to Matrix Analytic
Methods, ch. 13; the coefficients are cut where they are below rounding). The phases themselves enter through
sparse LU factors of the local block only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg as sparse_linalg

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.linear import Array, Matrix, factor
from qtheory.queues.markov import stationary
from qtheory.queues.qbd import require_stable
from qtheory.queues.qbd_levels import Level

_TERMS = 4000
_WORK = 1_000_000
_SMALL = 1e-17


@dataclass(frozen=True, eq=False, kw_only=True)
class LowRankLaw:
    """Stationary law of (level, phase) with pi_(b+k) = pi_b R^k, R = C X of low rank.

    Attributes
    ----------
    boundary : the vectors pi_0 .. pi_(b-1).
    first : pi_b.
    left, right : C and X.
    load : drift ratio of the repeating part.
    residual : largest entry of up + R local + R^2 down relative to that of `local`.
    """

    boundary: tuple[Array, ...]
    first: Array
    left: Array
    right: Array
    load: float
    residual: float

    @property
    def start(self) -> int:
        """b, the first repeating level."""
        return len(self.boundary)

    @property
    def kernel(self) -> Array:
        """xi = X C, whose spectral radius is that of R."""
        return np.asarray(self.right @ self.left)

    @property
    def decay_rate(self) -> float:
        """P(level > n) falls by this factor per level in the end."""
        return float(np.abs(np.linalg.eigvals(self.kernel)).max())

    def _beyond(self, order: int) -> Array:
        """pi_b C (I - xi)^-order X."""
        factors = factor(np.eye(len(self.kernel)) - self.kernel, where="level law")
        vector = self.first @ self.left
        for _ in range(order):
            vector = factors.solve_left(vector)
        return np.asarray(vector @ self.right)

    @property
    def phases(self) -> Array:
        """P(level >= b, phase)."""
        return self.first + self._beyond(1)

    @property
    def mean_excess(self) -> float:
        """E[(level - b)^+]."""
        return float(self._beyond(2).sum())

    @property
    def mean(self) -> float:
        """E[level]."""
        inner = sum(float(n * vector.sum()) for n, vector in enumerate(self.boundary))
        return inner + self.start * float(self.phases.sum()) + self.mean_excess

    def level(self, n: int) -> Array:
        """pi_n, the probabilities of the phases at level n."""
        if n < self.start:
            return self.boundary[n]
        if n == self.start:
            return self.first
        power = np.linalg.matrix_power(self.kernel, n - self.start - 1)
        return np.asarray(self.first @ self.left @ power @ self.right)


def low_rank_levels(
    boundary: Sequence[Level],
    *,
    up: tuple[Array, Array],
    local: Matrix,
    down: Matrix,
    load: float,
    entry: Matrix | None = None,
    where: str = "queue",
) -> LowRankLaw:
    """Stationary law of a QBD with up block C F, given as the pair (C, F); other blocks sparse.

    C >= 0 with r columns, F >= 0 with r rows that sum to 1: phases from which a level is gained, and where
    one lands. `load` is the drift ratio, which closed forms give more cheaply than the chain. `entry` as in
    `qbd_levels.stationary_levels`. Cost: one sparse LU, 2 r solves per term (tens to hundreds of terms, more
    towards load 1) and one sparse stationary vector of the boundary.

    Raises `Unstable`, and `NotConverged` where series or iteration do not settle.

    >>> law = low_rank_levels([Level(up=np.eye(1), local=-np.eye(1))], up=(np.eye(1), np.eye(1)),
    ...                       local=-3 * np.eye(1), down=2 * np.eye(1), load=0.5)
    >>> round(law.mean, 12), round(law.decay_rate, 12)
    (1.0, 0.5)
    """
    require_stable(load, where=where)
    left, landing = (np.asarray(part, dtype=np.float64) for part in up)
    if not boundary:
        raise InvalidModel(field="boundary", rule="must hold at least level 0")
    if left.min() < 0.0 or landing.min() < 0.0 or np.abs(landing.sum(axis=1) - 1.0).max() > 1e-9:
        raise InvalidModel(field="up", rule="must be C F with C, F >= 0 and rows of F that sum to 1")
    middle: Any = sparse.csc_array(local)
    falling: Any = sparse.csr_array(down)
    lu = sparse_linalg.splu(sparse.csc_array(-middle.T))

    def through(rows: Array) -> Array:
        """rows (-local)^-1."""
        return np.asarray(lu.solve(np.ascontiguousarray(rows.T)).T)

    xi = _geometric_root(landing, left, through, falling, where)
    right = _series(landing, xi, through, falling, where)
    scale = float(np.abs(middle.diagonal()).max())
    rest = landing + right @ middle + (right @ left) @ (right @ falling)
    residual = float(np.abs(rest).max() * left.max()) / scale
    if not residual <= 1e-9:
        raise NotConverged(where=where, residual=residual, iterations=1, advice="use the dense solver")
    back = right @ falling
    vectors = _boundary(boundary, middle, left, back, down if entry is None else entry)
    first = vectors.pop()
    law = LowRankLaw(boundary=tuple(vectors), first=first, left=left, right=right, load=load, residual=residual)
    total = float(law.phases.sum()) + sum(float(vector.sum()) for vector in vectors)
    return LowRankLaw(
        boundary=tuple(vector / total for vector in vectors),
        first=first / total,
        left=left,
        right=right,
        load=load,
        residual=residual,
    )


def _geometric_root(landing: Array, left: Array, through: Any, falling: Any, where: str) -> Array:
    """xi = sum over k of xi^k F H^-1 (down H^-1)^k C, H = -local, by the natural iteration on r x r matrices."""
    terms: list[Array] = []
    row = through(landing)
    while len(terms) < _TERMS:
        terms.append(row @ left)
        row = through(row @ falling)
        if np.abs(row).max() <= _SMALL * np.abs(terms[0]).max():
            break
    else:
        raise NotConverged(
            where=where, residual=float(np.abs(row).max()), iterations=_TERMS, advice="use the dense solver"
        )
    r = len(landing)
    xi = np.zeros((r, r))
    for _ in range(_WORK // len(terms)):
        # xi = b_0 + xi (b_1 + xi b_2 + ...), solved for the xi in front.
        tail = np.zeros((r, r))
        for term in reversed(terms[1:]):
            tail = xi @ tail + term
        new = factor(np.eye(r) - tail, where=where).solve_left(terms[0])
        change = float(np.abs(new - xi).max())
        xi = new
        if change <= 1e-15:
            return xi
    raise NotConverged(
        where=where, residual=change, iterations=_WORK // len(terms), advice="the load is too near 1 for this method"
    )


def _series(landing: Array, xi: Array, through: Any, falling: Any, where: str) -> Array:
    """X = sum over k of xi^k F H^-1 (down H^-1)^k."""
    row = through(landing)
    total: Array = row
    power = xi
    for _ in range(_TERMS):
        row = through(row @ falling)
        term = power @ row
        total = total + term
        if np.abs(term).max() <= _SMALL * np.abs(total).max():
            return total
        power = power @ xi
    raise NotConverged(
        where=where, residual=float(np.abs(term).max()), iterations=_TERMS, advice="use the dense solver"
    )


def _boundary(boundary: Sequence[Level], middle: Any, left: Array, back: Array, entry: Matrix) -> list[Array]:
    """pi_0 .. pi_b up to a factor, with r states more that stand for the levels above b."""
    count, r = len(boundary), left.shape[1]
    blocks: list[list[Any]] = [[None] * (count + 2) for _ in range(count + 2)]
    for n, level in enumerate(boundary):
        blocks[n][n], blocks[n][n + 1] = sparse.csr_array(level.local), sparse.csr_array(level.up)
        if level.down is not None:
            blocks[n][n - 1] = sparse.csr_array(level.down)
    blocks[count][count - 1], blocks[count][count] = sparse.csr_array(entry), middle
    blocks[count][count + 1] = sparse.csr_array(left)
    blocks[count + 1][count] = sparse.csr_array(back)
    blocks[count + 1][count + 1] = sparse.csr_array(-np.diag(back.sum(axis=1)))
    x = stationary(sparse.block_array(blocks, format="csr"), field="boundary")
    edges = np.cumsum([*(level.local.shape[0] for level in boundary), middle.shape[0]])
    return [np.asarray(part) for part in np.split(x[: len(x) - r], edges[:-1])]
