"""The law of a positive wait from its moments: a sum of up to three exponential terms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qtheory.laws import Distribution

FloatArray = NDArray[np.float64]
_GRID = np.concatenate([np.linspace(0.0, 4.0, 81), np.geomspace(4.2, 60.0, 40)])


class ExponentialTerms(Distribution):
    """P(W > t) = Re sum_i weights_i exp(-t / scales_i), scales real or in complex pairs."""

    name = "wait"

    def __init__(self, *, weights: NDArray[np.complex128], scales: NDArray[np.complex128]) -> None:
        self._weights, self._scales = weights, scales

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.asarray((np.exp(-t[..., None] / self._scales) @ self._weights).real)

    def _density(self, t: FloatArray) -> FloatArray:
        return np.asarray((np.exp(-t[..., None] / self._scales) @ (self._weights / self._scales)).real)

    def _moment(self, order: float) -> float:
        return math.gamma(order + 1.0) * float((self._weights @ self._scales**order).real)


#: By how much the survival function may rise between two points of the grid.
_RIPPLE = 1e-6


def law_of(moments: Sequence[float]) -> Distribution | None:
    """The law with moments E[W], E[W^2], ... of a positive wait; None where neither five nor three of them make one.

    Sum_i weights_i scales_i^k = E[W^k] / k! for k = 0, 1, ... has the scales as nodes of a Gauss
    quadrature. Waits of M/G/c behind service laws of a few phases are such sums but for short times, so that the fit
    is near: relative error of quantiles mostly below 1e-3.

    >>> from math import factorial
    >>> law = law_of([factorial(k) * (0.7 * 2.0**k + 0.3 * 9.0**k) for k in range(1, 6)])
    >>> round(law.survival(5.0), 9) == round(0.7 * math.exp(-2.5) + 0.3 * math.exp(-5 / 9), 9)
    True
    """
    mean = moments[0]
    reduced = [1.0, *(moment / mean**k / math.factorial(k) for k, moment in enumerate(moments, start=1))]
    for order in range((len(moments) + 1) // 2, 1, -1):
        law = _terms(reduced, order)
        if law is not None:
            scaled = ExponentialTerms(weights=law[0], scales=law[1] * mean)
            if _decreasing(scaled, mean):
                return scaled
    return None


def _terms(reduced: Sequence[float], order: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]] | None:
    hankel = np.array([[reduced[i + j] for j in range(order)] for i in range(order)])
    if np.linalg.cond(hankel) > 1e11:
        return None
    last = np.linalg.solve(hankel, -np.array([reduced[i + order] for i in range(order)]))
    scales = np.roots([1.0, *last[::-1]]).astype(np.complex128)
    if not scales.real.min() > 1e-6:
        return None
    weights = np.linalg.solve(np.vander(scales, order, increasing=True).T, np.array(reduced[:order]) + 0j)
    return np.asarray(weights, dtype=np.complex128), scales


def _decreasing(law: Distribution, mean: float) -> bool:
    survival = np.asarray(law.survival(_GRID * mean))
    return bool(np.all(np.diff(survival) <= _RIPPLE) and survival[-1] >= -_RIPPLE)
