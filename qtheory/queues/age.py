"""Queues whose jobs come in types, each with its own service law: MMAP[K]/PH[K]/c, first come first served.

The age of the job that entered service last is a Markov-modulated fluid: it rises with time while all servers
work; when one of them finishes, the next job's age is less by one interarrival time (a fall), and its type is
that of the arrival that ends the fall (He 2012, "Analysis of the MMAP[K]/PH[K]/1 queue: age process", and Horváth,
Van Houdt 2012 for many servers). The level at which a fall ends is the wait of the next job. Up states:
arrival phase x phases of c servers; down states: arrival phase x phases of c - 1. A single type with any
arrivals is the MAP/PH/c queue, with the law of the wait that `multiserver_ph` gives for Poisson arrivals only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.linear import Array, Matrix, dense, factor, kron
from qtheory.queues.map import ArrivalProcess
from qtheory.queues.modes import Modes
from qtheory.queues.multiserver_ph import STIFF
from qtheory.queues.occupancy import Occupancy, check_size, size
from qtheory.queues.phase_algebra import convolution
from qtheory.queues.phase_type import PhaseType, closed_by
from qtheory.queues.qbd import require_stable
from qtheory.queues.qbd_levels import Level, boundary_vectors
from qtheory.queues.riccati import first_return

BUDGET = 1500
"""Most up states (arrival phases x states of c servers) that are solved, about half a minute on one thread."""

ACCURACY = 1e-7
"""Change in a mean wait, relative to it or to a thousandth of a service, at which deepening the modes stops."""

_CHEAP = 150


@dataclass(frozen=True, eq=False, kw_only=True)
class TypedQueue:
    """A solved queue with typed jobs.

    Attributes
    ----------
    arrivals, services, servers : the model, one service law for each type of arrival.
    idle : probabilities of levels 0 .. c-1, by arrival phase x phases of the busy servers.
    rise : K; while all servers work the age has density start e^(Kx).
    start : flow from level c - 1 into age 0.
    passage : Psi, the phase law at the end of a fall to the level where a rise began.
    met : for each type, the rate at which its arrivals end a fall, by up state.
    load : offered load per server.
    truncation : relative change in the mean waits when the modes were last deepened; 0 if exact.
    """

    arrivals: ArrivalProcess
    services: tuple[PhaseType, ...]
    servers: int
    idle: tuple[Array, ...]
    rise: Array
    start: Array
    passage: Array
    met: tuple[Array, ...]
    load: float
    truncation: float

    def wait(self, kind: int) -> PhaseType:
        """The law of the time in queue of the jobs of one type (atom at 0: no wait)."""
        return closed_by(alpha=self._ages / self.arrivals.rates[kind], generator=self.rise, closing=self.met[kind])

    def response(self, kind: int) -> PhaseType:
        """The law of the time in the system of the jobs of one type."""
        return convolution(self.wait(kind), self.services[kind])

    def wait_probability(self, kind: int) -> float:
        """P(a job of this type has to wait)."""
        return float(self._ages @ self.met[kind] / self.arrivals.rates[kind])

    def mean_wait(self, kind: int) -> float:
        """Mean time in queue of the jobs of one type."""
        ages = factor(-self.rise, where="age process").solve_left(self._ages)
        return float(ages @ self.met[kind] / self.arrivals.rates[kind])

    @property
    def mean_waits(self) -> Array:
        """Mean time in queue by type."""
        return np.array([self.mean_wait(kind) for kind in range(len(self.services))])

    @property
    def _ages(self) -> Array:
        """Time spent in each up state, start (-K)^-1."""
        return factor(-self.rise, where="age process").solve_left(self.start)


def typed_queue(
    *,
    arrivals: ArrivalProcess,
    services: Sequence[PhaseType],
    servers: int,
    depth: int | None = None,
    accuracy: float = ACCURACY,
    where: str = "queue",
) -> TypedQueue:
    """The MMAP[K]/PH[K]/c queue: `services[k]` is the law of the jobs that `arrivals.marks[k]` brings.

    Matrix-exponential services and rational arrivals work as well. `depth` and `accuracy` are those of
    `multiserver_ph.map_ph_c`. Raises `Unstable` and `NotConverged`.

    >>> from qtheory.queues.map import poisson
    >>> from qtheory.queues.phase_type import exponential
    >>> queue = typed_queue(arrivals=poisson(rate=1.0), services=[exponential(mean=1.0)], servers=2)
    >>> round(queue.mean_wait(0), 10), round(queue.wait_probability(0), 10)
    (0.3333333333, 0.3333333333)
    """
    services = tuple(services)
    if len(services) != len(arrivals.marks):
        raise InvalidModel(field="services", rule="must be one law for each type of arrival", value=len(services))
    if servers < 1:
        raise InvalidModel(field="servers", rule="must be at least 1", value=servers)
    if not arrivals.rates.min() > 0.0:
        raise InvalidModel(field="arrivals", rule="every type must have a positive rate", value=arrivals.rates.tolist())
    if any(service.atom for service in services):
        raise InvalidModel(field="services", rule="must have no atom at 0", value=[law.atom for law in services])
    work = np.array([rate * law.mean for rate, law in zip(arrivals.rates, services, strict=True)])
    load = float(work.sum()) / servers
    require_stable(load, where=where)
    phases = sum(law.order for law in services)

    def solved(depth: int) -> TypedQueue:
        return _solve(arrivals, services, servers, depth, load, work / work.sum(), where)

    if depth is not None:
        return solved(depth)
    if arrivals.order * size(servers=servers, phases=phases) <= _CHEAP:
        return solved(servers)
    depth = 6 if phases <= 3 else 4
    before, change = None, float("inf")
    while depth < servers and arrivals.order * size(servers=depth, phases=phases) <= BUDGET:
        queue = solved(depth)
        if before is not None:
            least = 1e-3 * np.array([law.mean for law in services])
            waits = queue.mean_waits
            change = float((np.abs(waits - before.mean_waits) / np.maximum(np.abs(waits), least)).max())
            if change <= accuracy:
                return replace(queue, truncation=change)
        before, depth = queue, depth + 1
    if depth >= servers:
        return solved(servers)
    raise NotConverged(
        where=where, residual=change, iterations=depth, advice="too many phases: use fewer, or give a `depth`"
    )


def _solve(
    arrivals: ArrivalProcess,
    services: tuple[PhaseType, ...],
    servers: int,
    depth: int,
    load: float,
    shares: Array,
    where: str,
) -> TypedQueue:
    generator = block_diag(*[law.generator for law in services])
    operators: Occupancy | Modes
    if depth >= servers:
        operators = Occupancy(generator=generator)
    else:
        parts = [share * law.equilibrium().alpha for share, law in zip(shares, services, strict=True)]
        operators = Modes(generator=generator, equilibrium=np.concatenate(parts), depth=depth)
    above, below = operators.size(servers), operators.size(servers - 1)
    check_size(arrivals.order * above, budget=BUDGET, what="this queue")
    starts = _starts(services)
    one, hidden = np.eye(arrivals.order), arrivals.hidden

    def climb(n: int) -> Array:
        """Arrivals that find n < c servers busy."""
        marks = zip(arrivals.marks, starts, strict=True)
        return np.asarray(sum(kron(mark, dense(operators.entries(n, start))) for mark, start in marks))

    def still(n: int) -> Array:
        block = dense(operators.local(n))
        return kron(hidden, np.eye(len(block))) + kron(one, block)

    def copied(block: Matrix) -> Array:
        return kron(one, dense(block)).astype(np.float64)

    up, ending = copied(operators.local(servers)), copied(operators.departures(servers))
    falling, rising = kron(hidden, np.eye(below)).astype(np.float64), climb(servers - 1)
    psi = first_return(up=up, up_to_down=ending, down_to_up=rising, down=falling, where=where)
    boundary = [
        Level(up=climb(n), local=still(n), down=copied(operators.departures(n)) if n else None)
        for n in range(servers - 1)
    ]
    idle = boundary_vectors(
        boundary,
        top=still(servers - 1) + rising @ psi,
        entry=copied(operators.departures(servers - 1)) if servers > 1 else None,
        where=where,
    )
    rise = up + psi @ rising
    start = idle[-1] @ rising
    ages = factor(-rise, where=where).solve_left(start)
    total = float(ages.sum()) + sum(float(vector.sum()) for vector in idle)
    idle = [vector / total for vector in idle]
    met = [psi @ np.repeat(mark.sum(axis=1), below) for mark in arrivals.marks]
    _check_flow(arrivals, idle, [float(ages @ rates) / total for rates in met], where)
    reach = float(np.abs(factor(-rise, where=where).solve(np.ones(len(rise)))).max())
    mean = float(factor(-rise, where=where).solve_left(ages).sum())
    rounding = 2e-16 * float(np.abs(start).sum()) * reach**2 / abs(mean)
    if not rounding <= 1e-4 or not mean * total >= 0.0:
        raise NotConverged(where=where, residual=rounding, iterations=1, advice=STIFF)
    return TypedQueue(
        arrivals=arrivals,
        services=services,
        servers=servers,
        idle=tuple(idle),
        rise=rise,
        start=start / total,
        passage=psi,
        met=tuple(met),
        load=load,
        truncation=0.0,
    )


def _check_flow(arrivals: ArrivalProcess, idle: list[Array], waiting: list[float], where: str) -> None:
    """Jobs that wait and jobs that do not must add up to the arrivals of each type: a check of the whole solution."""
    for mark, rate, flow in zip(arrivals.marks, arrivals.rates, waiting, strict=True):
        exits = mark.sum(axis=1)
        free = sum(float(vector.reshape(arrivals.order, -1).sum(axis=1) @ exits) for vector in idle)
        gap = abs((free + flow) / float(rate) - 1.0)
        if not gap <= 1e-6:
            raise NotConverged(
                where=where,
                residual=gap,
                iterations=1,
                advice="flows do not balance: check that arrivals and services are true processes, or lower the order",
            )


def _starts(services: tuple[PhaseType, ...]) -> list[Array]:
    """The start vector of each type, in the phases of all types together."""
    edges = np.cumsum([0, *(law.order for law in services)])
    starts = []
    for low, law in zip(edges[:-1], services, strict=True):
        start = np.zeros(edges[-1])
        start[low : low + law.order] = law.alpha
        starts.append(start)
    return starts
