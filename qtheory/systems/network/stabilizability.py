"""Can any policy stabilise the network?  The largest factor by which its traffic can be multiplied.

With x_r the rate on route r, the programme is

    max theta    s. t.  sum of x_r over the routes of class c = theta lambda_c,  sum of x_r over the routes
                        through server n <= mu_n,  x >= 0,

and the network is stabilizable if and only if theta* > 1.  Its dual prices y_n >= 0 give the bottleneck: with
p_c = least sum of y over a route of c, sum_c lambda_c p_c = 1 and sum_n mu_n y_n = theta*.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.models.network import Network
from qtheory.models.policies import Bernoulli
from qtheory.systems.network.expansion import Expansion, expand

Array = NDArray[np.float64]

#: Dual prices below this share of the largest count as none.
_PRICE = 1e-9
#: Whole units into which `max_flow_factor` divides the largest rate; its answer is exact to so many parts.
_UNITS = 2**30


@dataclass(frozen=True, kw_only=True)
class Stabilizability:
    """Answer of the programme.

    Attributes
    ----------
    theta_star : the largest factor (exclusive) by which all arrival rates can be multiplied.
    flows : rate on each route at theta*, by class and route; they need not be unique.
    split : flows as probabilities, by class and route: the static split.
    duals : price of each server, positive on the bottleneck; they need not be unique.
    """

    theta_star: float
    flows: tuple[tuple[float, ...], ...]
    split: tuple[tuple[float, ...], ...]
    duals: dict[str, float]

    @property
    def bottleneck(self) -> tuple[str, ...]:
        """The servers with a positive price: together they cannot carry theta* times the traffic or more."""
        return tuple(name for name, price in self.duals.items() if price > 0)

    @property
    def load(self) -> float:
        """Load of the bottleneck, 1 / theta*."""
        return 1 / self.theta_star

    def details(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "theta_star": self.theta_star,
            "flows": [list(row) for row in self.flows],
            "split": [list(row) for row in self.split],
            "duals": dict(self.duals),
        }


def stabilizability(model: Network) -> Stabilizability:
    """theta*, the flows and the dual prices (scipy's HiGHS).  Raises `NotConverged` if the solver gives up.

    >>> from qtheory.models import JSR, NetworkClass
    >>> two = NetworkClass(rate=1.0, routes=[["s1"], ["s2"]])
    >>> found = stabilizability(Network(servers={"s1": 1.0, "s2": 0.5}, classes=[two], policy=JSR()))
    >>> found.theta_star, found.flows, found.duals
    (1.5, ((1.0, 0.5),), {'s1': 1.0, 's2': 1.0})
    """
    from scipy.optimize import linprog

    expansion = expand(model)
    routes, classes = len(expansion.routes), len(expansion.arrival_rates)
    # In units of the rates themselves, so that the solver's absolute tolerances are relative ones.
    scale = float(expansion.rates.max())
    demand = float(expansion.arrival_rates.max())
    member = (expansion.route_class[None, :] == np.arange(classes)[:, None]).astype(float)
    answer = linprog(
        c=np.append(np.zeros(routes), -1.0),
        A_ub=np.column_stack([expansion.visits(), np.zeros(len(expansion.servers))]),
        b_ub=expansion.rates / scale,
        A_eq=np.column_stack([member, -expansion.arrival_rates / demand]),
        b_eq=np.zeros(classes),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.status != 0:
        raise NotConverged(where="theta*", residual=np.inf, iterations=int(answer.nit), advice=str(answer.message))
    solution = np.asarray(answer.x)
    flows = np.maximum(solution[:-1], 0.0) * scale
    prices = np.maximum(-answer.ineqlin.marginals, 0.0) / demand
    prices[prices < _PRICE * prices.max()] = 0.0
    by_class = [flows[expansion.of_class(c)] for c in range(classes)]
    return Stabilizability(
        theta_star=float(solution[-1]) * scale / demand,
        flows=tuple(tuple(row.tolist()) for row in by_class),
        split=tuple(tuple((row / row.sum()).tolist()) for row in by_class),
        duals=dict(zip(expansion.servers, prices.tolist(), strict=True)),
    )


def with_static_split(model: Network) -> Network:
    """`model` with the static split flows / theta* written into a Bernoulli policy that leaves its split open.

    >>> from qtheory.models import NetworkClass
    >>> two = NetworkClass(rate=1.0, routes=[["s1"], ["s2"]])
    >>> model = Network(servers={"s1": 1.5, "s2": 0.5}, classes=[two], policy=Bernoulli())
    >>> with_static_split(model).policy.split
    ((0.75, 0.25),)
    """
    if not isinstance(model.policy, Bernoulli) or model.policy.split:
        return model
    return model.replace(policy=model.policy.replace(split=stabilizability(model).split))


def max_flow_factor(model: Network) -> float:
    """theta* of a single class as a maximal flow: servers are nodes of limited capacity, arcs are unlimited.

    An independent road to theta*, exact to about 1e-9 (`scipy.sparse.csgraph.maximum_flow` counts in whole units).
    Raises `InvalidModel` for several classes, and for routes that are not all the paths of their arcs: a flow
    could then take paths that no route allows.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    expansion = expand(model)
    if len(expansion.arrival_rates) != 1:
        raise InvalidModel(field="classes", rule="max flow is for one class", value=len(expansion.arrival_rates))
    if not _holds_all_paths(expansion):
        raise InvalidModel(field="classes.0.routes", rule="must be all the paths of their arcs for a max flow")
    count = len(expansion.servers)
    units = np.round(expansion.rates / expansion.rates.max() * _UNITS).astype(np.int64)
    source, sink = 2 * count, 2 * count + 1
    number = {name: n for n, name in enumerate(expansion.servers)}
    capacity = {(n, count + n): int(units[n]) for n in range(count)}
    for route in expansion.routes:
        capacity[source, number[route[0]]] = _UNITS
        capacity[count + number[route[-1]], sink] = _UNITS
        for one, two in pairwise(route):
            capacity[count + number[one], number[two]] = _UNITS
    rows, columns = np.array(list(capacity)).T
    graph = csr_array((np.array(list(capacity.values()), np.int32), (rows, columns)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, source, sink).flow_value
    return float(flow / _UNITS * expansion.rates.max() / expansion.arrival_rates[0])


def _holds_all_paths(expansion: Expansion) -> bool:
    """Whether every path from a first to a last server along the arcs of the routes is a route."""
    after: dict[str, set[str | None]] = {}
    for route in expansion.routes:
        for one, two in pairwise((*route, None)):
            assert one is not None
            after.setdefault(one, set()).add(two)
    # Paths are counted from the last servers back; each count stays small or stops the comparison.
    ways: dict[str | None, int] = {None: 1}

    def count(name: str | None) -> int:
        if name not in ways:
            assert name is not None
            ways[name] = sum(count(nxt) for nxt in after[name])
        return ways[name]

    return sum(count(first) for first in {route[0] for route in expansion.routes}) == len(expansion.routes)
