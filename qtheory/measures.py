"""The closed list of measures, their scopes, and the table by which both roads answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from qtheory.models.base import Spec
from qtheory.models.errors import InvalidModel
from qtheory.models.files import Model, plain
from qtheory.models.network import Network

#: (measure, scope), or (measure, scope, at) for `tail_response`.
Key = tuple[str, str] | tuple[str, str, float]

#: Quantile levels that have measures of their own.
LEVELS = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One row of the closed list: `unit` is time, jobs, probability, rate or cost."""

    name: str
    unit: str
    meaning: str


def _list() -> dict[str, Measure]:
    rows = [
        Measure(name="mean_response", unit="time", meaning="first arrival to final departure"),
        Measure(name="mean_wait", unit="time", meaning="time in queue, aborted service excluded"),
        Measure(name="wait_probability", unit="probability", meaning="P(wait > 0)"),
        Measure(name="tail_response", unit="probability", meaning="P(response > at)"),
        Measure(name="mean_number", unit="jobs", meaning="time average of jobs present"),
        Measure(name="mean_queue", unit="jobs", meaning="time average of jobs waiting"),
        Measure(name="utilisation", unit="probability", meaning="busy share per server"),
        Measure(name="throughput", unit="rate", meaning="departures per unit time"),
        Measure(name="kill_probability", unit="probability", meaning="P(killed by Group 0)"),
        Measure(name="cost", unit="cost", meaning="the objective"),
    ]
    for kind in ("response", "wait"):
        for level in LEVELS:
            percent = f"{100 * level:.0f}"
            name = f"p{percent}_{kind}"
            rows.append(Measure(name=name, unit="time", meaning=f"{percent} % quantile of the {kind} time"))
    return {row.name: row for row in rows}


#: Every measure there is, by name.
MEASURES: dict[str, Measure] = _list()

_CLASSES = ("all", "short", "long", "killed")
_GROUPS = ("group0", "group1")
_SCOPES: dict[str, dict[str, tuple[str, ...]]] = {
    "dispatcher": {
        "mean_response": _CLASSES,
        "tail_response": _CLASSES,
        "mean_wait": _CLASSES + _GROUPS,
        "wait_probability": _CLASSES + _GROUPS,
        "mean_number": _CLASSES + _GROUPS,
        "mean_queue": _CLASSES + _GROUPS,
        "utilisation": ("all", *_GROUPS),
        "throughput": _CLASSES + _GROUPS,
        "kill_probability": ("group0", "all"),
        "cost": ("all",),
    },
    "donor": {"": ("all", "queue1", "queue2"), "cost": ("all",)},
    "flexible": {"": ("all", "flexible", "dedicated")},
}


def quantile_measure(level: float, *, kind: str = "response") -> str:
    """The name of a quantile, e.g. ``p95_response``."""
    name = f"p{100 * level:.0f}_{kind}"
    if name not in MEASURES:
        raise InvalidModel(field="level", rule=f"must be one of {LEVELS}", value=level)
    return name


def scopes(model: Model, *, measure: str) -> tuple[str, ...]:
    """The scopes in which `measure` has a meaning for this system.  Raises `InvalidModel` for an unknown measure."""
    if measure not in MEASURES:
        raise InvalidModel(field="measure", rule=f"must be one of {', '.join(MEASURES)}", value=measure)
    if isinstance(model, Network):
        return ("all", *(c.name for c in model.classes), *model.servers)
    table = _SCOPES[model.kind()]
    base = f"mean_{measure.split('_', 1)[1]}" if measure[1].isdigit() else measure
    return table.get(base, table.get("", ()))


class _Row(Protocol):
    """What a table holds: a value and how to say it as JSON data."""

    @property
    def value(self) -> float: ...

    def row(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=_Row)


class Table(Mapping[Key, R], Generic[R]):
    """Values by (measure, scope), in a fixed order; what `Solution` and `Estimate` answer with."""

    def __init__(self, rows: Mapping[Key, R] | Iterable[tuple[Key, R]]) -> None:
        self._rows = dict(rows)
        for key in self._rows:
            if key[0] not in MEASURES:
                raise InvalidModel(field="measure", rule="is not on the closed list", value=key[0])

    def __getitem__(self, key: Key) -> R:
        try:
            return self._rows[key]
        except KeyError:
            near = sorted({k[1] for k in self._rows if k[0] == key[0]})
            hint = f"; {key[0]} has {', '.join(near)}" if near else f"; measures: {', '.join(self.names)}"
            raise KeyError(f"no {key if isinstance(key, str) else '/'.join(map(str, key))}{hint}") from None

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The measures present, in order."""
        return tuple(dict.fromkeys(key[0] for key in self._rows))

    def to_list(self) -> list[dict[str, Any]]:
        """The rows as plain data; infinite values are None (with a note), nan never leaves."""
        return [json_row(key, row.row()) for key, row in self._rows.items() if not math.isnan(row.value)]


def json_row(key: Key, fields: Mapping[str, Any]) -> dict[str, Any]:
    """One measure as plain data that JSON can hold."""
    data: dict[str, Any] = {"measure": key[0], "scope": key[1]}
    if len(key) == 3:
        data["at"] = key[2]
    for name, value in fields.items():
        if isinstance(value, float) and not math.isfinite(value):
            data[name] = None
        elif value is not None and value != "":
            data[name] = value
    return data


def model_data(model: Spec) -> dict[str, Any]:
    """The model as it stands in answers."""
    return plain(model)
