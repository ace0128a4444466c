"""The third witness for the beneficiary-donor system: slow, readable event simulation, general size laws.

Server 1 serves only type 1, at speed 1; server 2 (the donor) serves type 2 at speed 1 and type 1 at speed
`donor_speed` = mu12 / mu1. Sizes are the times that a job takes at speed 1, so type 1 sizes have mean 1/mu1 and
type 2 sizes mean 1/mu2; for exponential sizes this is the Markov system with rates mu1, mu12, mu2. Service is
preemptive resume: work done is kept, on whichever server.

What server 2 does is a function of (N1, N2) alone, looked up anew after every event (`serves`). Type 2 is served
first come, first served. Which type 1 jobs are in service, when both servers are on queue 1, is free for
exponential sizes but not for others; two rules are offered:

- "stay" (default): a job stays on the server it is on as long as that server serves queue 1; a server without a job
  takes the oldest one that is not in service. A job that server 2 leaves for queue 2 returns to its place by age.
- "by-age": server 1 always has the oldest job, server 2 the second oldest.

    serves(policy, n1, n2, mu1=, mu12=)         (does server 1 work, what server 2 works on: 0, 1 or 2)
    replay_donor(jobs, policy, mu1=, mu12=)     recorded jobs (arrival, size, type) -> departures and busy times
    simulate_donor(lambda1, lambda2, ...)       random input -> {(measure, scope): Estimate}

Policies are the mappings of a model file: {"kind": "t1t2", "t1": 3, "t2": 10}.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reference_sim import Estimate, Sampler, Window, mean, over_replications, stream

Policy = Mapping[str, object]


def serves_t1(t1: float, n1: int, n2: int, donor_faster: bool) -> tuple[bool, int]:
    """T1(t1): server 2 on queue 1 iff N1 >= t1, or N2 = 0 and N1 >= 2.

    A lone type 1 job (N2 = 0, or t1 = 1) has one server only: server 2 iff mu1 < mu12.
    """
    if n1 >= t1 or (n2 == 0 and n1 >= 1):
        if n1 >= 2:
            return True, 1
        if donor_faster:
            return False, 1
        return True, 2 if n2 > 0 else 0
    return n1 > 0, 2 if n2 > 0 else 0


def serves_t2(t2: float, reading: str, n1: int, n2: int, donor_faster: bool) -> tuple[bool, int]:
    """T2(t2): server 2 on queue 1 iff N2 < t2; `reading` says what happens at N1 <= 1 with 0 < N2 < t2."""
    if n2 >= t2:
        return n1 > 0, 2
    if n1 >= 2:
        return True, 1
    if n2 == 0:
        return serves_t1(math.inf, n1, n2, donor_faster)
    if reading == "idle":
        return n1 > 0, 0
    if reading == "work-conserving":
        return n1 > 0, 2
    if reading == "source":  # server 2 takes the lone job, server 1 idles; queue 2 only when queue 1 is empty
        return (False, 1) if n1 == 1 else (False, 2)
    raise ValueError(f"reading {reading!r}")


def serves(policy: Policy, n1: int, n2: int, *, mu1: float, mu12: float) -> tuple[bool, int]:
    """Whether server 1 works, and on which type server 2 works (0: on none), with n1 and n2 jobs present."""
    kind, faster = policy["kind"], mu1 < mu12
    if kind == "t1":
        return serves_t1(policy["t1"], n1, n2, faster)
    if kind == "t2":
        return serves_t2(policy["t2"], policy.get("reading", "source"), n1, n2, faster)
    if kind == "t1t2":
        if n2 < policy["t2"]:
            return serves_t1(policy["t1"], n1, n2, faster)
        return n1 > 0, 2
    if kind == "adt":
        return serves_t1(policy["low"] if n2 <= policy["t2"] else policy["high"], n1, n2, faster)
    if kind == "dedicated":
        return n1 > 0, 2 if n2 > 0 else 0
    raise ValueError(f"policy {kind!r}")


def cmu(*, holding_costs: tuple[float, float], mu12: float, mu2: float) -> Policy:
    """The c-mu rule: T1(1) if c1 mu12 > c2 mu2, else T1(infinity)."""
    return {"kind": "t1", "t1": 1 if holding_costs[0] * mu12 > holding_costs[1] * mu2 else math.inf}


@dataclass(eq=False)
class Job:
    """One job; `left` is the size not yet served. A job that is never served departs at infinity."""

    index: int
    arrival: float
    size: float
    type: int
    left: float
    departure: float = math.inf


@dataclass
class Run:
    """Jobs in input order, and the stretches of time in which server 1 and server 2 worked: (from, to, type)."""

    jobs: list[Job]
    busy: tuple[list[tuple[float, float, int]], list[tuple[float, float, int]]]


def replay_donor(
    jobs: Iterable[tuple[float, float, int]],
    policy: Policy,
    *,
    mu1: float,
    mu12: float,
    assignment: str = "stay",
) -> Run:
    """Run recorded jobs (arrival, size, type 1 or 2), sorted by arrival. At one instant services end first."""
    if assignment not in ("stay", "by-age"):
        raise ValueError(f"assignment {assignment!r}")
    records = [Job(index, arrival, size, kind, left=size) for index, (arrival, size, kind) in enumerate(jobs)]
    if any(later.arrival < earlier.arrival for earlier, later in pairwise(records)):
        raise ValueError("arrivals must be sorted")
    donor_speed = mu12 / mu1
    queue1: list[Job] = []  # in order of arrival, jobs in service included
    queue2: list[Job] = []
    on_server: list[Job | None] = [None, None]
    busy: tuple[list[tuple[float, float, int]], list[tuple[float, float, int]]] = ([], [])

    def speed(server: int) -> float:
        return donor_speed if server == 1 and on_server[1].type == 1 else 1.0

    def assign() -> None:
        """Put the right jobs on the servers for the present (N1, N2)."""
        one_works, donated = serves(policy, len(queue1), len(queue2), mu1=mu1, mu12=mu12)
        if assignment == "by-age":
            on_server[0] = queue1[0] if one_works else None
            second = queue1[1 if one_works else 0] if donated == 1 else None
            on_server[1] = queue2[0] if donated == 2 else second
            return
        if not one_works:
            on_server[0] = None
        if donated != 1 and on_server[1] is not None and on_server[1].type == 1:
            on_server[1] = None
        if one_works and on_server[0] is None:
            on_server[0] = next(job for job in queue1 if job is not on_server[1])
        if donated == 1:
            if on_server[1] is None or on_server[1].type == 2:
                on_server[1] = next(job for job in queue1 if job is not on_server[0])
        else:
            on_server[1] = queue2[0] if donated == 2 else None

    now, arrived = -math.inf, 0
    while arrived < len(records) or queue1 or queue2:
        ends = [
            math.inf if job is None or speed(server) == 0 else now + job.left / speed(server)
            for server, job in enumerate(on_server)
        ]
        next_arrival = records[arrived].arrival if arrived < len(records) else math.inf
        then = min(*ends, next_arrival)
        if then == math.inf:  # the policy leaves both servers idle with jobs present
            break
        for server, job in enumerate(on_server):
            if job is not None:
                worked = (then - now) * speed(server)
                job.left = 0.0 if ends[server] == then else max(0.0, job.left - worked)
                busy[server].append((now, then, job.type))
        now = then
        finished = [job for server, job in enumerate(on_server) if job is not None and ends[server] == then]
        if finished:
            for job in finished:
                job.departure = now
                (queue1 if job.type == 1 else queue2).remove(job)
                on_server[on_server.index(job)] = None
        else:
            job = records[arrived]
            (queue1 if job.type == 1 else queue2).append(job)
            arrived += 1
        assign()
    return Run(records, busy)


def tally_donor(run: Run, *, first: int, last: int, holding_costs: Sequence[float]) -> dict[tuple[str, str], float]:
    """Measures of one run: mean responses of jobs first <= index < last, time averages between their arrivals."""
    window = Window(run.jobs[first].arrival, run.jobs[last - 1].arrival)
    values: dict[tuple[str, str], float] = {}
    for scope, types in (("all", (1, 2)), ("queue1", (1,)), ("queue2", (2,))):
        values["mean_number", scope] = window.average(
            (job.arrival, job.departure) for job in run.jobs if job.type in types
        )
        responses = [job.departure - job.arrival for job in run.jobs[first:last] if job.type in types]
        if responses:
            values["mean_response", scope] = mean(responses)
    for scope, stretches in zip(("queue1", "queue2"), run.busy, strict=True):
        values["utilisation", scope] = window.average((start, to) for start, to, _ in stretches)
    arrivals = window.count(job.arrival for job in run.jobs) / (window.end - window.begin)
    numbers = (values["mean_number", "queue1"], values["mean_number", "queue2"])
    values["cost", "all"] = sum(c * n for c, n in zip(holding_costs, numbers, strict=True)) / arrivals
    return values


def simulate_donor(
    lambda1: float,
    lambda2: float,
    samplers: tuple[Sampler, Sampler],
    policy: Policy,
    *,
    mu1: float,
    mu12: float,
    jobs: int,
    warmup: int,
    replications: int,
    seed: int,
    holding_costs: Sequence[float] = (1.0, 1.0),
    assignment: str = "stay",
) -> dict[tuple[str, str], Estimate]:
    """Steady-state estimates from independent replications of warmup + jobs + warmup Poisson arrivals each.

    `samplers` give sizes of type 1 (mean 1/mu1, the time it takes on server 1) and of type 2; only the middle
    `jobs` are counted. Utilisation: queue1 is server 1, queue2 is server 2, whatever it works on.
    """
    runs = []
    for replication in range(replications):
        rngs = {kind: stream(seed, replication, f"arrivals{kind}") for kind in (1, 2)}
        sizes = {kind: stream(seed, replication, f"sizes{kind}") for kind in (1, 2)}
        rates = {1: lambda1, 2: lambda2}
        recorded, upcoming = [], {1: 0.0, 2: 0.0}
        for kind, rate in rates.items():
            upcoming[kind] = rngs[kind].expovariate(rate) if rate > 0 else math.inf
        for _ in range(warmup + jobs + warmup):
            kind = 1 if upcoming[1] <= upcoming[2] else 2
            recorded.append((upcoming[kind], samplers[kind - 1](sizes[kind]), kind))
            upcoming[kind] += rngs[kind].expovariate(rates[kind])
        run = replay_donor(recorded, policy, mu1=mu1, mu12=mu12, assignment=assignment)
        runs.append(tally_donor(run, first=warmup, last=warmup + jobs, holding_costs=holding_costs))
    return over_replications(runs)
