"""Responses and waits of jobs from what they find on arrival, first come first served.

Both are mixtures of Erlang laws of one rate r,

    P(response > t) = sum_k A_k e^(-rt) (rt)^k / k!,

and so is the wait. With exponential service of rate r = 1 a job that finds k others stays for k + 1 services: A_k =
P(it finds at least k), and the wait has A_(k+1) in place of A_k. Phase-type service becomes such a mixture by
uniformisation. Times are in units of the mean service.
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
class Stay:
    """The law of one class of jobs: weights A_k of response and wait, not increasing, and the rate r."""

    response: Array
    wait: Array
    rate: float = 1.0

    @property
    def mean_response(self) -> float:
        return float(self.response.sum()) / self.rate

    @property
    def wait_probability(self) -> float:
        """P(wait > 0)."""
        return float(self.wait[0]) if len(self.wait) else 0.0

    def response_tail(self, t: float) -> float:
        """P(response > t).

        >>> round(found(0.5 ** np.arange(200)).response_tail(2.0), 12) == round(math.exp(-1.0), 12)
        True
        """
        return _tail(self.response, self.rate * t)

    def wait_tail(self, t: float) -> float:
        """P(wait > t)."""
        return _tail(self.wait, self.rate * t)

    def response_quantile(self, level: float) -> float:
        """The t with P(response <= t) = level."""
        return _crossing(self.response, level) / self.rate

    def wait_quantile(self, level: float) -> float:
        """The least t with P(wait <= t) >= level; 0 where that many do not wait."""
        return _crossing(self.wait, level) / self.rate if self.wait_probability > 1.0 - level else 0.0


def found(at_least: Array) -> Stay:
    """The stay of jobs that find at least k others with probability `at_least[k]`, exponential service of mean 1."""
    return Stay(response=at_least, wait=at_least[1:])


def mixed(classes: Mapping[str, Stay], *, fraction: float) -> Stay:
    """The stay of all jobs, a share `fraction` of them flexible; both classes have one rate."""
    flexible, dedicated = classes["flexible"], classes["dedicated"]
    return Stay(
        response=_weighed(flexible.response, dedicated.response, fraction),
        wait=_weighed(flexible.wait, dedicated.wait, fraction),
        rate=dedicated.rate,
    )


def _weighed(first: Array, second: Array, share: float) -> Array:
    total = np.zeros(max(len(first), len(second)))
    total[: len(first)] += share * first
    total[: len(second)] += (1.0 - share) * second
    return total


def _tail(weights: Array, t: float) -> float:
    """sum_k weights[k] Poisson(k; t); what is left out has Poisson chances below 1e-30."""
    if t <= 0.0:
        return float(weights[0]) if len(weights) else 0.0
    spread = 12.0 * math.sqrt(t) + 40.0
    first, last = max(int(t - spread), 0), min(int(t + spread) + 1, len(weights))
    if first >= last:
        return 0.0
    k = np.arange(first, last)
    return float(weights[first:last] @ np.exp(k * math.log(t) - t - gammaln(k + 1.0)))


def _crossing(weights: Array, level: float) -> float:
    least = 1.0 - level
    # Markov's inequality bounds the quantile from above.
    highest = float(weights.sum()) / least + 1.0
    return float(brentq(lambda t: _tail(weights, t) - least, 0.0, highest, xtol=1e-13, rtol=1e-14))
