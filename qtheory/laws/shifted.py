"""A time plus a constant."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from qtheory.laws._distribution import Distribution, FloatArray


class Shifted(Distribution):
    """S + c for a constant c >= 0; whole moments by the binomial formula, others by quadrature."""

    name = "shifted law"

    def __init__(self, base: Distribution, *, by: float) -> None:
        self._base, self._by = base, by
        self.tail_index = base.tail_index
        self.atoms = (base.atoms[0] + by, base.atoms[1])

    @property
    def support(self) -> tuple[float, float]:
        low, high = self._base.support
        return low + self._by, high + self._by

    @property
    def density_share(self) -> float:
        return self._base.density_share

    @property
    def scv(self) -> float:
        variance, mean = self._base.variance, self.mean
        return variance / mean**2 if math.isfinite(mean) and mean > 0.0 else self._base.scv

    @cached_property
    def cuts(self) -> FloatArray:
        return self._base.cuts + self._by

    @property
    def kinks(self) -> FloatArray:
        return np.append(self._base.kinks + self._by, self._by) if self._by > 0.0 else self._base.kinks

    def tabulated(self) -> Distribution:
        return Shifted(self._base.tabulated(), by=self._by)

    def _moment(self, order: float) -> float:
        if order != int(order):
            return super()._moment(order)
        k = int(order)
        return math.fsum(math.comb(k, j) * self._by ** (k - j) * self._base.moment(j) for j in range(k + 1))

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.survival(t - self._by))

    def _cdf(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.cdf(t - self._by))

    def _density(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.density(t - self._by))

    def _quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(self._base.quantile(p)) + self._by

    def _laplace(self, s: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-s * self._by) * np.asarray(self._base.laplace(s)))
