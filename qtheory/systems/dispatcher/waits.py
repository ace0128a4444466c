"""Waits of the two groups as many-server queues, for many designs at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qtheory.laws import Distribution
from qtheory.models.errors import NotConverged
from qtheory.queues import erlang, finiteness, many_server, renewal, residual, whitt
from qtheory.systems.dispatcher.loads import Traffic, is_exponential
from qtheory.systems.dispatcher.thinned import renewal_factors

FloatArray = NDArray[np.float64]
#: Beyond this many atoms the residual life is integrated between thinned atoms.
_FEW = 64
_MOST_PIECES = 4000
_PARTS = 8
_GRID = np.concatenate([np.linspace(0.01, 0.99, 99), 1.0 - np.logspace(-2.1, -12.0, 50)])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
#: Stands for the scv of the wait of those who wait where it is infinite or unknown.
_LARGEST_SCV = 25.0


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Waits in one group, one entry for each number of servers.

    Attributes
    ----------
    servers : c.
    load : rho, per server.
    mean : E[W] over all who join the group; ``inf`` where a moment of the service law is missing.
    probability : P(W > 0).
    exact : whether mean and probability are exact (to about 1e-7 for arrivals other than Poisson).
    exponential : whether service times are, and arrivals a thinning of the given ones: then the wait of those who
        wait is exponential and the whole law exact.
    undecided : whether nothing is known of the finiteness of the mean (a whole offered load and a critical tail).
    heavy : whether the service law has no second moment.
    arrival_factor : by what arrivals other than Poisson changed the mean.
    least_residual : E[min of c residual service times]; nan where the mean wait is infinite.
    """

    servers: FloatArray
    load: FloatArray
    mean: FloatArray
    probability: FloatArray
    exact: NDArray[np.bool_]
    exponential: bool
    undecided: NDArray[np.bool_]
    heavy: bool
    arrival_factor: FloatArray
    least_residual: FloatArray


def group_waits(traffic: Traffic, *, group: int, servers: FloatArray) -> Waits:
    """M/G/c or GI/G/c for a group fed by its own rate, its arrivals taken for a thinning of the given ones.

    M/G/c by Boxma, Cohen and Huffels with the exact M/D/c wait; other arrivals at Group 0 by `renewal_factors`, at
    Group 1 by `renewal.wait_factor` with the long-run index of dispersion, or as at Group 0 where there is no such
    index for want of a second moment.  P(W > 0) is Erlang's C times the like.
    The loads must be below 1 and the rate above 0.
    """
    rate, offered = traffic.rates[group], traffic.offered[group]
    service = traffic.occupations[group]
    mean, scv = offered / rate, service.scv
    infinite, undecided = finiteness_of_mean(service, offered=offered, servers=servers)
    wait = np.full_like(servers, math.inf)
    least = np.full_like(servers, math.nan)
    finite = ~infinite
    if np.any(finite):
        least[finite] = least_residual(service, servers=servers[finite])
        wait[finite] = many_server.boxma_cohen_huffels(
            arrival_rate=rate,
            mean_service=mean,
            servers=servers[finite],
            service_scv=scv,
            least_residual=least[finite],
        )
    probability = np.asarray(erlang.erlang_c(offered_load=offered, servers=servers))
    pure = group == 0 or traffic.killed_rate == 0.0
    exponential = pure and is_exponential(service)
    factor = np.ones_like(servers)
    if not traffic.poisson and (pure or math.isinf(traffic.scv)):
        factors = renewal_factors(
            interarrival=traffic.interarrival,
            keep=rate / traffic.rate,
            mean_service=mean,
            service_scv=scv,
            servers=servers,
        )
        factor, probability = factors.wait, probability * factors.probability
    elif not traffic.poisson:
        arguments: dict[str, Any] = {
            "offered_load": offered,
            "servers": servers,
            "arrival_scv": traffic.dispersions[group],
            "service_scv": min(scv, 1e6),
        }
        factor = np.asarray(renewal.wait_factor(**arguments))
        probability = probability * np.asarray(renewal.wait_probability_factor(**arguments))
    single = pure & traffic.poisson & (servers == 1.0)
    return Waits(
        servers=servers,
        load=offered / servers,
        mean=wait * factor,
        probability=np.minimum(probability, 1.0),
        exact=np.logical_or(single, exponential),
        exponential=exponential,
        undecided=undecided,
        heavy=not math.isfinite(scv),
        arrival_factor=factor,
        least_residual=least,
    )


def conditional_scv(traffic: Traffic, *, waits: Waits, group: int) -> float:
    """Squared coefficient of variation of the wait of those who wait in the first design, as in M/G/c; at most 25.

    From three moments of the service law where it has them, else Whitt's formula.
    """
    service, load, count = traffic.occupations[group], float(waits.load[0]), waits.servers[:1]
    if waits.exponential or load == 0.0:
        return 1.0
    if math.isfinite(service.moment(3.0)):
        scv = residual.conditional_scv(
            load=load,
            servers=float(count[0]),
            mean_service=service.mean,
            service_second_moment=service.moment(2.0),
            service_third_moment=service.moment(3.0),
            least_residual=float(waits.least_residual[0]),
            least_residual_square=float(least_residual(service, servers=count, order=2)[0]),
        )
    elif math.isfinite(service.scv):
        scv = max(whitt.conditional_scv(load=load, service_scv=service.scv), 0.05)
    else:
        scv = _LARGEST_SCV
    return min(scv, _LARGEST_SCV)


def least_residual(service: Distribution, *, servers: FloatArray, order: int = 1) -> FloatArray:
    """E[min(Y_1, ..., Y_c)^order] of residual service times, for each number c of servers."""
    if service.atoms[0].size <= _FEW:

        def integral(points: FloatArray) -> FloatArray:
            return np.asarray(
                residual.least_residual(
                    residual_survival=service.equilibrium_survival,
                    mean_service=service.mean,
                    servers=servers,
                    order=order,
                    breakpoints=points[points > 0.0].tolist(),
                )
            )

        try:
            return integral(service.kinks)
        except NotConverged:
            # A law that is narrow but smooth, or a mixture of such laws: pieces between its quantiles see it.
            ends = np.exp(service.pieces)
            fine = np.linspace(ends[:-1], ends[1:], _PARTS, endpoint=False)
            return integral(np.union1d(service.kinks, fine))
    # Recorded values: the residual survival function is linear between them.
    points = service.atoms[0]
    chosen = points[np.linspace(0, points.size - 1, min(points.size, _MOST_PIECES)).astype(np.int64)]
    ends = np.unique([0.0, *chosen, *np.asarray(service.quantile(_GRID))])
    half = np.diff(ends)[:, None] / 2.0
    t = ((ends[1:] + ends[:-1])[:, None] / 2.0 + half * _NODES).ravel()
    weights = (half * _WEIGHTS).ravel() * order * t ** (order - 1.0)
    survival = service.equilibrium_survival(t)
    return np.array([float(weights @ survival**count) for count in servers])


def finiteness_of_mean(
    service: Distribution, *, offered: float, servers: FloatArray
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where E[W] is infinite, and where nothing is known.

    With k = c - floor(a) spare servers it is finite if and only if E[S^((k+1)/k)] is; for a whole offered load a
    that moment suffices, and the one with k + 1 is necessary (`finiteness.required_moment`).
    """
    none = np.zeros(servers.shape, dtype=bool)
    if math.isfinite(service.scv):
        return none, none
    orders = np.asarray(finiteness.required_moment(offered_load=offered, servers=servers))
    missing = np.array([math.isinf(service.moment(float(order))) for order in orders])
    if offered != math.floor(offered):
        return missing, none
    spare = servers - offered + 1.0
    surely = np.array([math.isinf(service.moment(float((k + 1.0) / k))) for k in spare])
    return surely, missing & ~surely


def infinite_note(traffic: Traffic, *, group: int, servers: int) -> str:
    """Which moment keeps the mean wait from being finite, and of which laws."""
    spare = servers - math.floor(traffic.offered[group])
    order = (spare + 1) / spare
    moment = "second moment" if spare == 1 else f"moment of order {order:.4g}"
    laws = ["service0"] if group == 0 else []
    if group == 1 and traffic.long_rate > 0.0 and math.isinf(traffic.service1.moment(order)):
        laws.append("service1")
    if group == 1 and traffic.killed_rate > 0.0 and math.isinf(traffic.killed.moment(order)):
        laws.append("service0")
    return f"infinite: {moment} of {' and '.join(laws)}"
