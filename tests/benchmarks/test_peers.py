"""What a user could pick instead, on the same example in the same run; ``pytest tests/benchmarks/test_peers.py``
prints the table that stands in the README."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from yardsticks import (
    EXAMPLE,
    EXAMPLE_MEAN,
    ciw_killed_jobs,
    compiled,
    cpp_jobs_per_second,
    line_killed_jobs,
    rate,
    simpy_killed_jobs,
)

import qsim

JOBS = 40_000_000


def ours(*, means_only: bool) -> float:
    """Jobs a second of one thread."""

    def work() -> None:
        found = qsim.simulate(EXAMPLE, jobs=JOBS, replications=2, seed=1, threads=1, means_only=means_only)
        assert found.jobs == JOBS
        assert abs(found["mean_response", "all"].value - EXAMPLE_MEAN) < 0.02

    work()
    return rate(work, jobs=JOBS)


def cpp(*, folder: Path) -> float:
    """The scalar recursion in C++."""
    return cpp_jobs_per_second(compiled("killed_jobs", folder), "killed", JOBS)


def line() -> float:
    """LINE's engine; what it takes before it simulates is subtracted."""
    assert abs(line_killed_jobs(jobs=100_000, seed=1) - EXAMPLE_MEAN) < 0.3
    few, many = (1.0 / rate(lambda n=n: line_killed_jobs(jobs=n, seed=1), jobs=n) * n for n in (100_000, 5_100_000))
    return 5_000_000 / (many - few)


def simpy() -> float:
    """simpy, an event loop in Python."""
    assert abs(simpy_killed_jobs(jobs=20_000, seed=1) - EXAMPLE_MEAN) < 0.5
    return rate(lambda: simpy_killed_jobs(jobs=100_000, seed=1), jobs=100_000, rounds=2)


def ciw() -> float:
    """ciw, an event loop in Python."""
    assert ciw_killed_jobs(jobs=1_000, seed=1) == 1_000
    return rate(lambda: ciw_killed_jobs(jobs=20_000, seed=1), jobs=20_000, rounds=2)


PEERS: dict[str, Callable[..., float]] = {"C++ scalar recursion": cpp, "LINE LDES": line, "simpy": simpy, "ciw": ciw}


@pytest.mark.parametrize("name", PEERS)
def test_killed_jobs(benchmark: Any, tmp_path: Path, name: str) -> None:
    peer = PEERS[name]
    theirs = peer(folder=tmp_path) if peer is cpp else peer()
    means = benchmark.pedantic(lambda: ours(means_only=True), rounds=1)
    full = ours(means_only=False)
    assert min(theirs, means, full) > 0.0  # what each of them computed is asserted where it is run
    benchmark.extra_info |= {
        "jobs a second": theirs,
        "qtwin, means": means / theirs,
        "qtwin, all tallies": full / theirs,
    }
