"""The first jobs of a dispatcher's replication one by one, from its start on."""

from __future__ import annotations

import math

import numpy as np

from qsim.kernels.passes import serve_both
from qsim.kernels.random import Array, State, fill_uniform
from qsim.kernels.sampling import fill
from qsim.kernels.servers import Places, serve
from qsim.sampling import Program
from qsim.streams import stream
from qtheory.models.dispatcher import Dispatcher


def responses(
    model: Dispatcher,
    *,
    gap: Program,
    size0: Program,
    size1: Program,
    servers: tuple[Array, Places, Array, Places],
    seed: int,
    replication: int,
    jobs: int,
) -> Array:
    """Responses of the first `jobs` jobs, those of the run with this seed and replication, in order of arrival.

    `servers` is the state of Group 0 and of Group 1 at the start.

    The path ends before the first killed job that joins Group 1 after the last of these arrivals, since what it waits
    for there is not known.
    """

    def state(name: str) -> State:
        return stream(seed=seed, replication=replication, name=name)

    arrivals, classes = np.empty(jobs), np.empty(jobs)
    fill(*gap, state("arrivals"), arrivals)
    arrivals = np.cumsum(arrivals)
    fill_uniform(state("class"), classes)
    short = classes < model.short_fraction
    joins0, joins1 = arrivals[short], arrivals[~short]
    sizes0, sizes1 = np.empty(joins0.size), np.empty(joins1.size)
    fill(*size0, state("service0"), sizes0)
    fill(*size1, state("service1"), sizes1)
    starts0, starts1 = np.empty(joins0.size), np.empty(joins1.size)
    serve(*servers[:2], joins0, sizes0, model.time_limit, starts0)
    killed = sizes0 > model.time_limit
    kills, restarts = starts0[killed] + model.time_limit, np.empty(int(killed.sum()))
    serve_both(*servers[2:], kills, sizes0[killed], restarts, joins1, sizes1, starts1)
    restarts[kills > arrivals[-1]] = math.nan
    starts0[killed] = restarts
    found = np.empty(jobs)
    found[short] = starts0 + sizes0 - joins0
    found[~short] = starts1 + sizes1 - joins1
    unknown = np.flatnonzero(np.isnan(found))
    return found[: unknown[0]] if unknown.size else found
