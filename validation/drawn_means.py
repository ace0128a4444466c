"""Means of what a simulation of donor systems, parallel queues or networks draws, from the laws alone."""

from __future__ import annotations

import math

from qsim.controls import Control
from qtheory import laws
from qtheory.models import Donor, Exponential, Flexible, Network


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
