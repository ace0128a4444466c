"""Analytic answers for queueing systems: ``qtheory.solve(model)``.

Public names are loaded at first use, so that ``import qtheory`` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtheory import models, symbolic
    from qtheory._solve import methods, solve
    from qtheory.models import InvalidModel, NotConverged, Unstable, load, save
    from qtheory.solution import Solution, Value

__version__ = "0.1.0"

_PLACES = {
    "InvalidModel": "qtheory.models.errors",
    "NotConverged": "qtheory.models.errors",
    "Solution": "qtheory.solution",
    "Unstable": "qtheory.models.errors",
    "Value": "qtheory.solution",
    "load": "qtheory.models.files",
    "methods": "qtheory._solve",
    "models": "qtheory.models",
    "save": "qtheory.models.files",
    "solve": "qtheory._solve",
    "symbolic": "qtheory.symbolic",
}

__all__ = [
    "InvalidModel",
    "NotConverged",
    "Solution",
    "Unstable",
    "Value",
    "load",
    "methods",
    "models",
    "save",
    "solve",
    "symbolic",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'qtheory' has no attribute {name!r}")
    module = import_module(_PLACES[name])
    return module if _PLACES[name] == f"qtheory.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
