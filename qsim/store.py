"""Finished replications in a file, so that a run killed at any moment goes on where it was.

The file is an SQLite database.  A replication's tally is kept under all that it is a function of: model, options,
seed, index, length, the sources of this package and the versions and the processor that its bits depend on.  Writing
is one transaction, so that a process may be killed while it writes and several may share a file.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sqlite3
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from qsim.lower import Options
from qsim.replications import Length, Tally
from qtheory.models.errors import InvalidModel
from qtheory.models.files import Model, plain

#: Marks a file as ours ("qtwn") and says how it is laid out.
_APPLICATION, _LAYOUT = 0x7174776E, 1
#: Seconds to wait for another process that writes.
_PATIENCE = 60.0
_TABLES = """
CREATE TABLE runs (id INTEGER PRIMARY KEY, description TEXT NOT NULL UNIQUE);
CREATE TABLE replications (
    run INTEGER NOT NULL REFERENCES runs (id), jobs INTEGER NOT NULL, warmup INTEGER NOT NULL, number INTEGER NOT NULL,
    tally BLOB NOT NULL, digest BLOB NOT NULL, PRIMARY KEY (run, jobs, warmup, number)
);
"""


@dataclass(frozen=True, kw_only=True)
class Store:
    """The replications of one run in an open file; made by `open_store`."""

    connection: sqlite3.Connection
    path: Path
    run: int

    def read(self, length: Length, indices: Sequence[int]) -> Iterator[tuple[int, Tally]]:
        """Those of these replications that are there.  Raises `InvalidModel` where one is damaged."""
        wanted = set(indices)
        query = "SELECT number, tally, digest FROM replications WHERE run = ? AND jobs = ? AND warmup = ?"
        with _complaints(self.path):
            rows = self.connection.execute(query, (self.run, length.jobs, length.warmup)).fetchall()
        for number, tally, digest in rows:
            if number in wanted:
                if hashlib.sha256(tally).digest() != digest:
                    raise _refused(self.path, f"is damaged (replication {number})")
                yield number, np.frombuffer(zlib.decompress(tally), "<f8").astype(np.float64)

    def write(self, length: Length, tallies: Mapping[int, Tally]) -> None:
        """Keep these replications; the first to arrive stays, and every later one has the same bits."""
        rows = []
        for index, tally in tallies.items():
            data = zlib.compress(tally.astype("<f8").tobytes(), 1)
            rows.append((self.run, length.jobs, length.warmup, index, data, hashlib.sha256(data).digest()))
        with _complaints(self.path), self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.executemany("INSERT OR IGNORE INTO replications VALUES (?, ?, ?, ?, ?, ?)", rows)


@contextmanager
def open_store(path: str | os.PathLike[str], *, model: Model, options: Options, seed: int) -> Iterator[Store]:
    """The file at `path`, made if there is none, for the replications of this run.

    Raises
    ------
    InvalidModel : (field `store`) the file cannot be opened, is damaged or is none of ours; it is left as it is.
    """
    path = Path(path)
    described = json.dumps(description(model, options=options, seed=seed), allow_nan=False)
    with _complaints(path):
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        with _complaints(path):
            _prepare(connection, path)
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT OR IGNORE INTO runs (description) VALUES (?)", (described,))
            (run,) = connection.execute("SELECT id FROM runs WHERE description = ?", (described,)).fetchone()
        yield Store(connection=connection, path=path, run=run)
    finally:
        connection.close()


def description(model: Model, *, options: Options, seed: int) -> dict[str, Any]:
    """Everything but length and index that the bits of a replication depend on, as plain data."""
    return {
        "model": plain(model),
        "options": {
            "at": list(options.at),
            "means_only": options.means_only,
            "controls": list(options.controls),
            "batches": options.batches,
            "stationary": options.stationary,
            **{name: _plain_option(name, value) for name, value in options.extra.items()},
        },
        "seed": seed,
        "made_by": made_by(),
    }


def _plain_option(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain_option(name, item) for key, item in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InvalidModel(field=name, rule="cannot be kept in a store", value=value)


@functools.cache
def made_by() -> dict[str, str]:
    """Versions, processor, and a hash of this package's sources: development changes bits without a new version."""
    from qsim.kernels._native import processor

    sources = hashlib.sha256()
    folder = Path(__file__).parent
    for file in sorted(folder.rglob("*.py")):
        sources.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return {
        "qtwin": version("qtwin"),
        "numpy": np.__version__,
        "numba": version("numba"),
        "python": platform.python_version(),
        "processor": f"{sys.platform} {platform.machine()} {processor()}",
        "sources": sources.hexdigest(),
    }


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Check that the file is ours, and lay out an empty one."""
    with connection:
        # Another process may be laying the same file out.
        connection.execute("BEGIN IMMEDIATE")
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (layout,) = connection.execute("PRAGMA user_version").fetchone()
        (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if (application, layout, objects) == (0, 0, 0):
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {_LAYOUT}")
        elif application != _APPLICATION:
            raise _refused(path, "is the database of another program")
        elif layout != _LAYOUT:
            raise _refused(path, f"is laid out by another version of qtwin (layout {layout})")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _refused(path, f"is damaged ({verdict})")


@contextmanager
def _complaints(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise _refused(path, f"cannot be used ({error})") from None
    except sqlite3.DatabaseError as error:
        raise _refused(path, f"is damaged or no store ({error})") from None


def _refused(path: Path, rule: str) -> InvalidModel:
    return InvalidModel(field="store", rule=rule, value=str(path))
