"""Matrix-exponential laws fitted to the residual life of a time whose moments say too little.

A lognormal or Pareto law of large variance has third and higher moments made by jobs that a queue hardly ever
sees, or none at all. What the wait of a many-server queue depends on is the law of the residual life over the
times at which the queue moves, beside the mean and the second moment.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import least_squares

from qtheory.laws import Distribution
from qtheory.models import InvalidModel, NotConverged
from qtheory.queues.linear import Array
from qtheory.queues.phase_algebra import convolution
from qtheory.queues.phase_type import PhaseType
from qtheory.systems.dispatcher.pieces import constant, moment_fit, residual_gap

#: Times, in means, over which the residual life is followed; and those where the second moment is infinite.
_TIMES = np.logspace(-2.0, 2.0, 64)
_FAR_TIMES = np.logspace(-2.0, 3.5, 88)
#: Below this share of the mean the smallest value is not told from 0.
_LEAST = 0.1
#: A fit by five moments follows the residual life up to this; one by three only if it is as near as the second figure.
_FOLLOWED, _FOLLOWED_BY_TWO = 0.05, 0.012
#: Logarithms of the slowest rate, and of the least and the largest ratio of two that follow each other.
_SLOWEST, _APART, _WIDEST = math.log(2e-4), 0.15, 6.0
_LARGEST_WEIGHT = 1e3
_CONSTANT = 1e-6


@lru_cache(maxsize=256)
def service_fit(law: Distribution) -> PhaseType:
    """Three phases by five moments where their residual life is near that of `law`, else a fit to the residual life.

    >>> from qtheory.laws import distribution
    >>> from qtheory.models import LogNormal, Pareto
    >>> heavy = service_fit(distribution(LogNormal(mean=1.0, scv=10.0)))
    >>> heavy.order, round(heavy.moment(2), 6)
    (3, 11.0)
    >>> service_fit(distribution(Pareto(shape=1.8, minimum=1.0))).order  # no second moment
    5
    """
    simple, gap = None, math.inf
    if math.isfinite(law.scv):
        simple = moment_fit(law, order=3)
        gap = residual_gap(law, simple)
        if gap <= (_FOLLOWED if simple.order == 3 else _FOLLOWED_BY_TWO):
            return simple
    for phases in (3, 4):
        try:
            fit = residual_fit(law, phases=phases)
        except NotConverged:
            continue
        if residual_gap(law, fit) < gap:
            return fit
    if simple is None:
        raise NotConverged(
            where="fit to the residual life",
            residual=gap,
            iterations=2,
            advice="the service law has no second moment and no fit: use mgc",
        )
    return simple


@lru_cache(maxsize=256)
def plain_fit(law: Distribution) -> PhaseType:
    """As `service_fit`, but two phases instead of three or four where the residual life is followed."""
    fit = service_fit(law)
    if fit.order <= 3:
        return fit
    try:
        return residual_fit(law, phases=2)
    except NotConverged:
        return fit


def residual_fit(law: Distribution, *, phases: int) -> PhaseType:
    """The smallest value of `law`, then a law of `phases` real poles whose residual life follows that of the rest.

    Mean and, where finite, second moment are exact; the poles minimise the squared error of the residual life's
    distribution function on a logarithmic grid. Weights may be negative. Raises `NotConverged` if no sound minimum is
    found, `InvalidModel` for a constant.
    """
    if law.scv < _CONSTANT:
        raise InvalidModel(field="law", rule="must vary to have its residual life fitted", value=law.name)
    low = law.support[0] if law.support[0] > _LEAST * law.mean else 0.0
    mean = law.mean - low
    second = (law.variance + mean**2) / mean**2 if math.isfinite(law.scv) else math.inf
    times = _TIMES if math.isfinite(second) else _FAR_TIMES
    wanted = np.asarray(law.excess(low + mean * times)) / mean
    if phases == 2 and math.isfinite(second):
        return _after(low, _two_phases(second, times, wanted), mean)
    slowest = 0.1 if second < 10.0 else 0.01
    gap = math.log(4.0 / slowest) / (phases - 1)

    def misses(steps: Array) -> Array:
        rates = np.exp(np.cumsum(steps))
        return np.asarray(np.exp(-np.outer(times, rates)) @ _weights(rates, times, wanted, second) - wanted)

    # The slowest rate and the steps from each to the next: poles kept apart have moderate weights.
    found = least_squares(
        misses,
        np.array([math.log(slowest), *[gap] * (phases - 1)]),
        bounds=([_SLOWEST, *[_APART] * (phases - 1)], [math.log(10.0), *[_WIDEST] * (phases - 1)]),
        xtol=1e-6,
        ftol=1e-8,
        max_nfev=60,
    )
    rates = np.exp(np.cumsum(found.x))
    weights = _weights(rates, times, wanted, second)
    if not np.isfinite(weights).all() or np.abs(weights * rates).max() > _LARGEST_WEIGHT:
        raise NotConverged(
            where="fit to the residual life",
            residual=float(found.cost),
            iterations=int(found.nfev),
            advice="use another number of phases",
        )
    return _after(low, (rates, weights), mean)


def _after(low: float, law: tuple[Array, Array], mean: float) -> PhaseType:
    """`low`, then the law whose residual life has these rates (times its mean) and weights."""
    rates, weights = law
    rest = PhaseType(alpha=weights * rates / float(weights @ rates), generator=-np.diag(rates / mean))
    return rest if low == 0.0 else convolution(constant(low, order=2), rest)


def _two_phases(second: float, times: Array, wanted: Array) -> tuple[Array, Array]:
    """Two rates with mean 1 and this second moment, one free: the nearest on a grid.

    r1 + r2 - 1 = (second / 2) r1 r2 makes both moments right.
    """
    half = second / 2.0
    first = max(1.0, 1.0 / half) + np.geomspace(1e-3, 1e2, 250)
    other = (first - 1.0) / (half * first - 1.0)
    weight = (1.0 - other) / (first - other)
    curves = weight * np.exp(-np.outer(times, first)) + (1.0 - weight) * np.exp(-np.outer(times, other))
    best = int(((curves - wanted[:, None]) ** 2).sum(axis=0).argmin())
    return np.array([first[best], other[best]]), np.array([weight[best], 1.0 - weight[best]])


def _weights(rates: Array, times: Array, wanted: Array, second: float) -> Array:
    """Weights of the exponentials nearest to the residual life, given sum 1, the mean 1 and the second moment."""
    constraints = [np.ones(len(rates)), rates]
    values = [1.0, 1.0]
    if math.isfinite(second):
        constraints.append(1.0 / rates)
        values.append(second / 2.0)
    basis = np.exp(-np.outer(times, rates))
    left = np.array(constraints)
    n, k = len(rates), len(constraints)
    system = np.zeros((n + k, n + k))
    system[:n, :n] = basis.T @ basis + 1e-10 * np.eye(n)
    system[:n, n:], system[n:, :n] = left.T, left
    right = np.concatenate([basis.T @ wanted, values])
    return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0][:n])
