"""Deterministic, uniform and lognormal times."""

from __future__ import annotations

import math

import numpy as np

from qtheory._lazy import special
from qtheory.laws._distribution import Distribution, FloatArray, describes
from qtheory.models import laws


@describes(laws.Deterministic)
class DeterministicDistribution(Distribution):
    """Always the same value, which may be 0."""

    name = "deterministic"

    def __init__(self, law: laws.Deterministic) -> None:
        self._value = law.value
        self.atoms = (np.array([law.value]), np.array([1.0]))

    @property
    def support(self) -> tuple[float, float]:
        return self._value, self._value

    @property
    def scv(self) -> float:
        return 0.0

    def _moment(self, order: float) -> float:
        return float(np.float64(self._value) ** order)

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.where(t < self._value, 1.0, 0.0)

    def _quantile(self, p: FloatArray) -> FloatArray:
        return np.full_like(p, self._value)

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return np.where(t < self._value, 0.0, self._moment(order))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return np.where(t < self._value, self._moment(order), 0.0)

    def _laplace(self, s: FloatArray) -> FloatArray:
        return np.exp(-s * self._value)


@describes(laws.Uniform)
class UniformDistribution(Distribution):
    """Uniform on [low, high]."""

    name = "uniform"

    def __init__(self, law: laws.Uniform) -> None:
        self._low, self._high = law.low, law.high
        self._width = law.high - law.low

    @property
    def support(self) -> tuple[float, float]:
        return self._low, self._high

    @property
    def scv(self) -> float:
        return (self._width / (self._low + self._high)) ** 2 / 3.0

    @property
    def cuts(self) -> FloatArray:
        return np.array([self._low + self._width / 2.0])

    def _part(self, order: float, low: FloatArray, high: FloatArray) -> FloatArray:
        """E[S^order; low < S <= high] = high^k (high - low)/width x mean of u^k over u in [low/high, 1]."""
        ratio = np.where(high > 0.0, low / high, 1.0)
        gap = np.where(high > 0.0, (high - low) / high, 0.0)
        # 1 - ratio^(k+1) over (k+1)(1 - ratio), without cancellation for a thin part.
        power = -np.expm1((order + 1.0) * np.where(gap < 0.5, np.log1p(-gap), np.log(ratio)))
        average = np.where(gap > 0.0, power / ((order + 1.0) * gap), 1.0)
        return np.where(high > low, high**order * (high - low) / self._width * average, 0.0)

    def _inside(self, t: FloatArray) -> FloatArray:
        return np.clip(t, self._low, self._high)

    def _moment(self, order: float) -> float:
        return float(self._part(order, np.asarray(self._low), np.asarray(self._high)))

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return self._part(order, np.full_like(t, self._low), self._inside(t))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return self._part(order, self._inside(t), np.full_like(t, self._high))

    def _survival(self, t: FloatArray) -> FloatArray:
        return (self._high - self._inside(t)) / self._width

    def _cdf(self, t: FloatArray) -> FloatArray:
        return (self._inside(t) - self._low) / self._width

    def _density(self, t: FloatArray) -> FloatArray:
        return np.where((t >= self._low) & (t <= self._high), 1.0 / self._width, 0.0)

    def _quantile(self, p: FloatArray) -> FloatArray:
        return self._low + p * self._width

    def _laplace(self, s: FloatArray) -> FloatArray:
        return np.exp(-s * self._low) * special.exprel(-s * self._width)


@describes(laws.LogNormal)
class LogNormalDistribution(Distribution):
    """log S normal; E[S^k; S <= t] = E[S^k] Phi((log t - mu)/sigma - k sigma)."""

    name = "lognormal"

    def __init__(self, law: laws.LogNormal) -> None:
        self._mean, self._scv = law.mean, law.scv
        variance = math.log1p(law.scv)
        self._sigma = math.sqrt(variance)
        self._mu = math.log(law.mean) - variance / 2.0

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    @property
    def scv(self) -> float:
        return self._scv

    def _log_moment(self, order: float) -> float:
        return order * (math.log(self._mean) + (order - 1.0) * self._sigma**2 / 2.0)

    def _z(self, order: float, t: FloatArray) -> FloatArray:
        return np.asarray((np.log(t) - self._mu) / self._sigma - order * self._sigma)

    def _moment(self, order: float) -> float:
        return self._mean if order == 1.0 else float(np.exp(self._log_moment(order)))

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return np.exp(self._log_moment(order) + np.asarray(special.log_ndtr(self._z(order, t))))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return np.exp(self._log_moment(order) + np.asarray(special.log_ndtr(-self._z(order, t))))

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(-self._z(0.0, t)))

    def _cdf(self, t: FloatArray) -> FloatArray:
        return np.asarray(special.ndtr(self._z(0.0, t)))

    def _density(self, t: FloatArray) -> FloatArray:
        z = self._z(0.0, t)
        return np.where(t > 0.0, np.exp(-z * z / 2.0) / (t * self._sigma * math.sqrt(2.0 * math.pi)), 0.0)

    def _quantile(self, p: FloatArray) -> FloatArray:
        z = np.where(p <= 0.5, special.ndtri(p), -special.ndtri(1.0 - p))
        return np.exp(self._mu + self._sigma * z)
