"""Exact answers where every job's way is drawn at random: servers are independent M/M/1 queues.

With fixed route probabilities, exponential servers and service that does not look at routes (random order among
duplicates), the stationary law is a product of geometric ones (Jackson 1957; Baskett, Chandy, Muntz and Palacios 1975;
Kelly, "Reversibility and stochastic networks", section 3.1): with a_k the arrival rate at place k and
rho_n = sum of a_k over server n, divided by mu_n,

    E[jobs at place k] = (a_k / sum of a over its server) rho_n / (1 - rho_n).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qtheory.models.base import require
from qtheory.models.errors import Unstable
from qtheory.models.network import Network
from qtheory.models.policies import JSQ, JSQAS, JSR, Bernoulli, MaxWeight
from qtheory.solution import Solution
from qtheory.systems.network.answer import check_times, measures
from qtheory.systems.network.expansion import Array
from qtheory.systems.network.places import EXIT, Places, places
from qtheory.systems.network.split import split_of
from qtheory.systems.network.stability import check_stable
from qtheory.systems.network.stabilizability import with_static_split


def solve(model: Network, *, at: Sequence[float] = ()) -> Solution:
    """Closed-form answer; `details` hold theta*, its split and prices, and the loads of the servers.

    Raises
    ------
    Unstable : theta* <= 1, or the split overloads a server.
    InvalidModel : the policy looks at the state in a way that matters, or `at` is given.
    """
    check_times(at)
    reason = obstacle(model)
    require(not reason, field="policy", rule=f"has no product form: {reason}", value=model.policy.kind())
    programme = check_stable(model)
    model = with_static_split(model)
    where = places(model)
    rates = arrival_rates(model, where)
    total = np.bincount(where.server, rates, minlength=len(model.servers))
    loads = total / where.expansion.rates
    for name, load in zip(model.servers, loads, strict=True):
        if load >= 1:
            raise Unstable(where=name, load=float(load))
    inside = loads[where.server]
    with np.errstate(invalid="ignore"):
        share = np.where(rates > 0, rates / total[where.server], 0.0)
    return Solution(
        model=model,
        method="product-form",
        measures=measures(model, where, number=share * inside / (1 - inside), departures=rates),
        details=programme.details() | {"loads": dict(zip(model.servers, loads.tolist(), strict=True))},
    )


def obstacle(model: Network) -> str:
    """Why the stationary law is no product, or an empty text."""
    policy = model.policy
    if isinstance(policy, MaxWeight):
        return "servers idle on purpose"
    if isinstance(policy, JSQAS):
        return "places hold jobs back"
    where = places(model)
    single = all(len(options) == 1 for options in (*where.entry, *where.onward))
    if isinstance(policy, (JSQ, JSR)) and not single:
        return "routing looks at the state"
    shared = len(np.unique(where.server)) < where.size
    if policy.sharing != "random" and shared:
        return f"the order of service is not blind to routes (sharing = {policy.sharing})"
    return ""


def arrival_rates(model: Network, where: Places) -> Array:
    """Arrival rate at each place, where the state has no say in routing."""
    rates = np.zeros(where.size)
    for c, options in enumerate(where.entry):
        split = split_of(model)[c] if isinstance(model.policy, Bernoulli) else (1.0,)
        rates[options] = where.expansion.arrival_rates[c] * np.array(split)
    waiting = [int(k) for options in where.entry for k in options]
    while waiting:
        k = waiting.pop()
        (after,) = where.onward[k]
        if after != EXIT:
            rates[after] += rates[k]
            waiting.append(int(after))
    return rates
