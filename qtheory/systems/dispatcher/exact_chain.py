"""Group 0 as a chain of levels with marked events: the number of jobs, the arrival phase, the ages in service."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qtheory.queues.linear import Array, dense
from qtheory.queues.map import ArrivalProcess
from qtheory.queues.occupancy import Occupancy
from qtheory.systems.dispatcher.ages import AgedService
from qtheory.systems.dispatcher.banded import Banded


@dataclass(frozen=True, eq=False, kw_only=True)
class MarkedChain:
    """The generator, its stationary vector, and the parts of it that bring jobs to Group 1.

    `marks` holds the kills and, unless arrivals are Poisson, the long jobs: then both come from one process.
    """

    generator: Banded
    stationary: Array
    marks: tuple[Banded, ...]


def marked_chain(
    *, arrivals: ArrivalProcess, short_fraction: float, servers: int, service: AgedService, highest: int
) -> MarkedChain:
    """The chain cut at `highest` jobs (above `servers`): arrivals that would pass it are lost.

    `arrivals` brings the jobs of both groups; each belongs to Group 0 with probability `short_fraction`.
    """
    operators = Occupancy(generator=service.law.generator)
    start, one = service.law.alpha, np.eye(arrivals.order)
    joining, passing = short_fraction * arrivals.arrivals, (1.0 - short_fraction) * arrivals.arrivals
    split = arrivals.order > 1 and short_fraction < 1.0
    hidden = arrivals.hidden + passing
    restart = dense(operators.entries(servers - 1, start))
    up: list[Array | None] = []
    local: list[Array | None] = []
    down: list[Array | None] = []
    kills: list[Array | None] = []
    longs: list[Array | None] = []
    rising = still = through = np.zeros((0, 0))
    falling: Array | None = None
    kill: Array | None = None
    for level in range(highest + 1):
        if level <= servers + 1:  # beyond, the blocks repeat
            count = min(level, servers)
            own = np.eye(operators.size(count))
            still = _kron(hidden, own) + _kron(one, dense(operators.local(count)))
            rising = _kron(joining, dense(operators.entries(level, start)) if level < servers else own)
            through = _kron(passing, own)
            falling = kill = None
            if level:
                after = restart if level > servers else np.eye(operators.size(count - 1))
                falling = _kron(one, dense(operators.departures(count)) @ after)
                kill = _kron(one, dense(operators.departures(count, service.kills)) @ after)
        top = level == highest
        up.append(None if top else rising)
        local.append(still + rising if top else still)
        down.append(falling)
        kills.append(kill)
        longs.append(through)
    sizes = tuple(len(block) for block in local if block is not None)
    none = (None,) * len(sizes)
    whole = Banded(sizes=sizes, up=tuple(up), local=tuple(local), down=tuple(down))
    marks = [Banded(sizes=sizes, up=none, local=none, down=tuple(kills))]
    if split:
        marks.append(Banded(sizes=sizes, up=none, local=tuple(longs), down=none))
    return MarkedChain(generator=whole, stationary=whole.stationary(where="group0"), marks=tuple(marks))


def _kron(first: Array, second: Array) -> Array:
    return np.asarray(np.kron(first, second), dtype=np.float64)
