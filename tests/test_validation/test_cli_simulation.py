"""qtwin simulate and its kin: precision, budgets, stores, clusters, progress on a terminal, Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import E, Qtwin

from qtheory.models import plain

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-c", "from validation import cli; cli.main()")


def test_precision(qtwin: Qtwin, model: Path) -> None:
    run = qtwin("simulate", model, "--precision", "0.02", "--json")
    assert run.status == 0
    assert (run.data["status"], run.data["warmup"]) == ("ok", 1000)
    (row,) = [r for r in run.data["measures"] if (r["measure"], r["scope"]) == ("mean_response", "all")]
    assert row["half_width"] <= 0.02 * row["value"]
    assert run.data["precision"]["wanted"] == 0.02
    run = qtwin("simulate", model, "--precision", "0.02")
    assert "wanted 0.02" in run.out


def test_a_budget_that_ends_first_is_told_and_no_failure(qtwin: Qtwin, model: Path) -> None:
    args = ("simulate", model, "--precision", "1e-4", "--job-budget", "3e5")
    run = qtwin(*args, "--json")
    assert (run.status, run.data["status"], run.data["budget"]) == (0, "budget", "jobs")
    assert run.data["precision"]["reached"] > 1e-4
    run = qtwin(*args)
    assert run.status == 0
    assert "status: budget (jobs)" in run.out
    run = qtwin("simulate", model, "--jobs", "1e9", "--replications", "20000", "--time-budget", "0.3", "--json")
    assert (run.status, run.data["status"], run.data["budget"]) == (0, "budget", "time")


def test_batches(qtwin: Qtwin, model: Path) -> None:
    run = qtwin("simulate", model, "--batches", "16", "--jobs", "64000", "--json")
    assert (run.status, run.data["replications"], run.data["jobs"]) == (0, 1, 64_000)
    assert run.data["batch_means"]["batches"] == 16
    assert "controls" in run.data
    assert all(row["half_width"] > 0 for row in run.data["measures"] if row["measure"] == "mean_response")
    run = qtwin("simulate", model, "--batches", "128", "--jobs", "2560", "--warmup", "0")
    assert "128 batches" in run.out
    assert "batches too short" in run.out


def test_the_warmup_is_checked(qtwin: Qtwin, model: Path) -> None:
    run = qtwin("simulate", model, "--jobs", "4e6", "--json")
    assert run.data["warmup_check"]["enough"] is True
    assert run.data["warmup_check"]["mser5"] <= 1000
    run = qtwin("simulate", model, "--jobs", "4e6")
    assert "MSER-5 would drop" in run.out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("--precision 0.01 --jobs 1000", "--jobs --precision 1000"),
        ("--precision 0", "--precision 0"),
        ("--precision 1", "--precision 1"),
        ("--precision -0.1", "--precision -0.1"),
        ("--precision nan", "--precision nan"),
        ("--precision inf", "--precision inf"),
        ("--precision small", "--precision small"),
        ("--precision 0.01 --replications 4", "--replications 4"),
        ("--precision 0.01 --job-budget 10", "--job-budget 10"),
        ("--precision 0.01 --time-budget 0", "--time-budget 0"),
        ("--precision 0.01 --allow-unstable", "--allow-unstable"),
        ("--precision 0.01 --batches 8", "--batches 8"),
        ("--batches 1", "--batches 1"),
        ("--batches many", "--batches many"),
        ("--job-budget 1000", "--job-budget"),
        ("--scheduler tcp://127.0.0.1:9", "--scheduler tcp://127.0.0.1:9"),
        ("--scheduler nowhere", "--scheduler nowhere"),
    ],
)
def test_wrong_options(qtwin: Qtwin, model: Path, args: str, words: str) -> None:
    run = qtwin("simulate", model, *args.split(), "--json")
    assert run.status == 2, run.err
    assert run.out == ""
    assert len(run.err.strip().splitlines()) == 1
    for word in words.split():
        assert word in run.err


@pytest.mark.parametrize("command", ["search --total 7", "sweep --vary servers.0=3:4:2 --simulate"])
def test_every_simulating_command_knows_schedulers(qtwin: Qtwin, model: Path, command: str) -> None:
    name, *options = command.split()
    run = qtwin(name, model, *options, "--scheduler", "tcp://127.0.0.1:9")
    assert (run.status, run.out) == (2, "")
    assert "--scheduler" in run.err


def test_without_dask_the_extra_is_named(qtwin: Qtwin, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    run = qtwin("simulate", model, "--scheduler", "tcp://127.0.0.1:9")
    assert run.status == 2
    assert "qtwin[dask]" in run.err
    assert len(run.err.strip().splitlines()) == 1


def test_a_store_changes_no_number(qtwin: Qtwin, model: Path, tmp_path: Path) -> None:
    args = ("simulate", model, "--jobs", "32000", "--json")
    kept = (*args, "--store", tmp_path / "runs.db")
    assert qtwin(*args).data["measures"] == qtwin(*kept).data["measures"] == qtwin(*kept).data["measures"]


def test_a_file_that_is_no_store_is_refused(qtwin: Qtwin, model: Path) -> None:
    before = model.read_bytes()
    run = qtwin("simulate", model, "--jobs", "32000", "--store", model, "--json")
    assert (run.status, run.out) == (2, "")
    assert "--store" in run.err
    assert str(model) in run.err
    assert model.read_bytes() == before


def interrupted(
    model: Path, *args: str, sign: int, after: Callable[[subprocess.Popen], None], command: str = "simulate"
) -> subprocess.Popen:
    process = subprocess.Popen(
        [*COMMAND, command, str(model), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    after(process)
    process.send_signal(sign)
    return process


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interruption_gives_what_is_finished(model: Path, tmp_path: Path, sign: int) -> None:
    """Of replications of a hundred thousand jobs some are finished, of the whole run of 10^10 jobs few."""
    store = tmp_path / "runs.db"

    def some_are_kept(process: subprocess.Popen) -> None:
        while process.poll() is None and not (store.exists() and store.stat().st_size > 200_000):
            time.sleep(0.05)

    process = interrupted(
        model,
        *("--jobs", "1e10", "--replications", "100000", "--json", "--store", str(store)),
        sign=sign,
        after=some_are_kept,
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert len(err.strip().splitlines()) == 1
    assert "interrupted" in err
    data = json.loads(out)
    assert data["status"] == "interrupted"
    assert 1 <= data["replications"] < 100_000
    assert data["jobs"] == 100_000 * data["replications"]
    assert data["measures"]


def test_nobody_waits_for_a_replication_of_hours(model: Path) -> None:
    """Nothing is finished: one line, no object, and no waiting for replications of 10^11 jobs."""
    process = interrupted(model, "--jobs", "1e12", "--replications", "10", "--json", sign=signal.SIGINT, after=working)
    begin = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - begin < 20
    assert (process.returncode, out) == (130, "")
    assert len(err.strip().splitlines()) == 1
    assert "interrupted" in err


def test_other_commands_say_that_they_were_interrupted(model: Path) -> None:
    process = interrupted(
        model, "--vary", "load=0.5:1:50", "--simulate", "--json", command="sweep", sign=signal.SIGINT, after=working
    )
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert len(err.strip().splitlines()) == 1
    assert "interrupted" in err


def working(process: subprocess.Popen) -> None:
    """Wait until both processors' worth of time is being used up."""
    used = 0.0
    while process.poll() is None and used < 4.0:
        time.sleep(0.1)
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_progress_on_a_terminal_and_nowhere_else(model: Path) -> None:
    """On a terminal the error stream shows jobs and half-widths; standard output is the same with and without."""
    args = [*COMMAND, "simulate", str(model), "--jobs", "8e6", "--replications", "400"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=theirs, text=True, cwd=ROOT)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    out, _ = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0
    assert b"jobs" in shown
    assert b"+-" in shown
    assert "mean_response/all" in out
    quiet = subprocess.run([*args, "--json"], capture_output=True, text=True, cwd=ROOT, check=True)
    assert quiet.stderr == ""
    assert json.loads(quiet.stdout)["jobs"] == 8_000_000


def test_plain_models_stay_plain(qtwin: Qtwin, model: Path) -> None:
    assert qtwin("simulate", model, "--jobs", "3200", "--json").data["model"] == plain(E)
