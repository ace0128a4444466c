"""A network as tables for its kernel, its runs, and their tallies as measures and a verdict of stability."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsim.kernels import network as kernel
from qsim.kernels.network import Ints, Plan, Record, Rules
from qsim.kernels.random import Array, State
from qsim.lower import Findings, Options
from qsim.lowering.network_controls import control_names, control_samples, controls_of
from qsim.lowering.network_measures import Tally, samples
from qsim.lowering.network_places import Layout, layout, plan, put, record, rules, weights
from qsim.lowering.network_verdict import ARRIVALS, TRANSITS, WINDOWS, Growth, judge
from qsim.streams import stream
from qtheory.models.errors import InvalidModel
from qtheory.models.network import Network, routes_of

__all__ = ["NetworkSimulator", "control_names", "lower"]

#: The second run, from a large start, ends after 1/2^1 of the first.
_SECOND = 1
#: Every server ticks at its rate: with more ticks to an arrival a run would hardly end.
_MOST_TICKS = 1e5


@dataclass(frozen=True, kw_only=True)
class NetworkSimulator:
    """A network lowered. Runs begin with the jobs by place of `start`; `verdict` asks for the second run."""

    model: Network
    where: Layout
    plan: Plan
    rules: Rules
    start: tuple[int, ...]
    verdict: bool

    @property
    def tick_rate(self) -> float:
        """Ticks per unit time."""
        return float(sum(c.rate for c in self.model.classes) + sum(self.model.servers.values()))

    def default_warmup(self, *, jobs: int) -> int:
        """A quarter of the counted jobs: a start from empty is forgotten slowly near the limit of stability."""
        return jobs // 4

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> Array:
        """One replication: marks of its growth, its window of counted jobs, and the second run."""
        whole = jobs + warmup
        ends = [whole >> shift for shift in range(WINDOWS + 1)]
        first = _Run(self, start=self.start, seed=seed, replication=replication)
        marks = {0: first.mark()}
        before = first.tallies()
        for end in sorted({*ends, warmup}):
            first.advance(end)
            marks[end] = first.mark()
            if end == warmup:
                before = first.tallies()
        counted = first.tallies() - before
        growth = np.array([marks[end] for end in ends])
        return np.concatenate([growth.ravel(), self._second(seed, replication, whole, marks), counted])

    def _second(self, seed: int, replication: int, whole: int, marks: Mapping[int, tuple[float, float]]) -> Array:
        """Mean total of the run from a large start and of the first, over the same arrivals, and the start's size."""
        if not self.verdict:
            return np.zeros(3)
        end, half = whole >> _SECOND, whole >> (_SECOND + 1)
        size = len(self.where.places)
        each = math.ceil(math.sqrt(max(whole, 1)) / size)
        second = _Run(self, start=(each,) * size, seed=seed, replication=replication)
        second.advance(half)
        middle = second.mark()
        second.advance(end)
        large, small = _mean(middle, second.mark()), _mean(marks[half], marks[end])
        return np.array([large, small, each * size])

    def summarise(self, tallies: Sequence[Array]) -> Findings:
        """Measures by scope and the verdict; a network that is not stable has no measures."""
        cut = 2 * (WINDOWS + 1)
        rows = np.stack(list(tallies))
        growth = rows[:, :cut].reshape(len(rows), WINDOWS + 1, 2)
        details: dict[str, Any] = {}
        if self.verdict:
            details = self._judged(growth, rows[:, cut : cut + 3])
        if details.get("stability") in ("unstable", "critical"):
            return Findings(samples={}, details=details)
        counted = [self._tally(row[cut + 3 :]) for row in rows]
        found = samples(
            self.model,
            counted,
            class_of=self.plan.places[:-1, kernel.CLASS],
            server_of=self._server_of(),
            tick_rate=self.tick_rate,
        )
        return Findings(
            samples=found,
            details=details,
            controls=control_samples(self.model, counted, tick_rate=self.tick_rate),
            controlled={key: controls_of(self.model, key) for key in found},
        )

    def _judged(self, growth: Array, second: Array) -> dict[str, Any]:
        ticks, areas = growth[:, :, 0], growth[:, :, 1]
        long = ticks[:, :-1] - ticks[:, 1:]
        with np.errstate(invalid="ignore"):
            means = np.where(long > 0, (areas[:, :-1] - areas[:, 1:]) / long, 0.0)
        centres = (ticks[:, :-1] + ticks[:, 1:]) / (2 * self.tick_rate)
        time = float(ticks[:, 0].min()) / self.tick_rate
        arrivals = time * sum(c.rate for c in self.model.classes)
        long_enough = arrivals > ARRIVALS and time > TRANSITS * self._transit()
        if not (long[:, -1] > 0).all():
            return {"stability": "undecided", "slope": 0.0, "exponent": 0.0}
        kept = (second[:, 0] - second[:, 1]) / second[:, 2]
        return judge(Growth(means=means, centres=centres, kept=kept), long_enough=long_enough).details()

    def _transit(self) -> float:
        """Mean service time along the longest route."""
        servers = self.model.servers
        return max(sum(1 / servers[name] for name in route) for routes in routes_of(self.model) for route in routes)

    def _server_of(self) -> Ints:
        return self.plan.places[:-1, kernel.SERVER_SLOT] - self.rules.exit - 1

    def _tally(self, flat: Array) -> Tally:
        places, servers, classes = len(self.where.places), len(self.model.servers), len(self.model.classes)
        sizes = [1, places, places, servers, servers, classes, classes]
        ticks, *parts = np.split(flat, np.cumsum(sizes)[:-1])
        area, moves, ticked, ended, came, left = parts
        return Tally(ticks=float(ticks[0]), area=area, moves=moves, ticked=ticked, ended=ended, came=came, left=left)


class _Run:
    """One run: the kernel's state and its two streams."""

    def __init__(self, simulator: NetworkSimulator, *, start: Sequence[int], seed: int, replication: int) -> None:
        self.plan, self.rules = simulator.plan, simulator.rules
        self.weights = weights(simulator.model, simulator.where)
        self.record: Record = record(simulator.model, simulator.where)
        put(self.record, self.plan, jobs=start)
        # Ticks and choices are streams of their own: runs of one replication meet the same ticks whatever they choose.
        self.events: State = stream(seed=seed, replication=replication, name="events")
        self.choices: State = stream(seed=seed, replication=replication, name="routing")

    def advance(self, arrivals: int) -> None:
        """Run until so many arrivals in all."""
        kernel.advance(self.plan, self.rules, self.weights, self.record, self.events, self.choices, arrivals)

    def mark(self) -> tuple[float, float]:
        """Ticks so far, and the sum of the total number of jobs over them."""
        return float(self.record.clock[kernel.TICKS]), float(self.record.clock[kernel.TOTAL_AREA])

    def tallies(self) -> Array:
        """Everything counted so far, in the order of `Tally`."""
        at_places, at_servers = self.record.at_places, self.record.at_servers
        parts = (
            self.record.clock[: kernel.TICKS + 1],
            at_places[:, kernel.AREA],
            at_places[:, kernel.MOVES],
            at_servers[:, kernel.TICKED],
            at_servers[:, kernel.ENDED],
            self.record.of_classes[:, kernel.CAME],
            self.record.of_classes[:, kernel.LEFT],
        )
        return np.concatenate(parts).astype(np.float64)


def _mean(begin: tuple[float, float], end: tuple[float, float]) -> float:
    ticks = end[0] - begin[0]
    return (end[1] - begin[1]) / ticks if ticks > 0 else 0.0


def lower(model: Network, *, options: Options) -> NetworkSimulator:
    """The simulator of a network.

    Options: `start`, jobs by server (split evenly over its places) or by "class/server"; `verdict = False` leaves out
    the verdict of stability and its second run.

    Raises `InvalidModel` for times in `at`, an unknown option, a wrong start, a Bernoulli split that is open, and
    traffic so light that servers tick more than 1e5 times to an arrival.
    """
    known = {"start", "verdict"}
    for name in options.extra:
        if name not in known:
            raise InvalidModel(field=name, rule=f"is no option of a network's simulation ({', '.join(sorted(known))})")
    if options.at:
        raise InvalidModel(field="at", rule="tail_response is not known for a network; its measures are means")
    where = layout(model)
    simulator = NetworkSimulator(
        model=model,
        where=where,
        plan=plan(model, where),
        rules=rules(model, where),
        start=_start(model, where, options.extra.get("start", {})),
        verdict=bool(options.extra.get("verdict", True)),
    )
    arriving = sum(c.rate for c in model.classes)
    if simulator.tick_rate > _MOST_TICKS * arriving:
        rule = f"must bring an arrival in {_MOST_TICKS:g} services that the servers could do, to be simulated"
        raise InvalidModel(field="classes", rule=rule, value=f"one in {simulator.tick_rate / arriving:.3g}")
    return simulator


def _start(model: Network, where: Layout, wanted: Mapping[str, int]) -> tuple[int, ...]:
    """Jobs by place; what does not divide evenly goes to the first places."""
    jobs = [0] * len(where.places)
    classes = {c.name: i for i, c in enumerate(model.classes)}
    for name, count in wanted.items():
        owner, _, server = name.rpartition("/")
        if server not in model.servers or (owner and owner not in classes):
            raise InvalidModel(field="start", rule='must name servers, or "class/server"', value=name)
        if count < 0 or count != int(count):
            raise InvalidModel(field=f"start.{name}", rule="must be a whole number of jobs >= 0", value=count)
        here = [
            k
            for k, place in enumerate(where.places)
            if place.server == server and (not owner or place.klass == classes[owner])
        ]
        if not here:
            raise InvalidModel(field=f"start.{name}", rule="no such jobs pass this server")
        for i, k in enumerate(here):
            jobs[k] += int(count) // len(here) + (i < int(count) % len(here))
    return tuple(jobs)
