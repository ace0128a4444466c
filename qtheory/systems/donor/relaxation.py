"""How long the system remembers its start: what a simulation should skip."""

from __future__ import annotations

import math

from qtheory.models.donor import Donor
from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.models.laws import Exponential
from qtheory.systems.donor.chain import Steady
from qtheory.systems.donor.exact import stationary_law
from qtheory.systems.donor.rules import rule
from qtheory.systems.donor.stability import stability

#: Arrivals in which a queue at load .99 relaxes.
_AT_99 = 4e4


def relaxation_jobs(model: Donor) -> float:
    """The relaxation time of the slower queue, in arrivals of both types.

    A queue with spare capacity d whose numbers fall by eta a job in the tail relaxes like reflected Brownian motion
    in 4 / (d (1 - eta)), which is 1 / (sqrt mu - sqrt lambda)^2 for M/M/1 in heavy traffic. Work that is not
    exponential and switching times are left out of account; a system that is stable only through them, or whose
    thresholds are too large to be solved, is given the time of a queue at load .99.
    """
    plain = model.replace(work1=Exponential(mean=1.0), work2=Exponential(mean=1.0), switching_time=0.0)
    total = sum(plain.arrival_rates)
    loads = stability(plain)
    if not loads.stable:
        return _AT_99
    try:
        law = stationary_law(plain)
    except (InvalidModel, NotConverged):
        # A simulation needs no solution: that there is none must not keep it from running.
        return _AT_99
    rates, (lambda1, lambda2) = plain.service_rates, plain.arrival_rates
    helps = rule(plain).helps
    most1 = rates.mu1 * loads.limit1 if helps else rates.mu1
    most2 = rates.mu2 * loads.limit2
    decays = {1: lambda1 / most1, 2: lambda2 / most2}
    if isinstance(law, Steady):
        level = law.layout.level_queue
        decays[level], decays[3 - level] = law.law.decay_rate, law.layout.ratio
    times = [0.0]
    for queue, (rate, most) in enumerate(((lambda1, most1), (lambda2, most2)), start=1):
        if 0 < rate < most:
            times.append(4 / ((most - rate) * (1 - min(decays[queue], math.nextafter(1, 0)))))
    return total * max(times)
