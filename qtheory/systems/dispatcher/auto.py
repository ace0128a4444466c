"""The method taken when none is named."""

from __future__ import annotations

from collections.abc import Sequence

from qtheory.models import Dispatcher
from qtheory.solution import Solution
from qtheory.systems.dispatcher import mgc


def solve(model: Dispatcher, *, at: Sequence[float] = ()) -> Solution:
    """`mgc`; `Solution.method` says so."""
    return mgc.solve(model, at=at)
