"""The check of the warm-up: sees a start that is not forgotten, and seldom anything else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import pytest

import qsim
from qsim.estimate import Sample
from qsim.lower import Findings
from qsim.replications import Length, Runner
from qsim.warmup import check_warmup
from qtheory.models import Dispatcher, Exponential

KEY = ("mean_response", "all")


class Forgetful:
    """Mean 1 - exp(-t / 1000) at job t from the start, with normal noise that averages out over 100 jobs."""

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> np.ndarray:
        times = warmup + np.arange(0, jobs, 100)
        # The noise at a time is the same however long the run is.
        noise = np.random.default_rng((seed, replication)).standard_normal(warmup // 100 + times.size)[-times.size :]
        return np.array([np.mean(1.0 - np.exp(-times / 1000.0) + noise)])

    def summarise(self, tallies: Sequence[np.ndarray]) -> Findings:
        return Findings(samples={KEY: Sample(values=np.concatenate(list(tallies)))})


class Here:
    def submit(self, function, /, **arguments):
        future: Future = Future()
        future.set_result(function(**arguments))
        return future


def checked(*, warmup: int, jobs: int = 1_000_000, seed: int = 1, replications: int = 32, limit: int = 10**9):
    runner = Runner(simulator=Forgetful(), seed=seed, pool=Here())
    length = Length(jobs=jobs, warmup=warmup)
    runner.run(length, indices=range(replications))
    findings = runner.simulator.summarise(runner.tallies(length))
    return check_warmup(runner, length, findings, key=KEY, jobs=limit), runner


def test_a_start_that_is_not_forgotten_is_seen() -> None:
    found, runner = checked(warmup=1000)
    # The mean of exp(-t / 1000) over [1000, 2000) is exp(-1) - exp(-2) = .2325; ten noises of 32 replications: .056.
    assert found["enough"] is False or found["half_width"] > 0.2325
    assert found["early"] == pytest.approx(-0.2325, abs=5 * 0.056)
    short, _ = checked(warmup=300)
    assert short["enough"] is False
    assert runner.simulated <= 1.1 * 32 * 1_001_000


def test_a_start_that_is_forgotten_passes() -> None:
    """At 20 relaxation times nothing is left: 300 checks at a false-alarm rate of 1e-4 hardly ever fail; fails with
    probability below 1e-6 and sees a rate of .05 with probability .99."""
    failed = sum(not checked(warmup=20_000, jobs=400_000, seed=seed)[0]["enough"] for seed in range(300))
    assert failed <= 3


def test_what_would_cost_too_much_is_left_out() -> None:
    assert checked(warmup=50_000, jobs=150_000)[0] == {}
    assert checked(warmup=1000, replications=4)[0] == {}
    assert checked(warmup=1000, limit=10_000)[0] == {}


def test_precise_runs_say_whether_their_warmup_was_enough() -> None:
    """M/M/1 at load .9 forgets in some hundred jobs."""
    law = Exponential(mean=1.0)
    model = Dispatcher(
        servers=(1, 1),
        time_limit=1.0,
        short_fraction=0.0,
        interarrival=Exponential(mean=1 / 0.9),
        service0=law,
        service1=law,
    )
    for warmup, enough in ((3000, True), (0, False)):
        estimate = qsim.simulate(model, precision=0.03, warmup=warmup, means_only=True)
        assert estimate.details["warmup_check"]["enough"] is enough
        assert math.isfinite(estimate.to_dict()["warmup_check"]["early"])
    assert "warmup_check" not in qsim.simulate(model, precision=0.03, job_budget=200_000, warmup=1000).details
