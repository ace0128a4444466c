"""M/PH/c and MAP/PH/c, first come first served: laws of number, wait and response.

The chain counts how many of the busy servers are in each service phase (`occupancy`), or, where that takes too
many states, how many deviate from the equilibrium phase law (`modes`); from level c on it is a homogeneous
QBD. Matrix-exponential services work as well: then the vectors are signed, and their sums are right. With
Poisson arrivals the wait follows from the number waiting by the distributional form of Little's law (Keilson
and Servi 1988, Oper. Res. Lett. 7): P(W > x) = x_c e^(Kx) e, K = L + lambda G, where x_c is the law of the
phases while jobs wait, L the local transitions of c busy servers and G the first passage. For other arrivals
`age` gives the wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.linear import Array, Matrix, dense
from qtheory.queues.map import ArrivalProcess, poisson
from qtheory.queues.modes import Modes
from qtheory.queues.occupancy import Occupancy, check_size, size
from qtheory.queues.phase_algebra import convolution
from qtheory.queues.phase_type import PhaseType
from qtheory.queues.qbd import require_stable
from qtheory.queues.qbd_levels import Level, LevelLaw, stationary_levels

BUDGET = 2200
"""Most states a level that are solved, about half a minute of work on one thread."""

ACCURACY = 1e-8
"""Change in mean wait and wait probability at which deepening the modes stops, relative to the larger of them and
a thousandth of a mean service (of 1)."""

STIFF = "rare and very long services drown in rounding: fit fewer moments, or cut the tail"

_CHEAP = 150
_FIRST_DEPTH = {2: 8, 3: 6, 4: 6}


@dataclass(frozen=True, eq=False, kw_only=True)
class ManyServerQueue:
    """A solved MAP/PH/c queue.

    Attributes
    ----------
    arrivals, service, servers : the model.
    levels : law of the number of jobs in the system and the phases.
    operators : how the phases of the busy servers are kept.
    truncation : change in mean wait or wait probability when the modes were last deepened, see `ACCURACY`; 0 if exact.
    """

    arrivals: ArrivalProcess
    service: PhaseType
    servers: int
    levels: LevelLaw
    operators: Occupancy | Modes
    truncation: float

    @property
    def load(self) -> float:
        """Offered load per server."""
        return self.levels.core.load

    @property
    def mean_number(self) -> float:
        """Mean number of jobs in the system."""
        return self.mean_queue + self.load * self.servers

    @property
    def mean_queue(self) -> float:
        """Mean number of jobs waiting."""
        return self.levels.mean_excess

    @property
    def mean_wait(self) -> float:
        """Mean time in queue (Little)."""
        return self.mean_queue / self.arrivals.rate

    @property
    def mean_response(self) -> float:
        """Mean time in queue and service."""
        return self.mean_wait + self.service.mean

    @cached_property
    def wait_probability(self) -> float:
        """P(an arrival finds all servers busy)."""
        busy = self.levels.phases.reshape(self.arrivals.order, -1).sum(axis=1)
        return float(busy @ self.arrivals.arrivals.sum(axis=1)) / self.arrivals.rate

    def number_probabilities(self, last: int) -> Array:
        """P(N = n) at an arbitrary time, n = 0 .. last."""
        return self.levels.probabilities(last)

    @cached_property
    def wait(self) -> PhaseType:
        """The law of the time in queue (atom at 0: no wait), for Poisson arrivals; one phase per state of a level.

        Raises `InvalidModel` for other arrivals, see `age.typed_queue`.
        """
        if self.arrivals.order != 1:
            raise InvalidModel(
                field="arrivals", rule="must be Poisson for this form (use the age process)", value=self.arrivals.order
            )
        local = dense(self.operators.local(self.servers))
        generator = local + self.arrivals.rate * self.levels.core.passage
        return PhaseType(alpha=self.levels.phases, generator=generator)

    @property
    def response(self) -> PhaseType:
        """The law of the time in the system, wait plus an independent service, for Poisson arrivals."""
        return convolution(self.wait, self.service)


def m_ph_c(
    *,
    rate: float,
    service: PhaseType,
    servers: int,
    depth: int | None = None,
    accuracy: float = ACCURACY,
    where: str = "queue",
) -> ManyServerQueue:
    """The M/PH/c queue (or M/ME/c): Poisson arrivals, `servers` identical servers, one FCFS queue.

    `depth` and `accuracy` as in `map_ph_c`. Raises `Unstable`, and `NotConverged` for a load within 1e-11 of 1 or
    where 2200 states a level do not suffice.

    >>> from qtheory.queues.phase_type import exponential
    >>> queue = m_ph_c(rate=1.0, service=exponential(mean=1.0), servers=2)   # Erlang C is 1/3
    >>> round(queue.wait_probability, 12), round(queue.mean_wait, 12), round(float(queue.wait.survival(1.0)), 6)
    (0.333333333333, 0.333333333333, 0.122626)
    """
    arrivals = poisson(rate=rate)
    return map_ph_c(arrivals=arrivals, service=service, servers=servers, depth=depth, accuracy=accuracy, where=where)


def map_ph_c(
    *,
    arrivals: ArrivalProcess,
    service: PhaseType,
    servers: int,
    depth: int | None = None,
    accuracy: float = ACCURACY,
    where: str = "queue",
) -> ManyServerQueue:
    """The MAP/PH/c queue: any arrival process of this package (types are not told apart), else as `m_ph_c`.

    `depth` bounds how many servers may deviate from the equilibrium phase law (see `modes`). None: it grows
    until mean wait and wait probability change by less than `accuracy` (the remaining error is as a rule a tenth
    of the last change), and the exact chain is taken where that is as cheap. `servers` or more: the exact chain.
    """
    if servers < 1:
        raise InvalidModel(field="servers", rule="must be at least 1", value=servers)
    if service.atom:
        raise InvalidModel(field="service", rule="must have no atom at 0", value=service.atom)
    load = arrivals.rate * service.mean / servers
    require_stable(load, where=where)

    def solved(depth: int) -> ManyServerQueue:
        return _solve(arrivals=arrivals, service=service, servers=servers, depth=depth, load=load, where=where)

    if depth is not None:
        return solved(depth)
    if arrivals.order * size(servers=servers, phases=service.order) <= _CHEAP:
        return solved(servers)
    depth = _FIRST_DEPTH.get(service.order, 4)
    exact = servers if arrivals.order * size(servers=servers, phases=service.order) <= BUDGET else None
    before, change = None, float("inf")
    while depth < servers and arrivals.order * size(servers=depth, phases=service.order) <= BUDGET:
        try:
            queue = solved(depth)
        except NotConverged:
            # Deep modes of signed or stiff laws can lose their digits; the chain of counts does not.
            if exact is None:
                raise
            return solved(exact)
        if before is not None:
            change = _change(before, queue)
            if change <= accuracy:
                return replace(queue, truncation=change)
        before, depth = queue, depth + 2
    if exact is not None:
        return solved(exact)
    raise NotConverged(
        where=where, residual=change, iterations=depth, advice="too many phases: use fewer, or give a `depth`"
    )


def _solve(
    *, arrivals: ArrivalProcess, service: PhaseType, servers: int, depth: int, load: float, where: str
) -> ManyServerQueue:
    operators: Occupancy | Modes
    if depth >= servers:
        operators = Occupancy(generator=service.generator)
    else:
        operators = Modes(generator=service.generator, equilibrium=service.equilibrium().alpha, depth=depth)
    full = operators.size(servers)
    check_size(arrivals.order * full, budget=BUDGET, what="this queue")
    copies, jumps = arrivals.order, arrivals.arrivals
    boundary = []
    for n in range(servers):
        boundary.append(
            Level(
                up=_kron(jumps, operators.entries(n, service.alpha)),
                local=_local(arrivals.hidden, operators.local(n)),
                down=_copied(copies, operators.departures(n)) if n else None,
            )
        )
    entry = operators.departures(servers)
    restart = dense(entry) @ dense(operators.entries(servers - 1, service.alpha))
    levels = stationary_levels(
        boundary,
        up=_kron(jumps, np.eye(full)),
        local=_local(arrivals.hidden, operators.local(servers)),
        down=_copied(copies, restart),
        entry=_copied(copies, entry),
        where=where,
        load=load,
    )
    if not levels.rounding <= 1e-4 or not levels.mean_excess >= 0.0:
        raise NotConverged(where=where, residual=levels.rounding, iterations=1, advice=STIFF)
    return ManyServerQueue(
        arrivals=arrivals, service=service, servers=servers, levels=levels, operators=operators, truncation=0.0
    )


def _change(before: ManyServerQueue, after: ManyServerQueue) -> float:
    wait = abs(after.mean_wait - before.mean_wait) / max(abs(after.mean_wait), 1e-3 * after.service.mean)
    return max(wait, abs(after.wait_probability - before.wait_probability) / max(after.wait_probability, 1e-3))


def _kron(small: Array, large: Matrix) -> Matrix:
    """small (x) large, dense; a plain product for one arrival phase."""
    return float(small[0, 0]) * large if len(small) == 1 else np.kron(small, dense(large))


def _copied(copies: int, block: Matrix) -> Matrix:
    """I (x) block."""
    return block if copies == 1 else np.kron(np.eye(copies), dense(block))


def _local(hidden: Array, block: Matrix) -> Array:
    """hidden (x) I + I (x) block, for a block that may be overwritten."""
    matrix = dense(block)
    if len(hidden) == 1:
        matrix.flat[:: len(matrix) + 1] += hidden[0, 0]
        return matrix
    return np.kron(hidden, np.eye(len(matrix))) + np.kron(np.eye(len(hidden)), matrix)
