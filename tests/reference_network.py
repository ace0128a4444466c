"""The third witness for acyclic multi-class networks under state-dependent control: a slow, readable jump simulation.

Servers are exponential; a class has a Poisson rate and routes (sequences of servers). Jobs are counted by place.
Policies that commit a job to a route at its arrival (`jsr`, `jsq-as`, `bernoulli`) have one place per route and
position (a subserver; places of one server are duplicates). Policies that decide at every step (`jsq`, `maxweight`)
have one place per class, server and set of ways that are left: jobs with the same future are not told apart.

Which job a server finishes is drawn at the instant of the jump from the state (preemptive, as the control is a
function of the state). Policies are the mappings of a model file:

- {"kind": "jsq"}: join the next server with the fewest jobs of all kinds, at the origin and after each service.
- {"kind": "jsr"}: join the route (of the class) whose own places hold the fewest jobs.
- {"kind": "bernoulli", "split": [[...], ...]}: join a route with the given probabilities, by class in
  order or by name.
- {"kind": "maxweight"}: join the first place with the fewest jobs; a server works on the greatest difference between
  a place and a place after it (leaving counts 0), and only if that is positive.
- {"kind": "jsq-as", "switch": bool, "holding": "idle" | "blocking"}: join the first place with the fewest jobs; a job
  may move on iff the place after its own holds fewer jobs than its own. "idle": places that may not are not served;
  "blocking": they are, and a finished job occupies its server until it may move. With `switch` (default true) it
  moves to the duplicate, among its class, with the fewest jobs.

`sharing` says which place a server works on: "random" (in proportion to jobs, default), "longest", "priority" (with
`order`, a list of class names), "shortest-downstream", "largest-differential", "dominant" (the places that
carry the test function V go first, the earlier position before the later; `weights` alpha, beta, gamma, 3/4 by
default; for committed jobs only).
`ties` ("random" or "lowest") is for routing; ties between places at a server are random, but go to the first
listed under maxweight.

    simulate_network(servers, classes, policy, ...)    -> {("mean_number", scope): Estimate}
    totals_at(times, servers, classes, policy, ...)    -> jobs by server at given instants, for growth rates
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from reference_sim import Estimate, over_replications, stream

Servers = Mapping[str, float]
Class = Mapping[str, object]
Policy = Mapping[str, object]

DOMINANCE_WEIGHTS = {"alpha": 0.75, "beta": 0.75, "gamma": 0.75}


@dataclass(eq=False)
class Place:
    """Jobs of one class at one server with the same ways left; None among the onward ways is the exit."""

    klass: int
    server: str
    route: int | None = None
    position: int | None = None
    onward: list[Place | None] = field(default_factory=list)
    jobs: int = 0
    area: float = 0.0
    changed: float = 0.0


def committed_places(classes: Sequence[Class]) -> list[list[list[Place]]]:
    """Route expansion: by class, by route, the places along it."""
    expansion = []
    for number, klass in enumerate(classes):
        routes = []
        for r, route in enumerate(klass["routes"]):
            line = [Place(number, server, r, position) for position, server in enumerate(route)]
            for place, following in zip(line, [*line[1:], None], strict=True):
                place.onward = [following]
            routes.append(line)
        expansion.append(routes)
    return expansion


def deciding_places(classes: Sequence[Class]) -> tuple[list[list[Place | None]], list[Place]]:
    """First places by class, and all places, when jobs with the same class, server and ways left are one."""
    known: dict[tuple[int, str, frozenset[tuple[str, ...]]], Place] = {}

    def ways(klass: int, suffixes: Iterable[tuple[str, ...]]) -> list[Place | None]:
        by_server: dict[str | None, list[tuple[str, ...]]] = {}
        for suffix in suffixes:
            by_server.setdefault(suffix[0] if suffix else None, []).append(suffix[1:])
        return [None if server is None else at(klass, server, tails) for server, tails in by_server.items()]

    def at(klass: int, server: str, tails: list[tuple[str, ...]]) -> Place:
        key = (klass, server, frozenset(tails))
        if key not in known:
            known[key] = Place(klass, server)
            known[key].onward = ways(klass, tails)
        return known[key]

    first = [ways(number, map(tuple, klass["routes"])) for number, klass in enumerate(classes)]
    return first, list(known.values())


def dominant_places(expansion: Sequence[Sequence[Sequence[Place]]], weights: Mapping[str, float]) -> set[Place]:
    """The places that carry V = max_C gamma^|C| sum_C max_R beta^|R| sum_R max_j alpha^(j-1) (x_r1 + ... + x_rj)."""

    def best(parts: list[tuple[float, list[Place]]], discount: float) -> tuple[float, list[Place]]:
        """Most valuable non-empty subset, each further member discounting all."""
        parts = sorted(parts, key=lambda part: -part[0])
        sums = [(discount ** (m + 1) * sum(p[0] for p in parts[: m + 1]), m + 1) for m in range(len(parts))]
        value, members = max(sums, key=lambda pair: pair[0])
        return value, [place for part in parts[:members] for place in part[1]]

    def prefix(line: Sequence[Place]) -> tuple[float, list[Place]]:
        value, length, jobs = -1.0, 0, 0
        for j, place in enumerate(line):
            jobs += place.jobs
            if weights["alpha"] ** j * jobs > value:
                value, length = weights["alpha"] ** j * jobs, j + 1
        return value, list(line[:length])

    by_class = [best([prefix(line) for line in routes], weights["beta"]) for routes in expansion]
    return set(best(by_class, weights["gamma"])[1])


class NetworkRun:
    """One run of a network from empty."""

    def __init__(self, servers: Servers, classes: Sequence[Class], policy: Policy, rng: random.Random) -> None:
        self.servers, self.classes, self.policy, self.rng = servers, classes, policy, rng
        self.now = 0.0
        self.kind = policy["kind"]
        if self.kind in ("jsq", "maxweight"):
            self.first, self.places = deciding_places(classes)
        elif self.kind in ("jsr", "jsq-as", "bernoulli"):
            self.expansion = committed_places(classes)
            self.first = [[line[0] for line in routes] for routes in self.expansion]
            self.places = [place for routes in self.expansion for line in routes for place in line]
        else:
            raise ValueError(f"policy {self.kind!r}")
        self.sharing = policy.get("sharing", "random")
        self.blocking = self.kind == "jsq-as" and policy.get("holding", "idle") == "blocking"
        self.blocked: dict[str, Place] = {}  # servers occupied by a finished job that may not move on yet
        self.here = {server: [place for place in self.places if place.server == server] for server in servers}
        self.ticks = list(accumulate([*(klass["rate"] for klass in classes), *servers.values()]))
        self.names = list(servers)

    # Counting

    def change(self, place: Place, by: int) -> None:
        place.area += place.jobs * (self.now - place.changed)
        place.changed = self.now
        place.jobs += by

    def clear(self) -> None:
        """Forget what was counted so far."""
        for place in self.places:
            place.area, place.changed = 0.0, self.now

    def counted(self) -> list[float]:
        """Integral of the number of jobs over time since `clear`, by place."""
        return [place.area + place.jobs * (self.now - place.changed) for place in self.places]

    def jobs_at(self, server: str) -> int:
        return sum(place.jobs for place in self.here[server])

    # Choosing

    def least(self, options: Sequence, size: Callable, ties: str) -> object:
        sizes = [size(option) for option in options]
        smallest = min(sizes)
        tied = [option for option, its_size in zip(options, sizes, strict=True) if its_size == smallest]
        return tied[0] if ties == "lowest" or len(tied) == 1 else self.rng.choice(tied)

    def route(self, klass: int) -> Place | None:
        """Where an arriving job goes."""
        ties = self.policy.get("ties", "random")
        if self.kind == "jsq":
            return self.next_server(self.first[klass])
        if self.kind == "jsr":
            line = self.least(self.expansion[klass], lambda line: sum(place.jobs for place in line), ties)
            return line[0]
        if self.kind == "bernoulli":
            split = self.policy["split"]
            weights = split[self.classes[klass]["name"] if isinstance(split, Mapping) else klass]
            return self.rng.choices(self.first[klass], weights=weights)[0]
        return self.least(self.first[klass], jobs_in, ties)

    def next_server(self, options: Sequence[Place | None]) -> Place | None:
        """JSQ: the place at the server with the fewest jobs in all."""

        def size(place: Place | None) -> int:
            return 0 if place is None else self.jobs_at(place.server)

        return self.least(options, size, self.policy.get("ties", "random"))

    def may_move(self, place: Place) -> bool:
        """JSQ-AS: a finished job is held iff the place after its own holds as many jobs or more."""
        after = place.onward[0]
        return self.kind != "jsq-as" or after is None or after.jobs < place.jobs

    def move_on(self, place: Place) -> None:
        """A finished job goes to its next place or leaves."""
        if self.kind == "jsq":
            target = self.next_server(place.onward)
        elif self.kind == "maxweight":
            target = self.least(place.onward, jobs_in, "lowest")
        else:
            target = place.onward[0]
            if target is not None and self.policy.get("switch", True):
                duplicates = [other for other in self.here[target.server] if other.klass == place.klass]
                target = self.least(duplicates, jobs_in, self.policy.get("ties", "random"))
        self.change(place, -1)
        if target is not None:
            self.change(target, 1)

    def served(self, server: str) -> Place | None:
        """The place that the server works on, None if it idles."""
        ready = [place for place in self.here[server] if place.jobs > 0]
        if not self.blocking:
            ready = [place for place in ready if self.may_move(place)]
        if self.kind == "maxweight":
            ready = [place for place in ready if differential(place) > 0]
            return self.least(ready, lambda place: -differential(place), "lowest") if ready else None
        if len(ready) <= 1:
            return ready[0] if ready else None
        if self.sharing == "random":
            return self.rng.choices(ready, weights=[place.jobs for place in ready])[0]
        return self.least(ready, self.rank(), "random")

    def rank(self) -> Callable[[Place], object]:
        """By what a server prefers places: the least goes first."""
        if self.sharing == "longest":
            return lambda place: -place.jobs
        if self.sharing == "priority":
            order = self.policy["order"]
            return lambda place: order.index(self.classes[place.klass]["name"])
        if self.sharing == "shortest-downstream":
            return lambda place: min(jobs_in(after) for after in place.onward)
        if self.sharing == "largest-differential":
            return lambda place: -differential(place)
        if self.sharing == "dominant" and self.kind != "jsq":
            dominant = dominant_places(self.expansion, self.policy.get("weights") or DOMINANCE_WEIGHTS)
            return lambda place: (0, place.position) if place in dominant else (1, 0)
        raise ValueError(f"sharing {self.sharing!r} with policy {self.kind!r}")

    # Moving

    def release(self) -> None:
        """Blocking: finished jobs that may move by now do, until none may."""
        moved = True
        while moved:
            moved = False
            for server, place in list(self.blocked.items()):
                if self.may_move(place):
                    del self.blocked[server]
                    self.move_on(place)
                    moved = True

    def jump(self, number: int) -> None:
        """An arrival of class `number`, or beyond the classes an end of service at a server (if it works)."""
        if number < len(self.classes):
            entered = self.route(number)
            if entered is not None:
                self.change(entered, 1)
        else:
            server = self.names[number - len(self.classes)]
            place = None if server in self.blocked else self.served(server)
            if place is None:
                return
            if self.may_move(place):
                self.move_on(place)
            else:
                self.blocked[server] = place
        if self.blocked:
            self.release()

    def advance(self, until: float) -> None:
        """Run to an instant. Arrivals and service attempts of all servers tick at their constant rates."""
        total = self.ticks[-1]
        while True:
            then = self.now + self.rng.expovariate(total)
            if then >= until:  # memoryless: what is left of this tick may be drawn anew
                self.now = until
                return
            self.now = then
            self.jump(bisect(self.ticks, self.rng.random() * total))


def jobs_in(place: Place | None) -> int:
    return 0 if place is None else place.jobs


def differential(place: Place) -> int:
    """Jobs in the place less those in the emptiest place after it."""
    return place.jobs - min(jobs_in(after) for after in place.onward)


def simulate_network(
    servers: Servers,
    classes: Sequence[Class],
    policy: Policy,
    *,
    time: float,
    warmup: float,
    replications: int,
    seed: int,
) -> dict[tuple[str, str], Estimate]:
    """Time averages of the number of jobs over `time` after `warmup` from empty, by independent replications.

    Scopes: all, each class, each server. Classes are mappings with name, rate and routes.
    """
    runs = []
    for replication in range(replications):
        run = NetworkRun(servers, classes, policy, stream(seed, replication, "network"))
        run.advance(warmup)
        run.clear()
        run.advance(warmup + time)
        average = [area / time for area in run.counted()]
        numbered = list(zip(run.places, average, strict=True))
        values = {("mean_number", "all"): sum(average)}
        for number, klass in enumerate(classes):
            values["mean_number", klass["name"]] = sum(n for place, n in numbered if place.klass == number)
        for server in servers:
            values["mean_number", server] = sum(n for place, n in numbered if place.server == server)
        runs.append(values)
    return over_replications(runs)


def totals_at(
    times: Iterable[float],
    servers: Servers,
    classes: Sequence[Class],
    policy: Policy,
    *,
    seed: int,
    replication: int = 0,
) -> list[dict[str, int]]:
    """Jobs by server at increasing instants of one run from empty."""
    run = NetworkRun(servers, classes, policy, stream(seed, replication, "network"))
    seen = []
    for instant in times:
        run.advance(instant)
        seen.append({server: run.jobs_at(server) for server in servers})
    return seen
