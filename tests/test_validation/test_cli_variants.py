"""The command line on dispatchers with other rules for killed jobs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from command_line import E, Qtwin

import validation
from qtheory.models import Exponential, InvalidModel, Uniform, save
from validation import known_means, steer
from validation import sweep as sweeping

LIGHT = E.replace(interarrival=Exponential(mean=0.5))


@pytest.fixture
def head(tmp_path: Path) -> Path:
    path = tmp_path / "head.toml"
    save(LIGHT.replace(killed_join="head"), path)
    return path


def test_a_field_of_the_file_reaches_the_simulation(qtwin: Qtwin, tmp_path: Path) -> None:
    path = tmp_path / "kept.toml"
    save(E, path)
    plain = qtwin("simulate", path, "--jobs", "64000", "--json").data
    path.write_text("checkpoint_share = 0.5\n" + path.read_text())
    kept = qtwin("simulate", path, "--jobs", "64000", "--json").data
    assert "checkpoint_share" not in plain["model"]
    assert kept["model"]["checkpoint_share"] == 0.5
    values = [
        {(row["measure"], row["scope"]): row["value"] for row in data["measures"]}["mean_response", "killed"]
        for data in (plain, kept)
    ]
    assert values[1] < values[0] - 1.0


@pytest.mark.parametrize("command", ["solve", "validate", "sweep --vary time_limit=1,2"])
def test_without_a_method_one_line_and_status_2(qtwin: Qtwin, head: Path, command: str) -> None:
    name, *options = command.split()
    for method in ("auto", "mgc", "exact"):
        run = qtwin(name, head, *options, "--method", method)
        assert run.status == 2
        assert run.err.count("\n") == 1
        assert f"{head}: killed_join: no analytic method covers this rule; qsim simulates it, got head" in run.err


def test_sweep_simulates_what_no_method_covers(qtwin: Qtwin, head: Path, tmp_path: Path) -> None:
    run = qtwin("sweep", head, "--vary", "servers.0=1,3", "--simulate", "--jobs", "32000", "--json")
    assert run.status == 0
    unstable, row = run.data["rows"]
    assert unstable["status"] == "unstable"
    assert (row["status"], row["measures"]) == ("ok", [])
    assert row["simulated"]
    assert qtwin("sweep", head, "--vary", "grace=0,0.5", "--simulate", "--jobs", "3200", "--out", tmp_path).status == 0


def test_a_field_left_out_can_be_varied() -> None:
    rows = sweeping.rows(E, [sweeping.parse_axis("checkpoint_share=0,0.5,1")])
    values = [next(r["value"] for r in row["measures"] if r["scope"] == "killed") for row in rows]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) == 3


def test_search_simulates_all_designs_or_refuses(qtwin: Qtwin) -> None:
    model = LIGHT.replace(killed_join="head")
    found = validation.search(model, total=6, jobs=2000, max_jobs=400_000, indifference=0.1)
    stable = [row for row in found.table if row.stable]
    assert all(row.simulated is not None and row.analytic is None for row in stable)
    assert found.analytic_best is None
    assert found.best["servers"] in [row.servers for row in stable]
    with pytest.raises(InvalidModel, match="no analytic method to choose"):
        validation.search(model, total=40)
    with pytest.raises(InvalidModel, match="no analytic method covers"):
        validation.search(model, total=6, method="mgc")


@pytest.mark.parametrize(
    "rules",
    [
        {"killed_join": "head"},
        {"checkpoint_share": 0.5},
        {"grace": 0.5, "grace_completes": False, "killed_join": "low-priority"},
        {"limits": Uniform(low=1.0, high=4.0), "checkpoint_share": 0.5},
    ],
)
def test_known_means_are_right(rules) -> None:
    """Each control's sample mean within 6 standard errors; a wrong rule is off by dozens."""
    import qsim

    model = LIGHT.replace(**rules)
    controls = known_means.dispatcher_controls(model)
    assert not [control for control in controls if control.name.startswith("pooled")]
    assert len(controls) == 8
    plain = qsim.simulate(model, jobs=320_000, warmup=1000, seed=5, means_only=True)
    run = qsim.simulate(model, jobs=320_000, warmup=1000, seed=5, means_only=True, controls=controls)
    zs = [row["z"] for row in run.details["controls"]["known"] if "z" in row]
    assert len(zs) == 8
    assert np.abs(zs).max() < 6
    assert run["mean_response", "all"].half_width < plain["mean_response", "all"].half_width


def test_warmup_and_calibration_know_the_rules(qtwin: Qtwin, head: Path) -> None:
    assert math.isfinite(steer.warmup(LIGHT.replace(killed_join="head"), jobs=10**9))
    run = qtwin("calibrate", head, "--runs", "4", "--jobs", "32000", "--reference-jobs", "64000", "--json")
    assert run.status == 0
