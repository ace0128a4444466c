"""Where a network's jobs are counted, and the tables by which its kernel moves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qsim.kernels import network as kernel
from qsim.kernels.network import Ints, Plan, Record, Rules
from qsim.kernels.network_dominance import Weights
from qsim.kernels.random import Array
from qtheory.models.errors import InvalidModel
from qtheory.models.network import Network, Route, routes_of
from qtheory.models.policies import JSQ, JSQAS, Bernoulli, MaxWeight

_SHARING = {
    "random": kernel.RANDOM,
    "longest": kernel.LONGEST,
    "priority": kernel.PRIORITY,
    "dominant": kernel.DOMINANT,
    "shortest-downstream": kernel.SHORTEST_DOWNSTREAM,
    "largest-differential": kernel.LARGEST_DIFFERENTIAL,
}
_HOLDING = {"idle": kernel.IDLE, "blocking": kernel.BLOCKING}
_DEFAULT_WEIGHT = 0.75


@dataclass(kw_only=True)
class Place:
    """Jobs of one class at one server with the same ways left; None among the onward places is the exit."""

    klass: int
    server: str
    route: int = -1
    position: int = 0
    onward: list[Place | None] = field(default_factory=list)
    after: list[Place | None] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The places in order, and by class those that an arrival may join."""

    places: tuple[Place, ...]
    entry: tuple[tuple[Place | None, ...], ...]


def layout(model: Network) -> Layout:
    """One place for each (route, position) where a job keeps to the route it joins at its arrival (jsr, jsq-as,
    bernoulli); else one for all jobs of a class that are at the same server with the same ways left."""
    if isinstance(model.policy, (JSQ, MaxWeight)):
        return _deciding(model)
    return _committed(model)


def _committed(model: Network) -> Layout:
    lines: list[list[Place]] = []
    entry: list[tuple[Place, ...]] = []
    for c, routes in enumerate(routes_of(model)):
        first = len(lines)
        for route in routes:
            line = [Place(klass=c, server=name, route=len(lines), position=i) for i, name in enumerate(route)]
            for place, following in zip(line, [*line[1:], None], strict=True):
                place.onward = place.after = [following]
            lines.append(line)
        entry.append(tuple(line[0] for line in lines[first:]))
    places = [place for line in lines for place in line]
    if isinstance(model.policy, JSQAS) and model.policy.switch:
        for place in places:
            (following,) = place.after
            if following is not None:
                place.onward = [
                    other for other in places if (other.klass, other.server) == (following.klass, following.server)
                ]
    return Layout(places=tuple(places), entry=tuple(entry))


def _deciding(model: Network) -> Layout:
    known: dict[tuple[int, str, frozenset[Route]], Place] = {}

    def ways(c: int, remaining: Sequence[Route]) -> list[Place | None]:
        tails: dict[str | None, list[Route]] = {}
        for route in remaining:
            tails.setdefault(route[0] if route else None, []).append(route[1:])
        return [None if name is None else at(c, name, rest) for name, rest in tails.items()]

    def at(c: int, name: str, rest: Sequence[Route]) -> Place:
        key = c, name, frozenset(rest)
        if key not in known:
            known[key] = Place(klass=c, server=name)
            known[key].onward = known[key].after = ways(c, rest)
        return known[key]

    entry = tuple(tuple(ways(c, routes)) for c, routes in enumerate(routes_of(model)))
    return Layout(places=tuple(known.values()), entry=entry)


def plan(model: Network, where: Layout) -> Plan:
    """The tables of the kernel."""
    places = where.places
    count = len(places)
    number = {id(place): k for k, place in enumerate(places)} | {id(None): count}
    servers = {name: n for n, name in enumerate(model.servers)}
    routes = max(place.route for place in places) + 1
    ranks = _ranks(model)
    lists: list[int] = []

    def listed(options: Sequence[Place | None]) -> tuple[int, int]:
        start = len(lists)
        lists.extend(number[id(option)] for option in options)
        return start, len(lists)

    # Entries come first, so that the chances stand beside them.
    entry = [0] + [listed(options)[1] for options in where.entry]
    here = [len(lists)] + [listed([place for place in places if place.server == name])[1] for name in servers]
    table = np.zeros((count + 1, 10), np.int64)
    for k, place in enumerate(places):
        at_server = count + 1 + servers[place.server]
        # Places off all routes count to a slot of their own that nothing compares.
        on_route = count + 1 + len(servers) + (place.route if place.route >= 0 else routes)
        size = {"jsq": at_server, "jsr": on_route}.get(model.policy.kind(), k)
        row = (at_server, on_route, size, place.klass, ranks[place.klass], place.position)
        table[k] = *row, *listed(place.onward), *listed(place.after)
    table[count, kernel.SIZE] = count
    share, other = alias_table(np.array([*(c.rate for c in model.classes), *model.servers.values()]))
    return Plan(
        share=share,
        other=other,
        places=table,
        lists=np.array(lists, np.int64),
        entry=np.array(entry, np.int64),
        here=np.array(here, np.int64),
        chances=_chances(model, where),
    )


def record(model: Network, where: Layout) -> Record:
    """An empty network, nothing counted."""
    count, servers = len(where.places), len(model.servers)
    at_servers = np.zeros((servers, 3), np.int64)
    at_servers[:, kernel.OCCUPANT] = kernel.NOBODY
    return Record(
        counts=np.zeros(count + 1 + servers + max(place.route for place in where.places) + 2, np.int64),
        clock=np.zeros(5, np.int64),
        at_places=np.zeros((count, 3), np.int64),
        at_servers=at_servers,
        of_classes=np.zeros((len(model.classes), 2), np.int64),
        occupied=np.zeros(servers, np.int64),
        carrying=np.zeros(count, np.int64),
    )


def put(record: Record, plan: Plan, *, jobs: Sequence[int]) -> None:
    """Add jobs by place."""
    for k, more in enumerate(jobs):
        record.counts[[k, plan.places[k, kernel.SERVER_SLOT], plan.places[k, kernel.ROUTE_SLOT]]] += more
        record.clock[kernel.PRESENT] += more


def rules(model: Network, where: Layout) -> Rules:
    """The policy as codes."""
    policy = model.policy
    first = int(policy.ties == "lowest")
    return Rules(
        entry=kernel.FIXED if isinstance(policy, Bernoulli) else kernel.LEAST,
        sharing=kernel.BACKPRESSURE if isinstance(policy, MaxWeight) else _SHARING[policy.sharing],
        holding=_HOLDING[policy.holding] if isinstance(policy, JSQAS) else kernel.FREE,
        first_at_entry=first,
        first_onward=1 if isinstance(policy, MaxWeight) else first,
        exit=len(where.places),
    )


def weights(model: Network, where: Layout) -> Weights:
    """The test function's weights and the room that its evaluation needs."""
    given: Mapping[str, float] = {} if isinstance(model.policy, MaxWeight) else model.policy.weights
    starts = [k for k, place in enumerate(where.places) if place.position == 0]
    of_routes = [where.places[k].klass for k in starts]
    classes = len(model.classes)
    class_start = np.searchsorted(of_routes, np.arange(classes + 1))
    routes = len(starts)
    return Weights(
        alpha=given.get("alpha", _DEFAULT_WEIGHT),
        beta=given.get("beta", _DEFAULT_WEIGHT),
        gamma=given.get("gamma", _DEFAULT_WEIGHT),
        route_start=np.array([*starts, len(where.places)], np.int64),
        class_start=class_start.astype(np.int64),
        route_value=np.zeros(routes),
        route_end=np.zeros(routes, np.int64),
        class_value=np.zeros(classes),
        order=np.zeros(routes + classes, np.int64),
        kept=np.zeros(classes, np.int64),
    )


def alias_table(rates: Array) -> tuple[Array, Ints]:
    """Walker's table (Vose's construction): kind i is kept with probability share[i], else it becomes other[i]."""
    share = rates * (len(rates) / rates.sum())
    other = np.arange(len(rates))
    small = [i for i, value in enumerate(share) if value < 1]
    large = [i for i, value in enumerate(share) if value >= 1]
    while small and large:
        i, j = small.pop(), large[-1]
        other[i] = j
        share[j] -= 1 - share[i]
        if share[j] < 1:
            small.append(large.pop())
    share[small + large] = 1.0
    return share, other


def _ranks(model: Network) -> list[int]:
    names = [c.name for c in model.classes]
    order = () if isinstance(model.policy, MaxWeight) else model.policy.order
    return [order.index(name) if order else 0 for name in names]


def _chances(model: Network, where: Layout) -> Array:
    """Cumulative probabilities of the places at entry, by class one after the other."""
    policy = model.policy
    if not isinstance(policy, Bernoulli):
        return np.zeros(sum(map(len, where.entry)))
    split: list[Sequence[float]] = []
    for c, (jobs, options) in enumerate(zip(model.classes, where.entry, strict=True)):
        if len(options) == 1:
            split.append([1.0])
        elif not policy.split:
            rule = f"is open, and class {jobs.name} has {len(options)} routes: give the probabilities"
            raise InvalidModel(field="policy.split", rule=rule)
        else:
            split.append(policy.split[jobs.name] if isinstance(policy.split, Mapping) else policy.split[c])
    return np.concatenate([np.cumsum(row) for row in split])
