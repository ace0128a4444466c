"""A marked process with thousands of phases, reduced to a handful: Petrov-Galerkin projection.

The right space is spanned by e and (s I - H)^-1 D_k e for some shifts s, the left one by the stationary vector and
theta D_k (s I - H)^-1, where H is either the whole generator Q (then the mean rate is taken off first) or its part
without arrivals. Vectors of the first sort make the covariance of counts right at the time scale 1 / s, those of
the second the law of the intervals. The result is a rational arrival process; nothing guarantees that its densities
are positive, so its spectra are checked and another set of shifts is tried where they are not left of 0.

Grimme (1997), Krylov projection methods for model reduction, ch. 3, gives the projection for linear systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import matrix_balance

from qtheory.models import NotConverged
from qtheory.queues.linear import Array
from qtheory.queues.map import ArrivalProcess, rational_arrivals
from qtheory.systems.dispatcher.banded import Banded

#: Departures from a Poisson stream (in the covariance of its counts, per arrival) that are not told from rounding.
_POISSON = 1e-7


@dataclass(frozen=True, eq=False, kw_only=True)
class Reduced:
    """The reduced process, and by its phase the rate of the first mark weighted by the level it leaves behind."""

    process: ArrivalProcess
    weighted: Array


@dataclass(frozen=True, kw_only=True)
class Shifts:
    """Which vectors span the spaces.

    Attributes
    ----------
    counts, intervals : shifts in units of 1 / (time scale), with the whole generator and with its part without
        arrivals.
    weakest : directions weaker than this, relative to the strongest, are left out.
    """

    counts: tuple[float, ...]
    intervals: tuple[float, ...] = ()
    weakest: float = 1e-9


class Subspace:
    """Right and left vectors of a process with `marks`, solved for as they are asked for."""

    def __init__(self, *, generator: Banded, marks: Sequence[Banded], stationary: Array, time_scale: float) -> None:
        self._generator, self._marks, self._stationary = generator, tuple(marks), stationary
        self._time_scale = time_scale
        e = np.ones(generator.order)
        self._flows = np.column_stack([mark.right(e) for mark in marks])
        self._masses = np.array([mark.left(stationary) for mark in marks])
        self._rates = stationary @ self._flows
        self._hidden = generator
        for mark in marks:
            self._hidden = self._hidden - mark
        self._known: dict[tuple[str, float], tuple[Array, Array]] = {}

    @cached_property
    def levels(self) -> tuple[float, float]:
        """Mean and variance of the level that an arrival of the first mark leaves behind."""
        mark, levels, rate = self._marks[0], self._generator.levels, float(self._rates[0])
        mean, square = (float(self._stationary @ mark.right(levels**k)) / rate for k in (1, 2))
        return mean, square - mean**2

    def reduced(self, shifts: Shifts) -> Reduced:
        """The process projected on the vectors of these shifts. Raises `NotConverged` where it is unsound."""
        pairs = [self._vectors("counts", s) for s in shifts.counts]
        pairs += [self._vectors("intervals", s) for s in shifts.intervals]
        v, w = np.concatenate([right for right, _ in pairs], axis=1), np.concatenate([left for _, left in pairs])
        weighted = self._marks[0].right(self._generator.levels)
        return _project(self._generator, self._marks, self._stationary, v, w, weighted, shifts.weakest)

    def _vectors(self, kind: str, shift: float) -> tuple[Array, Array]:
        if (kind, shift) not in self._known:
            off = self._rates if kind == "counts" else np.zeros_like(self._rates)
            ahead = self._flows - off
            behind = self._masses - off[:, None] * self._stationary
            matrix = self._generator if kind == "counts" else self._hidden
            solver = matrix.shifted(shift / self._time_scale, where="kill stream")
            self._known[kind, shift] = solver.solve(ahead), solver.solve_left(behind)
        return self._known[kind, shift]


def sound_reductions(space: Subspace, ladder: Sequence[Shifts]) -> Iterator[Reduced]:
    """The reductions along `ladder` that are sound, in its order."""
    for shifts in ladder:
        try:
            yield space.reduced(shifts)
        except NotConverged:
            continue


def _project(
    generator: Banded,
    marks: tuple[Banded, ...],
    theta: Array,
    v: Array,
    w: Array,
    weighted: Array,
    weakest: float,
) -> Reduced:
    e = np.ones(generator.order)
    v = v - np.outer(e, theta @ v)
    w = w - np.outer(w @ e, theta)
    rates = [float(theta @ mark.right(e)) for mark in marks]
    scale = np.abs(w @ v).max() * sum(rates) ** 2 if v.size else 0.0
    # Functions and measures are of unit size under the stationary law.
    mass = np.maximum(np.abs(theta), np.finfo(np.float64).tiny ** 0.25)
    v = v / np.sqrt(mass @ v**2)
    w = w / np.sqrt((w**2 / mass).sum(axis=1))[:, None]
    turn, strengths, back = np.linalg.svd(w @ v)
    kept = int((strengths > weakest * strengths[0]).sum()) if scale > _POISSON else 0
    roots = np.sqrt(strengths[:kept])
    v, w = v @ (back[:kept].T / roots), (turn[:, :kept] / roots).T @ w
    v, w = np.column_stack([e, v]), np.vstack([theta, w])
    inside = [w @ mark.right(v) for mark in marks]
    whole = w @ generator.right(v)
    whole[0, :], whole[:, 0] = 0.0, 0.0
    # Vectors of like size keep later steps well conditioned.
    scales = _balancing(np.abs(whole) + np.sum(np.abs(inside), axis=0))
    whole, inside = whole * scales / scales[:, None], [block * scales / scales[:, None] for block in inside]
    # So far e is the first unit vector; in the basis wanted it is the vector of ones.
    change = np.eye(kept + 1)
    change[:, 0] = 1.0
    undo = np.eye(kept + 1)
    undo[1:, 0] = -1.0
    inside = [change @ block @ undo for block in inside]
    hidden = change @ whole @ undo - np.sum(inside, axis=0)
    return Reduced(process=rational_arrivals(hidden, *inside), weighted=change @ ((w @ weighted) / scales))


def _balancing(sizes: Array) -> Array:
    """Factors that make rows and columns alike in size; 1 for the first."""
    if len(sizes) == 1:
        return np.ones(1)
    scales = matrix_balance(sizes, permute=False, separate=True)[1][0]
    return np.asarray(scales / scales[0])
