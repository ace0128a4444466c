"""Where a policy counts jobs: one place for all jobs of a class at a server with the same ways left.

Policies that commit a job to a route when it arrives (jsr, jsq-as, bernoulli) have the subservers of the route
expansion for places.  Policies that decide after every service (jsq, maxweight) do not tell jobs with the same
class, server and remaining routes apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from qtheory.models.network import Network, Route
from qtheory.models.policies import JSQ, JSQAS, MaxWeight
from qtheory.systems.network.expansion import Array, Expansion, Indices, expand

#: Among the onward places: the job leaves.
EXIT = -1


@dataclass(frozen=True, kw_only=True)
class Places:
    """The places of a network; jobs enter a class at `entry` and move along `onward`.

    Attributes
    ----------
    expansion : the route expansion of the network.
    klass, server : of each place, shape (places,).
    entry : by class, the places that an arrival may join.
    onward : by place, the places that a job may join after it, or `EXIT`.
    next_on_route : for committed places the one after it on its route, else -1.
    committed : whether places are subservers.
    """

    expansion: Expansion
    klass: Indices
    server: Indices
    entry: tuple[Indices, ...]
    onward: tuple[Indices, ...]
    next_on_route: Indices
    committed: bool

    @property
    def size(self) -> int:
        """Number of places."""
        return len(self.server)

    @property
    def rates(self) -> Array:
        """Service rate of each place's server."""
        return self.expansion.rates[self.server]

    def at(self, n: int) -> Indices:
        """The places of server `n`."""
        return np.flatnonzero(self.server == n)


def places(model: Network) -> Places:
    """The places of a network under its policy."""
    expansion = expand(model)
    if isinstance(model.policy, (JSQ, MaxWeight)):
        return _deciding(expansion)
    return _committed(expansion, switch=isinstance(model.policy, JSQAS) and model.policy.switch)


def _committed(expansion: Expansion, *, switch: bool) -> Places:
    after = expansion.downstream
    onward = []
    for nxt in after:
        if nxt == EXIT or not switch:
            onward.append(np.array([nxt]))
        else:
            same = (expansion.server == expansion.server[nxt]) & (expansion.klass == expansion.klass[nxt])
            onward.append(np.flatnonzero(same))
    first = np.flatnonzero(expansion.position == 0)
    return Places(
        expansion=expansion,
        klass=expansion.klass,
        server=expansion.server,
        entry=tuple(first[expansion.route_class == c] for c in range(len(expansion.arrival_rates))),
        onward=tuple(onward),
        next_on_route=after,
        committed=True,
    )


def _deciding(expansion: Expansion) -> Places:
    number = {name: n for n, name in enumerate(expansion.servers)}
    known: dict[tuple[int, str, frozenset[Route]], int] = {}
    rows: list[tuple[int, int]] = []
    onward: list[list[int]] = []

    def ways(c: int, remaining: Iterable[Route]) -> list[int]:
        heads: dict[str | None, list[Route]] = {}
        for route in remaining:
            heads.setdefault(route[0] if route else None, []).append(route[1:])
        return [EXIT if name is None else place(c, name, tails) for name, tails in heads.items()]

    def place(c: int, name: str, tails: list[Route]) -> int:
        key = c, name, frozenset(tails)
        if key not in known:
            known[key] = k = len(rows)
            rows.append((c, number[name]))
            onward.append([])
            onward[k] = ways(c, tails)
        return known[key]

    entry = []
    for c in range(len(expansion.arrival_rates)):
        entry.append(np.array(ways(c, [expansion.routes[r] for r in expansion.of_class(c)])))
    klass, server = np.array(rows, dtype=np.intp).T
    return Places(
        expansion=expansion,
        klass=klass,
        server=server,
        entry=tuple(entry),
        onward=tuple(np.array(options) for options in onward),
        next_on_route=np.full(len(rows), EXIT),
        committed=False,
    )
