"""The store: what is finished survives anything, changes no bit, and no file that is not ours is touched."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import qsim
from qsim.lower import Options
from qsim.replications import Length
from qsim.store import description, open_store
from qtheory.models import JSQ, Dispatcher, Exponential, InvalidModel, Network, NetworkClass

ROOT = Path(__file__).resolve().parents[2]
E = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=2.0),
)
RUN = {"jobs": 16_000, "replications": 8, "warmup": 200, "seed": 5}


def rows(path: Path) -> int:
    """Replications in a store; none while it is being made."""
    if not path.exists():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)
    try:
        (count,) = connection.execute("SELECT count(*) FROM replications").fetchone()
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()
    return count


def kept(path: Path, folder: Path) -> int:
    """Replications in a store that was left in the middle of something: counted in a copy, which mends itself."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for file in path.parent.glob(f"{path.name}*"):
        shutil.copy(file, folder)
    connection = sqlite3.connect(folder / path.name)
    try:
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'replications'").fetchone()
        return connection.execute("SELECT count(*) FROM replications").fetchone()[0] if tables[0] else 0
    finally:
        connection.close()


def worked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The replications that are really run from now on."""
    from qsim.lowering.dispatcher import DispatcherSimulator

    ran: list[int] = []
    run = DispatcherSimulator.run

    def counted(self, *, seed: int, replication: int, jobs: int, warmup: int):
        ran.append(replication)
        return run(self, seed=seed, replication=replication, jobs=jobs, warmup=warmup)

    monkeypatch.setattr(DispatcherSimulator, "run", counted)
    return ran


def test_a_second_run_works_on_nothing_and_gives_the_same_bits(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "runs.db"
    plain = qsim.simulate(E, at=(2.0,), **RUN)
    first = qsim.simulate(E, at=(2.0,), store=path, **RUN)
    ran = worked(monkeypatch)
    second = qsim.simulate(E, at=(2.0,), store=path, **RUN)
    assert ran == []
    assert plain.measures.to_list() == first.measures.to_list() == second.measures.to_list()
    more = qsim.simulate(E, at=(2.0,), store=path, **(RUN | {"jobs": 20_000, "replications": 10}))
    assert sorted(ran) == [8, 9]
    assert more.jobs == 20_000


@pytest.mark.parametrize(
    "change",
    [{"seed": 6}, {"jobs": 8_000}, {"warmup": 201}, {"at": (1.0,)}, {"means_only": True}],
)
def test_nothing_is_taken_for_something_else(tmp_path: Path, monkeypatch, change) -> None:
    path = tmp_path / "runs.db"
    qsim.simulate(E, store=path, **RUN)
    ran = worked(monkeypatch)
    asked = RUN | change
    stored = qsim.simulate(E, store=path, **asked)
    assert len(ran) == 8
    assert stored.measures.to_list() == qsim.simulate(E, **asked).measures.to_list()


def test_another_model_or_another_version_is_another_run(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "runs.db"
    qsim.simulate(E, store=path, **RUN)
    ran = worked(monkeypatch)
    qsim.simulate(E.replace(servers=(4, 4)), store=path, **RUN)
    assert len(ran) == 8
    monkeypatch.setattr("qsim.store.made_by", lambda: {"qtwin": "another"})
    qsim.simulate(E, store=path, **RUN)
    assert len(ran) == 16
    assert rows(path) == 24


def test_equal_networks_that_list_servers_otherwise_are_told_apart() -> None:
    """Their order decides which random number goes to which server."""
    jobs = (NetworkClass(rate=1.0, routes=(("a",), ("b",))),)
    one, two = (
        Network(servers=servers, policy=JSQ(), classes=jobs) for servers in ({"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0})
    )
    texts = [json.dumps(description(model, options=Options(), seed=1)) for model in (one, two)]
    assert texts[0] != texts[1]


def test_options_of_one_kind_are_part_of_the_key(tmp_path: Path) -> None:
    network = Network(
        servers={"a": 1.0, "b": 2.0}, policy=JSQ(), classes=(NetworkClass(rate=1.0, routes=(("a",), ("b",))),)
    )
    found = [
        qsim.simulate(network, jobs=8000, replications=4, store=tmp_path / "n.db", start=start)["mean_number", "all"]
        for start in ({}, {"a": np.int64(50)}, {})
    ]
    assert found[0] == found[2] != found[1]


def test_a_precise_run_goes_on_from_a_store(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "runs.db"
    whole = qsim.simulate(E, precision=0.01)
    part = qsim.simulate(E, precision=0.01, job_budget=300_000, store=path)
    assert part.status == "budget"
    ran = worked(monkeypatch)
    rest = qsim.simulate(E, precision=0.01, store=path)
    assert rest.measures.to_list() == whole.measures.to_list()
    # The check of the warm-up, which the part had no jobs left for, comes last.
    missing = range(part.replications, whole.replications)
    assert set(ran[: len(missing)]) == set(missing)


def test_files_of_others_are_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but dear to somebody\n" * 50)
    foreign = tmp_path / "other.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE replications (run, number)")
    connection.close()
    numbered = tmp_path / "numbered.db"
    with sqlite3.connect(numbered) as connection:
        connection.execute("PRAGMA application_id = 77")
    connection.close()
    for path in (text, foreign, numbered):
        before = path.read_bytes()
        with pytest.raises(InvalidModel) as found:
            qsim.simulate(E, store=path, **RUN)
        assert found.value.field == "store"
        assert path.read_bytes() == before


def test_places_that_cannot_be_used(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "runs.db"):
        with pytest.raises(InvalidModel) as found:
            qsim.simulate(E, store=path, **RUN)
        assert found.value.field == "store"


def test_a_later_layout_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    qsim.simulate(E, store=path, **RUN)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with pytest.raises(InvalidModel, match="layout 2"):
        qsim.simulate(E, store=path, **RUN)


def test_damage_is_refused_wherever_it_is(tmp_path: Path) -> None:
    """A page overwritten, the file cut short, a tally changed: refused, or harmless, never other numbers."""
    path = tmp_path / "runs.db"
    good = qsim.simulate(E, store=path, **RUN).measures.to_list()
    data = path.read_bytes()
    page = 4096
    refused = 0
    for place in range(0, len(data), page):
        path.write_bytes(data[: place + 100] + b"\xa5" * 1000 + data[place + 1100 :])
        try:
            assert qsim.simulate(E, store=path, **RUN).measures.to_list() == good
        except InvalidModel:
            refused += 1
    assert refused > len(data) / page / 2
    for size in (50, 100, page, len(data) // 2, len(data) - page):
        path.write_bytes(data[:size])
        with pytest.raises(InvalidModel):
            qsim.simulate(E, store=path, **RUN)
        assert path.read_bytes() == data[:size]
    path.write_bytes(data)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE replications SET tally = (SELECT tally FROM replications WHERE number = 1)")
    connection.close()
    with pytest.raises(InvalidModel, match="damaged"):
        qsim.simulate(E, store=path, **RUN)


def test_an_empty_file_is_taken(tmp_path: Path) -> None:
    """A run killed right after it made the file leaves this."""
    path = tmp_path / "runs.db"
    path.touch()
    qsim.simulate(E, store=path, **RUN)
    assert rows(path) == 8


def test_two_connections_share_a_file(tmp_path: Path) -> None:
    path, length = tmp_path / "runs.db", Length(jobs=10, warmup=0)
    arguments = {"model": E, "options": Options(), "seed": 1}
    with open_store(path, **arguments) as one, open_store(path, **arguments) as two:
        one.write(length, {0: np.array([1.0, np.inf])})
        two.write(length, {0: np.array([2.0]), 1: np.array([-0.0])})
        for store in (one, two):
            found = dict(store.read(length, [0, 1, 2]))
            assert found[0].tolist() == [1.0, np.inf]
            assert np.signbit(found[1]).all()
            assert set(found) == {0, 1}
        assert dict(one.read(Length(jobs=10, warmup=1), [0])) == {}


SCRIPT = """
import json, sys
import qsim
from qtheory.models import parse
model, options, store = json.loads(sys.argv[1])
print("ready", flush=True)
estimate = qsim.simulate(parse(model), store=store, **options)
print(json.dumps(estimate.measures.to_list()), flush=True)
"""


def start(path: Path | None, options: dict) -> subprocess.Popen:
    from qtheory.models import plain

    argument = json.dumps([plain(E), options, None if path is None else str(path)])
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, argument], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def finish(process: subprocess.Popen) -> list:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


@pytest.mark.slow
def test_two_processes_share_a_store(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    options = {"jobs": 640_000, "replications": 64, "warmup": 500}
    pair = [start(path, options) for _ in range(2)]
    found = [finish(process) for process in pair]
    assert found[0] == found[1] == qsim.simulate(E, **options).measures.to_list()
    assert rows(path) == 64


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path) -> None:
    """kill -9 at random moments, each time started again: the end is that of an unbroken run, bit for bit.

    Moments spread over the whole work, and within the few milliseconds that a replication and its writing take.  The
    number of kills may be set by the variable QTWIN_KILLS.
    """
    kills = int(os.environ.get("QTWIN_KILLS", "10"))
    path = tmp_path / "runs.db"
    options = {"jobs": 4_000_000, "replications": 200, "warmup": 500, "threads": 1}
    unbroken = qsim.simulate(E, **options).measures.to_list()
    moments, counts = random.Random(1), []
    for goal in sorted(moments.randrange(190) for _ in range(kills)):
        process = start(path, options)
        assert process.stdout.readline() == "ready\n"
        while process.poll() is None and rows(path) < goal:
            time.sleep(0.01)
        time.sleep(moments.random() * 0.1)
        seen = rows(path)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        counts.append(kept(path, tmp_path / "copy"))
        assert counts[-1] >= max(seen, goal)
    assert counts == sorted(counts)
    assert finish(start(path, options)) == unbroken
    assert rows(path) == 200
