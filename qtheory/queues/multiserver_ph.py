"""M/PH/c and MAP/PH/c, first come first served: exact laws of number, wait and response.

The chain counts how many of the busy servers are in each service phase (`occupancy`); from level c on it is a
homogeneous QBD. Matrix-exponential services work as well: then the vectors are signed, and their sums are
right. With Poisson arrivals the wait follows from the number waiting by the distributional form of Little's
law (Keilson and Servi 1988, Oper. Res. Lett. 7): P(W > x) = x_c e^(Kx) e, K = L + lambda G, where x_c is the
law of the occupancy while jobs wait, L the local transitions of c busy servers and G the first passage.
For other arrivals `age` gives the wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qtheory.models.errors import InvalidModel
from qtheory.queues.linear import Array, Matrix, dense
from qtheory.queues.map import ArrivalProcess, poisson
from qtheory.queues.occupancy import Occupancy, check_size
from qtheory.queues.phase_algebra import convolution
from qtheory.queues.phase_type import PhaseType
from qtheory.queues.qbd import require_stable
from qtheory.queues.qbd_levels import Level, LevelLaw, stationary_levels

BUDGET = 2200
"""Most states a level that are solved, about half a minute of work on one thread."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ManyServerQueue:
    """A solved MAP/PH/c queue.

    Attributes
    ----------
    arrivals, service, servers : the model.
    levels : law of the number of jobs in the system and the phases.
    """

    arrivals: ArrivalProcess
    service: PhaseType
    servers: int
    levels: LevelLaw

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
        """The law of the time in queue (atom at 0: no wait), for Poisson arrivals.

        Of order C(c + m - 1, m - 1); raises `InvalidModel` for other arrivals, see `age.typed_queue`.
        """
        if self.arrivals.order != 1:
            raise InvalidModel(
                field="arrivals", rule="must be Poisson for this form (use the age process)", value=self.arrivals.order
            )
        core = self.levels.core
        local = dense(Occupancy(generator=self.service.generator).local(self.servers))
        return PhaseType(alpha=self.levels.phases, generator=local + self.arrivals.rate * core.passage)

    @property
    def response(self) -> PhaseType:
        """The law of the time in the system, wait plus an independent service, for Poisson arrivals."""
        return convolution(self.wait, self.service)


def m_ph_c(*, rate: float, service: PhaseType, servers: int, where: str = "queue") -> ManyServerQueue:
    """The M/PH/c queue (or M/ME/c): Poisson arrivals, `servers` identical servers, one FCFS queue.

    Raises `Unstable`, `NotConverged` (load within 1e-11 of 1), and `InvalidModel` beyond 2200 states a level:
    c = 2199 at 2 phases, 64 at 3, 21 at 4.

    >>> from qtheory.queues.phase_type import exponential
    >>> queue = m_ph_c(rate=1.0, service=exponential(mean=1.0), servers=2)   # Erlang C is 1/3
    >>> round(queue.wait_probability, 12), round(queue.mean_wait, 12), round(queue.wait.survival(1.0), 6)
    (0.333333333333, 0.333333333333, 0.122626)
    """
    return map_ph_c(arrivals=poisson(rate=rate), service=service, servers=servers, where=where)


def map_ph_c(*, arrivals: ArrivalProcess, service: PhaseType, servers: int, where: str = "queue") -> ManyServerQueue:
    """The MAP/PH/c queue: any arrival process of this package (types are not told apart), else as `m_ph_c`."""
    if servers < 1:
        raise InvalidModel(field="servers", rule="must be at least 1", value=servers)
    if service.atom:
        raise InvalidModel(field="service", rule="must have no atom at 0", value=service.atom)
    load = arrivals.rate * service.mean / servers
    require_stable(load, where=where)
    occupancy = Occupancy(generator=service.generator)
    check_size(arrivals.order * occupancy.size(servers), budget=BUDGET, what="this queue")
    hidden, jumps = arrivals.hidden, arrivals.arrivals
    boundary = []
    for n in range(servers):
        boundary.append(
            Level(
                up=_kron(jumps, occupancy.entries(n, service.alpha)),
                local=_local(hidden, occupancy.local(n)),
                down=_side_by_side(arrivals.order, occupancy.departures(n)) if n else None,
            )
        )
    entry = occupancy.departures(servers)
    restart = dense(entry) @ dense(occupancy.entries(servers - 1, service.alpha))
    full = occupancy.size(servers)
    levels = stationary_levels(
        boundary,
        up=_kron(jumps, np.eye(full)),
        local=_local(hidden, occupancy.local(servers)),
        down=_side_by_side(arrivals.order, restart),
        entry=_side_by_side(arrivals.order, entry),
        where=where,
        load=load,
    )
    return ManyServerQueue(arrivals=arrivals, service=service, servers=servers, levels=levels)


def _kron(small: Array, large: Matrix) -> Matrix:
    """small (x) large, dense; a plain product for one arrival phase."""
    return float(small[0, 0]) * large if len(small) == 1 else np.kron(small, dense(large))


def _side_by_side(copies: int, block: Matrix) -> Matrix:
    return block if copies == 1 else np.kron(np.eye(copies), dense(block))


def _local(hidden: Array, block: Matrix) -> Array:
    matrix = dense(block)  # a fresh array
    if len(hidden) == 1:
        matrix.flat[:: len(matrix) + 1] += hidden[0, 0]
        return matrix
    return np.kron(hidden, np.eye(len(matrix))) + np.kron(np.eye(len(hidden)), matrix)
