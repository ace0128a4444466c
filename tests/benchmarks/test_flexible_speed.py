"""Speed of partial choice: analytic answers by method, jobs a second of each kernel, the C++ yardstick beside."""

from __future__ import annotations

import time

import pytest
from yardsticks import compiled, cpp_jobs_per_second

import qtheory
from qsim.kernels import flexible_chain
from qsim.lower import Options, lower
from qtheory.models import Erlang, Flexible, LogNormal
from qtheory.systems.flexible.expansion import expansion
from qtheory.systems.flexible.fixed_point import means

LARGE = Flexible(queues=1000, load=0.9, flexible_fraction=1.0, choices=2)
JOBS = 1_000_000


@pytest.mark.parametrize(("rho", "p"), [(0.5, 1.0), (0.9, 0.1), (0.99, 0.05)])
def test_mean_field(benchmark, rho, p):
    found = benchmark(means, load=rho, fraction=p, choices=2)
    assert 1.0 < found.all < 1.0 / (1.0 - rho)


@pytest.mark.parametrize("p", [0.05, 0.5])
def test_refined(benchmark, p):
    term = benchmark(expansion, load=0.99, fraction=p, choices=2, distinct=True)
    assert term.coefficient > 0.0


@pytest.mark.parametrize(("rho", "p"), [(0.5, 1.0), (0.9, 0.3), (0.99, 0.05)])
def test_exact_two(benchmark, rho, p):
    model = Flexible(queues=2, load=rho, flexible_fraction=p, choices=2)
    solution = benchmark(qtheory.solve, model, method="exact")
    assert solution["mean_response", "all"].error < 1e-9


@pytest.mark.parametrize(("queues", "rho", "p"), [(3, 0.9, 0.3), (4, 0.9, 1.0), (5, 0.9, 1.0)])
def test_exact_few(benchmark, queues, rho, p):
    model = Flexible(queues=queues, load=rho, flexible_fraction=p, choices=2)
    solution = benchmark.pedantic(qtheory.solve, (model,), {"method": "exact"}, rounds=2)
    assert solution["mean_response", "all"].error < 2e-4


@pytest.mark.parametrize(
    ("name", "model", "means_only"),
    [
        ("chain", LARGE, True),
        ("jobs", LARGE, False),
        ("jobs", LARGE.replace(service=Erlang(shape=2, mean=1.0)), False),
        ("jobs", LARGE.replace(service=LogNormal(mean=1.0, scv=2.0)), False),
        ("events", LARGE.replace(discipline="ps"), False),
        ("events", LARGE.replace(choices="all"), False),
    ],
    ids=["chain", "jobs", "jobs-erlang", "jobs-lognormal", "sharing", "all"],
)
def test_jobs_a_second(benchmark, name, model, means_only):
    simulator = lower(model, options=Options(means_only=means_only))
    assert simulator.kernel == name
    simulator.run(seed=1, replication=0, jobs=1000, warmup=0)
    work = {"seed": 1, "replication": 0, "jobs": JOBS, "warmup": 0}
    tally = benchmark.pedantic(simulator.run, kwargs=work, rounds=3)
    utilisation = simulator.summarise([tally]).samples["utilisation", "all"].values[0]
    assert abs(utilisation - model.load) < 0.02
    if benchmark.stats:
        benchmark.extra_info["jobs_a_second"] = JOBS / benchmark.stats.stats.min


def test_chain_against_the_yardstick(benchmark, tmp_path):
    """Steps a second of processor time, as a ratio to the C++ program on the same system in the same run."""
    theirs = cpp_jobs_per_second(compiled("choices", tmp_path), 1000, 0.9, 1, 2, 10 * JOBS)
    simulator = lower(LARGE, options=Options(means_only=True))
    simulator.run(seed=1, replication=0, jobs=1000, warmup=0)

    def work():
        start = time.process_time()
        tally = simulator.run(seed=1, replication=0, jobs=5 * JOBS, warmup=0)
        assert tally[flexible_chain.ARRIVED] == 5 * JOBS
        rates.append(tally[flexible_chain.STEPS] / (time.process_time() - start))

    rates = []
    benchmark.pedantic(work, rounds=3)
    benchmark.extra_info |= {"steps_a_second": max(rates), "ratio_to_cpp": max(rates) / theirs}
