"""Group 0 as a Markov chain whose kills, and long arrivals beside it, are marked.

Levels are numbers of jobs in Group 0; phases are the arrival phase and the phases of the busy servers, kept by
`modes` or, where that is as cheap, by occupancy counts. A service is the time limit with probability
q = P(S0 > T) and a completed time otherwise, each with phases of its own, so that an end of the first kind is a
kill.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from qtheory.queues.linear import Array, dense, kron
from qtheory.queues.map import ArrivalProcess
from qtheory.queues.modes import Modes
from qtheory.queues.occupancy import Occupancy
from qtheory.queues.phase_type import PhaseType
from qtheory.systems.dispatcher.banded import Banded

_NEGLIGIBLE = 1e-8
_MOST_WAITING = 400


@dataclass(frozen=True, eq=False, kw_only=True)
class Group0Chain:
    """The generator, its stationary vector, and the parts that mark kills and, unless they are Poisson, long jobs."""

    generator: Banded
    stationary: Array
    kills: Banded
    longs: Banded | None


def group0_chain(
    *,
    arrivals: ArrivalProcess,
    short_fraction: float,
    servers: int,
    kill_probability: float,
    limit: PhaseType,
    completed: PhaseType | None,
    depth: int,
) -> Group0Chain:
    """The chain of a stable Group 0, cut where the mass beyond is about 1e-8.

    `arrivals` brings all jobs, of which each belongs to Group 0 with probability `short_fraction`. `limit` and
    `completed` are the two laws of service (`completed` is None if all are killed); `depth` is that of `Modes`.
    Poisson arrivals leave the long jobs out: they are independent of the rest.
    """
    laws = [limit] if completed is None else [limit, completed]
    shares = [1.0] if completed is None else [kill_probability, 1.0 - kill_probability]
    generator = block_diag(*[law.generator for law in laws])
    start = np.concatenate([share * law.alpha for share, law in zip(shares, laws, strict=True)]).astype(np.float64)
    ends = -generator.sum(axis=1)
    ends[limit.order :] = 0.0
    busy = np.linalg.solve(-generator.T, start)
    offered = arrivals.rate * short_fraction * float(busy.sum())
    operators = _operators(generator, busy / busy.sum(), servers=servers, depth=depth)

    poisson = arrivals.order == 1
    one = np.eye(arrivals.order)
    joining, passing = short_fraction * arrivals.arrivals, (1.0 - short_fraction) * arrivals.arrivals
    hidden = arrivals.hidden + passing
    low, high = _window(offered=offered, servers=servers, scv=arrivals.interval.scv, service_scv=_scv(start, generator))

    up: list[Any] = []
    local: list[Any] = []
    down: list[Any] = []
    kills: list[Any] = []
    longs: list[Any] = []
    restart = dense(operators.entries(servers - 1, start))
    for level in range(low, high + 1):
        count = min(level, servers)
        own = np.eye(operators.size(count))
        if level <= servers + 1 or level == high:
            still = kron(hidden, own) + kron(one, dense(operators.local(count)))
            through = None if poisson or short_fraction == 1.0 else kron(passing, own)
            rising = kron(joining, dense(operators.entries(level, start)) if level < servers else own)
        if level == high:
            still = still + kron(joining, own)
        if level == low:
            still = still + (np.diag(kron(one, dense(operators.departures(count))).sum(axis=1)) if low else 0.0)
            falling = kill = None
        elif level <= servers + 1 or level == low + 1:
            after = restart if level > servers else np.eye(operators.size(count - 1))
            falling = kron(one, dense(operators.departures(count)) @ after)
            kill = kron(one, dense(operators.departures(count, ends)) @ after)
        up.append(rising if level < high else None)
        local.append(still)
        down.append(falling)
        kills.append(kill)
        longs.append(through)
    sizes = tuple(len(block) for block in local if block is not None)
    none = (None,) * len(sizes)
    whole = Banded(sizes=sizes, up=tuple(up), local=tuple(local), down=tuple(down))
    return Group0Chain(
        generator=whole,
        stationary=whole.stationary(where="group0"),
        kills=Banded(sizes=sizes, up=none, local=none, down=tuple(kills)),
        longs=None if longs[0] is None else Banded(sizes=sizes, up=none, local=tuple(longs), down=none),
    )


def _operators(generator: Array, equilibrium: Array, *, servers: int, depth: int) -> Occupancy | Modes:
    """Occupancy counts where they take no more states than the modes."""
    if depth >= servers:
        return Occupancy(generator=generator)
    return Modes(generator=generator, equilibrium=equilibrium, depth=depth)


def _window(*, offered: float, servers: int, scv: float, service_scv: float) -> tuple[int, int]:
    """Levels that carry all but a negligible part of the probability."""
    spread = math.sqrt(offered * max(scv, 1.0) + 1.0)
    low = max(int(offered - 7.0 * spread) - 3, 0)
    load = offered / servers
    # The queue dies out like exp(-2 (1 - rho) n / (rho (ca2 + cs2))) in heavy traffic, faster below.
    decay = -math.log(load) * 2.0 / max(scv + service_scv, 1.0) if load > 0.0 else math.inf
    waiting = min(int(-math.log(_NEGLIGIBLE) / decay) + 3, _MOST_WAITING)
    reached = int(offered + 9.0 * spread) + 10
    return low, reached if reached < servers else servers + waiting


def _scv(start: Array, generator: Array) -> float:
    law = PhaseType(alpha=start, generator=generator)
    return max(law.scv, 0.0)
