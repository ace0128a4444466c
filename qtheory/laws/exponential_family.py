"""Exponential, Erlang, gamma and Weibull: moments of parts by incomplete gamma functions."""

from __future__ import annotations

import math

import numpy as np

from qtheory import _poisson_sums
from qtheory._lazy import special
from qtheory.laws._distribution import Distribution, FloatArray, describes
from qtheory.models import laws


@describes(laws.Gamma, laws.Erlang)
class GammaDistribution(Distribution):
    """Density proportional to t^(a-1) exp(-t/b).

    E[S^k; S <= t] = b^k Gamma(a+k)/Gamma(a) P(a+k, t/b), and Q in place of P above t.
    """

    name = "gamma"

    def __init__(self, law: laws.Gamma | laws.Erlang) -> None:
        self._shape = float(law.shape)
        self._scale = law.scale if isinstance(law, laws.Gamma) else law.mean / law.shape

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    @property
    def scv(self) -> float:
        return 1.0 / self._shape

    def _moment(self, order: float) -> float:
        # exp(gammaln) would lose digits at the large shapes of nearly constant times.
        whole = int(order)
        rising = math.prod(self._shape + order - 1 - j for j in range(whole)) if whole <= 64 else math.inf
        rest = order - whole
        if whole > 64:
            return float(self._scale**order * float(special.poch(self._shape, order)))
        return float(self._scale**order * rising * (float(special.poch(self._shape, rest)) if rest else 1.0))

    def _survival(self, t: FloatArray) -> FloatArray:
        return self._above(0.0, t)

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self._upto(0.0, t)

    def _density(self, t: FloatArray) -> FloatArray:
        x = t / self._scale
        if self._shape < 1.0:
            return np.asarray(x ** (self._shape - 1.0) * np.exp(-x) / (math.gamma(self._shape) * self._scale))
        # 0 log 0 = 0 at t = 0 and shape 1.
        log = (self._shape - 1.0) * np.log(np.where(x > 0.0, x, 1.0)) - x - math.lgamma(self._shape)
        return np.where((x > 0.0) | (self._shape == 1.0), np.exp(log) / self._scale, 0.0)

    def _above(self, order: float, t: FloatArray) -> FloatArray:
        """Q(a + k, t/b)."""
        if self._shape + order in _poisson_sums.SHORT:
            return _poisson_sums.below(int(self._shape + order), t / self._scale)
        return np.asarray(special.gammaincc(self._shape + order, t / self._scale))

    def _upto(self, order: float, t: FloatArray) -> FloatArray:
        """P(a + k, t/b)."""
        if self._shape + order in _poisson_sums.SHORT:
            return _poisson_sums.at_least(int(self._shape + order), t / self._scale)
        return np.asarray(special.gammainc(self._shape + order, t / self._scale))

    def _quantile(self, p: FloatArray) -> FloatArray:
        upper = special.gammainccinv(self._shape, 1.0 - p)
        return self._scale * np.where(p <= 0.5, special.gammaincinv(self._shape, p), upper)

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return self._moment(order) * self._upto(order, t)

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return self._moment(order) * self._above(order, t)

    def _laplace(self, s: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-self._shape * np.log1p(self._scale * s)))


@describes(laws.Exponential)
class ExponentialDistribution(Distribution):
    """P(S > t) = exp(-t/m); the general moments as for a gamma of shape 1."""

    name = "exponential"

    def __init__(self, law: laws.Exponential) -> None:
        self._mean = law.mean

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    @property
    def scv(self) -> float:
        return 1.0

    def _moment(self, order: float) -> float:
        return self._mean**order * math.gamma(order + 1.0) if order < 170.0 else math.inf

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.exp(-t / self._mean)

    def _cdf(self, t: FloatArray) -> FloatArray:
        return -np.expm1(-t / self._mean)

    def _density(self, t: FloatArray) -> FloatArray:
        return np.exp(-t / self._mean) / self._mean

    def _quantile(self, p: FloatArray) -> FloatArray:
        return -self._mean * np.log1p(-p)

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        if order + 1.0 in _poisson_sums.SHORT:
            return self._moment(order) * _poisson_sums.at_least(int(order) + 1, t / self._mean)
        return self._moment(order) * np.asarray(special.gammainc(order + 1.0, t / self._mean))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        if order + 1.0 in _poisson_sums.SHORT:
            return self._moment(order) * _poisson_sums.below(int(order) + 1, t / self._mean)
        return self._moment(order) * np.asarray(special.gammaincc(order + 1.0, t / self._mean))

    def _excess(self, t: FloatArray) -> FloatArray:
        return self._mean * np.exp(-t / self._mean)

    def _laplace(self, s: FloatArray) -> FloatArray:
        return 1.0 / (1.0 + self._mean * s)


@describes(laws.Weibull)
class WeibullDistribution(Distribution):
    """P(S > t) = exp(-(t/b)^a): (S/b)^a is exponential with mean 1.

    E[S^k; S <= t] = b^k Gamma(1 + k/a) P(1 + k/a, (t/b)^a).
    """

    name = "weibull"

    def __init__(self, law: laws.Weibull) -> None:
        self._shape, self._scale = law.shape, law.scale

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    @property
    def scv(self) -> float:
        # Gamma(1+2x) / Gamma(1+x)^2 - 1
        x = 1.0 / self._shape
        log = float(special.gammaln(1.0 + 2.0 * x) - 2.0 * special.gammaln(1.0 + x))
        return math.expm1(log) if log < 709.0 else math.inf

    def _power(self, t: FloatArray) -> FloatArray:
        return np.asarray((t / self._scale) ** self._shape)

    def _moment(self, order: float) -> float:
        return float(np.exp(order * math.log(self._scale) + special.gammaln(1.0 + order / self._shape)))

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.exp(-self._power(t))

    def _cdf(self, t: FloatArray) -> FloatArray:
        return -np.expm1(-self._power(t))

    def _density(self, t: FloatArray) -> FloatArray:
        x = t / self._scale
        return np.asarray(self._shape / self._scale * x ** (self._shape - 1.0) * np.exp(-self._power(t)))

    def _quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(self._scale * (-np.log1p(-p)) ** (1.0 / self._shape))

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return self._moment(order) * np.asarray(special.gammainc(1.0 + order / self._shape, self._power(t)))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return self._moment(order) * np.asarray(special.gammaincc(1.0 + order / self._shape, self._power(t)))
