"""Pareto and bounded Pareto: every moment of a part is an integral of a power."""

from __future__ import annotations

import math

import numpy as np

from qtheory._lazy import special
from qtheory.laws._distribution import Distribution, FloatArray, describes
from qtheory.models import laws


def _power_integral(*, exponent: float, low: FloatArray, high: FloatArray, scale: float) -> FloatArray:
    """Integral of (x/scale)^exponent / x over [low, high]; smooth through exponent = 0."""
    width = np.log(high / low)
    # Written from the end where the power is larger, so that nothing overflows in between.
    start, sign = (high, -1.0) if exponent > 0 else (low, 1.0)
    return np.asarray((start / scale) ** exponent * width * special.exprel(sign * exponent * width))


@describes(laws.Pareto)
class ParetoDistribution(Distribution):
    """P(S > t) = (m/t)^a for t >= m."""

    name = "pareto"

    def __init__(self, law: laws.Pareto) -> None:
        self._shape, self._minimum = law.shape, law.minimum
        self.tail_index = law.shape

    @property
    def support(self) -> tuple[float, float]:
        return self._minimum, math.inf

    @property
    def scv(self) -> float:
        a = self._shape
        return 1.0 / (a * (a - 2.0)) if a > 2.0 else math.inf

    def _moment(self, order: float) -> float:
        if order >= self._shape:
            return math.inf
        return float(self._shape / (self._shape - order) * self._minimum**order)

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.asarray((self._minimum / np.maximum(t, self._minimum)) ** self._shape)

    def _cdf(self, t: FloatArray) -> FloatArray:
        return -np.expm1(-self._shape * np.log(np.maximum(t, self._minimum) / self._minimum))

    def _density(self, t: FloatArray) -> FloatArray:
        inside = self._shape / t * (self._minimum / np.maximum(t, self._minimum)) ** self._shape
        return np.where(t >= self._minimum, inside, 0.0)

    def _quantile(self, p: FloatArray) -> FloatArray:
        return self._minimum * np.exp(-np.log1p(-p) / self._shape)

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        m, high = self._minimum, np.maximum(t, self._minimum)
        powers = _power_integral(exponent=order - self._shape, low=np.full_like(high, m), high=high, scale=m)
        return np.asarray(self._shape * m**order * powers)

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        low = np.maximum(t, self._minimum) / self._minimum
        return self._moment(order) * low ** (order - self._shape)

    def _excess(self, t: FloatArray) -> FloatArray:
        m, a = self._minimum, self._shape
        beyond = np.maximum(t, m)
        return np.where(t < m, self._moment(1.0) - t, beyond * (m / beyond) ** a / (a - 1.0))


@describes(laws.BoundedPareto)
class BoundedParetoDistribution(Distribution):
    """Density C t^-(a+1) on [m, M], C = a m^a / (1 - (m/M)^a)."""

    name = "bounded-pareto"

    def __init__(self, law: laws.BoundedPareto) -> None:
        self._shape, self._minimum, self._maximum = law.shape, law.minimum, law.maximum
        # C / m^a
        self._factor = law.shape / -math.expm1(-law.shape * math.log(law.maximum / law.minimum))

    @property
    def support(self) -> tuple[float, float]:
        return self._minimum, self._maximum

    def _part(self, order: float, low: FloatArray, high: FloatArray) -> FloatArray:
        """E[S^order; low < S <= high]."""
        m = self._minimum
        return np.asarray(
            self._factor * m**order * _power_integral(exponent=order - self._shape, low=low, high=high, scale=m)
        )

    def _inside(self, t: FloatArray) -> FloatArray:
        return np.clip(t, self._minimum, self._maximum)

    def _moment(self, order: float) -> float:
        return float(self._part(order, np.asarray(self._minimum), np.asarray(self._maximum)))

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return self._part(order, np.full_like(t, self._minimum), self._inside(t))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return self._part(order, self._inside(t), np.full_like(t, self._maximum))

    def _survival(self, t: FloatArray) -> FloatArray:
        return self._upper(0.0, t)

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self._lower(0.0, t)

    def _density(self, t: FloatArray) -> FloatArray:
        inside = (t >= self._minimum) & (t <= self._maximum)
        return np.where(inside, self._factor / t * (self._minimum / t) ** self._shape, 0.0)

    def _quantile(self, p: FloatArray) -> FloatArray:
        return self._minimum * np.exp(-np.log1p(-p * self._shape / self._factor) / self._shape)
