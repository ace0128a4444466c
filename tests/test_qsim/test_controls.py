"""Control variates: the regression estimator, its coverage and its cost; what the dispatcher samples for them.

Tests of chance have a fixed seed and a false-alarm rate of 1e-6 or less each.
"""

from __future__ import annotations

import json
import math

import anchors
import calibrated
import network_cases
import numpy as np
import pytest
from scipy import stats

import qsim
from qsim.controls import REPLICATIONS_A_CONTROL, Control, adjust, regression
from qsim.estimate import Sample
from qsim.lower import Options, lower
from qtheory.models import Dispatcher, Exponential, Gamma, InvalidModel, LogNormal, Pareto, Uniform, parse
from validation import steer

EXAMPLE_E = parse(anchors.EXAMPLE_E_MODEL)
HEAVY_TAILED = Dispatcher(
    servers=(3, 5),
    time_limit=4.0,
    short_fraction=0.7,
    interarrival=Exponential(mean=0.4),
    service0=LogNormal(mean=1.0, scv=10.0),
    service1=Gamma(shape=0.5, scale=4.0),
)
RENEWAL = EXAMPLE_E.replace(interarrival=Uniform(low=0.1, high=0.7), service1=Uniform(low=0.5, high=3.5))


def drawn(
    *, replications: int, controls: int, seed: int, strength: float = 1.0
) -> tuple[Sample, dict[str, np.ndarray]]:
    """Normal values with mean 5 and controls with mean 0."""
    rng = np.random.default_rng(seed)
    deviations = rng.normal(size=(controls, replications))
    values = 5.0 + strength * deviations.sum(axis=0) + rng.normal(size=replications)
    return Sample(values=values), {f"c{i}": row for i, row in enumerate(deviations)}


def point(values: np.ndarray, deviations: np.ndarray) -> float:
    """Lavenberg and Welch 1981, by covariances: mean less the regressed part of the controls' mean deviation."""
    joint = np.atleast_2d(np.cov(np.vstack([values, deviations])))
    weights = np.linalg.solve(joint[1:, 1:], joint[1:, 0])
    return float(values.mean() - weights @ deviations.mean(axis=1))


def test_jackknife_by_leaving_out() -> None:
    """The closed form against one regression by covariances for each replication left out (Nelson 1990)."""
    sample, controls = drawn(replications=20, controls=3, seed=7)
    fitted = regression(controls)
    figure = adjust(sample, fitted, confidence=0.9)
    assert fitted.names == ("c0", "c1", "c2")
    n, q = 20, 3
    deviations = np.array(list(controls.values()))
    whole = point(sample.values, deviations)
    without = [point(np.delete(sample.values, k), np.delete(deviations, k, axis=1)) for k in range(n)]
    pseudo = n * whole - (n - 1) * np.array(without)
    se = pseudo.std(ddof=1) / math.sqrt(n)
    assert figure.value == pytest.approx(pseudo.mean(), rel=1e-12)
    assert figure.se == pytest.approx(se, rel=1e-12)
    assert figure.half_width == pytest.approx(stats.t.ppf(0.95, n - q - 1) * se, rel=1e-9)


def test_ratio_estimators_go_by_weighted_residuals() -> None:
    """Numerator and denominator adjusted apart agree to first order: the ratio of two intercepts."""
    rng = np.random.default_rng(3)
    counts = rng.integers(900, 1100, 40).astype(float)
    deviation = rng.normal(size=40)
    sums = counts * (2.0 + 0.01 * deviation + 0.002 * rng.normal(size=40))
    fitted = regression({"c": deviation})
    figure = adjust(Sample(values=sums / counts, weights=counts), fitted, confidence=0.95)
    numerator = adjust(Sample(values=sums), fitted, confidence=0.95)
    denominator = adjust(Sample(values=counts), fitted, confidence=0.95)
    assert figure.value == pytest.approx(numerator.value / denominator.value, abs=0.1 * figure.se)


def procedures(rule, *, runs: int) -> tuple[float, np.ndarray]:
    """Coverage of 0 and errors of adjusted means: `rule` gives values and controls of one procedure."""
    covered, errors = 0, []
    for run in range(runs):
        values, deviations = rule(np.random.default_rng(run))
        controls = {f"c{i}": row for i, row in enumerate(deviations)}
        figure = adjust(Sample(values=values), regression(controls), confidence=0.95)
        covered += abs(figure.value) <= figure.half_width
        errors.append(figure.value)
    return covered / runs, np.array(errors)


def test_coverage_and_cost_where_values_are_normal() -> None:
    """At least nominal coverage, and with controls that say nothing near (n - 2) / (n - q - 2) times the variance.

    4,000 procedures: coverage is known within .017 and the variance within 11 % at a false-alarm rate of 1e-6; the
    jackknife adds some per cent to either.
    """
    n, q, runs = 18, 3, 4_000
    coverage, errors = procedures(lambda rng: (rng.normal(size=n), rng.normal(size=(q, n))), runs=runs)
    assert 0.95 - 0.017 < coverage < 0.965 + 0.017
    inflation = errors.var() * n / ((n - 2) / (n - q - 2))
    assert 1 - 0.11 < inflation < 1.1 + 0.11


def test_coverage_and_bias_where_values_are_skewed() -> None:
    """Gamma controls of skewness 1.4, values that grow with the square of the control and scatter with it, as waits do.

    4,000 procedures: coverage is known within .017, the mean error within .08 half-widths of 2 standard errors.
    """
    n, runs = 24, 4_000

    def rule(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        control = rng.gamma(2.0, size=n) / 2.0 - 1.0
        values = control + 0.5 * (control**2 - 0.5) + (0.3 + 0.4 * np.abs(control)) * rng.normal(size=n)
        return values, control[None]

    coverage, errors = procedures(rule, runs=runs)
    assert 0.925 - 0.017 < coverage < 0.965 + 0.017
    assert abs(errors.mean()) < 0.08 * 2 * errors.std()


def test_few_replications_take_few_controls() -> None:
    _, controls = drawn(replications=2 * REPLICATIONS_A_CONTROL, controls=4, seed=1)
    assert regression(controls).names == ("c0", "c1")
    sample, controls = drawn(replications=REPLICATIONS_A_CONTROL - 1, controls=1, seed=1)
    assert regression(controls) is None
    assert adjust(sample, None, confidence=0.95) is None


def test_controls_that_say_nothing_new_are_left_out() -> None:
    _, controls = drawn(replications=24, controls=2, seed=1)
    twice = {"c0": controls["c0"], "same": 3.0 * controls["c0"], "still": np.full(24, 0.1), "c1": controls["c1"]}
    assert regression(twice).names == ("c0", "c1")
    assert np.array_equal(regression(twice).intercept, regression(controls).intercept)
    assert regression({"still": np.zeros(24)}) is None


def test_a_measure_that_is_its_control_keeps_its_own_estimate() -> None:
    sample, controls = drawn(replications=24, controls=1, seed=1)
    assert adjust(sample, regression({"itself": sample.values - 5.0}), confidence=0.95) is None
    unseen = Sample(values=sample.values, weights=np.array([0.0] + [1.0] * 23))
    assert adjust(unseen, regression(controls), confidence=0.95) is None


def lindley(joins: np.ndarray, services: np.ndarray) -> np.ndarray:
    """Waits at one server: the walk of services less gaps, above its least value so far (Lindley 1952)."""
    steps = np.concatenate([[0.0], services[:-1] - np.diff(joins)])
    walk = np.cumsum(steps)
    return walk - np.minimum.accumulate(walk)


def pooled_waits(model: Dispatcher, *, jobs: int, warmup: int, seed: int) -> list[np.ndarray]:
    """Waits of counted jobs at one fast server a group."""
    time_end = 1.1 * (warmup + jobs) * model.interarrival.mean
    drawn_jobs = qsim.draw_jobs(model, time_end=time_end, seed=seed)
    arrival, service, group = (
        column[: warmup + jobs] for column in (drawn_jobs.arrival, drawn_jobs.service, drawn_jobs.group)
    )
    assert arrival.size == warmup + jobs
    short, long = group == 0, group == 1
    killed = short & (service > model.time_limit)
    capped = np.minimum(service, model.time_limit) / model.servers[0]
    first = lindley(arrival[short], capped[short])[np.arange(jobs + warmup)[short] >= warmup]
    joins = np.concatenate([arrival[long], arrival[killed] + model.time_limit])
    order = np.argsort(joins)
    second = lindley(joins[order], np.concatenate([service[long], service[killed]])[order] / model.servers[1])
    inside = (joins[order] > arrival[warmup - 1]) & (joins[order] <= arrival[-1])
    return [first, second[inside]]


@pytest.mark.parametrize(
    "model",
    [EXAMPLE_E, HEAVY_TAILED, EXAMPLE_E.replace(time_limit=1e9, servers=(4, 4))],
    ids=["example", "heavy-tailed", "no limit"],
)
def test_pooled_waits_are_lindleys(model: Dispatcher) -> None:
    """Over enough jobs that the kernel's line is closed up and its clock set back."""
    jobs, warmup = 300_000, 500
    simulator = lower(model, options=Options(means_only=True, controls=("pooled_wait0", "pooled_wait1")))
    tally = simulator.run(seed=5, replication=0, jobs=jobs, warmup=warmup)
    controls = simulator.summarise([tally]).controls
    for group, waits in enumerate(pooled_waits(model, jobs=jobs, warmup=warmup, seed=5)):
        sample = controls[f"pooled_wait{group}"]
        assert sample.weights is not None
        assert sample.weights[0] == waits.size
        assert sample.values[0] == pytest.approx(waits.mean(), rel=1e-9)


def test_the_run_itself_does_not_change() -> None:
    plain = qsim.simulate(EXAMPLE_E, jobs=20_000, replications=4, seed=2)
    controlled = qsim.simulate(EXAMPLE_E, jobs=20_000, replications=4, seed=2, controls=steer.controls(EXAMPLE_E))
    for key, sample in plain.samples.items():
        assert np.array_equal(sample.values, controlled.samples[key].values)


@pytest.mark.parametrize(
    "model",
    [
        EXAMPLE_E,
        HEAVY_TAILED,
        RENEWAL,
        EXAMPLE_E.replace(time_limit=math.inf, servers=(4, 4)),
        EXAMPLE_E.replace(short_fraction=0.0, servers=(1, 8)),
        EXAMPLE_E.replace(short_fraction=1.0, servers=(5, 2), time_limit=2.5),
    ],
)
def test_known_means_by_theory_and_by_simulation(model: Dispatcher) -> None:
    """Every control's sample mean against the laws' theory: an error of 3 %, in waits of 20 %, would be seen."""
    estimate = qsim.simulate(
        model,
        jobs=3_200_000,
        seed=1,
        warmup=steer.warmup(model, jobs=100_000),
        means_only=True,
        controls=steer.controls(model),
    )
    rows = estimate.details["controls"]["known"]
    assert len(rows) >= 4
    for row in rows:
        assert "note" not in row or "spread" in row["note"]
        assert abs(row["z"]) < calibrated.critical_value(32)
        error = (row["value"] - row["mean"]) / row["z"]
        assert 9 * error < (0.2 if "wait" in row["name"] else 0.03) * row["mean"]


def test_controls_help() -> None:
    """The variance factor on the standing example: an order of magnitude for means, more than 2 for the quantile."""
    estimate = qsim.simulate(
        EXAMPLE_E, jobs=640_000, seed=1, warmup=steer.warmup(EXAMPLE_E, jobs=20_000), controls=steer.controls(EXAMPLE_E)
    )
    data = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
    factors = {(row["measure"], row["scope"]): row["factor"] for row in data["controls"]["adjusted"]}
    assert factors["mean_response", "all"] > 10
    assert factors["p95_response", "all"] > 2
    assert ("kill_probability", "all") not in factors
    assert estimate["mean_response", "all"].value == pytest.approx(2.294, abs=0.01)


def test_a_wrong_mean_is_found_out() -> None:
    right = {control.name: control for control in steer.controls(EXAMPLE_E)}
    wrong = Control(name="pooled_wait0", mean=1.3 * right["pooled_wait0"].mean)
    estimate = qsim.simulate(EXAMPLE_E, jobs=640_000, seed=1, means_only=True, controls=[wrong])
    (row,) = estimate.details["controls"]["known"]
    assert "not used" in row["note"]
    assert estimate.details["controls"]["adjusted"] == []


def test_infinite_variances_are_not_used() -> None:
    """Pareto of shape 1.8 has no variance, of shape 3.5 no fourth moment."""
    base = EXAMPLE_E.replace(servers=(3, 12))
    without = {control.name for control in steer.controls(base.replace(service1=Pareto(shape=1.8, minimum=1.0)))}
    assert {"service1", "work1", "offered_load1", "pooled_wait1"}.isdisjoint(without)
    assert {"interarrival", "work0", "pooled_wait0", "completed_service"} <= without
    fewer = {control.name for control in steer.controls(base.replace(service1=Pareto(shape=3.5, minimum=1.0)))}
    assert {"service1", "work1", "offered_load1"} <= fewer
    assert "pooled_wait1" not in fewer
    gaps = {control.name for control in steer.controls(base.replace(interarrival=Pareto(shape=1.8, minimum=0.2)))}
    assert gaps == {"work0", "work1", "completed_service", "killed_service", "service1"}
    assert "pooled_wait0" not in {control.name for control in steer.controls(RENEWAL)}


def test_wrong_controls_are_refused() -> None:
    def run(*controls: Control) -> None:
        qsim.simulate(EXAMPLE_E, jobs=64, replications=2, controls=controls)

    with pytest.raises(InvalidModel, match="known are interarrival"):
        run(Control(name="weather", mean=1.0))
    with pytest.raises(InvalidModel, match="known are interarrival, services:"):
        qsim.simulate(network_cases.small({"kind": "jsr"}), controls=[Control(name="gap", mean=1.0)])
    with pytest.raises(InvalidModel, match="pooled_wait0 goes with the plain rules for killed jobs only, got grace"):
        qsim.simulate(EXAMPLE_E.replace(grace=1.0), controls=[Control(name="pooled_wait0", mean=1.0)])
    with pytest.raises(InvalidModel, match="finite"):
        run(Control(name="interarrival", mean=math.nan))
    with pytest.raises(InvalidModel, match="once"):
        run(Control(name="interarrival", mean=1.0), Control(name="interarrival", mean=1.0))
