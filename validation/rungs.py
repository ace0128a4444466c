"""Every analytic method of one model beside its simulation: times, means and how far they are apart."""

from __future__ import annotations

import math

from qtheory.measures import Key
from validation._compare import Comparison
from validation.commands.tables import number


def beside_simulation(comparison: Comparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows: one row a method with its time, a mean in each column and its difference from the simulation.

    The last row is the simulation with its half-widths. Methods that refuse the model say why.
    """
    assert comparison.estimate is not None
    simulated = comparison.estimate.measures
    keys = [key for key in comparison.measures if key[0] == "mean_response"]
    keys = keys or [key for key in comparison.measures if key[0] == "mean_number"][:4]
    columns = ("method", "time", *("/".join(map(str, key)) for key in keys))
    rows: list[tuple[str, ...]] = []
    for name, rung in comparison.rungs.items():
        values = [rung.measures[key].value if key in rung.measures else None for key in keys]
        cells = [_apart(value, simulated[key].value) for key, value in zip(keys, values, strict=True)]
        rows.append((name, _duration(rung.seconds), *cells))
    for name, why in comparison.refused.items():
        rows.append((f"{name}: {why}", "-", *["-"] * len(keys)))
    figures = [(simulated[key].value, simulated[key].half_width) for key in keys]
    cells = [f"{number(value)} (± {_percent(width, value)})" for value, width in figures]
    rows.append(("simulation", f"{comparison.estimate.seconds:.3g} s", *cells))
    return columns, rows


def anything_beside(comparison: Comparison) -> bool:
    """Whether there is more than one method to show."""
    keys: list[Key] = [key for key in comparison.measures if key[0] in ("mean_response", "mean_number")]
    return bool(keys) and comparison.estimate is not None and len(comparison.rungs) + len(comparison.refused) > 0


def _apart(value: float | None, simulated: float) -> str:
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{number(value)} ({'+' if value >= simulated else '-'}{_percent(abs(value - simulated), simulated)})"


def _percent(part: float, whole: float) -> str:
    return f"{100.0 * part / abs(whole):.2g} %" if whole else "-"


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
