"""Logs are read whole or refused with file, line and rule."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from shared_data import SHARED, needs_shared

from qtheory.models import InvalidModel
from validation import traces

SWF = """; Version: 2.2
; a comment with a name: Åke

    1        0 10  100   1  99   -1   1  120    -1  1   1   1  -1 -1  1 -1 -1
    2       50 10   -1   1  99   -1   1  120    -1  1   1   1  -1 -1  1 -1 -1
    3       60 10   30   4  99   -1   4  900    -1  1   1   1  -1 -1  1 -1 -1
    4       55 10   31.5 1  99   -1   1   -1    -1  1   1   1  -1 -1  1 -1 -1
    5       55 10   7.25 -1 99   -1   2  500    -1  1   1   1  -1 -1  1 -1 -1
"""


def written(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_keeps_values_order_and_extra_columns(tmp_path: Path) -> None:
    text = "user,arrival,service,group\r\nann,0.1,2,0\r\nbob,0.1,0,1\r\n"
    trace = traces.read(written(tmp_path, "a.csv", b"\xef\xbb\xbf" + text.encode()))
    assert trace.arrival.tolist() == [0.1, 0.1]
    assert trace.service.tolist() == [2.0, 0.0]
    assert trace.group.tolist() == [0, 1]
    assert trace.extra == {"user": ("ann", "bob")}
    assert trace.records == {"used": 2, "dropped": {}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "arrival missing column"),
        ("arrival,service\n1,2\n", "group missing column"),
        ("arrival,service,group\n", "no jobs"),
        ("arrival,service,group\n2,1,0\n1,1,0\n", "line 3 arrival 1.0"),
        ("arrival,service,group\n1,-1,0\n", "line 2 service -1.0"),
        ("arrival,service,group\n1,nan,0\n", "line 2 service nan"),
        ("arrival,service,group\ninf,1,0\n", "line 2 arrival inf"),
        ("arrival,service,group\n1,1,2\n", "line 2 group 2"),
        ("arrival,service,group\n1,1,0.5\n", "line 2 group 0.5"),
        ("arrival,service,group\n1,1\n", "line 2 3 fields got 2"),
        ("arrival,service,group\n1,x,0\n", "line 2 service number x"),
        ("arrival,arrival,service,group\n1,1,1,0\n", "twice"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_wrong_csv_names_file_line_and_rule(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = written(tmp_path, "bad.csv", text)
    with pytest.raises(InvalidModel) as error:
        traces.read(path)
    message = str(error.value)
    assert str(path) in message
    for word in words.split():
        assert word in message


def test_swf_by_requested_time_with_every_width(tmp_path: Path) -> None:
    path = written(tmp_path, "log.swf", SWF)
    one = traces.read(path, group_limit=200)
    assert one.arrival.tolist() == [0, 55, 60]
    assert one.service.tolist() == [100, 7.25, 30]
    assert one.group.tolist() == [0, 1, 1]
    assert one.records == {"used": 3, "dropped": {"no run time": 1, "no requested time": 1}}
    assert any("2 of 3" in notice for notice in one.notices)
    drop = traces.read(path, group_limit=200, width="drop")
    assert (drop.used, drop.dropped["more than one processor"]) == (1, 2)
    split = traces.read(path, group_limit=200, width="split")
    assert len(split) == 1 + 4 + 2
    assert split.used == 3
    zipped = written(tmp_path, "log.swf.gz", gzip.compress(SWF.encode()))
    assert np.array_equal(traces.read(zipped, group_limit=200).service, one.service)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("t.swf.gz", gzip.compress(SWF.encode())[:40], "gzip"),
        ("t.swf.gz", b"plain text", "gzip"),
        ("t.swf", "1 2 3\n", "line 1 18 fields"),
        ("t.swf", SWF.replace("7.25", "abc"), "line 8 numbers"),
        ("t.swf", "; only comments\n", "no usable jobs"),
    ],
)
def test_wrong_swf(tmp_path: Path, name: str, data: str | bytes, words: str) -> None:
    path = written(tmp_path, name, data)
    with pytest.raises(InvalidModel) as error:
        traces.read(path, group_limit=10)
    assert str(path) in str(error.value)
    for word in words.split():
        assert word in str(error.value)


def test_departures_are_ordered_and_round_trip(tmp_path: Path) -> None:
    trace = traces.Trace(
        source="x",
        arrival=np.array([1.0, 2.0, 2.0, 3.0]),
        service=np.ones(4),
        group=np.zeros(4, np.int64),
        extra={"user": ("a", "b", "c", "d")},
        used=4,
    )
    out = tmp_path / "d.csv"
    departure = np.array([5.0, 0.1 + 0.2 + 3, 0.1 + 0.2 + 3, np.nan])
    traces.write_departures(out, trace=trace, departure=departure, kind=["0", "1", "r0", "0"])
    assert out.read_text().splitlines() == [
        "arrival,departure,class,user",
        f"2.0,{0.1 + 0.2 + 3!r},1,b",
        f"2.0,{0.1 + 0.2 + 3!r},r0,c",
        "1.0,5.0,0,a",
    ]


def test_unwritable_departures_leave_nothing(tmp_path: Path) -> None:
    trace = traces.Trace(source="x", arrival=np.array([1.0]), service=np.ones(1), group=np.zeros(1, np.int64), used=1)
    place = tmp_path / "missing" / "d.csv"
    with pytest.raises(InvalidModel, match="cannot be written"):
        traces.write_departures(place, trace=trace, departure=np.array([2.0]), kind=["0"])
    assert not place.parent.exists()


@needs_shared
def test_real_log_counts() -> None:
    """Counted by hand with awk: 3,170 records, 25 without a run time."""
    assert SHARED is not None
    trace = traces.read(SHARED / "data/swf/hpc2n-excerpt.swf", group_limit=43200)
    assert trace.used + sum(trace.dropped.values()) == 3170
    assert trace.dropped["no run time"] == 25
    assert np.all(np.diff(trace.arrival) >= 0)
