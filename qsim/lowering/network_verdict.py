"""Is the network stable?  A verdict from how the total number of jobs grows, and whether its start is forgotten.

Each replication is cut into dyadic windows (T/2, T], (T/4, T/2], ... of its arrivals. From an empty start the mean
total over them grows like t^e with e near 0 if the network is stable, 1/2 if it is critical and 1 if it is transient.
A second run meets the same ticks from a large start, of about the size that a critical network reaches by itself: a
stable network forgets it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from qsim.kernels.random import Array
from qsim.student_law import two_sided_quantile

Verdict = Literal["stable", "critical", "unstable", "undecided"]

#: Windows of the growth exponent: the last 31/32 of the run.
WINDOWS = 5
#: Each of the tests behind a verdict errs with this probability at the border of its hypothesis.
LEVEL = 1e-3
#: A verdict needs so many replications, and in each so many arrivals and so many mean transit times.
REPLICATIONS, ARRIVALS, TRANSITS = 8, 5000, 100.0

_STABLE, _LEAST_CRITICAL, _CRITICAL, _MOST_CRITICAL = 0.35, 0.2, 0.5, 0.85
#: Share of a large start that a stable network may still hold, and a network that is not must.
_FORGOTTEN, _REMEMBERED = 0.1, 0.02


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What the replications show, one row or entry each.

    means : mean total by window, the last window first; centres : time at the middle of each.
    kept : share of the large start by which the second run still exceeds the first.
    """

    means: Array
    centres: Array
    kept: Array


@dataclass(frozen=True, kw_only=True)
class Stability:
    """The verdict; slope (jobs per unit time) and growth exponent with their standard errors, and the share kept."""

    verdict: Verdict
    slope: float
    slope_error: float
    exponent: float
    exponent_error: float
    kept: float

    def details(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "stability": self.verdict,
            "slope": self.slope,
            "exponent": self.exponent,
            "slope_error": self.slope_error,
            "exponent_error": self.exponent_error,
            "start_kept": self.kept,
        }


def judge(growth: Growth, *, long_enough: bool) -> Stability:
    """The verdict.

    `unstable` if the exponent is significantly above 1/2 and the slope above 0, and the start is not forgotten;
    `stable` if the exponent is significantly below .35 and the start significantly forgotten;
    `critical` if the exponent is significantly above .2 and below .85 and the start is not forgotten;
    `undecided` else, and for runs that are too short. Each test errs with probability 1e-3 at its border, so that a
    critical network is called stable or unstable with at most that probability.

    A run cannot tell a load of 1 from one whose spare capacity shows only after it. Verdicts of 150 runs of a single
    queue (32 replications of 12 500 arrivals): load .9 stable 150; .95 stable 116, undecided 34; .98 critical 1,
    undecided 149; .99 critical 48, undecided 102; 1 critical 136, undecided 14; 1.02 unstable 113, critical 33,
    undecided 4; 1.05 unstable 150. Four times the arrivals halve the distances from 1.
    """
    count = len(growth.means)
    slopes = (growth.means[:, 0] - growth.means[:, 1]) / (growth.centres[:, 0] - growth.centres[:, 1])
    slope, slope_error = _mean(slopes)
    exponent, exponent_error = _exponent(growth)
    kept, kept_error = _mean(growth.kept)
    verdict: Verdict = "undecided"
    if long_enough and count >= REPLICATIONS:
        reach = two_sided_quantile(confidence=1 - 2 * LEVEL, degrees=count - 1)
        low, high = exponent - reach * exponent_error, exponent + reach * exponent_error
        remembered = kept - reach * kept_error > _REMEMBERED
        if low > _CRITICAL and slope - reach * slope_error > 0 and remembered:
            verdict = "unstable"
        elif high < _STABLE and kept + reach * kept_error < _FORGOTTEN:
            verdict = "stable"
        elif low > _LEAST_CRITICAL and high < _MOST_CRITICAL and remembered:
            verdict = "critical"
    return Stability(
        verdict=verdict,
        slope=slope,
        slope_error=slope_error,
        exponent=exponent,
        exponent_error=exponent_error,
        kept=kept,
    )


def _mean(values: Array) -> tuple[float, float]:
    count = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else 0.0
    return float(values.mean()), error


def _exponent(growth: Growth) -> tuple[float, float]:
    """Slope of log mean total against log time, with the jackknife's standard error over replications."""
    count = len(growth.means)
    times = np.log(growth.centres.mean(axis=0))
    times -= times.mean()
    totals = growth.means.sum(axis=0)

    def fitted(mean_totals: Array) -> Array:
        # An empty window counts as a fraction of a job: its logarithm stays finite.
        logs = np.log(np.maximum(mean_totals, 1e-9))
        return np.asarray(logs @ times / (times @ times))

    exponent = float(fitted(totals / count))
    if count < 2:
        return exponent, 0.0
    left_out = fitted((totals - growth.means) / (count - 1))
    spread = float(((left_out - left_out.mean()) ** 2).sum())
    return exponent, math.sqrt((count - 1) / count * spread)
