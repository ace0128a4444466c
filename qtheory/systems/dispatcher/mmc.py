"""M/M/c for each group: the roughest answer, kept as a yardstick.

Service times count by their means alone, arrivals at both groups as Poisson.  Exact when Group 0 kills nothing,
arrivals are Poisson and service times exponential; else off by up to 100 % in the waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qtheory.models import Dispatcher, InvalidModel
from qtheory.queues import erlang
from qtheory.solution import Solution
from qtheory.systems.dispatcher.calibration import exponential_errors
from qtheory.systems.dispatcher.coverage import require_covered
from qtheory.systems.dispatcher.delay import Delay
from qtheory.systems.dispatcher.loads import Traffic, is_exponential, require_stable, traffic
from qtheory.systems.dispatcher.measures import table
from qtheory.systems.dispatcher.waits import finiteness_of_mean, infinite_note


def solve(model: Dispatcher, *, at: Sequence[float] = (), quantiles: bool = True) -> Solution:
    """E[W] = C m / (c - a) and P(W > t) = C exp(-(c - a) t / m) in each group, a = lambda m, C Erlang's.

    Without `quantiles` those are left out: means take a fraction of the time.

    Raises `Unstable` with the overloaded group, `InvalidModel` for laws the model cannot have, rules for killed jobs
    that are not covered, or times between arrivals without a second moment (the wait is then beyond any error that
    could be claimed).

    >>> from qtheory.models import Exponential
    >>> one = Exponential(mean=1.0)
    >>> model = Dispatcher(
    ...     servers=(1, 1), time_limit=float("inf"), short_fraction=1.0,
    ...     interarrival=Exponential(mean=2.0), service0=one, service1=one,
    ... )
    >>> round(solve(model)["mean_response", "short"].value, 12)  # 1 / (mu - lambda)
    2.0
    """
    require_covered(model, method="mmc")
    offered = traffic(model)
    require_stable(offered.offered, servers=model.servers)
    if math.isinf(offered.scv):
        rule = "must have a second moment for method mmc: take mgc or phase-type"
        raise InvalidModel(field="interarrival", rule=rule, value=offered.scv)
    delays = tuple(_delay(offered, group=group, servers=model.servers[group]) for group in (0, 1))
    measures = table(offered, servers=model.servers, delays=(delays[0], delays[1]), at=at, quantiles=quantiles)
    return Solution(model=model, method="mmc", measures=measures)


def _delay(offered: Traffic, *, group: int, servers: int) -> Delay | None:
    rate, load = offered.rates[group], offered.offered[group]
    if rate == 0.0:
        return None
    waits = erlang.erlang_c(offered_load=load, servers=servers)
    mean = waits * (load / rate) / (servers - load)
    pure = group == 0 or offered.killed_rate == 0.0
    exact = pure and offered.poisson and is_exponential(offered.occupations[group])
    errors = exponential_errors(offered, group=group, exact=exact)
    infinite, _ = finiteness_of_mean(offered.occupations[group], offered=load, servers=np.array([float(servers)]))
    return Delay(
        mean=math.inf if infinite[0] else mean,
        probability=waits,
        scv=1.0,
        error=math.inf if infinite[0] else float(errors.mean[0]) * mean,
        probability_error=min(float(errors.probability[0]) * waits, 1.0),
        shape_error=float(errors.shape[0]),
        note=infinite_note(offered, group=group, servers=servers) if infinite[0] else "",
    )
