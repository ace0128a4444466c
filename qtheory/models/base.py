"""What every part of a specification shares: checked once, at construction, then frozen and hashable.

`msgspec` checks types and ranges of what it decodes, but not what is constructed directly, and it lets nan
through.  `Spec.__post_init__` therefore converts every field to its annotated type again, so that both roads
give the same object or the same complaint.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NoReturn, Self, TypeVar

import msgspec
from msgspec import Meta

from qtheory.models.errors import InvalidModel

K = TypeVar("K")
V = TypeVar("V")

Positive = Annotated[float, Meta(gt=0)]
NonNegative = Annotated[float, Meta(ge=0)]
Probability = Annotated[float, Meta(ge=0, le=1)]
#: A whole number that double precision and 64 bits hold exactly.
Count = Annotated[int, Meta(ge=1, le=2**53)]
#: A positive time that may be infinite (`inf` in TOML, the text "inf" in JSON).
PositiveOrInfinite = Annotated[float, Meta(gt=0, extra={"infinite": True})]
#: A whole number of jobs, or infinity: a threshold that is never reached.
Threshold = Annotated[int, Meta(ge=1, le=2**53)] | Annotated[float, Meta(ge=1, extra={"infinite": True})]


class FrozenDict(dict[K, V]):
    """A read-only mapping that hashes by its items, whatever their order."""

    # `dict` declares `__hash__ = None` since it can change, and this one cannot.
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("the mapping of a model cannot be changed; use replace()")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """Base of laws, policies and systems."""

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(type(self)):
            value = _plain_numbers(getattr(self, field.name))
            try:
                value = msgspec.convert(value, field.type)
            except msgspec.ValidationError as error:
                raise complaint(error, {field.name: value}, prefix=field.name) from None
            for path, number in _numbers(value, field.name):
                if math.isnan(number):
                    raise InvalidModel(field=path, rule="must be a number", value=number)
                if math.isinf(number) and not _may_be_infinite(field.type):
                    raise InvalidModel(field=path, rule="must be finite", value=number)
            value = _frozen(value)
            if type(value) is type(field.default) and value == field.default:
                value = field.default  # known by identity to what leaves defaults out
            msgspec.structs.force_setattr(self, field.name, value)
        self.check()

    def check(self) -> None:
        """Rules that join several fields; a subclass raises `InvalidModel`."""

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked like a new one."""
        known = [field.name for field in msgspec.structs.fields(type(self))]
        for name in changes:
            if name not in known:
                raise InvalidModel(field=name, rule=f"unknown field; known are {', '.join(known)}")
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def kind(cls) -> str:
        """The name under which files know this class."""
        return str(cls.__struct_config__.tag)


def require(holds: bool, *, field: str, rule: str, value: Any = None) -> None:
    """Raise `InvalidModel` unless the rule holds."""
    if not holds:
        raise InvalidModel(field=field, rule=rule, value=value)


def check_probabilities(values: tuple[float, ...], *, field: str, exactly_one: bool = True) -> None:
    """Probabilities must sum to 1 (or, for an initial vector, to at most 1), within 1e-9."""
    total = math.fsum(values)
    if exactly_one:
        require(abs(total - 1) <= 1e-9, field=field, rule=f"must sum to 1 (sum {total:.12g})", value=values)
    else:
        require(total <= 1 + 1e-9, field=field, rule=f"must sum to at most 1 (sum {total:.12g})", value=values)


_WORDS = {
    "`object | null`": "a table",
    "`float`": "a number",
    "`int`": "a whole number",
    "`object`": "a table",
    "`array`": "a list",
}
_WORDS |= {"`str`": "a text", "`bool`": "true or false", "`null`": "nothing", "`int | str`": "a whole number or a word"}
_WORDS |= {"`int | float`": "a whole number or inf"}
_AT = re.compile(r" - at `(\$|key in \$)?(.*)`$")


def complaint(error: msgspec.ValidationError, raw: Any, *, prefix: str = "", file: str = "") -> InvalidModel:
    """`error` of msgspec about `raw` as an `InvalidModel` with path and value.

    With `prefix`, the error's own path starts at ``raw[prefix]``.
    """
    text = str(error)
    match = _AT.search(text)
    tail = match.group(2) if match else ""
    path = re.findall(r"[^.\[\]]+", tail)
    if match:
        text = text[: match.start()]
    if prefix:
        path.insert(0, prefix)
    if isinstance(error.__cause__, InvalidModel):
        # A rule of ours, met on the way: it knows its own field and value.
        return error.__cause__.at(prefix=".".join(path), file=file)
    for pattern, rule in (
        ("missing required field `(.*)`", "is required"),
        ("unknown field `(.*)`", "unknown field"),
    ):
        if named := re.search(pattern, text):
            return InvalidModel(field=".".join([*path, named.group(1)]), rule=rule, file=file)
    value: Any = raw
    for step in path:
        value = _child(value, step)
    if tail.endswith("[...]") and isinstance(value, Mapping) and "`float`" in text:
        # A value of a table, whose key msgspec does not tell.
        wrong = [key for key, item in value.items() if not isinstance(item, (int, float)) or isinstance(item, bool)]
        if wrong:
            path.append(str(wrong[0]))
            value = value[wrong[0]]
    for old, new in _WORDS.items():
        text = text.replace(old, new)
    text = re.sub(r", got .*$", "", text)
    if path and path[-1] == "kind":
        text = "no such kind"
    text = re.sub(r"^Invalid enum value .*$", "no such choice", text)
    text = re.sub(r"\b(\d+)\.0\b", r"\1", text)
    return InvalidModel(field=".".join(path), rule=text[:1].lower() + text[1:], value=value, file=file)


def _child(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, msgspec.Struct):
        return getattr(value, step, None)
    if isinstance(value, (list, tuple)) and step.isdigit() and int(step) < len(value):
        return value[int(step)]
    return None


def _plain_numbers(value: Any) -> Any:
    """NumPy arrays and scalars as Python numbers, without importing NumPy."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain_numbers(item) for item in value)
    if isinstance(value, Mapping):
        return {key: _plain_numbers(item) for key, item in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, float):
        yield path, value
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _numbers(item, f"{path}.{index}")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(item, f"{path}.{key}")


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return FrozenDict({key: _frozen(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(item) for item in value)
    return value


def _may_be_infinite(annotation: Any) -> bool:
    return any(
        bool((getattr(meta, "extra", None) or {}).get("infinite")) for meta in getattr(annotation, "__metadata__", ())
    ) or any(_may_be_infinite(part) for part in getattr(annotation, "__args__", ()))
