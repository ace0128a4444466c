"""The third witness: a slow, readable event simulation of the two-group dispatcher with killed jobs.

Plain Python and the standard library only, sharing no line with the packages under test. Servers are counted,
jobs wait in lists, and a heap of instants drives everything: nothing here knows the recursion of the fast kernels.

At one instant, in this order: servers free themselves; each freed server takes the head of its own queue; killed
jobs join the back of Queue 1 (several: by original arrival) and an idle Group 1 server takes them at once; this is
repeated while services of length zero end at the same instant; then the next arrival in input order, and so on.
Whether a job is killed is decided by comparing its requirement with its limit, never by comparing instants.

    replay_dispatcher(jobs, servers=(n0, n1), time_limit=T)    recorded jobs -> what became of each
    mean_responses(records), departure_rows(records)           the usual summaries
    simulate_dispatcher(...)                                   random input -> {(measure, scope): Estimate}
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

Sampler = Callable[[random.Random], float]

SERVER_EVENT, ARRIVAL = 0, 1  # at one instant servers come first
CLASS_SCOPES = {"short": "0", "long": "1", "killed": "r0"}


@dataclass
class Job:
    """One job and its history; instants that did not occur are None."""

    index: int
    arrival: float
    service: float
    group: int
    start0: float | None = None
    killed_at: float | None = None
    start1: float | None = None
    departure: float | None = None

    @property
    def klass(self) -> str:
        """File class: `0` completed in Group 0, `1` submitted to Group 1, `r0` killed and restarted."""
        if self.group == 1:
            return "1"
        return "0" if self.killed_at is None else "r0"

    @property
    def joined1(self) -> float | None:
        """Instant at which the job joined Queue 1."""
        return self.arrival if self.group == 1 else self.killed_at

    @property
    def left0(self) -> float | None:
        """Instant at which a job submitted to Group 0 left it, completed or killed."""
        return self.departure if self.killed_at is None else self.killed_at

    @property
    def response(self) -> float:
        """First arrival to final departure."""
        return self.departure - self.arrival

    @property
    def wait0(self) -> float | None:
        return None if self.start0 is None else self.start0 - self.arrival

    @property
    def wait1(self) -> float | None:
        return None if self.start1 is None else self.start1 - self.joined1

    @property
    def wait(self) -> float:
        """Time in queues, the aborted service excluded."""
        return (self.wait0 or 0.0) + (self.wait1 or 0.0)


def replay_dispatcher(
    jobs: Iterable[tuple[float, float, int]],
    servers: tuple[int, int],
    time_limit: float,
    *,
    killed_join: str = "back",
    checkpoint_share: float = 0.0,
    limits: Sequence[float] | None = None,
    grace: float = 0.0,
    grace_completes: bool = True,
) -> list[Job]:
    """Run recorded jobs (arrival, service, group), sorted by arrival, through n0 + n1 servers; jobs in input order.

    Variants, all off by default:

    - killed_join: "back" of Queue 1; "head" (several at one instant: the earliest arrival first in line); or
      "low-priority": killed jobs are taken, without preemption, only when no long job waits.
    - checkpoint_share: a killed job keeps this share of the work done when the limit struck, and needs only
      service - share x work in Group 1.
    - limits: one limit per job in input order (entries of Group 1 jobs are not looked at) instead of time_limit.
    - grace: a job that outran its limit is killed this much later. If grace_completes, it works on meanwhile and is
      done if its requirement ends within limit + grace (so a common grace is just a longer limit); otherwise it is
      lost once it has outrun the limit, and only the server stays taken while it saves its state.
    """
    queue: tuple[deque[Job], deque[Job]] = (deque(), deque())
    low_priority: deque[Job] = deque()
    idle = list(servers)
    events: list[tuple[float, int, int, Job]] = []
    records = []
    for index, (arrival, service, group) in enumerate(jobs):
        if records and arrival < records[-1].arrival:
            raise ValueError(f"arrivals must be sorted: job {index} arrives at {arrival}")
        if group not in (0, 1) or not 0 <= service < math.inf or not math.isfinite(arrival):
            raise ValueError(f"job {index}: arrival {arrival}, service {service}, group {group}")
        records.append(Job(index, arrival, service, group))
        events.append((arrival, ARRIVAL, index, records[-1]))
    if min(servers) < 1 or killed_join not in ("back", "head", "low-priority"):
        raise ValueError(f"servers {servers}, killed_join {killed_join!r}")
    if not 0 <= checkpoint_share <= 1 or grace < 0 or (limits is not None and len(limits) != len(records)):
        raise ValueError(f"checkpoint_share {checkpoint_share}, grace {grace}, or a limit for each job missing")
    heapq.heapify(events)

    def limit(job: Job) -> float:
        return time_limit if limits is None else limits[job.index]

    def outruns(job: Job) -> bool:
        return job.service > limit(job) + (grace if grace_completes else 0.0)

    def remaining(job: Job) -> float:
        """Work that a job needs in Group 1."""
        if job.group == 1:
            return job.service
        return job.service - checkpoint_share * (limit(job) + (grace if grace_completes else 0.0))

    def admit(group: int, now: float) -> None:
        """Idle servers of the group take jobs from the head of its queue."""
        while idle[group] and (queue[group] or (group == 1 and low_priority)):
            job = queue[group].popleft() if queue[group] else low_priority.popleft()
            idle[group] -= 1
            if group == 0:
                job.start0 = now
                end = now + (limit(job) + grace if outruns(job) else job.service)
            else:
                job.start1 = now
                end = now + remaining(job)
            heapq.heappush(events, (end, SERVER_EVENT, job.index, job))

    def servers_end(now: float) -> None:
        """All services that end now: servers free, heads of queues taken, killed jobs to Queue 1."""
        killed = []
        while events and events[0][:2] == (now, SERVER_EVENT):
            job = heapq.heappop(events)[3]
            in_group0 = job.start1 is None and job.group == 0
            idle[0 if in_group0 else 1] += 1
            if in_group0 and outruns(job):
                job.killed_at = now
                killed.append(job)
            else:
                job.departure = now
        admit(0, now)
        admit(1, now)
        killed.sort(key=lambda job: (job.arrival, job.index))
        if killed_join == "back":
            queue[1].extend(killed)
        elif killed_join == "head":
            queue[1].extendleft(reversed(killed))
        else:
            low_priority.extend(killed)
        admit(1, now)

    while events:
        now, kind, _, job = events[0]
        if kind == SERVER_EVENT:
            servers_end(now)
        else:
            heapq.heappop(events)
            queue[job.group].append(job)
            admit(job.group, now)
    return records


def rules_of(model: object) -> dict[str, object]:
    """The rules for killed jobs in the fields of a model, as `replay_dispatcher` takes them; limits are drawn apart."""
    names = ("killed_join", "checkpoint_share", "grace", "grace_completes")
    return {name: getattr(model, name) for name in names}


def mean(values: Iterable[float]) -> float:
    values = list(values)
    return math.fsum(values) / len(values)


def mean_responses(records: Sequence[Job]) -> dict[str, float]:
    """Mean response of all jobs and of each class that has jobs."""
    scopes = {"all": [job.response for job in records]}
    for scope, klass in CLASS_SCOPES.items():
        scopes[scope] = [job.response for job in records if job.klass == klass]
    return {scope: mean(values) for scope, values in scopes.items() if values}


def departure_rows(records: Iterable[Job]) -> list[tuple[float, float, str]]:
    """(arrival, departure, class), ordered by departure, then arrival, then input order."""
    ordered = sorted(records, key=lambda job: (job.departure, job.arrival, job.index))
    return [(job.arrival, job.departure, job.klass) for job in ordered]


@dataclass(frozen=True)
class Estimate:
    """Mean over independent replications and its standard error (Student, replications - 1 degrees of freedom)."""

    value: float
    standard_error: float
    replications: int

    def z(self, truth: float) -> float:
        """Distance from a supposed truth in standard errors."""
        return (self.value - truth) / self.standard_error


def over_replications(runs: Sequence[Mapping[tuple[str, str], float]]) -> dict[tuple[str, str], Estimate]:
    """Pool replications measure by measure; a measure that some replication has not determined is left out."""
    estimates = {}
    for key in runs[0]:
        if all(key in run for run in runs):
            values = [run[key] for run in runs]
            centre = mean(values)
            variance = math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)
            estimates[key] = Estimate(centre, math.sqrt(variance / len(values)), len(values))
    return estimates


def stream(seed: int, replication: int, name: str) -> random.Random:
    """A random stream of its own for each replication and purpose."""
    return random.Random(f"{seed}/{replication}/{name}")


@dataclass(frozen=True)
class Window:
    """The stretch of time over which time averages are taken."""

    begin: float
    end: float

    def average(self, intervals: Iterable[tuple[float | None, float | None]]) -> float:
        """Time average of the number of intervals [from, to) that are open; intervals that never began are None."""
        covered = (max(0.0, min(to, self.end) - max(start, self.begin)) for start, to in intervals if start is not None)
        return math.fsum(covered) / (self.end - self.begin)

    def count(self, instants: Iterable[float | None]) -> int:
        return sum(1 for instant in instants if instant is not None and self.begin <= instant < self.end)


def tally_dispatcher(
    records: Sequence[Job], *, servers: tuple[int, int], first: int, last: int
) -> dict[tuple[str, str], float]:
    """Measures of one run: per-job means over jobs first <= index < last, time averages between their arrivals."""
    counted = records[first:last]
    window = Window(records[first].arrival, records[last - 1].arrival)
    jobs = {"all": counted}
    present = {"all": records}
    for scope, klass in CLASS_SCOPES.items():
        jobs[scope] = [job for job in counted if job.klass == klass]
        present[scope] = [job for job in records if job.klass == klass]
    group0 = [job for job in records if job.group == 0]
    group1 = [job for job in records if job.start1 is not None]
    values: dict[tuple[str, str], float] = {}
    for scope, members in jobs.items():
        if members:
            values["mean_response", scope] = mean(job.response for job in members)
            values["mean_wait", scope] = mean(job.wait for job in members)
            values["wait_probability", scope] = mean(float(job.wait > 0) for job in members)
        values["mean_number", scope] = window.average((job.arrival, job.departure) for job in present[scope])
        values["throughput", scope] = window.count(job.departure for job in present[scope]) / (
            window.end - window.begin
        )
    for scope, members, wait in (
        ("group0", [job for job in counted if job.group == 0], lambda job: job.wait0),
        ("group1", [job for job in counted if job.start1 is not None], lambda job: job.wait1),
        ("group1_long", jobs["long"], lambda job: job.wait1),
        ("group1_killed", jobs["killed"], lambda job: job.wait1),
    ):
        if members:
            values["mean_wait", scope] = mean(wait(job) for job in members)
            values["wait_probability", scope] = mean(float(wait(job) > 0) for job in members)
    submitted0 = [job for job in counted if job.group == 0]
    if submitted0:
        values["kill_probability", "group0"] = len(jobs["killed"]) / len(submitted0)
    values["kill_probability", "all"] = len(jobs["killed"]) / len(counted)
    values["mean_number", "group0"] = window.average((job.arrival, job.left0) for job in group0)
    values["mean_number", "group1"] = window.average((job.joined1, job.departure) for job in group1)
    values["mean_queue", "group0"] = window.average((job.arrival, job.start0) for job in group0)
    values["mean_queue", "group1"] = window.average((job.joined1, job.start1) for job in group1)
    values["mean_queue", "all"] = values["mean_queue", "group0"] + values["mean_queue", "group1"]
    values["utilisation", "group0"] = window.average((job.start0, job.left0) for job in group0) / servers[0]
    values["utilisation", "group1"] = window.average((job.start1, job.departure) for job in group1) / servers[1]
    return values


def simulate_dispatcher(
    *,
    servers: tuple[int, int],
    time_limit: float,
    short_fraction: float,
    interarrival: Sampler,
    service0: Sampler,
    service1: Sampler,
    jobs: int,
    warmup: int,
    replications: int,
    seed: int,
    **variants: object,
) -> dict[tuple[str, str], Estimate]:
    """Steady-state estimates from independent replications of warmup + jobs + warmup arrivals each.

    Only the middle `jobs` are counted, each followed to its departure; the arrivals after them keep the system
    as busy as before while they leave. A sampler takes a random.Random and returns one time. Variants are those
    of `replay_dispatcher` (limits excepted). Keys are (measure, scope); a scope without jobs has none.
    """
    runs = []
    for replication in range(replications):
        arrivals, groups, sizes0, sizes1 = (
            stream(seed, replication, name) for name in ("arrivals", "class", "service0", "service1")
        )
        now, recorded = 0.0, []
        for _ in range(warmup + jobs + warmup):
            now += interarrival(arrivals)
            group = 0 if groups.random() < short_fraction else 1
            recorded.append((now, service1(sizes1) if group else service0(sizes0), group))
        records = replay_dispatcher(recorded, servers, time_limit, **variants)
        runs.append(tally_dispatcher(records, servers=servers, first=warmup, last=warmup + jobs))
    return over_replications(runs)
