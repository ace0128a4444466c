"""Mean wait of M/G/c and GI/G/c, first come first served, approximated from a few numbers of the laws.

`allen_cunneen` and `kimura` use two moments, `tijms` and `boxma_cohen_huffels` also the mean of the least of c
residual service times. All are exact for M/M/c and for M/G/1; `kimura` and `boxma_cohen_huffels` for M/D/c; `tijms` and
`boxma_cohen_huffels` as the load goes to 0; all as it goes to 1. Two moments do not determine the wait: at high scv
and many servers laws that share them differ without bound (Gupta, Harchol-Balter, Dai and Zwart 2010, On the
inapproximability of M/G/K).

Errors in per cent, largest / median, against exact M/PH/c (Erlang 2 and 8, hyperexponential with balanced means;
c = 1 to 30, load 0.5 to 0.95 per server):

| | scv to 4 | scv 10 |
|---|---|---|
| `allen_cunneen` | 110 / 2.0 | 307 / 12 |
| `kimura` | 5.3 / 0.3 | 27 / 9.2 |
| `tijms` | 48 / 0.9 | 142 / 2.4 |
| `boxma_cohen_huffels` | 4.0 / 0.3 | 22 / 5.4 |
| `whitt.mean_wait` | 48 / 0.8 | 144 / 5.7 |
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qtheory.models.errors import InvalidModel
from qtheory.queues import deterministic, erlang, renewal
from qtheory.queues._values import (
    FloatArray,
    Values,
    nonnegative,
    positive,
    require_stable,
    shaped,
    spare_servers,
    whole_servers,
)

# Arguments throughout: arrival_rate lambda >= 0, mean_service m > 0, servers c whole, service_scv cs^2 and
# arrival_scv ca^2 (variance / mean^2) >= 0, least_residual the mean of the least of c residual service times
# (`residual.least_residual`); numbers or arrays that broadcast. Arrivals other than Poisson enter by
# `renewal.wait_factor`, Allen-Cunneen's excepted. Every function raises `Unstable`, naming the first index, if
# lambda m >= c, and `InvalidModel` for an argument out of range.
#
# An infinite service_scv gives an infinite wait where that is the truth, with less than one server spare. With
# more, the wait may be finite (`finiteness.wait_is_finite`) and hangs on the tail: formulas of two moments refuse,
# `boxma_cohen_huffels` returns its limit.


def allen_cunneen(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    service_scv: Values | float,
    arrival_scv: Values | float = 1.0,
) -> Values:
    """E[W] = (ca^2 + cs^2) / 2 times the M/M/c wait.

    Lee and Longton (1959) for Poisson arrivals; Allen (1990), Probability, Statistics, and Queueing Theory, sec. 5.3.

    >>> round(allen_cunneen(arrival_rate=1.6, mean_service=1.0, servers=2, service_scv=4.0), 6)
    4.444444
    """
    queue = _Queue(arrival_rate, mean_service, servers, service_scv, arrival_scv)
    queue.refuse_infinite_scv()
    return shaped(queue.settled(0.5 * (queue.arrival_scv + queue.service_scv) * queue.exponential_wait), arrival_rate)


def kimura(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    service_scv: Values | float,
    arrival_scv: Values | float = 1.0,
    deterministic_wait: Values | float | None = None,
) -> Values:
    """E[W] = (1 + cs^2) / (2 cs^2 / W_M + (1 - cs^2) / W_D), between the waits of M/M/c and M/D/c.

    `deterministic_wait` is W_D, by default the exact one; `deterministic.kimura_wait` is the closed form.

    Kimura (1986), A two-moment approximation for the mean waiting time in the GI/G/s queue (its Poisson case).

    >>> wait = kimura(arrival_rate=4.5, mean_service=1.0, servers=5, service_scv=4.0)
    >>> round(4.5 * wait, 1)  # mean queue; 16.26 in Kimura (1994), table 1, with a closed form for W_D
    16.3
    """
    queue = _Queue(arrival_rate, mean_service, servers, service_scv, arrival_scv)
    queue.refuse_infinite_scv()
    constant = queue.deterministic_wait(deterministic_wait)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = queue.exponential_wait / constant
        slowness = 2.0 * queue.service_scv + (1.0 - queue.service_scv) * ratio
        wait = np.where(constant > 0.0, (1.0 + queue.service_scv) * queue.exponential_wait / slowness, 0.0)
    return shaped(queue.settled(wait * queue.renewal_factor()), arrival_rate)


def tijms(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    service_scv: Values | float,
    least_residual: Values | float,
    arrival_scv: Values | float = 1.0,
) -> Values:
    """E[W] = ((1 - rho) c g / m + rho (1 + cs^2) / 2) W_M, g = least_residual.

    Who waits sees the least of c residual service times first, then an M/G/1 queue c times as fast.

    Tijms, van Hoorn and Federgruen (1981), Approximations for the steady-state probabilities in the M/G/c queue.

    >>> round(tijms(  # M/M/2: g = m / c
    ...     arrival_rate=1.0, mean_service=1.0, servers=2, service_scv=1.0, least_residual=0.5), 12)
    0.333333333333
    """
    queue = _Queue(arrival_rate, mean_service, servers, service_scv, arrival_scv)
    queue.refuse_infinite_scv()
    (residual,) = positive(infinite=True, least_residual=least_residual)
    light = queue.spare * residual / queue.mean_service
    heavy = 0.5 * (queue.load / queue.servers) * (1.0 + queue.service_scv)
    return shaped(queue.settled((light + heavy) * queue.exponential_wait * queue.renewal_factor()), arrival_rate)


def boxma_cohen_huffels(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    service_scv: Values | float,
    least_residual: Values | float,
    arrival_scv: Values | float = 1.0,
    deterministic_wait: Values | float | None = None,
) -> Values:
    """E[W] = (1 + cs^2) W_D W_M / (2 alpha W_D + (1 - alpha) W_M), alpha from the light-traffic limit.

    alpha = (E[S^2] / (g m) - c - 1) / (c - 1), g = least_residual (of no account for c = 1);
    `deterministic_wait` as for `kimura`.

    Boxma, Cohen and Huffels (1979), Approximations of the mean waiting time in an M/G/s queueing system.

    >>> round(boxma_cohen_huffels(  # M/M/2: g = m / c
    ...     arrival_rate=1.0, mean_service=1.0, servers=2, service_scv=1.0, least_residual=0.5), 12)
    0.333333333333
    """
    queue = _Queue(arrival_rate, mean_service, servers, service_scv, arrival_scv)
    (residual,) = positive(infinite=True, least_residual=least_residual)
    constant = queue.deterministic_wait(deterministic_wait)
    count = queue.servers
    # Divided through by 1 + cs^2, which may be infinite.
    share = 1.0 / (1.0 + queue.service_scv)
    pull = np.where(
        count > 1.0,
        (queue.mean_service / residual - (count + 1.0) * share) / np.maximum(count - 1.0, 1.0),
        0.0,
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = queue.exponential_wait / constant
        wait = queue.exponential_wait / (share * ratio + pull * (2.0 - ratio))
    wait = np.where(constant > 0.0, wait, 0.0)
    return shaped(queue.settled(wait * queue.renewal_factor()), arrival_rate)


class _Queue:
    """The checked arguments, of one shape, and what the formulas share."""

    def __init__(self, arrival_rate: Any, mean_service: Any, servers: Any, service_scv: Any, arrival_scv: Any) -> None:
        rate, arrivals = nonnegative(arrival_rate=arrival_rate, arrival_scv=arrival_scv)
        (mean,) = positive(mean_service=mean_service)
        (services,) = nonnegative(infinite=True, service_scv=service_scv)
        self.arrival_rate, self.mean_service, self.servers, self.service_scv, self.arrival_scv = np.broadcast_arrays(
            rate, mean, whole_servers(servers), services, arrivals
        )
        self.spare = spare_servers(arrival_rate=self.arrival_rate, mean_service=self.mean_service, servers=self.servers)
        require_stable(spare=self.spare, servers=self.servers)
        self.load: FloatArray = np.asarray(self.arrival_rate * self.mean_service)
        waits = erlang.delay(load=self.load, servers=self.servers, spare=self.spare)
        self.exponential_wait: FloatArray = waits * self.mean_service / self.spare
        self.infinite = np.isinf(self.service_scv) & (self.spare < 1.0) & (self.load > 0.0)

    def refuse_infinite_scv(self) -> None:
        undecided = np.isinf(self.service_scv) & ~self.infinite & (self.load > 0.0)
        if np.any(undecided):
            rule = "must be finite where one server or more is spare: two moments do not tell how long the wait is"
            raise InvalidModel(field="service_scv", rule=rule, value=np.inf)

    def deterministic_wait(self, given: Any) -> FloatArray:
        if given is None:
            return np.asarray(
                deterministic.mean_wait(
                    arrival_rate=self.arrival_rate, service_time=self.mean_service, servers=self.servers
                )
            )
        (wait,) = nonnegative(deterministic_wait=given)
        return wait

    def renewal_factor(self) -> FloatArray:
        if np.all(self.arrival_scv == 1.0):
            return np.ones_like(self.load)
        return np.asarray(
            renewal.wait_factor(
                offered_load=self.load,
                servers=self.servers,
                arrival_scv=self.arrival_scv,
                service_scv=np.minimum(self.service_scv, 1e100),
            )
        )

    def settled(self, wait: FloatArray) -> FloatArray:
        """`wait` where it is finite, infinity where the truth is, 0 where nothing arrives."""
        return np.where(self.load > 0.0, np.where(self.infinite, np.inf, wait), 0.0)
