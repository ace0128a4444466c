"""From the number a job finds in the queue it joins to its response: exponential service, first come first served.

A job that finds k others stays for k + 1 exponential services, so with A_k = P(it finds at least k)

    P(response > t) = sum_k A_k e^(-t) t^k / k!,    P(wait > t) = sum_k A_(k+1) e^(-t) t^k / k!,

times in units of the mean service; the mean response is the sum of A_k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import gammaln

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Positions:
    """`found[k]` = P(a job finds at least k others in its queue), k = 0, 1, ...; `found[0]` = 1."""

    found: Array

    @property
    def mean(self) -> float:
        """Mean response."""
        return float(self.found.sum())

    @property
    def wait_probability(self) -> float:
        """P(it finds a job)."""
        return float(self.found[1]) if len(self.found) > 1 else 0.0

    def response_tail(self, t: float) -> float:
        """P(response > t).

        >>> mm1 = Positions(found=0.5 ** np.arange(200))
        >>> round(mm1.response_tail(2.0), 12) == round(math.exp(-1.0), 12)
        True
        """
        return _mixed(self.found, t)

    def wait_tail(self, t: float) -> float:
        """P(wait > t)."""
        return _mixed(self.found[1:], t)

    def response_quantile(self, level: float) -> float:
        """The t with P(response <= t) = level."""
        return _crossing(self.found, level)

    def wait_quantile(self, level: float) -> float:
        """The least t with P(wait <= t) >= level; 0 where that many do not wait."""
        return _crossing(self.found[1:], level) if self.wait_probability > 1.0 - level else 0.0


def mixed(classes: Mapping[str, Positions], *, fraction: float) -> Positions:
    """The positions of all jobs, a share `fraction` of them flexible."""
    parts = {"flexible": fraction, "dedicated": 1.0 - fraction}
    length = max(len(classes[name].found) for name in parts)
    total = np.zeros(length)
    for name, share in parts.items():
        found = classes[name].found
        total[: len(found)] += share * found
    return Positions(found=total)


def _mixed(weights: Array, t: float) -> float:
    """sum_k weights[k] Poisson(k; t)."""
    if t <= 0.0:
        return float(weights[0]) if len(weights) else 0.0
    spread = 12.0 * math.sqrt(t) + 40.0
    first, last = max(int(t - spread), 0), min(int(t + spread) + 1, len(weights))
    if first >= last:
        return 0.0
    k = np.arange(first, last)
    chances = np.exp(k * math.log(t) - t - gammaln(k + 1.0))
    # What the window leaves out on the left is certain to be met at weights[0] <= 1 and has chance below 1e-30.
    return float(weights[first:last] @ chances)


def _crossing(weights: Array, level: float) -> float:
    least = 1.0 - level
    # Markov's inequality bounds the quantile from above.
    highest = float(weights.sum()) / least + 1.0
    return float(brentq(lambda t: _mixed(weights, t) - least, 0.0, highest, xtol=1e-13, rtol=1e-14))
