"""Parallel queues with partial choice as arrays for their kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from qsim.distribution import packed, unpacked
from qsim.kernels import flexible as jobs_kernel
from qsim.kernels import flexible_chain as chain_kernel
from qsim.kernels import flexible_events as events_kernel
from qsim.kernels import histogram
from qsim.kernels.random import Array, State
from qsim.kernels.shortest import boundaries, empty_order, empty_tournament
from qsim.lower import Findings, Options
from qsim.lowering.flexible_controls import CONTROLS
from qsim.lowering.flexible_measures import ChainTally, JobsTally, chain_findings, job_findings
from qsim.mean_time import mean_time
from qsim.sampling import Program, alias, program
from qsim.streams import stream
from qtheory.models.errors import InvalidModel
from qtheory.models.flexible import Flexible
from qtheory.models.laws import Exponential

__all__ = ["CONTROLS", "FlexibleSimulator", "lower"]

Kernel = Literal["chain", "jobs", "events"]

#: Lengths that histograms of lengths tell apart; longer queues count as this long there, and nowhere else.
_LENGTHS = 4096
#: Up to so many queues a job looks at them one by one; beyond, the sorted order tells which is shortest.
_FEW = 8
_COLUMNS, _TIMES, _WINDOW = 4, 3, 3
_ROWS = 2


@dataclass(frozen=True, kw_only=True)
class FlexibleSimulator:
    """A system of parallel queues lowered.

    `kernel`: the jump chain of lengths, jobs first come first served, or events.  `choices` are the queues a flexible
    job looks at (0: all of them); `mean` is the mean service.
    """

    model: Flexible
    kernel: Kernel
    service: Program
    mean: float
    queues: int
    choices: int
    at: tuple[float, ...]
    means_only: bool

    def default_warmup(self, *, jobs: int) -> int:
        """A fifth of the run, and four relaxation times, but not more than ten runs and twenty jobs a queue.

        Choice speeds a queue's way to equilibrium up: its own pace is that of M/M/1 with the dedicated arrivals alone,
        that of all queues together the distance of the load from 1.
        """
        load, p = self.model.load, self.model.flexible_fraction
        wanted = 0.0
        if load < 1.0:
            relaxation = 1.0 / (1.0 - math.sqrt(load * (1.0 - p))) ** 2 + 1.0 / (1.0 - load)
            wanted = 4.0 * relaxation * self.queues * load
        return int(min(max(jobs / 5, wanted), 10 * jobs + 20 * self.queues))

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> Array:
        """One replication; a job's draws depend on its index alone, not on load, fraction or discipline."""

        def state(name: str) -> State:
            return stream(seed=seed, replication=replication, name=name)

        if self.kernel == "chain":
            return self._run_chain(state("events"), jobs=jobs, warmup=warmup)
        gap = program(Exponential(mean=self.mean / (self.queues * self.model.load)), field="load")
        at = np.array(self.at, np.float64)
        tally, times, window = np.zeros((_ROWS, _COLUMNS)), np.zeros((_ROWS, _TIMES)), np.zeros(_WINDOW)
        tails, seen = np.zeros((_ROWS, at.size)), np.zeros(_LENGTHS, np.int64)
        buckets = 0 if self.means_only else histogram.BUCKETS
        responses, waits = np.zeros((_ROWS, buckets), np.int64), np.zeros((_ROWS, buckets), np.int64)
        sources = (
            (*gap, state("arrivals")),
            state("class"),
            (*self.service, state("service")),
            state("routing"),
            state("ties"),
            self.model.ties == "lowest",
            self.model.flexible_fraction,
        )
        books = (at, tally, times, window, seen, tails, responses, waits)
        if self.kernel == "jobs":
            self._run_jobs(sources, warmup, jobs, books)
        else:
            self._run_events(sources, warmup, jobs, books)
        return np.concatenate(
            [window, times.ravel(), tally.ravel(), tails.ravel(), seen, *packed(responses), *packed(waits)]
        )

    def summarise(self, tallies: Sequence[Array]) -> Findings:
        """Measures by scope over the replications."""
        if self.kernel == "chain":
            return chain_findings(self.model, [_chain_tally(flat) for flat in tallies], mean=self.mean)
        return job_findings(self.model, [self._tally(flat) for flat in tallies], at=self.at, name=self.kernel)

    def _run_chain(self, state: State, *, jobs: int, warmup: int) -> Array:
        lengths = np.zeros(self.queues, np.int32)
        arrival = self.model.load / (1.0 + self.model.load)
        chances = (_scaled(arrival * (1.0 - self.model.flexible_fraction)), _scaled(arrival))
        distinct = self._distinct
        order, place, first = empty_order(self.queues)
        positions = self._positions()
        found, sums, tally = np.zeros((3, 0), np.int64), np.zeros(3, np.int64), np.zeros(4, np.int64)
        for count in (warmup, jobs):
            found, sums, tally = np.zeros((3, _LENGTHS), np.int64), np.zeros(3, np.int64), np.zeros(4, np.int64)
            books: Any = (count, found, sums, tally)
            if self.choices == 2:
                chain_kernel.run_two(state, lengths, distinct, *chances, *books)
            elif 0 < self.choices <= _FEW:
                chain_kernel.run_several(state, lengths, distinct, self.choices, *chances, *books)
            else:
                chain_kernel.run_sorted(state, lengths, order, place, first, positions, *chances, *books)
                first = boundaries(lengths)
        return np.concatenate([tally, sums, found.ravel()]).astype(np.float64)

    def _run_jobs(self, sources: tuple[Any, ...], warmup: int, jobs: int, books: tuple[Any, ...]) -> None:
        held, spare = jobs_kernel.empty_held(1024)
        rule = jobs_kernel.NUMBER if self.model.shortest == "number" else jobs_kernel.WORKLOAD
        keys, winners = np.empty(0), np.empty(0, np.int64)
        if self.choices == 0:
            rule = jobs_kernel.LEAST_WORKLOAD
            keys, winners = empty_tournament(self.queues, -math.inf)
        simulate: Any = jobs_kernel.simulate
        simulate(
            *sources,
            rule,
            self._distinct,
            max(self.choices, 1),
            jobs_kernel.empty_queues(self.queues),
            held,
            spare,
            keys,
            winners,
            warmup,
            jobs,
            *books,
        )

    def _run_events(self, sources: tuple[Any, ...], warmup: int, jobs: int, books: tuple[Any, ...]) -> None:
        held, spare = events_kernel.empty_jobs(1024)
        way = events_kernel.LOOKED_AT
        if not 0 < self.choices <= _FEW:
            if self.model.ties == "random":
                way = events_kernel.SORTED
            elif self.choices == 0:
                way = events_kernel.LOWEST
        run: Any = events_kernel.run
        run(
            *sources,
            way,
            events_kernel.FIRST_COME if self.model.discipline == "fcfs" else events_kernel.SHARING,
            self._distinct,
            self.choices if way == events_kernel.LOOKED_AT else 1,
            self._positions() if way == events_kernel.SORTED else np.empty(0),
            events_kernel.empty_lines(self.queues),
            held,
            spare,
            empty_tournament(self.queues),
            empty_order(self.queues),
            empty_tournament(self.queues, 0.0),
            warmup,
            jobs,
            4 * (warmup + jobs) + 100_000,
            *books,
        )

    @property
    def _distinct(self) -> bool:
        return self.model.sampling == "distinct" and self.choices > 1

    def _positions(self) -> Array:
        """Alias table of the place, in order of length, of the shortest of the queues looked at; empty: the first."""
        if self.choices == 0:
            return np.empty(0)
        if self.model.sampling == "distinct":
            # P(place i) = C(N - 1 - i, d - 1) / C(N, d) for i = 0, 1, ..., by ratios.
            place = np.arange(self.queues - self.choices)
            ratios = (self.queues - self.choices - place) / (self.queues - 1.0 - place)
            chances = np.cumprod(np.concatenate([[self.choices / self.queues], ratios]))
        else:
            left = (np.arange(self.queues, -1, -1) / self.queues) ** self.choices
            chances = left[:-1] - left[1:]
        return np.array(alias(tuple(chances.tolist())))

    def _tally(self, flat: Array) -> JobsTally:
        sizes = (_WINDOW, _ROWS * _TIMES, _ROWS * _COLUMNS, _ROWS * len(self.at), _LENGTHS)
        window, times, jobs, tails, seen, rows = np.split(flat, np.cumsum(sizes))
        histograms = tuple(unpacked(rows))
        return JobsTally(
            window=window,
            times=times.reshape(_ROWS, _TIMES),
            jobs=jobs.reshape(_ROWS, _COLUMNS),
            tails=tails.reshape(_ROWS, len(self.at)),
            seen=seen,
            responses=histograms[:_ROWS],
            waits=histograms[_ROWS:],
        )


def _scaled(chance: float) -> np.uint64:
    """A probability times 2^64, at most the largest word."""
    return np.uint64(min(int(chance * 2.0**64), 2**64 - 1))


def _chain_tally(flat: Array) -> ChainTally:
    steps, sums, found = np.split(flat, [4, 7])
    return ChainTally(steps=steps, sums=sums, found=found.reshape(3, _LENGTHS).astype(np.int64))


def lower(model: Flexible, *, options: Options) -> FlexibleSimulator:
    """The simulator of parallel queues.

    Option `kernel` ("chain", "jobs" or "events") asks for one of the kernels.  By default: the jump chain for means
    alone of exponential queues; jobs first come first served where a job looks at up to 8 queues, or at workloads;
    else events.

    Raises
    ------
    InvalidModel : infinitely many queues, a law that cannot be sampled, a time in `at` that is no time, an unknown
    option
        or a kernel that does not fit.
    """
    extra: dict[str, Any] = dict(options.extra)
    asked = extra.pop("kernel", None)
    for name in extra:
        raise InvalidModel(field=name, rule="is no option of the simulation of parallel queues")
    if model.queues == "infinite":
        rule = "must be a number to be simulated; the mean field answers for infinitely many"
        raise InvalidModel(field="queues", rule=rule, value=model.queues)
    for time in options.at:
        if not 0 <= time < math.inf:
            raise InvalidModel(field="at", rule="must be a finite time >= 0", value=time)
    mean = mean_time(model.service, field="service")
    if not 0.0 < mean < math.inf:
        raise InvalidModel(field="service", rule="must have a positive and finite mean", value=mean)
    choices = 0 if model.choices in ("all", model.queues) else int(model.choices)
    if model.choices == model.queues and model.sampling == "replacement":
        choices = model.queues
    if model.flexible_fraction == 0.0 and choices != 2:
        # Nobody looks: any number of queues looked at does, and one is least work.
        choices = 1
    if 0 < model.queues <= _FEW and choices == 0:
        choices = model.queues
    fits = _fitting(model, choices=choices, options=options)
    if asked is not None and asked not in fits:
        raise InvalidModel(field="kernel", rule=f"must be one of {', '.join(fits)} for this system", value=asked)
    return FlexibleSimulator(
        model=model,
        kernel=asked or fits[0],
        service=program(model.service, field="service"),
        mean=mean,
        queues=model.queues,
        choices=choices,
        at=options.at,
        means_only=options.means_only,
    )


def _fitting(model: Flexible, *, choices: int, options: Options) -> list[Kernel]:
    """Kernels that can simulate the system, the best first."""
    kernels: list[Kernel] = []
    by_number = model.shortest == "number"
    first_come = model.discipline == "fcfs"
    markov = isinstance(model.service, Exponential) and by_number and first_come
    if markov and options.means_only and not options.at:
        kernels.append("chain")
    few = 0 < choices <= _FEW
    if first_come and (few or not by_number or (model.ties == "lowest" and choices > 0)):
        kernels.append("jobs")
    if by_number:
        kernels.append("events")
    return kernels
