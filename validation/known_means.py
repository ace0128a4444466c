"""Means of what a simulation samples beside its measures, from the laws alone: the controls of its estimates."""

from __future__ import annotations

import math

from qsim.controls import Control
from qtheory import laws
from qtheory.laws import Distribution
from qtheory.models import Dispatcher, Donor, Exponential, Flexible, Network, NotConverged
from qtheory.systems.dispatcher.loads import Traffic, traffic


def dispatcher_controls(model: Dispatcher) -> tuple[Control, ...]:
    """Controls of a dispatcher, by the names of its simulator; only those whose averages have a finite variance.

    With lambda the arrival rate and p0 the share of Group 0, a job asks work0 = p0 E[min(S0, T)] of Group 0 and work1 =
    p0 E[S0; S0 > T] + (1 - p0) E[S1] of Group 1 (by other rules for killed jobs, what `Traffic` says), and the offered
    loads are lambda times these.  A pooled group is M/G/1 where arrivals are Poisson, its mean wait that of Pollaczek
    and Khinchine; an average of its waits has a finite variance if the fourth moment of the occupation is finite (a
    busy period of one huge job x adds waits of order x^2).  Only the plain rules have pooled groups.
    """
    offered = traffic(model)
    steady = math.isfinite(offered.scv)
    found = {"interarrival": 1.0 / offered.rate} if steady else {}
    for group in (0, 1):
        rate, load = offered.rates[group], offered.offered[group]
        if rate == 0.0 or not _has_moment(offered.occupations[group], order=2.0):
            continue
        found[f"work{group}"] = load / offered.rate
        if steady:
            found[f"offered_load{group}"] = load
        plain = not model.changed_rules and offered.poisson
        if plain and load < model.servers[group] and _has_moment(offered.occupations[group], order=4.0):
            found[f"pooled_wait{group}"] = _pooled_wait(offered, group=group, servers=model.servers[group])
    if offered.short_rate > 0.0:
        found |= _mean("completed_service", offered.completed)
    if offered.killed_rate > 0.0:
        found |= _mean("killed_service", offered.killed)
    if offered.long_rate > 0.0:
        found |= _mean("service1", offered.service1)
    return tuple(Control(name=name, mean=mean) for name, mean in found.items())


def _mean(name: str, law: Distribution) -> dict[str, float]:
    return {name: law.mean} if _has_moment(law, order=2.0) else {}


def donor_controls(model: Donor) -> tuple[Control, ...]:
    """Controls of a donor system, by the names of its simulator.

    With rates lambda1, lambda2: gaps 1 / (lambda1 + lambda2), type 1 with probability lambda1 / (lambda1 + lambda2),
    works of mean 1 (of finite variance only).  Work done for each departure has mean 1 where work is exponential,
    since departures less work done are then a martingale.
    """
    rate1, rate2 = model.arrival_rates
    found = {"interarrival": 1.0 / (rate1 + rate2)}
    if rate1 > 0.0 and rate2 > 0.0:
        found["type1"] = rate1 / (rate1 + rate2)
    unit = Exponential(mean=1.0)
    if rate1 > 0.0 and model.work1 == unit:
        found["service1"] = 1.0
    if rate2 > 0.0 and model.work2 == unit:
        found["service2"] = 1.0
    elif rate2 > 0.0 and math.isfinite(laws.moment(model.work2, order=2)):
        found["work2"] = laws.mean(model.work2)
    return tuple(Control(name=name, mean=mean) for name, mean in found.items())


def flexible_controls(model: Flexible) -> tuple[Control, ...]:
    """Controls of parallel queues, by the names of their simulator: N queues have arrivals at rate N load / E[S].

    Requirements are left out where their variance is infinite.
    """
    if model.queues == "infinite":
        return ()
    mean = laws.mean(model.service)
    found = {"interarrival": mean / (model.queues * model.load)}
    if 0.0 < model.flexible_fraction < 1.0:
        found["flexible_share"] = model.flexible_fraction
    if math.isfinite(laws.moment(model.service, order=2)):
        found |= {"service": mean, "offered_load": model.load}
    return tuple(Control(name=name, mean=value) for name, value in found.items())


def network_controls(model: Network) -> tuple[Control, ...]:
    """Controls of a network, by the names of its simulator: rates of arrivals and of servers, shares of classes."""
    arriving = math.fsum(c.rate for c in model.classes)
    found = {"interarrival": 1.0 / arriving}
    found |= {f"services:{name}": rate for name, rate in model.servers.items()}
    if len(model.classes) > 1:
        found |= {f"share:{c.name}": c.rate / arriving for c in model.classes}
    return tuple(Control(name=name, mean=mean) for name, mean in found.items())


def _has_moment(law: Distribution, *, order: float) -> bool:
    """Whether the moment is finite; one that quadrature cannot find is as good as none here."""
    try:
        return law.tail_index > order and math.isfinite(law.moment(order))
    except NotConverged:
        return False


def _pooled_wait(offered: Traffic, *, group: int, servers: int) -> float:
    """Mean wait in M/G/1 where a job takes O / n: lambda E[O^2] / (2 n^2 (1 - rho)) (Pollaczek and Khinchine)."""
    second = offered.occupations[group].moment(2.0) / servers**2
    return offered.rates[group] * second / (2.0 * (1.0 - offered.offered[group] / servers))
