"""Laws made from others by a limit: S given S <= T, S given S > T, and min(S, T)."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from qtheory.laws._distribution import Distribution, FloatArray
from qtheory.models.errors import InvalidModel

#: A difference below this share of what it is taken from has lost too many digits.
_LEFT = 1e-6


class _Restricted(Distribution):
    """S on one `side` of a limit."""

    side: ClassVar[str]

    def __init__(self, base: Distribution, *, limit: float) -> None:
        self._base, self._limit = base, limit
        if not self._share > 0.0:
            raise InvalidModel(field="limit", rule=f"must leave some probability {self.side} it", value=limit)

    @property
    @abstractmethod
    def _share(self) -> float:
        """Probability of that side."""

    def tabulated(self) -> Distribution:
        return type(self)(self._base.tabulated(), limit=self._limit)

    @property
    def density_share(self) -> float:
        return max(1.0 - math.fsum(self.atoms[1]), 0.0) if self._base.density_share > 0.0 else 0.0

    def _between(self, order: float, low: FloatArray, high: FloatArray) -> FloatArray:
        """E[S^order; low < S <= high], from the end where less cancels."""
        from_above = np.asarray(self._base.tail_moment(order, low)) - self._base.tail_moment(order, high)
        from_below = np.asarray(self._base.partial_moment(order, high)) - self._base.partial_moment(order, low)
        inside = np.asarray(self._base.cdf(low)) < 0.5
        return np.asarray(np.maximum(np.where(inside | ~np.isfinite(from_above), from_below, from_above), 0.0))

    def _density(self, t: FloatArray) -> FloatArray:
        low, high = self.support
        return np.where((t >= low) & (t <= high), np.asarray(self._base.density(t)) / self._share, 0.0)

    @cached_property
    def cuts(self) -> FloatArray:
        low, high = self.support
        own = np.asarray(self.quantile(np.array([0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999])))
        base = self._base.cuts
        return np.unique([*base[(base > low) & (base < high)], *own])


class Upto(_Restricted):
    """S given S <= limit."""

    name = "law up to a limit"
    side = "up to"

    def __init__(self, base: Distribution, *, limit: float) -> None:
        super().__init__(base, limit=limit)
        points, masses = base.atoms
        self.atoms = (points[points <= limit], masses[points <= limit] / self._share)

    @property
    def _share(self) -> float:
        return float(self._base.cdf(self._limit))

    @property
    def support(self) -> tuple[float, float]:
        low, high = self._base.support
        return low, min(high, self._limit)

    def _moment(self, order: float) -> float:
        return float(self._base.partial_moment(order, self._limit)) / self._share

    def _survival(self, t: FloatArray) -> FloatArray:
        return self._upper(0.0, t)

    def _cdf(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.cdf(np.minimum(t, self._limit))) / self._share

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.partial_moment(order, np.minimum(t, self._limit))) / self._share

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        low = np.minimum(t, self._limit)
        return self._between(order, low, np.full_like(low, self._limit)) / self._share

    def _quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(self._base.quantile(np.minimum(p * self._share, 1.0)))


class Above(_Restricted):
    """S given S > limit."""

    name = "law above a limit"
    side = "above"

    def __init__(self, base: Distribution, *, limit: float) -> None:
        super().__init__(base, limit=limit)
        self.tail_index = base.tail_index
        points, masses = base.atoms
        self.atoms = (points[points > limit], masses[points > limit] / self._share)

    @property
    def _share(self) -> float:
        return float(self._base.survival(self._limit))

    @property
    def support(self) -> tuple[float, float]:
        low, high = self._base.support
        return max(low, self._limit), high

    def _moment(self, order: float) -> float:
        return float(self._base.tail_moment(order, self._limit)) / self._share

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.survival(np.maximum(t, self._limit))) / self._share

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self._lower(0.0, t)

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        high = np.maximum(t, self._limit)
        return self._between(order, np.full_like(high, self._limit), high) / self._share

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.tail_moment(order, np.maximum(t, self._limit))) / self._share

    def _excess(self, t: FloatArray) -> FloatArray:
        inside = np.asarray(self._base.excess(np.maximum(t, self._limit))) / self._share
        return np.where(t >= self._limit, inside, self.mean - t)


class Capped(Distribution):
    """min(S, limit)."""

    name = "capped law"

    def __init__(self, base: Distribution, *, limit: float) -> None:
        self._base, self._limit = base, limit
        points, masses = base.atoms
        cap = float(base.survival(limit)) if limit < math.inf else 0.0
        kept = points <= limit
        points, masses = points[kept], masses[kept]
        if cap > 0.0 and points.size and points[-1] == limit:
            masses = np.append(masses[:-1], masses[-1] + cap)
        elif cap > 0.0:
            points, masses = np.append(points, limit), np.append(masses, cap)
        self.atoms = (points, masses)
        self.tail_index = base.tail_index if limit == math.inf else math.inf

    @property
    def support(self) -> tuple[float, float]:
        low, high = self._base.support
        return min(low, self._limit), min(high, self._limit)

    def tabulated(self) -> Distribution:
        return Capped(self._base.tabulated(), limit=self._limit)

    @property
    def scv(self) -> float:
        return self._base.scv if self._limit >= self._base.support[1] else super().scv

    @property
    def density_share(self) -> float:
        return max(1.0 - math.fsum(self.atoms[1]), 0.0) if self._base.density_share > 0.0 else 0.0

    def _moment(self, order: float) -> float:
        return float(self._base.capped_moment(order, self._limit))

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.where(t < self._limit, self._base.survival(t), 0.0)

    def _cdf(self, t: FloatArray) -> FloatArray:
        return np.where(t < self._limit, self._base.cdf(t), 1.0)

    def _density(self, t: FloatArray) -> FloatArray:
        return np.where(t < self._limit, np.asarray(self._base.density(t)), 0.0)

    def _quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(np.minimum(np.asarray(self._base.quantile(p)), self._limit))

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return np.where(t < self._limit, self._base.partial_moment(order, t), self.moment(order))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        below = np.minimum(t, self._limit)
        between = np.asarray(self._base.partial_moment(order, self._limit)) - self._base.partial_moment(order, below)
        at_cap = np.float64(self._limit) ** order * self._base.survival(self._limit) if self._limit < math.inf else 0.0
        return np.where(t < self._limit, np.maximum(between, 0.0) + at_cap, 0.0)

    def _excess(self, t: FloatArray) -> FloatArray:
        whole = np.asarray(self._base.excess(t))
        excess = whole - self._base.excess(self._limit)
        # A limit far below the mean, or an infinite mean, leaves no digits of the difference.
        lost = (t < self._limit) & ~(excess > _LEFT * whole)
        if np.any(lost):
            inside = t[lost]
            excess[lost] = self._upper(1.0, inside) - inside * self._survival(inside)
        return np.where(t < self._limit, np.maximum(excess, 0.0), 0.0)
