"""Events a second of the network kernel: the small example, and a network of 100 servers and 50 routes."""

from __future__ import annotations

import numpy as np
import pytest
from network_cases import figure

from qsim.lower import Options, lower
from qtheory.models import parse
from qtheory.systems.network import with_load
from qtheory.systems.network.stabilizability import stabilizability

JOBS = 200_000


def large(policy):
    """Ten classes of five routes over four of a hundred servers of rate 1, at four fifths of theta*."""
    rng = np.random.default_rng(1)
    names = [f"s{n}" for n in range(100)]
    classes = []
    for _ in range(10):
        routes = [[names[n] for n in np.sort(rng.choice(100, 4, replace=False))] for _ in range(5)]
        classes.append({"rate": 1.0, "routes": routes})
    model = parse({"kind": "network", "servers": dict.fromkeys(names, 1.0), "classes": classes, "policy": policy})
    return with_load(model, factor=0.8 * stabilizability(model).theta_star)


MODELS = {
    "fig1-jsr": figure("fig1", rate=1.0, policy={"kind": "jsr"}),
    "fig1-dominant": figure("fig1", rate=1.0, policy={"kind": "jsr", "sharing": "dominant"}),
    "fig1-maxweight": figure("fig1", rate=1.0, policy={"kind": "maxweight"}),
    "large-jsr": large({"kind": "jsr"}),
    "large-jsq-as": large({"kind": "jsq-as"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_events_a_second(benchmark, name):
    model = MODELS[name]
    simulator = lower(model, options=Options(extra={"verdict": False}))
    simulator.run(seed=1, replication=0, jobs=100, warmup=0)
    tally = benchmark(simulator.run, seed=1, replication=0, jobs=JOBS, warmup=0)
    # What was done: every job arrived, and services ended at the servers.
    classes, servers, places = len(model.classes), len(model.servers), len(simulator.where.places)
    came = tally[-2 * classes : -classes].sum()
    ended = tally[-2 * classes - servers : -2 * classes].sum()
    assert came == JOBS
    assert ended > JOBS / 2
    assert places >= 6
    benchmark.extra_info["events"] = int(came + ended)
    benchmark.extra_info["events_a_second"] = (came + ended) / benchmark.stats.stats.median if benchmark.stats else None
