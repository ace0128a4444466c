"""Control variates in the commands: on by default where estimates are wanted, never where theory is judged."""

from __future__ import annotations

import json

import pytest

from validation import cli, library, steer

CASE = "dispatcher-exponential"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert cli.run([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_simulate_uses_controls_unless_told_otherwise(capsys) -> None:
    path = str(library.case_path(CASE))
    found = answer(capsys, "simulate", path, "--jobs", "64000")
    plain = answer(capsys, "simulate", path, "--jobs", "64000", "--no-controls")
    assert "controls" not in plain
    known = {row["name"]: row for row in found["controls"]["known"]}
    assert known["interarrival"]["mean"] == pytest.approx(1 / 3)
    assert known["service1"]["mean"] == pytest.approx(2.0)
    adjusted = {(row["measure"], row["scope"]): row for row in found["controls"]["adjusted"]}
    widths = [{(r["measure"], r["scope"]): r["half_width"] for r in data["measures"]} for data in (found, plain)]
    assert adjusted["mean_response", "all"]["factor"] > 4
    assert widths[0]["mean_response", "all"] < widths[1]["mean_response", "all"] / 2
    assert widths[0]["kill_probability", "all"] == widths[1]["kill_probability", "all"]
    assert cli.run(["simulate", path, "--jobs", "64000"]) == 0
    printed = capsys.readouterr().out
    assert "variance factor" in printed
    assert "pooled_wait0" in printed


def test_verdicts_rest_on_no_control(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: object) -> None:
        raise AssertionError("a verdict about theory asked theory for known means")

    monkeypatch.setattr(steer, "controls", refuse)
    (result,) = answer(capsys, "validate", str(library.case_path(CASE)), "--jobs", "64000")["results"]
    assert result["verdict"] in ("agree", "inconclusive")


def test_an_unstable_run_uses_none(capsys, tmp_path) -> None:
    path = tmp_path / "model.toml"
    path.write_text(library.case_path(CASE).read_text("utf-8").replace("servers = [3, 4]", "servers = [2, 5]"))
    found = answer(capsys, "simulate", str(path), "--jobs", "64000", "--allow-unstable")
    assert "controls" not in found
