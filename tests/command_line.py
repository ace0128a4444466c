"""Command lines run in this process, and the model file that most of them are about."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from qtheory.models import Dispatcher, Exponential
from validation import cli

E = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=2.0),
)


class Run:
    """One command line, run in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *args: object) -> None:
        capsys.readouterr()
        self.status = cli.run([str(arg) for arg in args])
        self.out, self.err = capsys.readouterr()

    @property
    def data(self) -> dict[str, Any]:
        def refuse(token: str) -> None:
            raise AssertionError(f"{token} in the JSON")

        data: dict[str, Any] = json.loads(self.out, parse_constant=refuse)
        return data


Qtwin = Callable[..., Run]
