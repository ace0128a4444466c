"""Acyclic multi-class networks whose routing, sequencing and holding look at the state only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Annotated

import msgspec
from msgspec import Meta

from qtheory.models.base import Positive, Spec, require
from qtheory.models.policies import Bernoulli, MaxWeight, NetworkPolicy

Route = tuple[str, ...]

#: Edges that open more paths than this are refused: list the routes that are meant.
MOST_ROUTES = 10_000


class NetworkClass(Spec, frozen=True, kw_only=True, tag=False):
    """Jobs that arrive at `rate` and take one of `routes` (lists of server names), or any path between
    `origin` and `destination` along the network's edges."""

    rate: Positive
    routes: tuple[Route, ...] = ()
    name: str = ""
    origin: str = ""
    destination: str = ""


class Network(Spec, frozen=True, kw_only=True, tag="network"):
    """Exponential servers, infinite buffers, Poisson classes.

    Attributes
    ----------
    servers : service rate by name.
    policy : how jobs are routed, sequenced and held.
    classes : the classes of jobs, in order; those without a name are called class1, class2, ... by their place.
    edges : instead of routes, the arcs of the network between origins, servers and destinations.
    """

    servers: Annotated[Mapping[str, float], Meta(min_length=1)]
    policy: NetworkPolicy
    classes: Annotated[tuple[NetworkClass, ...], Meta(min_length=1)]
    edges: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        named = tuple(c if c.name else c.replace(name=f"class{i}") for i, c in enumerate(self.classes, start=1))
        msgspec.structs.force_setattr(self, "classes", named)
        _check_servers(self)
        _check_names(self)
        if self.edges:
            _check_edges(self)
        else:
            _check_routes(self)
        _check_policy(self)


def routes_of(model: Network) -> tuple[tuple[Route, ...], ...]:
    """The routes of each class, as listed or, where the network is given by edges, every path from origin to
    destination in depth-first order.

    >>> from qtheory.models import JSR
    >>> line = NetworkClass(rate=0.5, origin="A", destination="B")
    >>> edges = [["A", "s1"], ["s1", "s2"], ["s2", "B"], ["s1", "B"]]
    >>> routes_of(Network(servers={"s1": 1, "s2": 1}, classes=[line], edges=edges, policy=JSR()))
    ((('s1', 's2'), ('s1',)),)
    """
    if not model.edges:
        return tuple(c.routes for c in model.classes)
    return tuple(tuple(_paths(model, c)) for c in model.classes)


def _paths(model: Network, jobs: NetworkClass) -> Iterator[Route]:
    after: dict[str, list[str]] = {}
    for start, end in model.edges:
        after.setdefault(start, []).append(end)
    useful = _leading_to(model, jobs.destination)
    ways = [iter(after.get(jobs.origin, ()))]
    path: list[str] = []
    while ways:
        node = next(ways[-1], None)
        if node is None:
            ways.pop()
            if path:
                path.pop()
        elif node in useful:
            path.append(node)
            ways.append(iter(after.get(node, ())))
        elif node == jobs.destination and path:
            yield tuple(path)


def _leading_to(model: Network, destination: str) -> set[str]:
    """The servers from which `destination` can be reached: the search turns into no blind alley."""
    before: dict[str, list[str]] = {}
    for start, end in model.edges:
        before.setdefault(end, []).append(start)
    found: set[str] = set()
    waiting = [destination]
    while waiting:
        for node in before.get(waiting.pop(), ()):
            if node in model.servers and node not in found:
                found.add(node)
                waiting.append(node)
    return found


def _check_servers(model: Network) -> None:
    for name, rate in model.servers.items():
        field = f"servers.{name}"
        require(bool(name), field="servers", rule="a server needs a name", value=name)
        require(math.isfinite(rate) and rate > 0, field=field, rule="must be a finite rate > 0", value=rate)


def _check_names(model: Network) -> None:
    seen: set[str] = set()
    for index, jobs in enumerate(model.classes):
        field = f"classes.{index}.name"
        require(
            jobs.name != "all", field=field, rule='no class may be named "all": it means the whole', value=jobs.name
        )
        require(jobs.name not in model.servers, field=field, rule="is the name of a server", value=jobs.name)
        require(jobs.name not in seen, field=field, rule="is the name of another class", value=jobs.name)
        seen.add(jobs.name)
    require("all" not in model.servers, field="servers.all", rule='no server may be named "all": it means the whole')


def _check_routes(model: Network) -> None:
    for index, jobs in enumerate(model.classes):
        place = f"classes.{index}"
        for name in ("origin", "destination"):
            value = getattr(jobs, name)
            require(not value, field=f"{place}.{name}", rule="goes with edges; this network has none", value=value)
        rule = f"class {jobs.name} needs at least one route, or edges with origin and destination"
        require(bool(jobs.routes), field=f"{place}.routes", rule=rule)
        for r, route in enumerate(jobs.routes):
            field = f"{place}.routes.{r}"
            require(bool(route), field=field, rule=f"class {jobs.name} has an empty route: name at least one server")
            for i, server in enumerate(route):
                require(server in model.servers, field=f"{field}.{i}", rule="names no server", value=server)
                rule = f"visits a server twice (cycle {' -> '.join(route[route.index(server) : i + 1])})"
                require(server not in route[:i], field=field, rule=rule)
            require(route not in jobs.routes[:r], field=field, rule="is listed twice", value=list(route))
    arcs = {arc for jobs in model.classes for route in jobs.routes for arc in pairwise(route)}
    _check_acyclic(arcs, field="classes")


def _check_edges(model: Network) -> None:
    origins = {c.origin for c in model.classes}
    ends = {c.destination for c in model.classes}
    for index, jobs in enumerate(model.classes):
        place = f"classes.{index}"
        rule = "go without edges: give routes, or edges with origin and destination"
        require(not jobs.routes, field=f"{place}.routes", rule=rule)
        for name in ("origin", "destination"):
            value = getattr(jobs, name)
            require(bool(value), field=f"{place}.{name}", rule="is required, for the network is given by edges")
            require(value not in model.servers, field=f"{place}.{name}", rule="is the name of a server", value=value)
    for index, (start, end) in enumerate(model.edges):
        known = start in model.servers or start in origins
        rule = "must be a server or the origin of a class"
        require(known, field=f"edges.{index}.0", rule=rule, value=start)
        known = end in model.servers or end in ends
        require(known, field=f"edges.{index}.1", rule="must be a server or the destination of a class", value=end)
        rule = "joins an origin to a destination without a server between"
        require(start in model.servers or end in model.servers, field=f"edges.{index}", rule=rule, value=[start, end])
        require((start, end) not in model.edges[:index], field=f"edges.{index}", rule="is listed twice")
    _check_acyclic({(a, b) for a, b in model.edges if a in model.servers and b in model.servers}, field="edges")
    for index, jobs in enumerate(model.classes):
        paths = _paths(model, jobs)
        rule = f"cannot be reached from {jobs.origin} along the edges (class {jobs.name})"
        reached = next(paths, None) is not None
        require(reached, field=f"classes.{index}.destination", rule=rule, value=jobs.destination)
        few = sum(1 for _, _ in zip(range(MOST_ROUTES), paths, strict=False)) < MOST_ROUTES
        rule = f"give class {jobs.name} more than {MOST_ROUTES} routes: list the routes that are meant"
        require(few, field="edges", rule=rule)


def _check_acyclic(arcs: set[tuple[str, str]], *, field: str) -> None:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for start, end in sorted(arcs):
        sorter.add(end, start)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        require(False, field=field, rule=f"the network must be acyclic, it holds the cycle {cycle}")


def _check_policy(model: Network) -> None:
    policy = model.policy
    if isinstance(policy, MaxWeight):
        return
    names = tuple(c.name for c in model.classes)
    if policy.order:
        rule = f"must name each class once ({', '.join(names)})"
        require(sorted(policy.order) == sorted(names), field="policy.order", rule=rule, value=list(policy.order))
    if isinstance(policy, Bernoulli) and policy.split:
        _check_split(model, policy)


def _check_split(model: Network, policy: Bernoulli) -> None:
    names = tuple(c.name for c in model.classes)
    counts = dict(zip(names, map(len, routes_of(model)), strict=True))
    if isinstance(policy.split, Mapping):
        for name in policy.split:
            require(name in counts, field=f"policy.split.{name}", rule="names no class", value=name)
        for name, count in counts.items():
            rule = f"class {name} has {count} routes: give their probabilities"
            require(name in policy.split or count == 1, field="policy.split", rule=rule)
        rows = {f"policy.split.{name}": (counts[name], row) for name, row in policy.split.items()}
    else:
        rule = f"must have one row for each of {len(names)} classes"
        require(len(policy.split) == len(names), field="policy.split", rule=rule, value=len(policy.split))
        table = enumerate(zip(names, policy.split, strict=True))
        rows = {f"policy.split.{i}": (counts[name], row) for i, (name, row) in table}
    for field, (count, row) in rows.items():
        rule = f"must have one probability for each of {count} routes"
        require(len(row) == count, field=field, rule=rule, value=list(row))
