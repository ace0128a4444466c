"""Coverage of the simulation's intervals: a short calibration, its own interval, and what it would notice.

The short calibration has a fixed seed.  A row fails if so few of its 100 intervals cover that the probability is below
1e-8 for every true coverage from 93 % on: that is 74 or fewer, so that a true coverage of 69 % is noticed nine times in
ten.  Coverage within 93 to 97 % was measured apart, with a thousand procedures a system (`qtwin guide calibration`).
"""

from __future__ import annotations

import json
import math

import pytest
from scipy import stats

from qsim.controls import Control
from qtheory.models import Dispatcher, Exponential, InvalidModel, LogNormal, Unstable, save
from validation import cli, steer
from validation.calibrate import Calibration, calibrate, clopper_pearson

FALSE_ALARM = 1e-8

MM2 = Dispatcher(
    servers=(1, 2),
    time_limit=1.0,
    short_fraction=0.0,
    interarrival=Exponential(mean=1 / 1.4),
    service0=Exponential(mean=1.0),
    service1=Exponential(mean=1.0),
)
KILLS = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=LogNormal(mean=1.0, scv=4.0),
    service1=Exponential(mean=2.0),
)


def assert_covers(found: Calibration) -> None:
    for row in found.rows:
        assert stats.binom.cdf(row.covered, row.runs, 0.93) > FALSE_ALARM, row


@pytest.mark.parametrize("covered", [0, 1, 93, 99, 100])
def test_interval_of_a_coverage(covered: int) -> None:
    known = stats.binomtest(covered, 100).proportion_ci(0.95, method="exact")
    assert clopper_pearson(covered=covered, runs=100) == pytest.approx((known.low, known.high), abs=1e-12)


def test_against_theory() -> None:
    """M/M/2: the truth is exact, its error 0."""
    found = calibrate(
        MM2,
        runs=100,
        jobs=24_000,
        replications=24,
        reference_jobs=48_000,
        seed=3,
        measures=("mean_response", "p95_response"),
    )
    assert_covers(found)
    rows = {(row.measure, row.scope, row.controls): row for row in found.rows}
    plain, adjusted = (rows["mean_response", "all", controls] for controls in (False, True))
    assert plain.reference.value == pytest.approx(1 / (1 - 0.49))
    assert plain.reference.half_width == 0
    assert "jobs" not in plain.reference.source
    assert plain.factor == 1
    assert adjusted.factor > 3
    # The mean of (estimate - truth) / half-width has a standard error of .05.
    assert abs(plain.bias) < 6 * 0.05
    assert abs(adjusted.bias) < 6 * 0.05


def test_against_a_long_run() -> None:
    """Estimates agree with the long run within 6 standard errors of their difference."""
    runs = 20
    found = calibrate(KILLS, runs=runs, jobs=12_800, replications=16, reference_jobs=64_000, seed=1)
    assert {row.measure for row in found.rows} == {"mean_response", "mean_wait", "mean_number", "p95_response"}
    for row in found.rows:
        assert row.reference.source == "64000 jobs"
        assert row.reference.half_width > 0
        width = math.hypot(row.reference.half_width, row.half_width / math.sqrt(runs))
        assert abs(row.bias) * row.half_width < 6 * width / 2


def test_a_wrong_mean_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known mean off by 3 %, too little for the control's own z in one run, ruins the coverage."""
    right = {control.name: control.mean for control in steer.controls(MM2)}
    wrong = (Control(name="pooled_wait1", mean=1.03 * right["pooled_wait1"]),)
    monkeypatch.setattr(steer, "controls", lambda model: wrong)
    found = calibrate(MM2, runs=20, jobs=64_000, reference_jobs=64_000, measures=("mean_wait",))
    assert all(row.coverage < 0.5 if row.controls else row.coverage > 0.6 for row in found.rows)


def test_until_a_precision_is_met() -> None:
    """Procedures that end by themselves cover too; the half-width that ends them is at most what was asked for."""
    found = calibrate(MM2, runs=20, precision=0.03, replications=16, reference_jobs=64_000, measures=("mean_response",))
    assert_covers(found)
    (row,) = (row for row in found.rows if row.scope == "all" and row.controls)
    assert 0 < row.half_width <= 0.03 * 1.2 * row.reference.value
    assert found.jobs >= 16 * 4096


def test_refusals() -> None:
    with pytest.raises(InvalidModel, match="jobs"):
        calibrate(MM2, jobs=1000, precision=0.1)
    with pytest.raises(InvalidModel, match="runs"):
        calibrate(MM2, runs=0)
    with pytest.raises(InvalidModel, match="replications"):
        calibrate(MM2, replications=1)
    with pytest.raises(InvalidModel, match="confidence"):
        calibrate(MM2, confidence=1.0)
    with pytest.raises(Unstable):
        calibrate(MM2.replace(servers=(1, 1)))


def test_command(tmp_path, capsys) -> None:
    path = tmp_path / "mm2.toml"
    save(MM2, path)
    options = ["--runs", "5", "--jobs", "3200", "--replications", "8", "--reference-jobs", "6400"]
    assert cli.run(["calibrate", str(path), *options, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["command"] == "calibrate"
    assert (data["runs"], data["jobs"], data["replications"], data["confidence"]) == (5, 3200, 8, 0.95)
    row = next(row for row in data["measures"] if row["measure"] == "mean_response")
    assert 0 <= row["low"] <= row["coverage"] <= row["high"] <= 1
    assert cli.run(["calibrate", str(path), *options, "--confidence", "0.5"]) == 0
    assert "50 % intervals" in capsys.readouterr().out
    assert cli.run(["calibrate", str(path), "--confidence", "2"]) == 2
    assert "--confidence" in capsys.readouterr().err
