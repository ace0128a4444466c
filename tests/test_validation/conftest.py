"""Fixtures of the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import E, Qtwin, Run

from qtheory.models import save


@pytest.fixture
def qtwin(capsys: pytest.CaptureFixture[str]) -> Qtwin:
    return lambda *args: Run(capsys, *args)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "e.toml"
    save(E, path)
    return path
