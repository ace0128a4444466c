"""Arrivals as a Markovian or rational process, and what is said of laws whose moments are missing."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import lru_cache

from qtheory.laws import Distribution
from qtheory.models import Dispatcher, NotConverged
from qtheory.queues.map import ArrivalProcess, poisson, renewal
from qtheory.queues.phase_type import PhaseType
from qtheory.systems.dispatcher.loads import Traffic
from qtheory.systems.dispatcher.pieces import moment_fit, residual_gap
from qtheory.systems.dispatcher.residual_fit import residual_fit

#: A fit to intervals follows their residual life up to this.
_FOLLOWED = 0.01


def stand_in(traffic: Traffic) -> ArrivalProcess:
    """The arrivals: Poisson, or renewal with a law of at most three phases (four without a second moment)."""
    return poisson(rate=traffic.rate) if traffic.poisson else renewal(interval_fit(traffic.interarrival))


@lru_cache(maxsize=64)
def interval_fit(law: Distribution) -> PhaseType:
    """Three phases by five moments, or by the residual life where there is no such law or it is far from that."""
    if not math.isfinite(law.scv):
        return residual_fit(law, phases=2)
    fit = moment_fit(law, order=3)
    if (law.scv > 1.0 or fit.order < 3) and residual_gap(law, fit) > _FOLLOWED:
        with suppress(NotConverged):
            return residual_fit(law, phases=3)
    return fit


def intervals_are_matched(traffic: Traffic) -> bool:
    """Whether the stand-in has the third moment of the intervals: a fit to the residual life has two."""
    if traffic.poisson:
        return True
    third = traffic.interarrival.moment(3.0)
    return math.isfinite(third) and abs(interval_fit(traffic.interarrival).moment(3) - third) <= 1e-6 * third


def stand_in_remarks(traffic: Traffic, model: Dispatcher) -> list[str]:
    """Which laws lack a second or third moment, and what has replaced it."""
    used = {"service0": model.short_fraction > 0.0, "service1": model.short_fraction < 1.0}
    laws = {"service0": traffic.service0, "service1": traffic.service1, "interarrival": traffic.interarrival}
    remarks = []
    for name, law in laws.items():
        # Group 0 sees service0 up to the time limit only; kills bring its tail to Group 1.
        capped = name == "service0" and traffic.killed_rate == 0.0 and math.isfinite(traffic.time_limit)
        if capped or not used.get(name, not traffic.poisson):
            continue
        for order, word, reach in ((2.0, "second", "3000"), (3.0, "third", "100")):
            if math.isinf(law.moment(order)):
                remarks.append(f"{name} has no {word} moment: its residual life up to {reach} means was followed")
                break
    return remarks
