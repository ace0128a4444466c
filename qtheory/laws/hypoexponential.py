"""The sum of two independent exponential times."""

from __future__ import annotations

import math

import numpy as np

from qtheory.laws._distribution import Distribution, FloatArray


class Hypoexponential(Distribution):
    """A + B with mean `slow` >= `fast` > 0; written so that nothing cancels when the two are close.

    P(A + B > t) = exp(-t/a) (1 + (1 - exp(-d t)) / (a d)) with d = 1/b - 1/a.
    """

    name = "hypoexponential"

    def __init__(self, *, slow: float, fast: float) -> None:
        self._slow, self._fast = slow, fast

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    def _moment(self, order: float) -> float:
        # Gamma(k + 1) (a^(k+1) - b^(k+1)) / (a - b) = Gamma(k + 1) a^k (1 - r^(k+1)) / (1 - r), r = b / a
        gap = (self._slow - self._fast) / self._slow
        share = -math.expm1((order + 1.0) * math.log1p(-gap)) / gap if gap > 0.0 else order + 1.0
        return float(math.gamma(order + 1.0) * self._slow**order * share)

    def _late(self, t: FloatArray) -> FloatArray:
        """(1 - exp(-d t)) / d."""
        rate = 1.0 / self._fast - 1.0 / self._slow
        return np.asarray(-np.expm1(-rate * t) / rate) if rate > 0.0 else t

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-t / self._slow) * (1.0 + self._late(t) / self._slow))

    def _density(self, t: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-t / self._slow) * self._late(t) / (self._slow * self._fast))

    def _laplace(self, s: FloatArray) -> FloatArray:
        return np.asarray(1.0 / ((1.0 + self._slow * s) * (1.0 + self._fast * s)))
