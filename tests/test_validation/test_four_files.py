"""The four-file layout, in both modes, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from qtheory.models import BoundedPareto, Exponential, InvalidModel, Pareto, Product, Uniform
from validation.four_files import read_layout

TRACE = {
    "mode": "trace\n",
    "para": "3\n1\n3\n",
    "interarrival": "2\n8\n1\n1\n2\n1\n4\n1\n",
    "service": "5 1\n4 0\n9 0\n2 0\n8 1\n5 0\n3 0\n6 1\n",
}
RANDOM = {
    "mode": "random",
    "para": "10\n4\n3.3\n500",
    "interarrival": "3.1 0.85 1.21\n",
    "service": "0.74\n0.5 5.7 1.9\n2.7 2.5\n",
}


def laid(folder: Path, files: dict[str, str], **changes: str) -> Path:
    for kind, text in (files | changes).items():
        (folder / f"{kind}_7.txt").write_text(text)
    return folder


def test_recorded_jobs(tmp_path: Path) -> None:
    layout = read_layout(laid(tmp_path, TRACE), number="7")
    assert layout.model.servers == (1, 2)
    assert layout.model.time_limit == 3
    assert layout.trace is not None
    assert layout.trace.arrival.tolist() == [2, 10, 11, 12, 14, 15, 19, 20]
    assert layout.trace.group.tolist() == [1, 0, 0, 0, 1, 0, 0, 1]
    assert layout.time_end is None


def test_random_mode(tmp_path: Path) -> None:
    layout = read_layout(laid(tmp_path, RANDOM), number="7")
    model = layout.model
    assert layout.trace is None
    assert layout.time_end == 500
    assert model.servers == (4, 6)
    assert model.interarrival == Product(factors=(Exponential(mean=1 / 3.1), Uniform(low=0.85, high=1.21)))
    assert model.service0 == BoundedPareto(minimum=0.5, maximum=5.7, shape=1.9)
    assert model.service1 == Pareto(minimum=2.7, shape=2.5)
    assert model.short_fraction == 0.74


@pytest.mark.parametrize(
    ("files", "changes", "words"),
    [
        (TRACE, {"mode": "both"}, "mode_7.txt both"),
        (TRACE, {"para": "3\n1\n"}, "para_7.txt time limit"),
        (TRACE, {"para": "3\n3\n3"}, "para_7.txt n0"),
        (TRACE, {"para": "3\n1\n0"}, "para_7.txt time_limit 0"),
        (TRACE, {"interarrival": "1\n2\n"}, "interarrival_7.txt lines"),
        (TRACE, {"service": "5 1\n4\n"}, "service_7.txt line 2"),
        (TRACE, {"service": "5 1\n4 2\n"}, "service_7.txt line 2 4 2"),
        (TRACE, {"interarrival": "1\nx\n"}, "interarrival_7.txt line 2 x"),
        (TRACE, {"interarrival": "-1\n"}, "interarrival_7.txt line 1 -1"),
        (RANDOM, {"para": "10\n4\n3.3"}, "para_7.txt end"),
        (RANDOM, {"para": "10\n4\n3.3\n0"}, "para_7.txt time_end"),
        (RANDOM, {"interarrival": "3.1 0.85"}, "interarrival_7.txt uniform"),
        (RANDOM, {"interarrival": "0 0.85 1.2"}, "interarrival_7.txt rate"),
        (RANDOM, {"interarrival": "3 1.2 0.85"}, "interarrival_7.txt low 1.2"),
        (RANDOM, {"service": "1.74\n0.5 5.7 1.9\n2.7 2.5"}, "service_7.txt short_fraction 1.74"),
    ],
)
def test_wrong_layouts(tmp_path: Path, files: dict[str, str], changes: dict[str, str], words: str) -> None:
    folder = laid(tmp_path, files, **changes)
    with pytest.raises(InvalidModel) as error:
        read_layout(folder, number="7")
    for word in words.split():
        assert word in str(error.value)


def test_missing_file(tmp_path: Path) -> None:
    laid(tmp_path, TRACE)
    (tmp_path / "para_7.txt").unlink()
    with pytest.raises(InvalidModel, match=r"para_7.txt: cannot be read"):
        read_layout(tmp_path, number="7")
