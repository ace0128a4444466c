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
_FEW = 24
_ENDS = np.logspace(-12.0, -1.0, 12)


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """Levels between which `order` nodes are taken, and how many atoms of S0 have a level of their own."""

    levels: FloatArray
    order: int
    jumps: int


_FINE = _Rule(
    levels=np.concatenate([[0.0], _ENDS, np.linspace(0.15, 0.85, 15), 1.0 - _ENDS[::-1], [1.0]]), order=8, jumps=500
)
_COARSE = _Rule(levels=np.array([0.0, 0.03, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 1.0]), order=2, jumps=5)


@dataclass(frozen=True, eq=False, kw_only=True)
class Limits:
    """Limits by their probabilities.

    Attributes
    ----------
    weights : probabilities.
    thresholds : a service beyond it is killed.
    holds : how long a killed job holds its server.
    few : the same by some two dozen limits, of which laws can be made.
    """

    weights: FloatArray
    thresholds: FloatArray
    holds: FloatArray
    few: tuple[tuple[float, float, float], ...]

    @property
    def prompt(self) -> bool:
        """Whether a job that reaches its threshold leaves at once."""
        return bool(np.all(self.holds == self.thresholds))

    def mean(self, values: FloatArray) -> float:
        """The mean of values given for each limit."""
        return float(values[0]) if values.size == 1 else float(self.weights @ values)


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
        weights, limits = few = np.ones(1), np.array([model.time_limit])
    else:
        law, jumps = distribution(model.limits), service.atoms[0] - working
        weights, limits = _sum(law, jumps=jumps, rule=_FINE)
        few = _joined(weights, limits) if law.density_share <= _NONE else _sum(law, jumps=jumps, rule=_COARSE)
    return Limits(
        weights=weights,
        thresholds=limits + working,
        holds=limits + model.grace,
        few=tuple(zip(few[0].tolist(), (few[1] + working).tolist(), (few[1] + model.grace).tolist(), strict=True)),
    )


def _sum(law: Distribution, *, jumps: FloatArray, rule: _Rule) -> Sum:
    """Weights and points of a sum that stands for an expectation over the law of functions that jump there."""
    points, masses = law.atoms
    if law.density_share <= _NONE:
        return masses / masses.sum(), points
    low, high = law.support
    jumps = jumps[(jumps > low) & (jumps < high)]
    if jumps.size > rule.jumps:
        jumps = jumps[np.linspace(0, jumps.size - 1, rule.jumps).astype(np.int64)]
    steps = np.asarray(law.cdf(np.concatenate([points, jumps])))
    levels = np.unique(np.clip(np.concatenate([rule.levels, steps, steps[: points.size] - masses]), 0.0, 1.0))
    nodes, weights = np.polynomial.legendre.leggauss(rule.order)
    half = np.diff(levels)[:, None] / 2.0
    return (half * weights).ravel(), np.asarray(law.quantile((levels[:-1, None] + half * (1.0 + nodes)).ravel()))


def _joined(weights: FloatArray, limits: FloatArray) -> Sum:
    """Few limits in the place of many, neighbours joined at their mean."""
    if limits.size <= _FEW:
        return weights, limits
    bins = np.minimum(((np.cumsum(weights) - weights / 2.0) * _FEW).astype(np.int64), _FEW - 1)
    sums: FloatArray = np.bincount(bins, weights=weights, minlength=_FEW).astype(np.float64)
    used = sums > 0.0
    means = np.bincount(bins, weights=weights * limits, minlength=_FEW)[used] / sums[used]
    return sums[used], np.asarray(means, dtype=np.float64)
