"""Precision on request: the interval is as narrow as asked for, covers, and budgets end a run with what it has."""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import binom

import qsim
from qsim.estimate import Figure, Sample, figures
from qsim.lower import Findings
from qsim.precision import CROWD, LEAST_REPLICATIONS, Budgets, Outcome, Pursuit
from qsim.replications import Runner
from qtheory.models import (
    JSR,
    T1T2,
    Dispatcher,
    Donor,
    Exponential,
    Flexible,
    InvalidModel,
    Network,
    NetworkClass,
    ServiceRates,
)

LAW = Exponential(mean=1.0)
E = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=2.0),
)
SYSTEMS = {
    "dispatcher": E,
    "donor": Donor(
        arrival_rates=(0.5, 0.02),
        service_rates=ServiceRates(mu1=1.0, mu12=1.0, mu2=0.0625),
        holding_costs=(1.0, 1.0),
        policy=T1T2(t1=3, t2=10),
    ),
    "flexible": Flexible(queues=2, load=0.5, flexible_fraction=0.5, choices=2),
    "network": Network(
        servers={"s1": 2.0, "s2": 2.0},
        policy=JSR(),
        classes=(NetworkClass(rate=1.0, routes=(("s1",), ("s2",))),),
    ),
}
KEYS = {"network": ("mean_number", "all")}


@pytest.mark.parametrize("kind", SYSTEMS)
def test_every_kind_reaches_its_precision(kind: str) -> None:
    estimate = qsim.simulate(SYSTEMS[kind], precision=0.02)
    figure = estimate[KEYS.get(kind, ("mean_response", "all"))]
    assert estimate.status == "ok"
    assert figure.half_width <= 0.02 * figure.value
    assert estimate.details["precision"]["reached"] == pytest.approx(figure.half_width / figure.value)
    assert estimate.replications >= 32
    assert estimate.jobs % estimate.replications == 0


@pytest.mark.parametrize("precision", [0.02, 0.008])
def test_the_same_bits_on_any_number_of_threads(precision: float) -> None:
    one, many = (qsim.simulate(E, precision=precision, threads=threads, seed=3) for threads in (1, 8))
    assert one.measures.to_list() == many.measures.to_list()
    assert (one.jobs, one.replications, one.warmup) == (many.jobs, many.replications, many.warmup)


def test_a_run_is_that_of_its_own_length() -> None:
    """What is reported is a plain run of so many replications of one length."""
    precise = qsim.simulate(E, precision=0.008)
    plain = qsim.simulate(E, jobs=precise.jobs, replications=precise.replications, warmup=precise.warmup)
    assert plain.measures.to_list() == precise.measures.to_list()


@functools.cache
def normals(seed: int, jobs: int) -> np.ndarray:
    return np.random.default_rng((seed, jobs)).standard_normal(512)


class Normal:
    """A simulator whose replications have normal means: mean 1, variance `variance` / jobs."""

    def __init__(self, variance: float) -> None:
        self.variance = variance

    def default_warmup(self, *, jobs: int) -> int:
        return jobs // 10

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> np.ndarray:
        return np.array([1.0 + math.sqrt(self.variance / jobs) * normals(seed, jobs)[replication]])

    def summarise(self, tallies: Sequence[np.ndarray]) -> Findings:
        return Findings(samples={("mean_response", "all"): Sample(values=np.concatenate(list(tallies)))})


class Here:
    """An executor that works at once, in the calling thread."""

    def submit(self, function, /, **arguments):
        from concurrent.futures import Future

        future = Future()
        future.set_result(function(**arguments))
        return future


def pursue(simulator: Normal, *, precision: float, seed: int = 1, **budgets) -> tuple[Outcome, Figure | None, Runner]:
    def figure(findings: Findings) -> Figure | None:
        return figures(findings.samples, confidence=0.95).get(("mean_response", "all"))

    runner = Runner(simulator=simulator, seed=seed, pool=Here())
    outcome = Pursuit(
        runner=runner,
        figure=figure,
        precision=precision,
        budgets=Budgets(**({"jobs": 10**12, "memory": 1 << 30} | budgets)),
        replications=32,
        warmup=lambda jobs: simulator.default_warmup(jobs=jobs),
    ).carry_out()
    return outcome, figure(outcome.findings), runner


@pytest.mark.parametrize("needed", [20, 100, 500])
def test_stopping_costs_little_coverage(needed: int) -> None:
    """95 % intervals of normal means cover at least 93 %, whatever the number of trial replications needed.

    600 procedures each: below the 1e-7 quantile of a coverage of .94 fails; a coverage of .86 would be seen with
    probability .9.
    """
    precision = 0.1
    variance = needed * 4096 * (precision / 1.96) ** 2
    procedures = 600
    covered = 0
    for seed in range(procedures):
        _, figure, _ = pursue(Normal(variance), precision=precision, seed=seed)
        assert figure.half_width <= precision * abs(figure.value)
        covered += abs(figure.value - 1.0) <= figure.half_width
    assert covered >= binom.ppf(1e-7, procedures, 0.94)


def test_the_work_is_near_what_is_needed() -> None:
    """Trial run, warm-ups and all: at most 1.9 times the jobs that would do if the variance were known, on average."""
    precision, needed = 0.02, 10_000
    variance = needed * 4096 * (precision / 1.96) ** 2
    spent = [pursue(Normal(variance), precision=precision, seed=seed)[2].simulated for seed in range(200)]
    assert np.mean(spent) < 1.9 * needed * 4096


def test_replications_do_not_crowd() -> None:
    for precision in (0.3, 0.1, 0.03, 0.01, 0.003):
        outcome, _, _ = pursue(Normal(1e5), precision=precision)
        assert 32 <= outcome.count <= CROWD + 8


def test_a_job_budget_ends_a_run() -> None:
    for budget in (150_000, 200_000, 1_000_000, 20_000_000):
        outcome, figure, runner = pursue(Normal(1e7), precision=1e-4, jobs=budget)
        assert (outcome.status, outcome.budget) == ("budget", "jobs")
        assert 0.4 * budget <= runner.simulated <= budget
        assert figure.half_width > 1e-4
    with pytest.raises(InvalidModel, match="trial run"):
        pursue(Normal(1e7), precision=1e-4, jobs=100_000)


def test_a_memory_budget_ends_a_run() -> None:
    outcome, _, _ = pursue(Normal(1e7), precision=1e-4, jobs=10**7, memory=40 * 8)
    assert outcome.status == "budget"
    assert outcome.count <= 40


def test_budgets_by_name() -> None:
    estimate = qsim.simulate(E, precision=1e-4, job_budget=400_000)
    assert (estimate.status, estimate.details["budget"]) == ("budget", "jobs")
    assert estimate["mean_response", "all"].half_width > 0
    assert estimate.jobs + estimate.replications * estimate.warmup <= 400_000


def test_a_time_budget_ends_a_run() -> None:
    qsim.simulate(E, jobs=1000)
    start = time.monotonic()
    estimate = qsim.simulate(E, precision=1e-5, time_budget=0.5)
    assert time.monotonic() - start < 20
    assert (estimate.status, estimate.details["budget"]) == ("budget", "time")
    assert math.isfinite(estimate["mean_response", "all"].half_width)
    estimate = qsim.simulate(E, jobs=10**9, replications=20_000, time_budget=0.3)
    assert estimate.status == "budget"
    assert 1 < estimate.replications < 20_000
    assert estimate.jobs == 50_000 * estimate.replications


class Silent(Normal):
    """A simulator that never determines what is asked."""

    def summarise(self, tallies: Sequence[np.ndarray]) -> Findings:
        return Findings(samples={})


def test_a_run_that_does_not_determine_the_measure_says_so() -> None:
    outcome = pursue(Silent(1.0), precision=0.1)[0]
    assert outcome.status == "undetermined"


def test_an_unstable_network_gets_its_verdict() -> None:
    unstable = SYSTEMS["network"].replace(servers={"s1": 0.3, "s2": 0.3})
    estimate = qsim.simulate(unstable, precision=0.05)
    assert (estimate.status, estimate.details["stability"]) == ("ok", "unstable")
    assert len(estimate.measures) == 0


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("precision", {"precision": 0.0}),
        ("precision", {"precision": 1.0}),
        ("precision", {"precision": math.nan}),
        ("jobs", {"precision": 0.1, "jobs": 1000}),
        ("replications", {"precision": 0.1, "replications": LEAST_REPLICATIONS - 1}),
        ("job_budget", {"jobs": 1000, "job_budget": 1000}),
        ("job_budget", {"precision": 0.1, "job_budget": 0}),
        ("job_budget", {"precision": 0.1, "job_budget": 1000}),
        ("time_budget", {"precision": 0.1, "time_budget": 0.0}),
        ("time_budget", {"precision": 0.1, "time_budget": math.nan}),
        ("memory_budget", {"jobs": 1000, "memory_budget": 1000}),
        ("memory_budget", {"precision": 0.1, "memory_budget": 0}),
    ],
)
def test_wrong_options(field: str, options) -> None:
    with pytest.raises(InvalidModel) as found:
        qsim.simulate(E, **options)
    assert found.value.field == field


def test_standings() -> None:
    """Jobs grow, half-widths are those of what is finished, and the caller's thread is told."""
    seen, threads = [], set()

    def watch(standing: qsim.Standing) -> None:
        seen.append((standing.jobs, standing.expected, standing.replications, standing.planned, standing.figure()))
        threads.add(threading.get_ident())

    estimate = qsim.simulate(E, precision=0.02, watch=watch, threads=2)
    assert threads == {threading.get_ident()}
    assert [row[0] for row in seen] == sorted(row[0] for row in seen)
    assert all(row[0] <= row[1] and row[2] <= row[3] for row in seen)
    assert seen[-1][0] == seen[-1][1]
    assert seen[-1][4] == estimate["mean_response", "all"]
    assert math.isnan(seen[0][4].half_width)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0.08, 0.02])
def test_coverage_of_whole_procedures(precision: float) -> None:
    """M/M/1 at load .7, response 10/3: 400 whole runs, 95 % intervals.  Fails below the 1e-6 quantile of a coverage
    of .935; a coverage of .84 would be seen with probability .94."""
    model = Dispatcher(
        servers=(1, 1),
        time_limit=1.0,
        short_fraction=0.0,
        interarrival=Exponential(mean=1 / 0.7),
        service0=LAW,
        service1=LAW,
    )
    covered = 0
    for seed in range(400):
        figure = qsim.simulate(model, precision=precision, seed=seed, warmup=1000, means_only=True)[
            "mean_response", "all"
        ]
        covered += abs(figure.value - 10 / 3) <= figure.half_width
    assert covered >= binom.ppf(1e-6, 400, 0.935)
