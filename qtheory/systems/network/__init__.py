"""Acyclic multi-class networks: route expansion, stabilizability, product form, chains, test functions, fluid paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtheory.systems.network.expansion import expand
    from qtheory.systems.network.fluid import fluid_path
    from qtheory.systems.network.scaling import with_load
    from qtheory.systems.network.smoothing import smoothed_drift
    from qtheory.systems.network.stabilizability import with_static_split

_PLACES = {
    "expand": "expansion",
    "fluid_path": "fluid",
    "smoothed_drift": "smoothing",
    "with_load": "scaling",
    "with_static_split": "stabilizability",
}

__all__ = ["expand", "fluid_path", "smoothed_drift", "with_load", "with_static_split"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'qtheory.systems.network' has no attribute {name!r}")
    return getattr(import_module(f"qtheory.systems.network.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
