"""Jobs a second against what a user could pick instead, in one run; the figures go into `extra_info`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from yardsticks import (
    EXAMPLE,
    EXAMPLE_MEAN,
    compiled,
    cpp_jobs_per_second,
    rate,
)

import qsim
from qtheory.models import Exponential

JOBS = 20_000_000


@pytest.mark.parametrize("means_only", [True, False], ids=["means", "all tallies"])
def test_killed_jobs_against_cpp(benchmark: Any, tmp_path: Path, means_only: bool) -> None:
    """The example with sampling, one thread, against the scalar C++ recursion."""
    yardstick = cpp_jobs_per_second(compiled("killed_jobs", tmp_path), "killed", JOBS)

    def work() -> qsim.Estimate:
        return qsim.simulate(EXAMPLE, jobs=JOBS, replications=2, seed=1, threads=1, means_only=means_only)

    found = benchmark.pedantic(work, rounds=3, warmup_rounds=1)
    assert found.jobs == JOBS
    assert abs(found["mean_response", "all"].value - EXAMPLE_MEAN) < 0.02
    ours = rate(work, jobs=JOBS)
    benchmark.extra_info |= {"jobs_per_second": ours, "ratio_to_cpp": ours / yardstick}


def test_two_servers_against_cpp(benchmark: Any, tmp_path: Path) -> None:
    """M/M/2 as a dispatcher without short jobs, against the two-server recursion in C++."""
    yardstick = cpp_jobs_per_second(compiled("killed_jobs", tmp_path), "mm2", JOBS)
    model = EXAMPLE.replace(
        servers=(1, 2), short_fraction=0.0, interarrival=Exponential(mean=1 / 1.6), service1=Exponential(mean=1.0)
    )

    def work() -> qsim.Estimate:
        return qsim.simulate(model, jobs=JOBS, replications=2, seed=1, threads=1, means_only=True)

    found = benchmark.pedantic(work, rounds=3, warmup_rounds=1)
    # M/M/2 at load .8: mean response 1 / (1 - .64).
    assert abs(found["mean_response", "all"].value - 1 / 0.36) < 0.03
    ours = rate(work, jobs=JOBS)
    benchmark.extra_info |= {"jobs_per_second": ours, "ratio_to_cpp": ours / yardstick}


def test_many_servers_cost(benchmark: Any) -> None:
    """n = 1000 servers against n = 10 at the same loads: the cost of a job."""
    small = EXAMPLE.replace(servers=(4, 6), interarrival=Exponential(mean=0.25))
    large = EXAMPLE.replace(servers=(400, 600), interarrival=Exponential(mean=0.0025))
    jobs = 4_000_000

    def work() -> qsim.Estimate:
        return qsim.simulate(large, jobs=jobs, replications=2, seed=1, threads=1)

    costs = [
        1 / rate(lambda m=model: qsim.simulate(m, jobs=jobs, replications=2, seed=1, threads=1), jobs=jobs)
        for model in (small, large)
    ]
    found = benchmark.pedantic(work, rounds=1)
    assert found.jobs == jobs
    assert found["utilisation", "all"].value < 1.0
    benchmark.extra_info |= {"cost_ratio_n1000_to_n10": costs[1] / costs[0]}


def test_two_threads(benchmark: Any) -> None:
    """Wall-clock speed-up of two threads over one."""

    def wall(threads: int) -> float:
        start = time.perf_counter()
        qsim.simulate(EXAMPLE, jobs=2 * JOBS, replications=8, seed=1, threads=threads)
        return time.perf_counter() - start

    wall(1)
    one, two = min(wall(1) for _ in range(3)), min(wall(2) for _ in range(3))
    found = benchmark.pedantic(
        lambda: qsim.simulate(EXAMPLE, jobs=2 * JOBS, replications=8, seed=1, threads=2), rounds=1
    )
    assert found.jobs == 2 * JOBS
    benchmark.extra_info |= {"speed_up": one / two}
