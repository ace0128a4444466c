"""Exact simulation of queueing systems: ``qsim.simulate(model, seed=1)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qsim._draw import draw_jobs
    from qsim._perfect import Stationary, perfect
    from qsim._replay import Replay, replay
    from qsim._simulate import Standing, simulate
    from qsim.controls import Control
    from qsim.estimate import Estimate, Interrupted

_PLACES = {
    "Control": "qsim.controls",
    "Estimate": "qsim.estimate",
    "Interrupted": "qsim.estimate",
    "Replay": "qsim._replay",
    "Standing": "qsim._simulate",
    "Stationary": "qsim._perfect",
    "draw_jobs": "qsim._draw",
    "perfect": "qsim._perfect",
    "replay": "qsim._replay",
    "simulate": "qsim._simulate",
}

__all__ = [
    "Control",
    "Estimate",
    "Interrupted",
    "Replay",
    "Standing",
    "Stationary",
    "draw_jobs",
    "perfect",
    "replay",
    "simulate",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'qsim' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
