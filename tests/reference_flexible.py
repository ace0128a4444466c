"""The third witness for partial power of d choices: slow, readable event simulation of parallel queues.

A flexible job joins the shortest of its candidate queues, by number of jobs or by workload (time to empty the
queue without further arrivals); a dedicated job has one candidate. Service is first come, first served, or
processor sharing. At one instant departures come before arrivals, arrivals in input order.

    replay_flexible(jobs, queues, ...)    recorded jobs -> queue joined and departure of each
    simulate_flexible(...)                random input -> {(measure, scope): Estimate}
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reference_sim import Estimate, Sampler, Window, mean, over_replications, stream

DEPARTURE, ARRIVAL = 0, 1


@dataclass(eq=False)
class Job:
    """One job; `start` is the begin of its service (None under processor sharing, where nobody waits)."""

    index: int
    arrival: float
    size: float
    candidates: tuple[int, ...]
    tie: float
    queue: int | None = None
    start: float | None = None
    departure: float | None = None


class FirstComeQueue:
    """One server, first come, first served."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque()
        self.empty_at = -math.inf

    def number(self) -> int:
        return len(self.jobs)

    def workload(self, now: float) -> float:
        return max(0.0, self.empty_at - now)

    def join(self, job: Job, now: float) -> None:
        job.start = max(now, self.empty_at)
        self.empty_at = job.start + job.size
        self.jobs.append(job)

    def next_departure(self) -> float:
        return self.jobs[0].start + self.jobs[0].size if self.jobs else math.inf

    def depart(self, now: float) -> Job:
        return self.jobs.popleft()


class SharedQueue:
    """One server, processor sharing: each of n jobs is served at speed 1/n.

    `attained` is the service that a job present since the beginning would have had; a job leaves when it has
    grown by the job's size since it joined. Jobs that leave at one instant leave in order of arrival.
    """

    def __init__(self) -> None:
        self.jobs: list[tuple[float, int, Job]] = []
        self.attained = 0.0
        self.updated = 0.0

    def number(self) -> int:
        return len(self.jobs)

    def _advance(self, now: float) -> None:
        if self.jobs:
            self.attained += (now - self.updated) / len(self.jobs)
        self.updated = now

    def join(self, job: Job, now: float) -> None:
        self._advance(now)
        heapq.heappush(self.jobs, (self.attained + job.size, job.index, job))

    def next_departure(self) -> float:
        if not self.jobs:
            return math.inf
        return self.updated + max(0.0, self.jobs[0][0] - self.attained) * len(self.jobs)

    def depart(self, now: float) -> Job:
        goal, _, job = heapq.heappop(self.jobs)
        self.attained, self.updated = max(self.attained, goal), now
        return job


def replay_flexible(
    jobs: Iterable[tuple[float, float, Sequence[int], float]],
    queues: int,
    *,
    shortest: str = "number",
    discipline: str = "fcfs",
) -> list[Job]:
    """Run recorded jobs (arrival, size, candidate queues, tie), sorted by arrival; jobs in input order.

    Of m tied candidates, in ascending order and each taken once, a job joins number floor(tie * m), tie in [0, 1):
    tie = 0 always takes the lowest.
    """
    if (shortest, discipline) not in {("number", "fcfs"), ("workload", "fcfs"), ("number", "ps")}:
        raise ValueError(f"shortest {shortest!r} with discipline {discipline!r}")
    lines = [FirstComeQueue() if discipline == "fcfs" else SharedQueue() for _ in range(queues)]
    records = []
    for index, (arrival, size, candidates, tie) in enumerate(jobs):
        if records and arrival < records[-1].arrival:
            raise ValueError(f"arrivals must be sorted: job {index} arrives at {arrival}")
        records.append(Job(index, arrival, size, tuple(candidates), tie))
    events = [(job.arrival, ARRIVAL, job.index) for job in records]
    heapq.heapify(events)
    announced = [math.inf] * queues  # the departure instant that stands in the heap for each queue

    def announce(queue: int) -> None:
        announced[queue] = lines[queue].next_departure()
        if announced[queue] < math.inf:
            heapq.heappush(events, (announced[queue], DEPARTURE, queue))

    def choose(job: Job, now: float) -> int:
        lengths = {
            queue: lines[queue].number() if shortest == "number" else lines[queue].workload(now)
            for queue in sorted(set(job.candidates))
        }
        least = min(lengths.values())
        tied = [queue for queue, length in lengths.items() if length == least]
        return tied[int(job.tie * len(tied))]

    while events:
        now, kind, number = heapq.heappop(events)
        if kind == ARRIVAL:
            job = records[number]
            job.queue = choose(job, now)
            lines[job.queue].join(job, now)
            announce(job.queue)
        elif now == announced[number]:  # otherwise the queue has changed since and has announced another instant
            lines[number].depart(now).departure = now
            announce(number)
    return records


def tally_flexible(records: Sequence[Job], *, queues: int, first: int, last: int) -> dict[tuple[str, str], float]:
    """Measures of one run: per-job means over jobs first <= index < last, time averages between their arrivals.

    mean_number and mean_queue are of the whole system; flexible are the jobs with more than one draw.
    """
    window = Window(records[first].arrival, records[last - 1].arrival)
    values: dict[tuple[str, str], float] = {}
    for scope, belongs in (
        ("all", lambda job: True),
        ("flexible", lambda job: len(job.candidates) > 1),
        ("dedicated", lambda job: len(job.candidates) == 1),
    ):
        present = [job for job in records if belongs(job)]
        counted = [job for job in records[first:last] if belongs(job)]
        values["mean_number", scope] = window.average((job.arrival, job.departure) for job in present)
        if counted:
            values["mean_response", scope] = mean(job.departure - job.arrival for job in counted)
        if counted and counted[0].start is not None:
            values["mean_wait", scope] = mean(job.start - job.arrival for job in counted)
            values["wait_probability", scope] = mean(float(job.start > job.arrival) for job in counted)
            values["mean_queue", scope] = window.average((job.arrival, job.start) for job in present)
            values["utilisation", scope] = window.average((job.start, job.departure) for job in present) / queues
    return values


def simulate_flexible(
    *,
    queues: int,
    arrival_rate: float,
    flexible_fraction: float,
    choices: int,
    service: Sampler,
    jobs: int,
    warmup: int,
    replications: int,
    seed: int,
    sampling: str = "distinct",
    ties: str = "random",
    shortest: str = "number",
    discipline: str = "fcfs",
) -> dict[tuple[str, str], Estimate]:
    """Steady-state estimates from independent replications of warmup + jobs + warmup Poisson arrivals each.

    `arrival_rate` is per queue. A flexible job draws `choices` queues, all different or with replacement; a
    dedicated job draws one, uniformly. Only the middle `jobs` are counted.
    """
    if sampling not in ("distinct", "replacement") or ties not in ("random", "lowest"):
        raise ValueError(f"sampling {sampling!r}, ties {ties!r}")

    def draw(rng: random.Random, flexible: bool) -> tuple[int, ...]:
        if not flexible:
            return (rng.randrange(queues),)
        if sampling == "distinct":
            return tuple(rng.sample(range(queues), choices))
        return tuple(rng.randrange(queues) for _ in range(choices))

    runs = []
    for replication in range(replications):
        arrivals, classes, choice, tie, sizes = (
            stream(seed, replication, name) for name in ("arrivals", "class", "choice", "tie", "sizes")
        )
        now, recorded = 0.0, []
        for _ in range(warmup + jobs + warmup):
            now += arrivals.expovariate(queues * arrival_rate)
            candidates = draw(choice, classes.random() < flexible_fraction)
            recorded.append((now, service(sizes), candidates, tie.random() if ties == "random" else 0.0))
        records = replay_flexible(recorded, queues, shortest=shortest, discipline=discipline)
        runs.append(tally_flexible(records, queues=queues, first=warmup, last=warmup + jobs))
    return over_replications(runs)
