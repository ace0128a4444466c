"""An analytic answer: values with their errors, the method that made them, and what it left over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qtheory.measures import Key, Table, model_data
from qtheory.models.files import Model


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """A number and its absolute error.

    `error` is 0 for a closed form (read as relative 1e-12), the truncation or round-off bound of a numerical
    method, and for an approximation a calibrated figure that covers the truth 19 times in 20.  `note` says why a
    value is infinite.
    """

    value: float
    error: float = 0.0
    note: str = ""

    def row(self) -> dict[str, Any]:
        """The fields of a JSON row."""
        return {"value": self.value, "error": self.error, "note": self.note}


@dataclass(frozen=True, kw_only=True)
class Solution:
    """What `qtheory.solve` returns; ``s["mean_response", "all"].value`` and ``.error``.

    Attributes
    ----------
    model : the system solved.
    method : the method that made the answer, fallbacks named.
    measures : `Value` by (measure, scope).
    status : "ok"; a method that fails raises instead.
    residual : what the numerical method left over, 0 for a closed form.
    iterations : steps of the numerical method.
    seconds : time taken.
    details : further results of a method, e.g. ``theta`` of a network; plain data.
    """

    model: Model
    method: str
    measures: Table[Value]
    status: str = "ok"
    residual: float = 0.0
    iterations: int = 0
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: Key) -> Value:
        return self.measures[key]

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data for JSON."""
        data = {
            "model": model_data(self.model),
            "method": self.method,
            "status": self.status,
            "measures": self.measures.to_list(),
            "residual": self.residual,
            "iterations": self.iterations,
            "seconds": self.seconds,
        }
        return data | ({"details": dict(self.details)} if self.details else {})

    def __repr__(self) -> str:
        lines = [f"Solution of {self.model.kind()} by {self.method} ({self.status}, {self.seconds:.3g} s)"]
        for key, value in self.measures.items():
            name = "/".join(str(part) for part in key)
            lines.append(f"  {name:<28} {value.value:>14.6g} +- {value.error:.2g}")
        return "\n".join(lines)
