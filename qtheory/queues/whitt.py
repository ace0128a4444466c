"""Whitt's approximations of the GI/G/m queue: mean wait, probability of a wait, spread of the waits that occur.

Whitt (1993), Approximations for the GI/G/m queue, Production and Operations Management 2, 114-161; equations by
number. They refine the multi-server stations of the Queueing Network Analyzer (Whitt 1983).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qtheory._lazy import special
from qtheory.queues import erlang
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

# Arguments throughout: arrival_rate lambda >= 0, mean_service m > 0, servers c whole, arrival_scv and service_scv
# >= 0 and finite; numbers or arrays that broadcast. Every function raises `Unstable`, naming the first index, if
# lambda m >= c, and `InvalidModel` for an argument out of range.


def mean_wait(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    service_scv: Values | float,
    arrival_scv: Values | float = 1.0,
) -> Values:
    """E[W] = phi(rho, ca^2, cs^2, c) (ca^2 + cs^2) / 2 times the M/M/c wait (eq. 2.24, 2.25).

    Exact for M/M/c; Cosmetatos for M/D/c; as published, so that M/G/1 (c = 1) is met to a few per cent only and D/M/c
    falls between eq. 2.20 and M/M/c.

    >>> round(mean_wait(arrival_rate=1.8, mean_service=1.0, servers=2, service_scv=0.0), 4)  # M/D/2
    2.1445
    """
    queue = _Queue(arrival_rate, mean_service, servers, service_scv, arrival_scv)
    arrivals, services = queue.arrival_scv, queue.service_scv
    spread = 0.5 * (arrivals + services)
    regular = np.where(spread < 1.0, queue.phi4 ** (2.0 * (1.0 - np.minimum(spread, 1.0))), 1.0)  # psi, eq. 2.22
    with np.errstate(divide="ignore", invalid="ignore"):
        burst = 4.0 * (arrivals - services) / (4.0 * arrivals - 3.0 * services)
        calm = (services - arrivals) / (2.0 * (arrivals + services))
    phi = np.where(
        arrivals > services,
        burst * queue.phi1 + (1.0 - burst) * regular,
        calm * queue.phi3 + (1.0 - calm) * regular,
    )
    wait = np.where(spread > 0.0, phi * spread * queue.exponential_wait, 0.0)
    return shaped(np.where(queue.load > 0.0, wait, 0.0), arrival_rate)


def wait_probability(
    *,
    arrival_rate: Values | float,
    mean_service: Values | float,
    servers: Values | float,
    service_scv: Values | float,
    arrival_scv: Values | float = 1.0,
) -> Values:
    """P(W > 0) (eq. 3.5, 3.8, 3.10, 3.11); Erlang C for Poisson arrivals.

    >>> round(wait_probability(arrival_rate=3.6, mean_service=1.0, servers=4, service_scv=2.25), 2)
    0.79
    """
    queue = _Queue(arrival_rate, mean_service, servers, service_scv, arrival_scv)
    arrivals, services, count = queue.arrival_scv, queue.service_scv, queue.servers
    rho, idle = queue.load / count, queue.idle_deviations
    smooth = 1.0 - arrivals
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        pi4 = queue.probability_from_normal(idle * (1.0 + services) / (arrivals + services))
        pi5 = queue.probability_from_normal(idle * 2.0 / (1.0 + arrivals))
        peaks = (arrivals + services) / (1.0 + services)
        gamma = np.minimum((queue.spare - 0.5) / np.sqrt(queue.load * peaks), 1e9)
        pi6 = special.ndtr(-gamma)
    pi1 = rho**2 * pi4 + (1.0 - rho**2) * pi5
    # Weight of pi2 = ca^2 pi1 + (1 - ca^2) pi6 in pi3, which becomes pi2 itself for gamma >= 1.
    weight = np.where(gamma >= 1.0, 1.0, 2.0 * smooth * (gamma - 0.5))
    mixed = pi1 + weight * smooth * (pi6 - pi1)
    probability = np.where((count <= 6.0) | (gamma <= 0.5) | (arrivals >= 1.0), pi1, mixed)
    probability = np.where(arrivals == 1.0, queue.exponential_wait_probability, probability)
    return shaped(np.where(queue.load > 0.0, np.minimum(probability, 1.0), 0.0), arrival_rate)


def conditional_scv(*, load: Values | float, service_scv: Values | float) -> Values:
    """Squared coefficient of variation of the wait given a wait, 2 rho - 1 + 4 (1 - rho) d / (3 (1 + cs^2)^2).

    d = E[S^3] / E[S]^3 of a balanced hyperexponential (cs^2 >= 1: 3 cs^2 (1 + cs^2)) or an Erlang law (below:
    (2 cs^2 + 1)(cs^2 + 1)); exact for M/M/c and for M/G/1 with that third moment (eq. 4.2, 4.3). `load` is rho, the
    load per server, 0 <= rho < 1.

    >>> conditional_scv(load=0.6, service_scv=1.0)
    1.0
    """
    rho, services = nonnegative(load=load, service_scv=service_scv)
    require_stable(spare=np.asarray(1.0 - rho), servers=np.ones_like(rho))
    third = np.where(services >= 1.0, 3.0 * services, 2.0 * services + 1.0)
    return shaped(2.0 * rho - 1.0 + 4.0 * (1.0 - rho) * third / (3.0 * (1.0 + services)), load)


class _Queue:
    """The checked arguments, of one shape, and the terms of eq. 2.16-2.21."""

    def __init__(self, arrival_rate: Any, mean_service: Any, servers: Any, service_scv: Any, arrival_scv: Any) -> None:
        rate, arrivals, services = nonnegative(
            arrival_rate=arrival_rate, arrival_scv=arrival_scv, service_scv=service_scv
        )
        (mean,) = positive(mean_service=mean_service)
        rate, mean, count, self.arrival_scv, self.service_scv = np.broadcast_arrays(
            rate, mean, whole_servers(servers), arrivals, services
        )
        self.servers = count
        self.spare = spare_servers(arrival_rate=rate, mean_service=mean, servers=count)
        require_stable(spare=self.spare, servers=count)
        self.load: FloatArray = np.asarray(rate * mean)
        self.exponential_wait_probability = erlang.delay(load=self.load, servers=count, spare=self.spare)
        self.exponential_wait: FloatArray = self.exponential_wait_probability * mean / self.spare
        self.idle_deviations: FloatArray = self.spare / np.sqrt(count)
        with np.errstate(divide="ignore", over="ignore"):
            idle = self.spare / self.load  # (1 - rho) / rho
        bend = (count - 1.0) * (np.sqrt(4.0 + 5.0 * count) - 2.0) / (16.0 * count)
        gamma = np.where(count > 1.0, np.minimum(0.24, bend * np.minimum(idle, 1e300)), 0.0)
        self.phi1: FloatArray = 1.0 + gamma
        self.phi3: FloatArray = (1.0 - 4.0 * gamma) * np.exp(-2.0 * idle / 3.0)
        self.phi4: FloatArray = np.minimum(1.0, 0.5 * (self.phi1 + self.phi3))

    def probability_from_normal(self, deviations: FloatArray) -> FloatArray:
        """Erlang C scaled as a normal tail is when (1 - rho) sqrt(c) becomes `deviations`; at most 1."""
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.exp(special.log_ndtr(-deviations) - special.log_ndtr(-self.idle_deviations))
            scaled = np.minimum(1.0, self.exponential_wait_probability * scale)
        return np.where(self.exponential_wait_probability > 0.0, scaled, 0.0)
