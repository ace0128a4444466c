"""The M/G/1 queue, first come first served: Pollaczek and Khinchine from the moments of the service time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qtheory.models.errors import InvalidModel
from qtheory.queues._values import (
    FloatArray,
    Values,
    nonnegative,
    positive,
    require_stable,
    shaped,
    spare_servers,
)

# Arguments throughout: arrival_rate lambda >= 0, mean_service E[S] > 0, service_second_moment E[S^2] and
# service_third_moment E[S^3]; numbers or arrays that broadcast. A moment may be infinite: with one server the
# measures that need it are then infinite indeed. Every function raises `Unstable`, naming the first index, if
# lambda E[S] >= 1, and `InvalidModel` for an argument out of range or for moments that no law on [0, inf) has.

_ROUNDING = 1e-12  # moments of a constant, computed in floating point, may miss E[S^2] >= E[S]^2 by this share


def mean_wait(
    *, arrival_rate: Values | float, mean_service: Values | float, service_second_moment: Values | float
) -> Values:
    """E[W] = lambda E[S^2] / (2 (1 - rho)).

    Khinchine (1932); Kleinrock (1975), Queueing Systems I, eq. 5.69.

    >>> mean_wait(arrival_rate=0.5, mean_service=1.0, service_second_moment=1.0)  # M/D/1
    0.5
    """
    return shaped(_Workload(arrival_rate, mean_service, service_second_moment).mean_wait, arrival_rate)


def mean_response(
    *, arrival_rate: Values | float, mean_service: Values | float, service_second_moment: Values | float
) -> Values:
    """E[W] + E[S]."""
    queue = _Workload(arrival_rate, mean_service, service_second_moment)
    return shaped(queue.mean_wait + queue.mean_service, arrival_rate)


def mean_queue(
    *, arrival_rate: Values | float, mean_service: Values | float, service_second_moment: Values | float
) -> Values:
    """Mean number waiting, lambda E[W]."""
    queue = _Workload(arrival_rate, mean_service, service_second_moment)
    return shaped(_times(queue.arrival_rate, queue.mean_wait), arrival_rate)


def mean_number(
    *, arrival_rate: Values | float, mean_service: Values | float, service_second_moment: Values | float
) -> Values:
    """Mean number present, lambda E[W] + rho."""
    queue = _Workload(arrival_rate, mean_service, service_second_moment)
    waiting = _times(queue.arrival_rate, queue.mean_wait)
    return shaped(waiting + queue.arrival_rate * queue.mean_service, arrival_rate)


def wait_second_moment(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    service_second_moment: Values | float,
    service_third_moment: Values | float,
) -> Values:
    """E[W^2] = 2 E[W]^2 + lambda E[S^3] / (3 (1 - rho)).

    Takacs (1962), A single-server queue with Poisson input; Kleinrock (1975), Queueing Systems I, sec. 5.7.

    >>> wait_second_moment(  # M/M/1: 2 rho / (mu - lambda)^2
    ...     arrival_rate=0.5, mean_service=1.0, service_second_moment=2.0, service_third_moment=6.0
    ... )
    4.0
    """
    queue = _Workload(arrival_rate, mean_service, service_second_moment)
    (third,) = positive(infinite=True, service_third_moment=service_third_moment)
    least = queue.second_moment * (queue.second_moment / queue.mean_service)
    _require_moment(third >= least * (1.0 - _ROUNDING), "service_third_moment", "E[S^2]^2 / E[S]", third)
    square = 2.0 * queue.mean_wait**2 + _times(queue.arrivals_per_idle, third / 3.0)
    return shaped(square, arrival_rate)


class _Workload:
    """The checked arguments and what all formulas share."""

    def __init__(self, arrival_rate: Any, mean_service: Any, service_second_moment: Any) -> None:
        (rate,) = nonnegative(arrival_rate=arrival_rate)
        (mean,) = positive(mean_service=mean_service)
        (second,) = positive(infinite=True, service_second_moment=service_second_moment)
        self.arrival_rate, self.mean_service, self.second_moment = np.broadcast_arrays(rate, mean, second)
        least = self.mean_service**2 * (1.0 - _ROUNDING)
        _require_moment(self.second_moment >= least, "service_second_moment", "E[S]^2", self.second_moment)
        one = np.ones_like(self.mean_service)
        idle = spare_servers(arrival_rate=self.arrival_rate, mean_service=self.mean_service, servers=one)
        require_stable(spare=idle, servers=one)
        self.arrivals_per_idle: FloatArray = self.arrival_rate / idle
        self.mean_wait = _times(self.arrivals_per_idle, 0.5 * self.second_moment)


def _times(rate: FloatArray, moment: FloatArray) -> FloatArray:
    """The product, 0 at rate 0 even where the moment is infinite: a lone arrival does not wait."""
    with np.errstate(invalid="ignore"):
        return np.where(rate > 0.0, rate * moment, 0.0)


def _require_moment(fits: NDArray[np.bool_], field: str, least: str, moment: FloatArray) -> None:
    if not np.all(fits):
        worst = float(np.broadcast_to(moment, fits.shape)[~fits].item(0))
        raise InvalidModel(field=field, rule=f"must be at least {least}, as it is for every law", value=worst)
