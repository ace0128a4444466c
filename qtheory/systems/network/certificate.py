"""Regime certificates: the worst mean drift of a piecewise-linear test function, by enumeration.

Within a regime (the linear piece that attains V, the places that are empty, the routes that arrivals choose, the
duplicate that each server works on) the drift of V is constant. The jobs' directions that belong to a regime form a
closed cone, so the worst drift of each piece is found by branch and bound over the outcomes at each server and for
each class, with a small least-squares problem that says whether some direction allows them together. A negative worst
drift proves the network stable: V can be smoothed to a Lyapunov function (Down and Meyn, "Piecewise linear test
functions for stability and instability of queueing networks", Queueing Systems 27, 1997).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.optimize import nnls

from qtheory.models.base import require
from qtheory.models.network import Network
from qtheory.models.policies import JSR, Bernoulli
from qtheory.systems.network.expansion import NOWHERE, Array, Expansion, expand
from qtheory.systems.network.piecewise import PiecewiseLinear, default_function
from qtheory.systems.network.split import split_of
from qtheory.systems.network.stabilizability import with_static_split

#: Drifts above minus this count as not negative.
_ZERO = 1e-12
_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Regime:
    """The worst regime of one linear piece.

    Attributes
    ----------
    drift : mean change of V per unit time in it.
    routes : numbers of the dominant routes (those that carry the piece).
    empty : names of the subservers that are certainly empty.
    joined : by class, the name of the first subserver that arrivals join (empty where the split is random).
    served : by server that works, the subserver it works on.
    """

    drift: float
    routes: tuple[int, ...]
    empty: tuple[str, ...]
    joined: tuple[str, ...]
    served: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Worst drift over all regimes.

    Attributes
    ----------
    worst : the regime of largest drift.
    pieces : the worst regime of each linear piece that can dominate.
    by_kind : worst drift where one route dominates, several routes of different classes, or others.
    smooth : whether the pieces can be joined smoothly, if they fall in their own regimes.
    """

    worst: Regime
    pieces: tuple[Regime, ...]
    by_kind: dict[str, float]
    smooth: bool

    @property
    def holds(self) -> bool:
        """Whether the drift is negative in every regime, and the smoothed function's too."""
        return self.smooth and self.worst.drift < -_ZERO

    @property
    def text(self) -> str:
        """One line for a report; only ever claims what the enumeration shows."""
        if self.holds:
            return f"stable: drift <= {self.worst.drift:.6f} outside a bounded set"
        if self.worst.drift < -_ZERO:
            return f"no certificate found: drift <= {self.worst.drift:.6f} in every regime, but not where pieces meet"
        return f"no certificate found: drift up to {self.worst.drift:.6f}"

    def details(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "text": self.text,
            "holds": self.holds,
            "worst_drift": self.worst.drift,
            "by_kind": dict(self.by_kind),
            "pieces": len(self.pieces),
            "worst_regime": {
                "routes": list(self.worst.routes),
                "empty": list(self.worst.empty),
                "joined": list(self.worst.joined),
                "served": dict(self.worst.served),
            },
        }


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """One thing that a class or a server may do: places that must be empty, rows with row . u >= 0, flow by place."""

    who: tuple[str, int]
    empty: tuple[int, ...] = ()
    rows: tuple[Array, ...] = ()
    joins: int = NOWHERE
    serves: int = NOWHERE
    change: Array


def certificate(model: Network, *, function: PiecewiseLinear | None = None) -> Certificate:
    """The worst drift of a test function under `jsr` or `bernoulli`, regime by regime.

    `function`: user's weights (`user_function`), by default the standard one with the weights of a dominant policy,
    else 3/4 each. Under random sharing any duplicate with jobs may be the one that is served.

    Raises
    ------
    InvalidModel : another policy: no test function is known for it; or too many linear pieces.
    """
    policy = model.policy
    rule = "has no known test function: certificates are for jsr and bernoulli"
    require(isinstance(policy, (JSR, Bernoulli)), field="policy", rule=rule, value=policy.kind())
    assert isinstance(policy, (JSR, Bernoulli))
    model = with_static_split(model)
    expansion = expand(model)
    function = default_function(model, **policy.weights) if function is None else function
    found = [worst_regime(model, expansion, function, i) for i in range(len(function.weights))]
    regimes = tuple(regime for regime in found if regime is not None)
    worst = max(regimes, key=lambda regime: regime.drift)
    smooth = policy.sharing != "dominant" or worst.drift >= 0 or _can_be_smoothed(model, expansion, function)
    by_kind: dict[str, float] = {}
    for regime in regimes:
        kind = _kind(expansion, regime.routes)
        by_kind[kind] = max(regime.drift, by_kind.get(kind, -np.inf))
    return Certificate(worst=worst, pieces=regimes, by_kind=by_kind, smooth=smooth)


def worst_regime(
    model: Network,
    expansion: Expansion,
    function: PiecewiseLinear,
    i: int,
    *,
    acting: int | None = None,
    above: float = -math.inf,
) -> Regime | None:
    """The regime of largest drift, among those above `above`, in which piece `i` attains V; None if there is none.

    `acting` is the piece by which a dominant policy acts where both attain V, by default `i` itself.
    """
    weights = function.weights[i]
    acting = i if acting is None else acting
    cone = np.vstack([np.unique(weights - function.weights, axis=0), function.weights[acting] - weights])
    if not _possible(cone, [], size=expansion.size):
        return None
    outcomes = [*_arrivals(model, expansion), *_services(model, expansion, function.members[acting])]
    menus: dict[tuple[str, int], list[tuple[float, _Outcome]]] = {}
    for outcome in outcomes:
        menus.setdefault(outcome.who, []).append((float(outcome.change @ weights), outcome))
    ordered = [sorted(menu, key=lambda pair: -pair[0]) for menu in menus.values()]
    # Those whose choice matters most come first; the best that the rest can add bounds the search.
    ordered.sort(key=lambda menu: menu[-1][0] - menu[0][0])
    rest = np.append(np.cumsum([menu[0][0] for menu in reversed(ordered)])[::-1], 0.0)
    best: list[_Outcome] | None = None
    stack: list[tuple[float, list[_Outcome]]] = [(0.0, [])]
    while stack:
        value, chosen = stack.pop()
        if value + rest[len(chosen)] <= above + _ZERO or not _possible(cone, chosen, size=expansion.size):
            continue
        if len(chosen) == len(ordered):
            best, above = chosen, value
            continue
        stack.extend((value + gain, [*chosen, outcome]) for gain, outcome in reversed(ordered[len(chosen)]))
    return None if best is None else _regime(expansion, function, i, best, drift=above)


def _can_be_smoothed(model: Network, expansion: Expansion, function: PiecewiseLinear) -> bool:
    """Whether V can be smoothed although servers act by one piece where several attain V (dominant sharing).

    Smooth V to tau log sum_i exp((w_i . x + c_i) / tau) with widely spaced c. Where piece a acts, only pieces i with
    c_i >= c_a can have a say in the gradient; those must fall under a. A piece that need not fall under a thus has
    to lie below a, and constants can be found if and only if these demands form no cycle.
    """
    shared = [n for n in range(len(expansion.servers)) if (expansion.server == n).sum() > 1]
    sharing = function.members[:, np.isin(expansion.server, shared)]
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for i, a in product(range(len(sharing)), repeat=2):
        differ = (sharing[i] != sharing[a]).any()
        if differ and worst_regime(model, expansion, function, i, acting=a, above=-_ZERO * 2) is not None:
            sorter.add(a, i)
    try:
        sorter.prepare()
    except CycleError:
        return False
    return True


def _arrivals(model: Network, expansion: Expansion) -> Iterator[_Outcome]:
    """Which route each class takes: the emptiest one (jsr), or one by chance (bernoulli)."""
    on_route = (expansion.route[None, :] == np.arange(len(expansion.routes))[:, None]).astype(float)
    first = np.flatnonzero(expansion.position == 0)
    for c, rate in enumerate(expansion.arrival_rates):
        routes = expansion.of_class(c)
        if isinstance(model.policy, Bernoulli):
            change = np.zeros(expansion.size)
            change[first[routes]] = rate * np.array(split_of(model)[c])
            yield _Outcome(who=("class", c), change=change)
            continue
        for r in routes:
            rows = tuple(on_route[q] - on_route[r] for q in routes if q != r)
            change = np.zeros(expansion.size)
            change[first[r]] = rate
            yield _Outcome(who=("class", c), rows=rows, joins=int(first[r]), change=change)


def _services(model: Network, expansion: Expansion, carrying: Array) -> Iterator[_Outcome]:
    """What each server may work on, by which of its duplicates hold jobs."""
    after = expansion.downstream
    for n, mu in enumerate(expansion.rates):
        here = np.flatnonzero(expansion.server == n).tolist()
        for count in range(len(here) + 1):
            for busy in combinations(here, count):
                empty = tuple(k for k in here if k not in busy)
                if not busy:
                    yield _Outcome(who=("server", n), empty=empty, change=np.zeros(expansion.size))
                for k in busy:
                    rows = _preferred(model, expansion, carrying, k, busy)
                    if rows is None:
                        continue
                    change = np.zeros(expansion.size)
                    change[k] = -mu
                    if after[k] != NOWHERE:
                        change[after[k]] = mu
                    yield _Outcome(who=("server", n), empty=empty, rows=rows, serves=k, change=change)


def _preferred(
    model: Network, expansion: Expansion, carrying: Array, k: int, busy: tuple[int, ...]
) -> tuple[Array, ...] | None:
    """Conditions row . u >= 0 under which `k` is served among `busy`; None if it never is."""
    policy = model.policy
    assert isinstance(policy, (JSR, Bernoulli))
    unit = np.eye(expansion.size)
    after = expansion.downstream
    rivals = [q for q in busy if q != k]

    def downstream(q: int) -> Array:
        return unit[after[q]] if after[q] != NOWHERE else np.zeros(expansion.size)

    if policy.sharing == "priority":
        rank = {q: policy.order.index(model.classes[expansion.klass[q]].name) for q in busy}
        return None if any(rank[q] < rank[k] for q in rivals) else ()
    if policy.sharing == "dominant":
        rank = {q: int(expansion.position[q]) if carrying[q] else expansion.size for q in busy}
        return None if any(rank[q] < rank[k] for q in rivals) else ()
    if policy.sharing == "longest":
        return tuple(unit[k] - unit[q] for q in rivals)
    if policy.sharing == "shortest-downstream":
        return tuple(downstream(q) - downstream(k) for q in rivals)
    if policy.sharing == "largest-differential":
        return tuple(unit[k] - downstream(k) - unit[q] + downstream(q) for q in rivals)
    return ()


def _possible(cone: Array, chosen: list[_Outcome], *, size: int) -> bool:
    """Whether some direction u >= 0, sum 1, lies in the cone and in the regime of these outcomes.

    Least squares over u and slacks s >= 0 of (A u - s, sum u) against (0, 1): residual 0 if and only if there is one.
    """
    free = np.ones(size, dtype=bool)
    for outcome in chosen:
        free[list(outcome.empty)] = False
    if not free.any():
        return False
    a = np.vstack([cone, *(row for outcome in chosen for row in outcome.rows)])[:, free]
    a = a[(a < 0).any(axis=1)]
    rows, columns = a.shape
    system = np.zeros((rows + 1, columns + rows))
    system[:rows, :columns] = a
    system[:rows, columns:].flat[:: rows + 1] = -1.0
    system[rows, :columns] = 1.0
    right = np.zeros(rows + 1)
    right[rows] = 1.0
    _, residual = nnls(system, right)
    return bool(residual < _TOLERANCE)


def _regime(expansion: Expansion, function: PiecewiseLinear, i: int, chosen: list[_Outcome], *, drift: float) -> Regime:
    names = expansion.names
    empty = sorted(k for outcome in chosen for k in outcome.empty)
    joined = tuple(names[o.joins] if o.joins != NOWHERE else "" for o in chosen if o.who[0] == "class")
    served = {expansion.servers[o.who[1]]: names[o.serves] for o in chosen if o.serves != NOWHERE}
    return Regime(
        drift=drift,
        routes=function.labels[i][1],
        empty=tuple(names[k] for k in empty),
        joined=joined,
        served=served,
    )


def _kind(expansion: Expansion, routes: tuple[int, ...]) -> str:
    if len(routes) == 1:
        return "one route"
    classes = expansion.route_class[list(routes)]
    return "routes of different classes" if len(set(classes.tolist())) == len(routes) else "others"
