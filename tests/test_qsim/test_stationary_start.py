"""Runs that start in the stationary state: their first jobs are as all others, without a warm-up.

Each z test has a two-sided false-alarm rate of 1e-7 and sees, nine times in ten, the deviation that it asserts.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import qsim
from qsim.lower import Options, lower
from qtheory.models import (
    Deterministic,
    Dispatcher,
    Donor,
    Exponential,
    Gamma,
    Hyperexponential,
    InvalidModel,
    Unstable,
)
from qtheory.queues.erlang import erlang_c
from validation import steer

FALSE_ALARM = 1e-7
CRITICAL = float(stats.norm.isf(FALSE_ALARM / 2))
EXP = Exponential(mean=1.0)
#: Two jobs for each server at load .9, where an empty start is far off.
QUEUE = Dispatcher(
    servers=(3, 1),
    time_limit=math.inf,
    short_fraction=1.0,
    interarrival=Exponential(mean=1 / 2.7),
    service0=EXP,
    service1=EXP,
)
RUNS = 3_000


def first_jobs(model: Dispatcher, *, jobs: int, seed: int = 7, stationary: bool = True) -> qsim.Estimate:
    return qsim.simulate(
        model, jobs=RUNS * jobs, replications=RUNS, warmup=0, stationary=stationary, seed=seed, means_only=True
    )


def assert_mean(figure, truth: float, *, power: float) -> None:
    assert abs(figure.value - truth) <= CRITICAL * figure.se
    assert (CRITICAL + 1.3) * figure.se <= power * truth


def mmc_wait(*, servers: int, rate: float, mean: float) -> float:
    """Erlang's waiting probability times the mean wait of those who wait."""
    return erlang_c(servers=servers, offered_load=rate * mean) * mean / (servers - rate * mean)


def test_first_jobs_of_a_queue() -> None:
    """M/M/3: the first ten jobs of 3,000 runs; what an empty start shows instead is seen as well."""
    wait = mmc_wait(servers=3, rate=2.7, mean=1.0)
    found = first_jobs(QUEUE, jobs=10)
    assert_mean(found["mean_wait", "all"], wait, power=0.15)
    assert_mean(found["wait_probability", "all"], erlang_c(servers=3, offered_load=2.7), power=0.06)
    assert_mean(found["mean_number", "group0"], 2.7 * (wait + 1.0), power=0.15)
    assert_mean(found["throughput", "group0"], 2.7, power=0.06)
    empty = first_jobs(QUEUE, jobs=10, stationary=False)["mean_wait", "all"]
    assert empty.value < 0.2 * wait


def test_the_very_first_job() -> None:
    """It arrives some time after the start, and nobody before it: its wait is still that of an arbitrary job."""
    found = first_jobs(QUEUE, jobs=1)["wait_probability", "all"]
    assert_mean(found, erlang_c(servers=3, offered_load=2.7), power=0.08)


@pytest.mark.parametrize("servers", [(2, 3), (5, 9), (9, 12)], ids=str)
def test_both_groups_where_no_job_is_killed(servers: tuple[int, int]) -> None:
    """Registers of four and eight servers, and the tree beyond; load .85 in both."""
    rates = [0.85 * servers[0] / 0.8, 0.85 * servers[1] / 2.0]
    model = QUEUE.replace(
        servers=servers,
        short_fraction=rates[0] / sum(rates),
        interarrival=Exponential(mean=1 / sum(rates)),
        service0=Exponential(mean=0.8),
        service1=Exponential(mean=2.0),
    )
    found = first_jobs(model, jobs=20)
    for scope, count, rate, mean in (("short", servers[0], rates[0], 0.8), ("long", servers[1], rates[1], 2.0)):
        assert_mean(found["mean_wait", scope], mmc_wait(servers=count, rate=rate, mean=mean), power=0.3)
    assert steer.warmup(model, jobs=1000, stationary=True) == 0


def test_group_0_where_jobs_are_killed() -> None:
    """M/D/1 in Group 0: everything runs into the limit.  Group 1 starts empty and needs its warm-up."""
    model = Dispatcher(
        servers=(1, 4),
        time_limit=1.0,
        short_fraction=1.0,
        interarrival=Exponential(mean=1 / 0.8),
        service0=Deterministic(value=3.0),
        service1=EXP,
    )
    found = first_jobs(model, jobs=10)
    # Pollaczek and Khinchine: rho m / (2 (1 - rho)).
    assert_mean(found["mean_wait", "group0"], 0.8 / (2 * 0.2), power=0.2)
    assert steer.warmup(model, jobs=10_000, stationary=True) >= 1000


def test_a_heavier_law_against_pollaczek_and_khinchine() -> None:
    law = Hyperexponential(probabilities=(0.9, 0.1), means=(0.5, 5.0))
    model = QUEUE.replace(servers=(1, 1), interarrival=Exponential(mean=1.9), service0=law)
    second = 2 * (0.9 * 0.25 + 0.1 * 25.0)
    rate, mean = 1 / 1.9, 0.95
    found = first_jobs(model, jobs=5)
    assert_mean(found["mean_wait", "all"], rate * second / (2 * (1 - rate * mean)), power=0.3)


def test_paths_and_runs_start_alike() -> None:
    simulator = lower(QUEUE, options=Options(stationary=True))
    path = simulator.path(seed=3, replication=2, jobs=500)
    run = simulator.summarise([simulator.run(seed=3, replication=2, jobs=500, warmup=0)])
    assert run.samples["mean_response", "all"].values[0] == pytest.approx(path.mean(), rel=1e-12)
    other = lower(QUEUE, options=Options()).path(seed=3, replication=2, jobs=500)
    assert not np.array_equal(path, other)


def test_what_cannot_start_in_stationarity() -> None:
    donor = Donor(
        arrival_rates=(0.5, 0.1),
        service_rates={"mu1": 1.0, "mu12": 1.0, "mu2": 1.0},
        policy={"kind": "t1", "t1": 3},
    )
    for model, field in (
        (donor, "stationary"),
        (QUEUE.replace(interarrival=Exponential(mean=1 / 2.999)), "stationary"),
        (QUEUE.replace(grace=1.0, time_limit=2.0), "stationary"),
        (QUEUE.replace(interarrival=Gamma(shape=2.0, scale=0.5)), "interarrival"),
    ):
        with pytest.raises(InvalidModel) as caught:
            qsim.simulate(model, jobs=1000, stationary=True)
        assert caught.value.field == field
    with pytest.raises(Unstable):
        qsim.simulate(QUEUE.replace(interarrival=Exponential(mean=0.3)), jobs=1000, stationary=True)
