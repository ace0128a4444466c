"""Arguments in whatever type of number they come: plain, NumPy's, or a whole float such as 1e6."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Literal, overload

from qtheory.models.errors import InvalidModel


@overload
def whole(name: str, value: Any, *, needed: Literal[True]) -> int: ...
@overload
def whole(name: str, value: Any, *, needed: bool = False) -> int | None: ...
def whole(name: str, value: Any, *, needed: bool = False) -> int | None:
    """`value` as an int; None only where it is not `needed`.

    Raises `InvalidModel` for what is no whole number.
    """
    if value is None and not needed:
        return None
    try:
        return operator.index(value)
    except TypeError:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise InvalidModel(field=name, rule="must be a whole number", value=value) from None


@overload
def real(name: str, value: Any, *, needed: Literal[True]) -> float: ...
@overload
def real(name: str, value: Any, *, needed: bool = False) -> float | None: ...
def real(name: str, value: Any, *, needed: bool = False) -> float | None:
    """`value` as a float; None only where it is not `needed`.

    Raises `InvalidModel` for what is no number.
    """
    if value is None and not needed:
        return None
    if isinstance(value, (str, bytes)):
        raise InvalidModel(field=name, rule="must be a number", value=value)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidModel(field=name, rule="must be a number", value=value) from None


def times(at: Iterable[Any]) -> tuple[float, ...]:
    """The times of `at`.  Raises `InvalidModel` for what is no collection of numbers."""
    if isinstance(at, (str, bytes)) or not isinstance(at, Iterable):
        raise InvalidModel(field="at", rule="must be a collection of times", value=at)
    return tuple(real("at", time, needed=True) for time in at)
