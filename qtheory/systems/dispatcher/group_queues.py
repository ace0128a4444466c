"""The queues of the two groups with matrix-exponential times: mean, probability and spread of the waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qtheory.models import NotConverged
from qtheory.queues.age import typed_queue
from qtheory.queues.linear import dense, factor
from qtheory.queues.map import ArrivalProcess, poisson, renewal
from qtheory.queues.multiserver_ph import map_ph_c
from qtheory.queues.occupancy import size
from qtheory.queues.phase_type import PhaseType
from qtheory.systems.dispatcher.loads import Traffic
from qtheory.systems.dispatcher.pieces import moment_fit


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A wait in queue: its mean, the probability that it is positive, and the scv of the positive ones."""

    mean: float
    probability: float
    scv: float

    @classmethod
    def of(cls, probability: float, mean: float, half_square: float) -> Wait:
        """From P(W > 0), E[W] and E[W^2] / 2."""
        if not (probability > 0.0 and mean > 0.0):
            return cls(mean=0.0, probability=0.0, scv=1.0)
        return cls(mean=mean, probability=probability, scv=2.0 * half_square * probability / mean**2 - 1.0)

    @classmethod
    def mixed(cls, parts: Sequence[tuple[float, Wait]]) -> Wait:
        """The wait of a job that is of each kind at the given rate."""
        total = sum(rate for rate, _ in parts)
        probability = sum(rate * wait.probability for rate, wait in parts) / total
        mean = sum(rate * wait.mean for rate, wait in parts) / total
        halves = [rate * (wait.scv + 1.0) * wait.mean**2 / wait.probability for rate, wait in parts if wait.mean]
        return cls.of(probability, mean, sum(halves) / (2.0 * total))

    def times(self, factor: float) -> Wait:
        """The same wait with another mean."""
        return replace(self, mean=self.mean * factor)


def many_server_wait(*, arrivals: ArrivalProcess, service: PhaseType, servers: int, depth: int, where: str) -> Wait:
    """The wait of a queue with one type of job; `depth` of the modes as in `Modes`."""
    queue = map_ph_c(arrivals=arrivals, service=service, servers=servers, depth=depth, where=where)
    if arrivals.order > 1:
        return typed_waits(arrivals=arrivals, services=[service], servers=servers, depth=depth, where=where)[0]
    # P(W > x) = x_c e^(Kx) e with the law x_c of the phases while jobs wait: E[W^k] = k! x_c (-K)^-k e.
    local = dense(queue.operators.local(servers))
    factors = factor(-(local + arrivals.rate * queue.levels.core.passage), where=where)
    vector = queue.levels.phases
    moments = [float(vector.sum())]
    for _ in range(2):
        vector = factors.solve_left(vector)
        moments.append(float(vector.sum()))
    return Wait.of(*moments)


def typed_waits(
    *, arrivals: ArrivalProcess, services: Sequence[PhaseType], servers: int, depth: int, where: str
) -> list[Wait]:
    """The waits of each type of job.  Raises `NotConverged` where they are no waits.

    E[W^k] = k! u (-K)^-(k+1) Psi d / rate, in the notation of `age`.
    """
    queue = typed_queue(arrivals=arrivals, services=services, servers=servers, depth=depth, where=where)
    factors = factor(-queue.rise, where=where)
    vector, vectors = queue.start, []
    for _ in range(3):
        vector = factors.solve_left(vector)
        vectors.append(vector)
    waits = []
    for met, rate in zip(queue.met, arrivals.rates, strict=True):
        probability, mean, half_square = (float(vector @ met) / float(rate) for vector in vectors)
        if not (mean >= 0.0 and -1e-9 <= probability <= 1.0 + 1e-9 and half_square >= 0.0):
            raise NotConverged(
                where=where,
                residual=abs(mean),
                iterations=1,
                advice="the reduced arrival process is no true one: use another reduction",
            )
        waits.append(Wait.of(probability, mean, half_square))
    return waits


def stand_in(traffic: Traffic, *, order: int) -> ArrivalProcess:
    """The arrivals: Poisson, or renewal with a law of at most `order` phases."""
    return poisson(rate=traffic.rate) if traffic.poisson else renewal(moment_fit(traffic.interarrival, order=order))


def deepest(*, servers: int, phases: int, states: int) -> int:
    """The largest depth of the modes, at least 1, within a number of states; `servers` where that many fit."""
    depth = 1
    while depth < servers and size(servers=depth + 1, phases=phases) <= states:
        depth += 1
    return depth
