"""The M/M/c queue: Poisson arrivals, exponential service, c servers, first come first served."""

from __future__ import annotations

import numpy as np

from qtheory._lazy import special
from qtheory.queues import erlang
from qtheory.queues._inversion import survival_quantile
from qtheory.queues._values import (
    FloatArray,
    Values,
    levels,
    nonnegative,
    positive,
    require_stable,
    shaped,
    spare_servers,
)

# Arguments throughout: arrival_rate lambda >= 0, mean_service m = 1/mu > 0, servers c > 0 (real), at >= 0 a time,
# level in [0, 1); numbers or arrays that broadcast. Every function raises `Unstable`, naming the first index, if
# lambda m >= c, and `InvalidModel` for an argument out of range. c - lambda m is formed without rounding, so the
# relative error stays below 1e-12 however close to saturation lambda, m and c put the queue.


def wait_probability(*, arrival_rate: Values | float, mean_service: Values | float, servers: Values | float) -> Values:
    """P(W > 0), Erlang's delay formula C(c, lambda m).

    >>> round(wait_probability(arrival_rate=6.0, mean_service=1 / 3, servers=3), 12) == round(4 / 9, 12)
    True
    """
    _, waits, _ = _solve(arrival_rate, mean_service, servers)
    return shaped(waits, arrival_rate)


def mean_wait(*, arrival_rate: Values | float, mean_service: Values | float, servers: Values | float) -> Values:
    """E[W] = C m / (c - lambda m).

    >>> round(mean_wait(arrival_rate=6.0, mean_service=1 / 3, servers=3), 12) == round(4 / 27, 12)
    True
    """
    _, waits, decay = _solve(arrival_rate, mean_service, servers)
    return shaped(waits / decay, arrival_rate)


def mean_response(*, arrival_rate: Values | float, mean_service: Values | float, servers: Values | float) -> Values:
    """E[W] + m."""
    _, waits, decay = _solve(arrival_rate, mean_service, servers)
    return shaped(waits / decay + np.asarray(mean_service, dtype=np.float64), arrival_rate)


def mean_queue(*, arrival_rate: Values | float, mean_service: Values | float, servers: Values | float) -> Values:
    """Mean number waiting, lambda E[W]."""
    rate, waits, decay = _solve(arrival_rate, mean_service, servers)
    return shaped(rate * waits / decay, arrival_rate)


def mean_number(*, arrival_rate: Values | float, mean_service: Values | float, servers: Values | float) -> Values:
    """Mean number present, lambda E[W] + lambda m."""
    rate, waits, decay = _solve(arrival_rate, mean_service, servers)
    return shaped(rate * waits / decay + rate * np.asarray(mean_service, dtype=np.float64), arrival_rate)


def wait_survival(
    *,
    at: Values | float,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
) -> Values:
    """P(W > t) = C exp(-(c mu - lambda) t)."""
    (time,) = nonnegative(at=at)
    _, waits, decay = _solve(arrival_rate, mean_service, servers)
    return shaped(waits * np.exp(-decay * time), arrival_rate)


def wait_quantile(
    *,
    level: Values | float,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
) -> Values:
    """Smallest t with P(W <= t) >= level: log(C / (1 - level)) / (c mu - lambda), 0 if level <= 1 - C."""
    share = levels(level)
    _, waits, decay = _solve(arrival_rate, mean_service, servers)
    with np.errstate(divide="ignore"):
        return shaped(np.maximum(np.log(waits) - np.log1p(-share), 0.0) / decay, arrival_rate)


def response_survival(
    *,
    at: Values | float,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
) -> Values:
    """P(R > t), R = W + S.

    (1 - C) e^(-mu t) + C (e^(-d t) + d integral_0^t e^(-d s) e^(-mu (t - s)) ds) with d = c mu - lambda. The
    integral is t e^(-min(mu, d) t) f(|mu - d| t), f(z) = (1 - e^-z) / z, which passes through d = mu (where the
    textbook's two exponentials divide zero by zero) without noticing.
    """
    (time,) = nonnegative(at=at)
    _, waits, decay = _solve(arrival_rate, mean_service, servers)
    service = 1.0 / np.asarray(mean_service, dtype=np.float64)
    return shaped(_response_survival(time, waits, decay, service), arrival_rate)


def response_quantile(
    *,
    level: Values | float,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
) -> Values:
    """t with P(R <= t) = level, by bracketed root finding on the logarithm of the survival function.

    Raises `NotConverged` if the root finder stops early.

    >>> round(response_quantile(level=0.5, arrival_rate=0.5, mean_service=1.0, servers=1), 12)  # 2 log 2
    1.38629436112
    """
    share = levels(level)
    _, waits, decay = _solve(arrival_rate, mean_service, servers)
    service = 1.0 / np.asarray(mean_service, dtype=np.float64)
    start = 1.0 / np.minimum(service, decay)
    quantile = survival_quantile(
        _response_survival, level=share, start=start, parameters=(waits, decay, service), where="response quantile"
    )
    return shaped(quantile, arrival_rate)


def _solve(
    arrival_rate: Values | float, mean_service: Values | float, servers: Values | float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """lambda, C, and c mu - lambda, the rate at which a queue that has formed empties; of one shape."""
    (rate,) = nonnegative(arrival_rate=arrival_rate)
    mean, count = positive(mean_service=mean_service, servers=servers)
    rate, mean, count = np.broadcast_arrays(rate, mean, count)
    spare = spare_servers(arrival_rate=rate, mean_service=mean, servers=count)
    require_stable(spare=spare, servers=count)
    waits = erlang.delay(load=np.asarray(rate * mean), servers=count, spare=spare)
    return rate, waits, spare / mean


def _response_survival(time: FloatArray, waits: FloatArray, decay: FloatArray, service: FloatArray) -> FloatArray:
    with np.errstate(under="ignore"):
        slower = np.minimum(service, decay)
        both = time * np.exp(-slower * time) * special.exprel(-np.abs(service - decay) * time)
        return (1.0 - waits) * np.exp(-service * time) + waits * (np.exp(-decay * time) + decay * both)
