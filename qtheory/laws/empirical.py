"""Recorded values, each with the same probability."""

from __future__ import annotations

import math

import numpy as np

from qtheory.laws._distribution import Distribution, FloatArray, describes
from qtheory.models import laws


@describes(laws.Empirical)
class EmpiricalDistribution(Distribution):
    """A step function over the sorted values; all sums are finite and exact up to rounding."""

    name = "empirical"

    def __init__(self, law: laws.Empirical) -> None:
        self._values: FloatArray = np.sort(np.asarray(law.values, dtype=np.float64))
        points, counts = np.unique(self._values, return_counts=True)
        self.atoms = (points, counts / self._values.size)
        self._sums: dict[float, tuple[FloatArray, FloatArray]] = {}

    @property
    def support(self) -> tuple[float, float]:
        return float(self._values[0]), float(self._values[-1])

    @property
    def density_share(self) -> float:
        return 0.0

    @property
    def scv(self) -> float:
        mean = float(np.mean(self._values))
        return float(np.mean((self._values / mean - 1.0) ** 2))

    def _moment(self, order: float) -> float:
        return float(np.mean(self._values**order))

    def _count(self, t: FloatArray) -> FloatArray:
        return np.searchsorted(self._values, t, side="right")

    def _survival(self, t: FloatArray) -> FloatArray:
        return (self._values.size - self._count(t)) / self._values.size

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self._count(t) / self._values.size

    def _quantile(self, p: FloatArray) -> FloatArray:
        # The smallest value whose rank / size >= p, with the division done as in the distribution function.
        size = self._values.size
        rank = np.clip(np.ceil(p * size).astype(np.int64), 1, size)
        rank = np.where((rank > 1) & ((rank - 1) / size >= p), rank - 1, rank)
        rank = np.where((rank < size) & (rank / size < p), rank + 1, rank)
        return np.asarray(self._values[rank - 1])

    def _parts(self, order: float) -> tuple[FloatArray, FloatArray]:
        """Sums of the powers from below and from above, each started at its own end."""
        if order not in self._sums:
            powers = self._values**order / self._values.size
            from_below = np.concatenate([[0.0], np.cumsum(powers)])
            from_above = np.concatenate([np.cumsum(powers[::-1])[::-1], [0.0]])
            self._sums[order] = from_below, from_above
        return self._sums[order]

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return self._parts(order)[0][self._count(t)]

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return self._parts(order)[1][self._count(t)]

    def _laplace(self, s: FloatArray) -> FloatArray:
        points, masses = self.atoms
        return np.array([math.fsum(masses * np.exp(-rate * points)) for rate in s.ravel()]).reshape(s.shape)
