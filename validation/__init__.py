"""Both answers side by side: comparison, design search, traces and reports.

``validation.compare(model)`` and ``validation.search(model, total=)``; the command line is `validation.cli`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from validation._compare import Comparison, compare
    from validation._search import Search, search

_PLACES = {
    "Comparison": "validation._compare",
    "Search": "validation._search",
    "compare": "validation._compare",
    "search": "validation._search",
}

__all__ = ["Comparison", "Search", "compare", "search"]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _PLACES:
        raise AttributeError(f"module 'validation' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__
