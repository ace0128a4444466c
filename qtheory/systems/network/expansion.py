"""Route expansion: all routes in parallel, one subserver for each (route, position); copies of a server are duplicates.

Xie and Jin, "Stabilizing queuing networks with model data-independent control", section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qtheory.models.network import Network, routes_of

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

NOWHERE = -1


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """The expanded network.  Subservers are numbered along the routes, routes by class as listed.

    Attributes
    ----------
    model : the network.
    servers : names, in the order of the model; `rates` their service rates, shape (servers,).
    arrival_rates : shape (classes,).
    routes : server names of each route; `route_class` its class, shape (routes,).
    klass, route, position, server : of each subserver, shape (subservers,); positions from 0.
    """

    model: Network
    servers: tuple[str, ...]
    rates: Array
    arrival_rates: Array
    routes: tuple[tuple[str, ...], ...]
    route_class: Indices
    klass: Indices
    route: Indices
    position: Indices
    server: Indices

    @property
    def size(self) -> int:
        """Number of subservers."""
        return len(self.server)

    @property
    def upstream(self) -> Indices:
        """The subserver before each one on its route, `NOWHERE` for the first."""
        return np.asarray(np.where(self.position > 0, np.arange(self.size) - 1, NOWHERE))

    @property
    def downstream(self) -> Indices:
        """The subserver after each one on its route, `NOWHERE` for the last."""
        ends = np.append(self.position[1:] == 0, True)
        return np.asarray(np.where(ends, NOWHERE, np.arange(self.size) + 1))

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each subserver: that of its server, with a letter where it has duplicates (s3a, s3b)."""
        seen = [0] * len(self.servers)
        counts = np.bincount(self.server, minlength=len(self.servers))
        names = []
        for n in self.server:
            names.append(self.servers[n] + (_letters(seen[n]) if counts[n] > 1 else ""))
            seen[n] += 1
        return tuple(names)

    def duplicates(self, k: int) -> Indices:
        """The other subservers that stand for the server of subserver `k`."""
        same = np.flatnonzero(self.server == self.server[k])
        return np.asarray(same[same != k])

    def of_route(self, r: int) -> Indices:
        """The subservers of route `r`, in order."""
        return np.flatnonzero(self.route == r)

    def of_class(self, c: int) -> Indices:
        """The routes of class `c`."""
        return np.flatnonzero(self.route_class == c)

    def visits(self) -> Array:
        """1 where a route passes a server, shape (servers, routes)."""
        table = np.zeros((len(self.servers), len(self.routes)))
        table[self.server, self.route] = 1.0
        return table


def expand(model: Network) -> Expansion:
    """The route expansion of a network.

    >>> from qtheory.models import JSR, NetworkClass
    >>> model = Network(
    ...     servers={"s1": 1.0, "s2": 1.0, "s3": 0.25, "s4": 1.0, "s5": 1.0},
    ...     classes=[
    ...         NetworkClass(rate=1.0, routes=[["s1", "s3"], ["s4"]]),
    ...         NetworkClass(rate=1.0, routes=[["s2"], ["s3", "s5"]]),
    ...     ],
    ...     policy=JSR(),
    ... )
    >>> expand(model).names
    ('s1', 's3a', 's4', 's2', 's3b', 's5')
    """
    servers = tuple(model.servers)
    number = {name: n for n, name in enumerate(servers)}
    routes = [(c, route) for c, listed in enumerate(routes_of(model)) for route in listed]
    places = [(c, r, i, number[name]) for r, (c, route) in enumerate(routes) for i, name in enumerate(route)]
    klass, route_index, position, server = np.array(places, dtype=np.intp).T
    return Expansion(
        model=model,
        servers=servers,
        rates=np.array(list(model.servers.values())),
        arrival_rates=np.array([c.rate for c in model.classes]),
        routes=tuple(route for _, route in routes),
        route_class=np.array([c for c, _ in routes], dtype=np.intp),
        klass=klass,
        route=route_index,
        position=position,
        server=server,
    )


def _letters(n: int) -> str:
    """a, b, ..., z, aa, ab, ..."""
    text = ""
    n += 1
    while n:
        n, last = divmod(n - 1, 26)
        text = chr(ord("a") + last) + text
    return text
