"""After which service Group 0 kills a job, and how long a killed job holds its server there, by the rules of a model.

With limits of the jobs' own, expectations over their law are sums over levels p of its quantile function, by Gauss's
rule between levels at which the integrand may jump: where the limit has an atom, or passes one of S0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qtheory.laws import Distribution, distribution
from qtheory.models import Dispatcher

FloatArray = NDArray[np.float64]
#: Weights and points.
Sum = tuple[FloatArray, FloatArray]
#: A share of density that is round-off.
_NONE = 1e-15
#: Laws made of so many limits still answer quickly; more are joined, neighbours with neighbours.
FEW = 24
_ENDS = np.logspace(-12.0, -1.0, 12)
_LEVELS = np.concatenate([[0.0], _ENDS, np.linspace(0.15, 0.85, 15), 1.0 - _ENDS[::-1], [1.0]])
#: Nodes between two levels, and atoms of S0 that have a level of their own.
_ORDER, _JUMPS = 8, 500


@dataclass(frozen=True, eq=False, kw_only=True)
class Limits:
    """Limits by their probabilities.

    Attributes
    ----------
    weights : probabilities.
    thresholds : a service beyond it is killed.
    holds : how long a killed job holds its server.
    """

    weights: FloatArray
    thresholds: FloatArray
    holds: FloatArray

    @property
    def prompt(self) -> bool:
        """Whether a job that reaches its threshold leaves at once."""
        return bool(np.all(self.holds == self.thresholds))

    def mean(self, values: FloatArray) -> float:
        """The mean of values given for each limit."""
        return float(values[0]) if values.size == 1 else float(self.weights @ values)

    def some(self, shares: FloatArray) -> list[tuple[float, float, float]]:
        """At most two dozen (share, threshold, hold) for these shares of the limits, which are not all 0.

        Exact where so few have a share; else neighbours are joined at their means.
        """
        rows = np.stack([shares, self.thresholds, self.holds])[:, shares > 0.0]
        if rows.shape[1] > FEW:
            middles = (np.cumsum(rows[0]) - rows[0] / 2.0) / rows[0].sum()
            bins = np.minimum((middles * FEW).astype(np.int64), FEW - 1)
            sums = [np.bincount(bins, weights=weights, minlength=FEW) for weights in (rows[0], *(rows[0] * rows[1:]))]
            used = sums[0] > 0.0
            rows = np.stack([sums[0][used], *(total[used] / sums[0][used] for total in sums[1:])])
        return [(share, threshold, hold) for share, threshold, hold in rows.T.tolist()]


def of_few_values(model: Dispatcher) -> bool:
    """Whether the limits take so few values that the laws of services by limit are exact."""
    if model.limits is None:
        return True
    law = distribution(model.limits)
    return law.density_share <= _NONE and law.atoms[0].size <= FEW


def limits_of(model: Dispatcher, *, service: Distribution) -> Limits:
    """The limits of the jobs submitted to Group 0, `service` the law of S0.

    >>> from qtheory.models import Exponential
    >>> one = Exponential(mean=1.0)
    >>> model = Dispatcher(
    ...     servers=(1, 1), time_limit=2.0, short_fraction=1.0, interarrival=one, service0=one, service1=one, grace=0.5,
    ... )
    >>> limits = limits_of(model, service=distribution(one))
    >>> limits.thresholds.tolist(), limits.holds.tolist()
    ([2.5], [2.5])
    """
    working = model.grace if model.grace_completes else 0.0
    if model.limits is None:
        weights, limits = np.ones(1), np.array([model.time_limit])
    else:
        jumps = np.concatenate([service.atoms[0], np.asarray(service.support)]) - working
        weights, limits = _sum(distribution(model.limits), jumps=jumps)
    return Limits(weights=weights, thresholds=limits + working, holds=limits + model.grace)


def _sum(law: Distribution, *, jumps: FloatArray) -> Sum:
    """Weights and points of a sum that stands for an expectation over the law of functions that jump there."""
    points, masses = law.atoms
    if law.density_share <= _NONE:
        return masses / masses.sum(), points
    low, high = law.support
    jumps = jumps[(jumps > low) & (jumps < high)]
    if jumps.size > _JUMPS:
        jumps = jumps[np.linspace(0, jumps.size - 1, _JUMPS).astype(np.int64)]
    steps = np.asarray(law.cdf(np.concatenate([points, jumps])))
    levels = np.unique(np.clip(np.concatenate([_LEVELS, steps, steps[: points.size] - masses]), 0.0, 1.0))
    nodes, weights = np.polynomial.legendre.leggauss(_ORDER)
    half = np.diff(levels)[:, None] / 2.0
    return (half * weights).ravel(), np.asarray(law.quantile((levels[:-1, None] + half * (1.0 + nodes)).ravel()))
