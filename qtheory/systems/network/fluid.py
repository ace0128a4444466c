"""Fluid paths: what the network does when jobs are so many that only mean flows count.

The fluid path solves x' = b(x), with b the mean change under the policy, and jobs that cannot become negative. Policies
switch at ties, so b is discontinuous; Euler steps chatter around the switching surfaces and converge to the sliding
(Filippov) solution at first order in the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from qtheory.models.base import require
from qtheory.models.network import Network
from qtheory.systems.network.control import Control, control
from qtheory.systems.network.expansion import Array
from qtheory.systems.network.places import EXIT, Places
from qtheory.systems.network.stabilizability import with_static_split


@dataclass(frozen=True, kw_only=True)
class FluidPath:
    """A fluid path: `times` (steps + 1), `jobs` by place (steps + 1, places), and the places themselves."""

    times: Array
    jobs: Array
    places: Places

    @property
    def totals(self) -> Array:
        """Jobs in all at each time."""
        return np.asarray(self.jobs.sum(axis=1))

    def at_server(self, name: str) -> Array:
        """Jobs at a server at each time."""
        n = self.places.expansion.servers.index(name)
        return np.asarray(self.jobs[:, self.places.at(n)].sum(axis=1))

    def growth(self) -> float:
        """Mean growth of the total per unit time over the second half of the path."""
        half = len(self.times) // 2
        return float((self.totals[-1] - self.totals[half]) / (self.times[-1] - self.times[half]))


def fluid_path(model: Network, *, start: Mapping[str, float], horizon: float, steps: int = 4000) -> FluidPath:
    """The fluid path from `start`, jobs by server (split evenly over a server's places), over a time `horizon`.

    Accuracy is first order: about the largest service rate times horizon / steps in each place.

    Raises `InvalidModel` for an unknown server, a negative start, or a policy that is no function of the jobs by
    place (blocking).

    >>> from qtheory.models import JSR, NetworkClass
    >>> one = NetworkClass(rate=0.5, routes=[["s1"]])
    >>> path = fluid_path(Network(servers={"s1": 1.0}, classes=[one], policy=JSR()), start={"s1": 1.0}, horizon=1.0)
    >>> round(float(path.totals[-1]), 6)
    0.5
    """
    require(horizon > 0, field="horizon", rule="must be > 0", value=horizon)
    require(steps >= 2, field="steps", rule="must be at least 2", value=steps)
    model = with_static_split(model)
    policy = control(model)
    where = policy.places
    jobs = np.zeros((steps + 1, where.size))
    for name, amount in start.items():
        require(name in model.servers, field="start", rule="names no server", value=name)
        require(amount >= 0, field=f"start.{name}", rule="must be >= 0", value=amount)
        here = where.at(where.expansion.servers.index(name))
        require(len(here) > 0, field=f"start.{name}", rule="no route passes this server")
        jobs[0, here] = amount / len(here)
    step = horizon / steps
    for i in range(steps):
        jobs[i + 1] = _next(policy, jobs[i], step=step)
    return FluidPath(times=np.linspace(0.0, horizon, steps + 1), jobs=jobs, places=where)


def _next(policy: Control, jobs: Array, *, step: float) -> Array:
    """One Euler step. A server that empties one place within the step gives what is left of it to the next."""
    where = policy.places
    after = jobs.copy()
    state = jobs[None, :]
    for c, rate in enumerate(where.expansion.arrival_rates):
        after[where.entry[c]] += step * rate * policy.entry(state, c=c)[0]
    # What arrives within the step may leave within it, so that an empty server passes its inflow on.
    left = np.full(len(where.expansion.rates), step)
    for _ in range(where.size):
        rates = policy.service(after[None, :])[0]
        share = rates * left[where.server]
        moved = np.minimum(share, after)
        if not moved.max() > 1e-12 * step:
            break
        for k in np.flatnonzero(moved > 0):
            chosen = policy.onward(after[None, :], k=int(k))[0]
            after[k] -= moved[k]
            for o, target in enumerate(where.onward[k]):
                if target != EXIT:
                    after[target] += moved[k] * chosen[o]
            left[where.server[k]] -= moved[k] / where.rates[k]
        left = np.maximum(left, 0.0)
    return after
