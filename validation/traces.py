"""Recorded logs: CSV, Standard Workload Format and the four-file layout, read into one shape.

A log says what it holds and what was left out and why; nothing is mended silently.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qtheory.models.errors import InvalidModel
from qtheory.models.files import write_text

Width = Literal["one", "drop", "split"]
WIDTHS: tuple[Width, ...] = ("one", "drop", "split")

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Jobs in order of arrival.

    Attributes
    ----------
    source : the file or folder it was read from.
    arrival, service : times, one a job.
    group : 0 or 1, the group each job was submitted to.
    extra : further columns of the file, by name, as they stood.
    used, dropped : records used, and records left out by reason.
    notices : what was done with odd records, in words.
    """

    source: str
    arrival: Floats
    service: Floats
    group: NDArray[np.int64]
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    used: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.arrival.size)

    @property
    def records(self) -> dict[str, object]:
        """Records used and dropped, as they stand in JSON."""
        return {"used": self.used, "dropped": dict(self.dropped)}


def read(path: Path, *, group_limit: float | None = None, width: Width = "one") -> Trace:
    """The log in a CSV or SWF file (``.swf``, ``.swf.gz``).

    Parameters
    ----------
    path : the file.
    group_limit : for SWF, jobs whose requested time is at most this belong to Group 0.
    width : for SWF, what to do with a job of p processors: `one` counts it as one job on one server, `drop` leaves
        it out, `split` makes it p simultaneous jobs.

    Raises
    ------
    InvalidModel : with file, line and rule.
    """
    name = path.name.lower()
    if name.endswith((".swf", ".swf.gz")):
        if group_limit is None:
            raise InvalidModel(field="--group-limit", rule="is needed to tell the groups of an SWF log apart")
        trace = _swf(_text(path), source=str(path), group_limit=group_limit, width=width)
    else:
        trace = _csv(_text(path), source=str(path))
    if not len(trace):
        raise InvalidModel(rule="holds no usable jobs", file=str(path))
    return trace


def departures(*, trace: Trace, departure: Floats, kind: Sequence[str]) -> Iterator[tuple[float, float, str]]:
    """(arrival, departure, class) by departure, then arrival, then input order; jobs still inside are left out."""
    for i in _order(trace, departure):
        yield float(trace.arrival[i]), float(departure[i]), kind[i]


def write_departures(path: Path, *, trace: Trace, departure: Floats, kind: Sequence[str]) -> None:
    """Write the departures file: shortest round-trip floats, further columns of the log behind the class."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["arrival", "departure", "class", *trace.extra])
    for i in _order(trace, departure):
        row = [repr(float(trace.arrival[i])), repr(float(departure[i])), kind[i]]
        writer.writerow(row + [column[i] for column in trace.extra.values()])
    write_text(path, text.getvalue())


def _order(trace: Trace, departure: Floats) -> Iterator[int]:
    order = np.lexsort((np.arange(len(trace)), trace.arrival, departure))
    return (int(i) for i in order if math.isfinite(departure[i]))


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidModel(rule=f"is not a whole gzip file ({error})", file=str(path)) from None
    except OSError as error:
        raise InvalidModel(rule=f"cannot be read ({error.strerror or error})", file=str(path)) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if path.name.lower().endswith((".swf", ".swf.gz")):
            # Comments of old logs hold names in old encodings; the records are ASCII.
            return data.decode("latin-1")
        raise InvalidModel(rule=f"is not UTF-8 text (byte {error.start})", file=str(path)) from None


def _csv(text: str, *, source: str) -> Trace:
    rows = csv.reader(io.StringIO(text, newline=""))
    header = [name.strip() for name in next(rows, [])]
    needed = ("arrival", "service", "group")
    for name in needed:
        if name not in header:
            raise InvalidModel(field=name, rule="is a missing column (needed: arrival,service,group)", file=source)
    if len(set(header)) != len(header):
        raise InvalidModel(rule="has a column name twice", value=",".join(header), file=source)
    place = {name: header.index(name) for name in header}
    columns: dict[str, list[str]] = {name: [] for name in header}
    arrival, service, group = [], [], []
    for row in rows:
        line = rows.line_num
        if not row or (len(row) == 1 and not row[0].strip()):
            continue
        if len(row) != len(header):
            rule = f"must have {len(header)} fields"
            raise InvalidModel(field=f"line {line}", rule=rule, value=len(row), file=source)
        arrival.append(_number(row[place["arrival"]], field="arrival", line=line, source=source))
        service.append(_number(row[place["service"]], field="service", line=line, source=source))
        text_group = row[place["group"]].strip()
        if text_group not in ("0", "1"):
            raise InvalidModel(field=f"line {line}: group", rule="must be 0 or 1", value=text_group, file=source)
        group.append(int(text_group))
        if len(arrival) > 1 and arrival[-1] < arrival[-2]:
            rule = f"must not come before the line above ({arrival[-2]!r})"
            raise InvalidModel(field=f"line {line}: arrival", rule=rule, value=arrival[-1], file=source)
        for name in header:
            if name not in needed:
                columns[name].append(row[place[name]])
    if not arrival:
        raise InvalidModel(rule="holds no jobs", file=source)
    return Trace(
        source=source,
        arrival=np.array(arrival),
        service=np.array(service),
        group=np.array(group, np.int64),
        extra={name: tuple(values) for name, values in columns.items() if name not in needed},
        used=len(arrival),
    )


def _number(text: str, *, field: str, line: int, source: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InvalidModel(field=f"line {line}: {field}", rule="must be a number", value=text, file=source) from None
    if not (math.isfinite(value) and value >= 0):
        rule = "must be a finite number >= 0"
        raise InvalidModel(field=f"line {line}: {field}", rule=rule, value=value, file=source)
    return value


#: Fields of the Standard Workload Format version 2.2, counted from 0.
_SUBMIT, _RUN, _USED, _ASKED, _ASKED_TIME, _FIELDS = 1, 3, 4, 7, 8, 18


def _swf(text: str, *, source: str, group_limit: float, width: Width) -> Trace:
    jobs: list[tuple[float, float, int]] = []
    dropped: Counter[str] = Counter()
    used = parallel = unsorted = 0
    last = -math.inf
    for line, raw in enumerate(text.splitlines(), start=1):
        record = raw.split(";", 1)[0].split()
        if not record:
            continue
        if len(record) != _FIELDS:
            rule = f"an SWF record has {_FIELDS} fields"
            raise InvalidModel(field=f"line {line}", rule=rule, value=len(record), file=source)
        try:
            fields = [float(part) for part in record]
        except ValueError:
            raise InvalidModel(field=f"line {line}", rule="must hold numbers", value=raw.strip(), file=source) from None
        submit, run, asked_time = fields[_SUBMIT], fields[_RUN], fields[_ASKED_TIME]
        processors = fields[_USED] if fields[_USED] > 0 else fields[_ASKED]
        if not math.isfinite(submit) or submit < 0:
            dropped["no submit time"] += 1
        elif not math.isfinite(run) or run < 0:
            dropped["no run time"] += 1
        elif not math.isfinite(asked_time) or asked_time < 0:
            dropped["no requested time"] += 1
        elif processors > 1 and width == "drop":
            dropped["more than one processor"] += 1
        else:
            copies = int(processors) if width == "split" and processors > 1 else 1
            parallel += processors > 1
            unsorted += submit < last
            last = max(last, submit)
            used += 1
            jobs.extend([(submit, run, 0 if asked_time <= group_limit else 1)] * copies)
    notices = []
    if parallel:
        what = {"one": "counted as one job on one server each", "split": "made into one job a processor"}[width]
        notices.append(f"{parallel} of {used} records used more than one processor: {what}")
    if unsorted:
        notices.append(f"{unsorted} records stood out of order of submission: sorted")
        jobs.sort(key=lambda job: job[0])
    columns = np.array(jobs, float).reshape(-1, 3)
    return Trace(
        source=source,
        arrival=np.ascontiguousarray(columns[:, 0]),
        service=np.ascontiguousarray(columns[:, 1]),
        group=columns[:, 2].astype(np.int64),
        used=used,
        dropped=dict(dropped),
        notices=tuple(notices),
    )
