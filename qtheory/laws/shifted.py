"""A time plus a constant, which may be negative."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from qtheory.laws._distribution import Distribution, FloatArray
from qtheory.models.errors import InvalidModel


class Shifted(Distribution):
    """S + c for a constant c, at least minus the least value of S; whole moments by the binomial formula, others by
    quadrature."""

    name = "shifted law"

    def __init__(self, base: Distribution, *, by: float) -> None:
        if base.support[0] + by < 0.0:
            raise InvalidModel(field="by", rule="must leave no negative times", value=by)
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
        moved = self._base.kinks + self._by
        return np.append(moved, self._by) if self._by > 0.0 else moved[moved > 0.0]

    def tabulated(self) -> Distribution:
        return Shifted(self._base.tabulated(), by=self._by)

    def _moment(self, order: float) -> float:
        if order != int(order):
            return super()._moment(order)
        k = int(order)
        return math.fsum(math.comb(k, j) * self._by ** (k - j) * self._base.moment(j) for j in range(k + 1))

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return self._part(order, lambda j: np.asarray(self._base.partial_moment(j, t - self._by)), super()._lower, t)

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return self._part(order, lambda j: np.asarray(self._base.tail_moment(j, t - self._by)), super()._upper, t)

    def _part(
        self,
        order: float,
        of_base: Callable[[float], FloatArray],
        otherwise: Callable[[float, FloatArray], FloatArray],
        t: FloatArray,
    ) -> FloatArray:
        """E[(S + c)^order] over a part of the values, `of_base` the moments of S over that part."""
        k = int(order)
        if order != k:
            return otherwise(order, t)
        return np.asarray(sum(math.comb(k, j) * self._by ** (k - j) * of_base(float(j)) for j in range(k + 1)))

    def _excess(self, t: FloatArray) -> FloatArray:
        beyond = np.asarray(self._base.excess(np.maximum(t - self._by, 0.0)))
        return np.where(t >= self._by, beyond, self.mean - t)

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.survival(t - self._by))

    def _cdf(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.cdf(t - self._by))

    def _density(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.density(t - self._by))

    def _quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(self._base.quantile(p)) + self._by

    def _laplace(self, s: FloatArray) -> FloatArray:
        if self._by < 0.0:  # the two factors overflow and vanish
            return super()._laplace(s)
        return np.asarray(np.exp(-s * self._by) * np.asarray(self._base.laplace(s)))
