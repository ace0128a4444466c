"""Where a dispatcher's replication starts: empty, or with its groups in their stationary states.

What an arbitrary job meets is the stationary state at an arbitrary instant, since arrivals are Poisson; but the first
job after a given instant is no arbitrary one: nobody has come since that instant.  So the state is drawn for the
instant of the first arrival.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qsim._perfect import Sampler, sampler
from qsim.kernels.random import Array
from qsim.kernels.sampling import fill
from qsim.kernels.servers import Places, free_servers, idle_servers
from qsim.sampling import Program
from qsim.streams import stream
from qtheory.models.dispatcher import Dispatcher
from qtheory.models.errors import InvalidModel

#: A draw traces about servers / (1 - load)^2 jobs back, more where services vary: beyond this it takes seconds.
_MOST = 200_000


@dataclass(frozen=True, kw_only=True)
class Start:
    """What the servers of both groups have to do when a replication starts; None is nothing at all."""

    servers: tuple[int, int]
    groups: tuple[Sampler | None, Sampler | None] = (None, None)

    def state(self, *, gap: Program, seed: int, replication: int) -> tuple[Array, Places, Array, Places]:
        """The servers of Group 0 and of Group 1 as the kernel takes them; `gap` is the law of the first arrival."""
        if self.groups == (None, None):
            return *idle_servers(self.servers[0]), *idle_servers(self.servers[1])
        first = np.empty(1)
        fill(*gap, stream(seed=seed, replication=replication, name="arrivals"), first)
        draws = stream(seed=seed, replication=replication, name="perfect")
        found = [
            idle_servers(count) if group is None else free_servers(first + group.draw(draws, samples=1).workload[0])
            for count, group in zip(self.servers, self.groups, strict=True)
        ]
        return *found[0], *found[1]


def joined_by_killed(model: Dispatcher) -> bool:
    """Whether killed jobs can join Group 1, whose stationary state has no sampler then."""
    return model.short_fraction > 0 and model.time_limit < math.inf


def stationary_start(model: Dispatcher) -> Start:
    """Group 0 in its stationary state, and Group 1 too unless killed jobs join it.

    Without killed jobs the groups are independent, since arrivals are Poisson: the pair is then stationary.  With them
    only Group 0 is, at the start and ever after; Group 1 starts empty, and the jobs that stand in Group 0 at the start
    are never killed, so that Group 1 needs its warm-up.

    Raises
    ------
    InvalidModel : arrivals are not Poisson, a law has no sampler of services in progress, or draws cost too much.
    Unstable : a group has no stationary state.
    """
    groups = (
        sampler(model) if model.short_fraction > 0 else None,
        sampler(model, group=1) if model.short_fraction < 1 and not joined_by_killed(model) else None,
    )
    for group in filter(None, groups):
        jobs = group.servers / (1 - group.load) ** 2
        if jobs > _MOST:
            rule = f"needs servers / (1 - load)^2 of {group.group} to be at most {_MOST}, not {jobs:.3g}"
            raise InvalidModel(field="stationary", rule=rule)
    return Start(servers=model.servers, groups=groups)
