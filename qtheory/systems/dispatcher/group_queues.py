"""The queues of the two groups with matrix-exponential times: mean, probability and spread of the waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qtheory.models import NotConverged
from qtheory.queues.age import TypedQueue, typed_queue
from qtheory.queues.linear import Array, Factors, dense, factor
from qtheory.queues.map import ArrivalProcess
from qtheory.queues.multiserver_ph import map_ph_c
from qtheory.queues.occupancy import size
from qtheory.queues.phase_type import PhaseType

#: E[W^k]^(1/k) grows with k, up to this factor.
_ROUNDING = 1.0 - 1e-6


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A wait in queue.

    Attributes
    ----------
    probability : P(W > 0).
    moments : E[W^k | W > 0] for k = 1, 2, ..., at most 5; empty where no job waits.
    """

    probability: float
    moments: tuple[float, ...]

    @property
    def mean(self) -> float:
        """E[W]."""
        return self.probability * self.moments[0] if self.moments else 0.0

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the positive waits."""
        return self.moments[1] / self.moments[0] ** 2 - 1.0 if self.moments else 1.0

    @property
    def variance(self) -> float:
        """Var W, jobs that do not wait included."""
        return self.probability * self.moments[1] - self.mean**2 if self.moments else 0.0

    @classmethod
    def of(cls, taylor: Sequence[float], *, where: str) -> Wait:
        """From P(W > 0), E[W], E[W^2] / 2, ..., E[W^5] / 5!.

        High moments that are none, as rational times of low order make them, are left out. Raises `NotConverged`
        where not even the first two are moments.
        """
        probability, *rest = taylor
        if -1e-9 <= probability <= 1.0 + 1e-9 and min(rest) >= -1e-12 and not (probability > 0.0 and min(rest) > 0.0):
            return cls(probability=0.0, moments=())
        moments: list[float] = []
        for k, value in enumerate(rest, start=1):
            moment = math.factorial(k) * value / probability if probability > 0.0 else -1.0
            if not (moment > 0.0 and (k == 1 or moment ** (1.0 / k) >= moments[-1] ** (1.0 / (k - 1)) * _ROUNDING)):
                break
            moments.append(moment)
        if probability > 1.0 + 1e-9 or len(moments) < 2:
            raise NotConverged(
                where=where,
                residual=abs(min(taylor)),
                iterations=1,
                advice="the arrival process is no true one: use another reduction or another method",
            )
        return cls(probability=min(probability, 1.0), moments=tuple(moments))

    @classmethod
    def mixed(cls, parts: Sequence[tuple[float, Wait]]) -> Wait:
        """The wait of a job that is of each kind at the given rate."""
        total = math.fsum(rate for rate, _ in parts)
        probability = math.fsum(rate * wait.probability for rate, wait in parts) / total
        waiting = [(rate * wait.probability / (total * probability), wait) for rate, wait in parts if wait.moments]
        known = min((len(wait.moments) for _, wait in waiting), default=0)
        moments = (math.fsum(share * wait.moments[k] for share, wait in waiting) for k in range(known))
        return cls(probability=probability, moments=tuple(moments) if waiting else ())

    def times(self, factor: float) -> Wait:
        """Waits longer by this factor, as often."""
        scaled = (factor**k * moment for k, moment in enumerate(self.moments, start=1))
        return Wait(probability=self.probability, moments=tuple(scaled))


def many_server_wait(*, arrivals: ArrivalProcess, service: PhaseType, servers: int, depth: int, where: str) -> Wait:
    """The wait of a queue with one type of job; `depth` of the modes as in `Modes`."""
    if arrivals.order > 1:
        return typed_waits(arrivals=arrivals, services=[service], servers=servers, depth=depth, where=where)[0]
    queue = map_ph_c(arrivals=arrivals, service=service, servers=servers, depth=depth, where=where)
    # P(W > x) = x_c e^(Kx) e with the law x_c of the phases while jobs wait: E[W^k] = k! x_c (-K)^-k e.
    local = dense(queue.operators.local(servers))
    factors = factor(-(local + arrivals.rate * queue.levels.core.passage), where=where)
    return Wait.of([float(vector.sum()) for vector in _resolvents(queue.levels.phases, factors)], where=where)


def typed_waits(
    *, arrivals: ArrivalProcess, services: Sequence[PhaseType], servers: int, depth: int, where: str
) -> list[Wait]:
    """The waits of each type of job.  Raises `NotConverged` where they are no waits."""
    queue = typed_queue(arrivals=arrivals, services=services, servers=servers, depth=depth, where=where)
    return waits_of(queue, where=where)


def waits_of(queue: TypedQueue, *, where: str) -> list[Wait]:
    """The waits of each type of job: E[W^k] = k! u (-K)^-(k+1) Psi d / rate, in the notation of `age`."""
    factors = factor(-queue.rise, where=where)
    vectors = _resolvents(factors.solve_left(queue.start), factors)
    return [
        Wait.of([float(vector @ met) / float(rate) for vector in vectors], where=where)
        for met, rate in zip(queue.met, queue.arrivals.rates, strict=True)
    ]


def mean_product(queue: TypedQueue, *, weighted: Array, where: str) -> float:
    """E[W V; an arrival in unit time] for arrivals that carry a value V: `weighted` is E[V; arrival] by phase."""
    factors = factor(-queue.rise, where=where)
    ages = factors.solve_left(factors.solve_left(queue.start))
    below = queue.passage.shape[1] // queue.arrivals.order
    return float(ages @ queue.passage @ np.repeat(weighted, below))


def _resolvents(vector: Array, factors: Factors) -> list[Array]:
    """x, x (-K)^-1, ..., x (-K)^-5."""
    vectors = [vector]
    for _ in range(5):
        vectors.append(factors.solve_left(vectors[-1]))
    return vectors


def deepest(*, servers: int, phases: int, states: int) -> int:
    """The largest depth of the modes, at least 1, within a number of states; `servers` where that many fit."""
    depth = 1
    while depth < servers and size(servers=depth + 1, phases=phases) <= states:
        depth += 1
    return depth
