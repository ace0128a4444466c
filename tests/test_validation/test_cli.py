"""The command line: one line and the right exit status for every wrong input, one JSON object for every answer."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import E, Qtwin, Run

import qtheory
from qtheory.models import plain
from validation import cli


def file(folder: Path, **changes: Any) -> Path:
    path = folder / "m.json"
    path.write_text(json.dumps(plain(E) | changes))
    return path


def law(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, **fields}


def assert_refused(run: Run, words: str) -> None:
    assert run.status == 2, run.err
    assert run.out == ""
    assert len(run.err.strip().splitlines()) == 1
    assert "Traceback" not in run.err
    for word in words.split():
        assert word in run.err, (word, run.err)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time_limit": -1.0}, "m.json time_limit -1"),
        ({"time_limit": 0}, "time_limit 0"),
        ({"time_limit": "three"}, "time_limit three"),
        ({"short_fraction": 1.2}, "short_fraction 1.2"),
        ({"servers": [0, 4]}, "servers.0 0"),
        ({"servers": [3.5, 4]}, "servers.0 3.5"),
        ({"servers": [True, 4]}, "servers.0 True"),
        ({"servers": [1, 2, 3]}, "servers length 2"),
        ({"colour": "red"}, "colour unknown"),
        ({"kind": "dispatchers"}, "kind dispatchers"),
        ({"service0": 2.0}, "service0 table 2.0"),
        ({"service0": law("exponentialy", mean=1)}, "service0.kind exponentialy"),
        ({"service0": law("exponential", mean="inf")}, "service0.mean inf"),
        ({"service0": law("exponential", mean=1, shade=2)}, "service0.shade"),
        ({"service0": law("erlang", mean=1.0)}, "service0.shape required"),
        ({"service0": law("hyperexponential", probabilities=[0.5, 0.6], means=[1, 2])}, "service0.probabilities 1.1"),
        ({"service0": law("uniform", low=2, high=1)}, "service0.low 2"),
        ({"service0": law("scipy", name="norm", parameters={})}, "service0 norm"),
        ({"service0": law("scipy", name="nope", parameters={})}, "service0 nope"),
        ({"service0": law("scipy", name="poisson", parameters={"mu": 2.0})}, "service0 poisson"),
        ({"service0": law("scipy", name="gamma", parameters={"q": 2.0})}, "service0 gamma q"),
        ({"service0": law("phase-type", alpha=[1, 0], generator=[[-1, 1], [1, -1]])}, "service0.generator"),
        ({"service0": law("empirical", values=[])}, "service0.values"),
        ({"interarrival": law("deterministic", value=0)}, "interarrival"),
        ({"interarrival": law("pareto", shape=0.9, minimum=1)}, "interarrival"),
    ],
)
def test_wrong_models(qtwin: Qtwin, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    assert_refused(qtwin("solve", file(tmp_path, **changes), "--json"), words)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no model"),
        (b"\n\n", "no model"),
        (bytes(range(256)), "UTF-8"),
        (b"kind = \n", "TOML line 1 column"),
        (b'kind = "disp\xff"\n', "UTF-8"),
    ],
)
def test_wrong_files(qtwin: Qtwin, tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(data)
    assert_refused(qtwin("solve", path), f"bad.toml {words}")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["solve"], "FILE"),
        (["solve", "{model}", "--nope"], "--nope"),
        (["solv"], "solv"),
        (["solve", "/nonexistent.toml"], "nonexistent.toml read"),
        (["solve", "{model}", "--method", "magic"], "--method magic"),
        (["solve", "{model}", "--at", "1,x"], "--at 1,x"),
        (["solve", "{model}", "--at", "-1"], "--at -1"),
        (["simulate", "{model}", "--jobs", "0"], "--jobs 0"),
        (["simulate", "{model}", "--jobs", "1e"], "--jobs 1e"),
        (["simulate", "{model}", "--seed", "-1"], "--seed -1"),
        (["simulate", "{model}", "--seed", "x"], "--seed x"),
        (["simulate", "{model}", "--replications", "0"], "--replications 0"),
        (["simulate", "{model}", "--warmup", "-2"], "--warmup -2"),
        (["validate", "{model}", "--replications", "1"], "--replications 1"),
        (["validate"], "FILE"),
        (["search", "{model}"], "--total"),
        (["search", "{model}", "--total", "1"], "--total 1"),
        (["search", "{model}", "--total", "7", "--objective", "tall=1"], "--objective tall"),
        (["search", "{model}", "--total", "7", "--objective", "short=x"], "--objective short=x"),
        (["search", "{model}", "--total", "7", "--objective", "short=-1"], "--objective -1"),
        (["search", "{model}", "--total", "7", "--objective", "short=1,short=2"], "--objective once short=1,short=2"),
        (["search", "{model}", "--total", "7", "--width", "drop"], "--width drop --trace"),
        (["search", "{model}", "--total", "7", "--group-limit", "5"], "--group-limit 5.0 --trace"),
        (["search", "{model}", "--total", "7", "--trace", "x.csv", "--method", "mmc"], "--method mmc --trace"),
        (["search", "{model}", "--total", "7", "--trace", "x.csv", "--confidence", "0.9"], "--confidence 0.9 --trace"),
        (["replay", "{model}", "--trace", "/nonexistent.csv"], "nonexistent.csv"),
        (["replay", "--trace", "/nonexistent.csv"], "FILE"),
        (["fit", "--trace", "/nonexistent.csv", "--servers", "3", "--time-limit", "2"], "--servers 3"),
        (["fit", "--trace", "/nonexistent.csv", "--servers", "3,4", "--time-limit", "-2"], "--time-limit -2"),
        (["sweep", "{model}", "--vary", "time_limit"], "--vary time_limit"),
        (["sweep", "{model}", "--vary", "nothing=1:2:2"], "--vary nothing"),
        (["sweep", "{model}", "--vary", "service0.kind=1:2:2"], "--vary service0.kind"),
        (["sweep", "{model}", "--vary", "servers.0=1:2:0"], "--vary servers.0"),
        (["sweep", "{model}", "--vary", "servers.7=1:2:2"], "--vary servers.7"),
        (["sweep", "{model}", "--vary", "servers.0=1:2:3"], "servers.0 1.5"),
        (["schema", "queue"], "kind queue"),
        (["cases", "nothing"], "case nothing"),
        (["guide", "nothing"], "guide nothing"),
        (["validate", "{model}", "--out", "{model}/x"], "--out"),
        (["demo", "--out", "{model}"], "--out"),
    ],
)
def test_wrong_options(qtwin: Qtwin, model: Path, args: list[str], words: str) -> None:
    assert_refused(qtwin(*(arg.replace("{model}", str(model)) for arg in args)), words)


@pytest.mark.parametrize(("servers", "where", "load"), [((2, 5), "group0", 1.0737), ((5, 2), "group1", 1.3861)])
@pytest.mark.parametrize("command", ["solve", "simulate", "validate"])
def test_unstable_is_refused_by_group_and_load(
    qtwin: Qtwin, tmp_path: Path, servers: tuple[int, int], where: str, load: float, command: str
) -> None:
    """Loads by hand: 3 x .65 x 1.2 (1 - e^-2.5) / 2 and 3 (.65 (4.2 e^-2.5) + .35 x 2) / 2."""
    run = qtwin(command, file(tmp_path, servers=list(servers)), "--json")
    assert run.status == 3
    assert run.data["status"] == "unstable"
    assert run.data["measures"] == []
    assert run.data["where"] == where
    assert run.data["load"] == pytest.approx(load, abs=1e-3)
    assert where in run.err
    assert len(run.err.strip().splitlines()) == 1


def test_infinite_mean_is_unstable_without_a_load(qtwin: Qtwin, tmp_path: Path) -> None:
    run = qtwin("solve", file(tmp_path, service1=law("pareto", shape=1.0, minimum=1.0)), "--json")
    assert run.status == 3
    assert (run.data["where"], run.data["load"]) == ("group1", None)


def test_several_files_wrong_input_goes_first(qtwin: Qtwin, model: Path, tmp_path: Path) -> None:
    wrong = file(tmp_path, time_limit=-1)
    run = qtwin("validate", model, wrong, "--json")
    assert (run.status, run.out) == (2, "")


@pytest.mark.parametrize(
    ("changes", "absent"),
    [
        ({"time_limit": "inf", "servers": [4, 4]}, "killed"),
        ({"short_fraction": 0.0, "servers": [1, 9]}, "short"),
        ({"short_fraction": 1.0, "servers": [5, 4]}, "long"),
        ({"time_limit": 3}, ""),
    ],
)
def test_odd_but_right_models_answer(qtwin: Qtwin, tmp_path: Path, changes: dict[str, Any], absent: str) -> None:
    path = file(tmp_path, **changes)
    for args in (["solve"], ["simulate", "--jobs", "20000"]):
        run = qtwin(args[0], path, "--json", *args[1:])
        assert run.status == 0, run.err
        scopes = {row["scope"] for row in run.data["measures"] if row["measure"] == "mean_response"}
        assert "all" in scopes
        assert absent not in scopes
        if "time_limit" in changes and changes["time_limit"] == "inf":
            assert run.data["model"]["time_limit"] == "inf"


def test_solve_gives_an_error_for_every_number(qtwin: Qtwin, model: Path) -> None:
    run = qtwin("solve", model, "--json", "--at", "3,8")
    assert run.status == 0
    assert run.data["schema"] == "qtwin/1"
    assert run.data["command"] == "solve"
    rows = run.data["measures"]
    assert all(row["error"] >= 0 for row in rows)
    assert {row["at"] for row in rows if row["measure"] == "tail_response"} == {3.0, 8.0}


def test_simulate_is_a_function_of_the_seed(qtwin: Qtwin, model: Path) -> None:
    args = ("simulate", model, "--json", "--jobs", "64000", "--seed")
    one, two, other = (qtwin(*args, seed).data for seed in (1, 1, 2))
    assert one["measures"] == two["measures"]
    assert one["measures"] != other["measures"]
    assert one["jobs"] == 64000
    assert (one["seed"], one["confidence"]) == (1, 0.95)


def test_human_output_holds_the_numbers(qtwin: Qtwin, model: Path) -> None:
    run = qtwin("solve", model)
    assert run.status == 0
    assert "mean_response/all" in run.out
    run = qtwin("sweep", model, "--vary", "servers.0=2:4:3")
    assert run.status == 0
    assert "unstable" in run.out


def test_sweep_prints_errors_and_half_widths(qtwin: Qtwin, model: Path) -> None:
    run = qtwin("sweep", model, "--vary", "load=0.5:0.8:2", "--simulate", "--jobs", "20000")
    rows = [line for line in run.out.splitlines() if line.lstrip().startswith("load=")]
    assert len(rows) == 2
    assert all(line.count("+-") == 2 for line in rows)


def test_sweep_rows(qtwin: Qtwin, model: Path) -> None:
    run = qtwin("sweep", model, "--vary", "servers.0=2:4:3", "--vary", "load=0.5:1:2", "--json")
    rows = run.data["rows"]
    assert [row["point"] for row in rows] == [
        {"servers.0": float(n0), "load": factor} for n0 in (2, 3, 4) for factor in (0.5, 1.0)
    ]
    assert [row["status"] for row in rows] == ["ok", "unstable", "ok", "ok", "ok", "ok"]
    assert all(math.isfinite(m["value"]) for row in rows for m in row["measures"])


def test_schema_accepts_what_the_command_accepts(qtwin: Qtwin, tmp_path: Path) -> None:
    import jsonschema

    schema = qtwin("schema", "dispatcher").data
    jsonschema.validate(plain(E), schema)
    jsonschema.validate(plain(E) | {"time_limit": "inf"}, schema)
    for wrong in ({"time_limit": -1}, {"servers": [1]}, {"colour": 1}, {"service0": law("exponential", mean="inf")}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(plain(E) | wrong, schema)


@pytest.mark.parametrize("arguments", [["cases"], ["solve", "{model}"], ["solve", "{model}", "--json"], ["--help"]])
def test_a_reader_that_has_gone_is_no_fault(arguments: list[str], model: Path) -> None:
    """`qtwin solve FILE | head`: status 0 and silence, whatever prints the answer."""
    read, write = os.pipe()
    os.close(read)
    code = "from validation.cli import main; main()"
    command = [sys.executable, "-c", code, *(part.format(model=model) for part in arguments)]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False, cwd=Path(__file__).parents[2])
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_version(capsys):
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"qtwin {qtheory.__version__}\n"
