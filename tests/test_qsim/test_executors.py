"""Other places to run: the same bits on threads, on worker processes and on a Dask cluster, and refusals in time."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import qsim
from qsim import executors
from qsim.store import made_by
from qtheory.models import Dispatcher, Exponential, InvalidModel, save

ROOT = Path(__file__).resolve().parents[2]
E = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=2.0),
)

CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50)
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
    cluster.close()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of two worker processes, made by a process of its own."""
    pytest.importorskip("distributed")
    script = tmp_path_factory.mktemp("cluster") / "cluster.py"
    script.write_text(CLUSTER)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.communicate(timeout=60)


def qtwin(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from validation import cli; cli.main()", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=300)


@pytest.mark.slow
def test_the_same_bits_on_threads_and_on_a_cluster(cluster: str) -> None:
    runs = ({"jobs": 64_000, "warmup": 300}, {"precision": 0.01})
    with executors.dask(cluster) as executor:
        for options in runs:
            found = [
                qsim.simulate(E, seed=4, **options, **where).measures.to_list()
                for where in ({"threads": 1}, {"threads": 8}, {"executor": executor})
            ]
            assert found[0] == found[1] == found[2]


@pytest.mark.slow
def test_budgets_stores_and_interrupts_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    def stop(finished: int, _: int) -> None:
        if finished == 3:
            raise KeyboardInterrupt

    options = {"jobs": 320_000, "warmup": 300, "store": tmp_path / "runs.db"}
    with executors.dask(cluster) as executor:
        with pytest.raises(qsim.Interrupted) as stopped:
            qsim.simulate(E, executor=executor, progress=stop, **options)
        assert stopped.value.estimate.replications >= 3
        assert qsim.simulate(E, executor=executor, **options).measures.to_list() == (
            qsim.simulate(E, **(options | {"store": None})).measures.to_list()
        )
        late = qsim.simulate(E, jobs=10**9, replications=20_000, time_budget=1.0, executor=executor)
        assert late.status == "budget"


@pytest.mark.slow
def test_every_command_gives_the_same_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    save(E, file)
    commands = (
        ("simulate", file, "--jobs", "64000"),
        ("sweep", file, "--vary", "servers.0=3:4:2", "--simulate", "--jobs", "64000"),
        ("search", file, "--total", "7", "--indifference", "0.01"),
    )
    for command in commands:
        answers = []
        for where in ((), ("--scheduler", cluster)):
            run = qtwin(*command, "--json", *where)
            assert run.returncode == 0, run.stderr
            assert run.stderr == ""
            answer = json.loads(run.stdout)
            answers.append({name: value for name, value in answer.items() if name != "seconds"})
        assert answers[0] == answers[1]


class Client:
    """What is asked of a client at the start."""

    def __init__(self, workers: dict[str, dict[str, str]]) -> None:
        self.workers = workers

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.workers, 1)

    def run(self, function) -> dict[str, dict[str, str]]:
        if None in self.workers.values():
            raise ModuleNotFoundError("No module named 'qsim'")
        return self.workers


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ({}, "has no workers"),
        ({"a": None}, "do not know qtwin"),
        ({"a": made_by(), "b": made_by() | {"numpy": "1.0"}}, "other numpy: b has 1.0"),
        ({"a": {}}, "other qtwin"),
    ],
)
def test_workers_that_run_something_else_are_refused(workers, words: str) -> None:
    with pytest.raises(InvalidModel, match=words) as found:
        executors._check_workers(Client(workers), "tcp://somewhere:1")
    assert found.value.field == "scheduler"


@pytest.mark.slow
def test_a_cluster_that_dies_is_told(tmp_path: Path) -> None:
    """One line and status 2, no traceback; what was finished is in the store."""
    pytest.importorskip("distributed")
    file, script = tmp_path / "e.toml", tmp_path / "cluster.py"
    save(E, file)
    script.write_text(CLUSTER)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    store = tmp_path / "runs.db"
    args = ("simulate", file, "--jobs", "1e10", "--replications", "20000", "--scheduler", address, "--store", store)
    command = [sys.executable, "-c", "from validation import cli; cli.main()", *map(str, args)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    while run.poll() is None and not (store.exists() and store.stat().st_size > 100_000):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    out, err = run.communicate(timeout=120)
    process.communicate()
    assert (run.returncode, out) == (2, "")
    assert "Traceback" not in err
    assert "--scheduler" in err


@pytest.mark.parametrize("address", ["nowhere", "tcp://127.0.0.1:x", "http://127.0.0.1:80", "", "127.0.0.1:9"])
def test_addresses_that_are_none(address: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(InvalidModel) as found, executors.dask(address):
        pass
    assert found.value.field == "scheduler"


def test_whatever_listens_need_not_be_a_scheduler() -> None:
    """Somebody who accepts and says nothing is given up after a few seconds."""
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"tcp://127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(InvalidModel, match="cannot be reached"), executors.dask(address):
            pass
