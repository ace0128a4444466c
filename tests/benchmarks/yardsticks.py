"""What the benchmarks measure against: C++ programs that do the same work, and the peers that are installed."""

from __future__ import annotations

import json
import math
import random
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from shared_data import SHARED

from qtheory.models import Dispatcher, Exponential

EXAMPLE = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=2.0),
)
#: The example's true mean response of all jobs, simulated to 0.001 by others.
EXAMPLE_MEAN = 2.294


def compiled(name: str, folder: Path) -> Path:
    """A yardstick program, compiled; skips where the sources or the compiler are absent."""
    compiler = shutil.which("g++")
    if SHARED is None or compiler is None:
        pytest.skip("needs the yardstick sources and a C++ compiler")
    program = folder / name
    source = SHARED / "bench" / f"{name}.cpp"
    subprocess.run([compiler, "-O3", "-march=native", "-o", str(program), str(source)], check=True)
    return program


def rate(work: Callable[[], Any], *, jobs: int, rounds: int = 3) -> float:
    """Jobs a second of processor time, that of child processes included; best of some rounds."""
    best = 0.0
    for _ in range(rounds):
        start = _processor_seconds()
        work()
        best = max(best, jobs / (_processor_seconds() - start))
    return best


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def cpp_jobs_per_second(program: Path, *args: object) -> float:
    """Jobs (or events) a second of processor time, best of three."""
    best = 0.0
    for _ in range(3):
        run = subprocess.run([str(program), *map(str, args)], capture_output=True, text=True, check=True)
        data = json.loads(run.stdout)
        best = max(best, data.get("jobs_per_second", data.get("events_per_second", 0.0)))
    return best


def simpy_killed_jobs(*, jobs: int, seed: int) -> float:
    """The example in simpy as a user would write it; returns the mean response of all jobs."""
    simpy = pytest.importorskip("simpy")
    rng = random.Random(seed)
    env = simpy.Environment()
    short, long = simpy.Resource(env, 3), simpy.Resource(env, 4)
    responses: list[float] = []

    def job(group: int, requirement: float):
        arrived = env.now
        if group == 0:
            with short.request() as turn:
                yield turn
                yield env.timeout(min(requirement, 3.0))
            if requirement <= 3.0:
                responses.append(env.now - arrived)
                return
        with long.request() as turn:
            yield turn
            yield env.timeout(requirement)
        responses.append(env.now - arrived)

    def source():
        for _ in range(jobs):
            yield env.timeout(rng.expovariate(3.0))
            is_short = rng.random() < 0.65
            env.process(job(0 if is_short else 1, rng.expovariate(1 / 1.2 if is_short else 1 / 2.0)))

    env.process(source())
    env.run()
    assert len(responses) == jobs
    return sum(responses) / jobs


def ciw_killed_jobs(*, jobs: int, seed: int) -> int:
    """The example in ciw, killed jobs as a renege of the service; returns how many jobs finished."""
    ciw = pytest.importorskip("ciw")

    class Split(ciw.dists.Distribution):
        """Service in the node of Group 0: cut at the limit, the requirement kept for Group 1."""

        def sample(self, t=None, ind=None):
            ind.requirement = rng.expovariate(1 / 1.2)
            return min(ind.requirement, 3.0)

    class Whole(ciw.dists.Distribution):
        """Service in the node of Group 1."""

        def sample(self, t=None, ind=None):
            return ind.requirement if hasattr(ind, "requirement") else rng.expovariate(1 / 2.0)

    class Route(ciw.routing.NodeRouting):
        """Killed jobs go on to Group 1."""

        def next_node(self, ind):
            return self.simulation.nodes[2] if ind.requirement > 3.0 else self.simulation.nodes[-1]

    rng = random.Random(seed)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=3 * 0.65), ciw.dists.Exponential(rate=3 * 0.35)],
        service_distributions=[Split(), Whole()],
        number_of_servers=[3, 4],
        routing=ciw.routing.NetworkRouting(routers=[Route(), ciw.routing.Leave()]),
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(jobs, method="Finish")
    return len({record.id_number for record in simulation.get_all_records()})


def line_killed_jobs(*, jobs: int, seed: int) -> float:
    """The example for LINE's compiled event simulator LDES; returns the mean response of all jobs.

    LINE knows no kills: three classes with the right rates, the completed services exponential of the right mean.
    """
    line = pytest.importorskip("line_solver")
    kill = math.exp(-3.0 / 1.2)
    rates = {"short": 1.95 * (1.0 - kill), "killed": 1.95 * kill, "long": 1.05}
    model = line.Network("killed")
    source, sink = line.Source(model, "source"), line.Sink(model, "sink")
    first, second = (line.Queue(model, name, line.SchedStrategy.FCFS) for name in ("group0", "group1"))
    first.setNumberOfServers(3)
    second.setNumberOfServers(4)
    routes = {"short": (first,), "killed": (first, second), "long": (second,)}
    completed = 1.2 - 3.0 * kill / (1.0 - kill)
    times = {"short": line.Exp(1.0 / completed), "killed": line.Det(3.0), "long": line.Exp(0.5)}
    classes = {name: line.OpenClass(model, name) for name in rates}
    for name, job in classes.items():
        source.setArrival(job, line.Exp(rates[name]))
        first.setService(job, times[name])
        second.setService(job, line.Exp(1.0 / 4.2) if name == "killed" else line.Exp(0.5))
    routing = model.initRoutingMatrix()
    for name, places in routes.items():
        stops = (source, *places, sink)
        for here, there in pairwise(stops):
            routing.set(classes[name], classes[name], here, there, 1.0)
    model.link(routing)
    table = line.SolverLDES(model, samples=jobs, seed=seed, verbose=False).getAvgTable()
    return float(table["QLen"].sum()) / 3.0
