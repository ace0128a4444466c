"""The check of the warm-up: sees a start that is not forgotten, and seldom anything else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import pytest

import qsim
from qsim.estimate import Sample
from qsim.lower import Findings, Options, lower
from qsim.replications import Length, Runner
from qsim.warmup import check_warmup, mser5
from qtheory.models import Dispatcher, Exponential, Gamma

KEY = ("mean_response", "all")
#: M/M/1 at load .9 forgets in some hundred jobs.
MM1 = Dispatcher(
    servers=(1, 1),
    time_limit=1.0,
    short_fraction=0.0,
    interarrival=Exponential(mean=1 / 0.9),
    service0=Exponential(mean=1.0),
    service1=Exponential(mean=1.0),
)


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
    for warmup, enough in ((3000, True), (0, False)):
        estimate = qsim.simulate(MM1, precision=0.03, warmup=warmup, means_only=True)
        assert estimate.details["warmup_check"]["enough"] is enough
        assert math.isfinite(estimate.to_dict()["warmup_check"]["early"])
    assert "warmup_check" not in qsim.simulate(MM1, precision=0.03, job_budget=200_000, warmup=1000).details


def mser5_by_its_definition(series: list[float]) -> int:
    batches = [math.fsum(series[k : k + 5]) / 5 for k in range(0, len(series) - 4, 5)]
    errors = []
    for d in range(len(batches) // 2):
        left = batches[d:]
        mean = math.fsum(left) / len(left)
        errors.append(math.fsum((x - mean) ** 2 for x in left) / len(left) ** 2)
    return 5 * errors.index(min(errors))


@pytest.mark.parametrize("seed", range(20))
def test_mser5_is_what_its_definition_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(10, 400))
    series = 1e6 + rng.exponential(size=count) - 3.0 * np.exp(-np.arange(count) / 20.0)
    assert mser5(series) == mser5_by_its_definition(list(series))


def test_mser5_cuts_the_transient_off() -> None:
    """Noise of unit variance about 1 - 20 exp(-i / 100): after 100 log(20 / .2) = 460 jobs the bias is below .2."""
    rng = np.random.default_rng(1)
    series = rng.standard_normal(20_000) + 1.0 - 20.0 * np.exp(-np.arange(20_000) / 100.0)
    assert 300 <= mser5(series) <= 1000
    assert mser5(series[2000:]) <= 500


@pytest.mark.parametrize("name", ["example", "short only", "renewal", "no limit"])
def test_paths_of_jobs_are_those_of_the_run(name: str) -> None:
    """Sums over the path are the tallies of a run of the same jobs; every job is on it once kills are left out."""
    law = Exponential(mean=1.0)
    model = Dispatcher(
        servers=(2, 3),
        time_limit=1.5,
        short_fraction=0.6,
        interarrival=Exponential(mean=0.4),
        service0=law,
        service1=Exponential(mean=1.2),
    )
    model = {
        "example": model,
        "short only": model.replace(short_fraction=1.0, interarrival=Exponential(mean=0.8)),
        "renewal": model.replace(interarrival=Gamma(shape=0.5, scale=0.8)),
        "no limit": model.replace(time_limit=math.inf),
    }[name]
    simulator = lower(model, options=Options())
    path = simulator.path(seed=5, replication=3, jobs=4000)
    assert 3900 <= path.size <= 4000
    found = simulator.summarise([simulator.run(seed=5, replication=3, jobs=path.size, warmup=0)])
    assert found.samples[KEY].values[0] == pytest.approx(path.mean(), rel=1e-12)
    early = simulator.summarise([simulator.run(seed=5, replication=3, jobs=500, warmup=1000)])
    assert early.samples[KEY].values[0] == pytest.approx(path[1000:1500].mean(), rel=1e-12)


def test_runs_of_so_many_jobs_are_checked_when_asked() -> None:
    found = {
        warmup: qsim.simulate(
            MM1, jobs=16_000_000, replications=64, warmup=warmup, means_only=True, check_warmup=True
        ).details["warmup_check"]
        for warmup in (0, 3000)
    }
    assert found[0]["enough"] is False
    assert found[3000]["enough"] is True
    # The waits forget the empty system in some hundred jobs: the relaxation time is 390 of them.
    assert 50 <= found[3000]["mser5"] <= 3000
    assert found[3000]["path"] >= 20_000
    assert "warmup_check" not in qsim.simulate(MM1, jobs=320_000, means_only=True).details
