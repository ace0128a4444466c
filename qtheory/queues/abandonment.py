"""Erlang A: the M/M/c+M queue whose customers leave when their exponential patience runs out."""

from __future__ import annotations

import numpy as np

from qtheory._lazy import special
from qtheory.queues import _poisson, erlang
from qtheory.queues._values import FloatArray, Values, nonnegative, positive, shaped

# Palm's function A(x, y) = sum_(j>=0) y^j / ((x + 1) ... (x + j)) is 1 + P(N > x) / P(N = x) for a Poisson N of
# mean y; x is the mean patience counted in departures from all busy servers, y the same counted in arrivals.


def wait_probability(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    mean_patience: Values | float,
) -> Values:
    """Probability that an arrival finds all c servers busy: A B / (1 + (A - 1) B).

    Parameters
    ----------
    arrival_rate : lambda, 0 or above.
    mean_service, mean_patience : 1/mu and 1/theta, above 0.
    servers : c, above 0, real; arrays broadcast.

    The queue is stable at every load. Relative error below 1e-12 (1e-11 where the loss probability B is under
    1e-100).

    Raises `InvalidModel` for an argument out of range.

    Palm (1957); Mandelbaum and Zeltyn (2007), Service engineering in action: the Palm/Erlang-A queue, eq. 4-7.

    >>> round(wait_probability(arrival_rate=2.0, mean_service=1.0, servers=2, mean_patience=1.0), 12)
    0.59399415029
    """
    waits, _, _ = _solve(arrival_rate, mean_service, servers, mean_patience)
    return shaped(waits, arrival_rate)


def abandonment_probability(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    mean_patience: Values | float,
) -> Values:
    """Probability that an arrival leaves before its service starts.

    P(abandon | wait) = 1 - (x / y) (1 - 1 / A(x, y)), x = c mu / theta, y = lambda / theta, evaluated without
    cancellation from impatient (theta large) to almost infinitely patient customers. Arguments, accuracy and
    errors as for `wait_probability`.

    Mandelbaum and Zeltyn (2007), eq. 8-9.

    >>> round(abandonment_probability(arrival_rate=2.0, mean_service=1.0, servers=2, mean_patience=1.0), 12)
    0.270670566473
    """
    waits, leaves, _ = _solve(arrival_rate, mean_service, servers, mean_patience)
    return shaped(waits * leaves, arrival_rate)


def mean_wait(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    mean_patience: Values | float,
) -> Values:
    """Mean time in queue over all arrivals, served or not: P(abandon) / theta. See `wait_probability`."""
    waits, leaves, patience = _solve(arrival_rate, mean_service, servers, mean_patience)
    return shaped(waits * leaves * patience, arrival_rate)


def mean_queue(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    mean_patience: Values | float,
) -> Values:
    """Mean number waiting, lambda E[W]. See `wait_probability`."""
    waits, leaves, patience = _solve(arrival_rate, mean_service, servers, mean_patience)
    return shaped(np.asarray(arrival_rate, dtype=np.float64) * (waits * leaves * patience), arrival_rate)


def _solve(
    arrival_rate: Values | float, mean_service: Values | float, servers: Values | float, mean_patience: Values | float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P(wait), P(abandon | wait) and the mean patience, of one shape."""
    (rate,) = nonnegative(arrival_rate=arrival_rate)
    service, count, patience = positive(mean_service=mean_service, servers=servers, mean_patience=mean_patience)
    rate, service, count, patience = np.broadcast_arrays(rate, service, count, patience)
    load = np.asarray(rate * service)
    lost = erlang.loss(load=load, servers=count, spare=np.asarray(count - load))
    order, mean = np.atleast_1d(count * (patience / service)), np.atleast_1d(rate * patience)
    inverse, leaves = np.empty_like(order), np.empty_like(order)
    deep = _poisson.is_deep(order=order, gap=order - mean)
    inverse[deep], leaves[deep] = _patient(order=order[deep], mean=mean[deep])
    inverse[~deep], leaves[~deep] = _crowded(order=order[~deep], mean=mean[~deep])
    inverse, leaves = inverse.reshape(lost.shape), leaves.reshape(lost.shape)
    waits = np.where(lost > 0.0, lost / np.where(lost > 0.0, inverse * (1.0 - lost) + lost, 1.0), 0.0)
    return waits, leaves, patience


def _patient(*, order: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """1/A and P(abandon | wait) where departures far outpace arrivals, by the continued fraction of the tail."""
    rest = _poisson.tail_rest(mean=mean, gap=order - mean)
    whole = order + 1.0 + rest
    return (whole - mean) / whole, (1.0 + rest) / whole


def _crowded(*, order: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same where they do not: both terms of the difference are then of the size of the result."""
    gap = order - mean
    at = _poisson.pmf(order=order, mean=mean, gap=gap)
    inverse = at / (at + special.gammainc(order + 1.0, mean))
    return inverse, (order * inverse - gap) / mean
