"""Waits of solved queues by their moments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from qtheory.models import NotConverged
from qtheory.queues.age import typed_queue
from qtheory.queues.map import ArrivalProcess
from qtheory.queues.multiserver_ph import map_ph_c
from qtheory.queues.phase_type import PhaseType

_MOMENTS = 5


@dataclass(frozen=True, kw_only=True)
class QueueWait:
    """A wait in queue: P(W > 0) and E[W^k | W > 0] for k = 1 to 5."""

    probability: float
    moments: tuple[float, ...]

    @classmethod
    def of(cls, law: PhaseType, *, where: str) -> QueueWait:
        """From its law.  Raises `NotConverged` where rounding has left no law."""
        probability = float(law.alpha.sum())
        raw = [law.moment(k) for k in range(1, _MOMENTS + 1)]
        if not (0.0 < probability <= 1.0 + 1e-9 and min(raw) > 0.0):
            residual = max(-min(raw), -probability, probability - 1.0)
            advice = "rounding has eaten up a wait that is hardly there: use method phase-type"
            raise NotConverged(where=where, residual=residual, iterations=1, advice=advice)
        return cls(probability=min(probability, 1.0), moments=tuple(moment / probability for moment in raw))

    @classmethod
    def mixed(cls, parts: Sequence[tuple[float, QueueWait]]) -> QueueWait:
        """The wait of a job that is of each kind at the given rate."""
        total = math.fsum(rate for rate, _ in parts)
        probability = math.fsum(rate * wait.probability for rate, wait in parts) / total
        shares = [rate * wait.probability / (total * probability) for rate, wait in parts]
        moments = (
            math.fsum(share * wait.moments[k] for share, (_, wait) in zip(shares, parts, strict=True))
            for k in range(_MOMENTS)
        )
        return cls(probability=probability, moments=tuple(moments))

    @property
    def mean(self) -> float:
        """E[W]."""
        return self.probability * self.moments[0]

    @property
    def scv(self) -> float:
        """Squared coefficient of variation of the waits that are not 0."""
        return self.moments[1] / self.moments[0] ** 2 - 1.0

    def times(self, factor: float) -> QueueWait:
        """Waits longer by this factor, as often."""
        scaled = (factor**k * moment for k, moment in enumerate(self.moments, start=1))
        return QueueWait(probability=self.probability, moments=tuple(scaled))


def one_type(*, arrivals: ArrivalProcess, service: PhaseType, servers: int, where: str) -> QueueWait:
    """The wait of MAP/PH/c with every state of the servers told apart."""
    if arrivals.order > 1:
        return by_type(arrivals=arrivals, services=[service], servers=servers, where=where)[0]
    queue = map_ph_c(arrivals=arrivals, service=service, servers=servers, depth=servers, where=where)
    return QueueWait.of(queue.wait, where=where)


def by_type(
    *, arrivals: ArrivalProcess, services: Sequence[PhaseType], servers: int, where: str
) -> tuple[QueueWait, ...]:
    """The waits of each type of job in MMAP[K]/PH[K]/c."""
    queue = typed_queue(arrivals=arrivals, services=services, servers=servers, depth=servers, where=where)
    return tuple(QueueWait.of(queue.wait(kind), where=where) for kind in range(len(services)))
