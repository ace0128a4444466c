"""How far each method of the dispatcher is off, as the tables of the guide `accuracy`.

``python tests/accuracy_table.py`` works them out anew and writes them into the guide. Truths are simulated: those of
recorded systems, where the shared reference data is there, and those of tests/data/dispatcher_systems.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from shared_data import SHARED

import qtheory
from qtheory.models import InvalidModel, Model, NotConverged, parse

DATA = Path(__file__).parent / "data" / "dispatcher_systems.json"
GUIDE = Path(__file__).parents[1] / "validation" / "guides" / "accuracy.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
METHODS = ("mmc", "mgc", "phase-type", "exact")
#: Servers of each group up to which `exact` is tried.
SMALL = 3
KEYS = [
    (measure, scope) for measure in ("mean_response", "p95_response") for scope in ("all", "short", "long", "killed")
]


@dataclass(frozen=True)
class System:
    """A model with its simulated truths, (value, half-width) by (measure, scope)."""

    name: str
    model: Model
    truth: dict[tuple[str, str], tuple[float, float]]
    fresh: bool

    @property
    def poisson(self) -> bool:
        return self.model.interarrival.kind() == "exponential"


@dataclass
class Tally:
    """Errors of one method in one measure: rows (relative error, relative claim, half-width of the truth)."""

    rows: list[tuple[float, float, float]] = field(default_factory=list)

    def errors(self) -> np.ndarray:
        return np.abs(np.array(self.rows)[:, 0])

    def claims(self) -> np.ndarray:
        return np.array(self.rows)[:, 1]

    def covered(self) -> float:
        """Share of truths within the claim and the truth's own half-width."""
        error, claim, width = np.abs(np.array(self.rows)).T
        return float(np.mean(error <= claim + width))

    def ratio(self) -> float:
        """Median claim over median error."""
        return float(np.median(self.claims()) / max(np.median(self.errors()), 1e-9))


def systems() -> Iterator[System]:
    """Recorded systems, then fresh ones."""
    places = [] if SHARED is None else [(SHARED / "anchors" / "dispatcher.json", False)]
    for path, fresh in [*places, (DATA, True)]:
        for entry in json.loads(path.read_text()):
            truth = {
                (measure, scope): (entry["truth"][measure][scope][0], sum(entry["truth"][measure][scope][1:]))
                for measure, scope in KEYS
                if scope in entry["truth"][measure]
            }
            yield System(entry["name"], parse(entry["model"]), truth, fresh)


def group(system: System) -> str:
    """Which rows of the table it belongs to."""
    return f"{'fresh' if system.fresh else 'recorded'}, {'Poisson' if system.poisson else 'renewal'}"


def measured(
    methods: tuple[str, ...] = METHODS,
) -> tuple[dict[tuple[str, str, tuple[str, str]], Tally], dict[tuple[str, str], list[float]]]:
    """Errors by (group, method, key), and processor seconds by (group, method)."""
    tallies: dict[tuple[str, str, tuple[str, str]], Tally] = {}
    seconds: dict[tuple[str, str], list[float]] = {}
    for system in systems():
        place = group(system)
        for method in methods:
            if method == "exact" and max(system.model.servers) > SMALL:
                continue
            start = process_time()
            try:
                found = qtheory.solve(system.model, method=method)
            except (InvalidModel, NotConverged):
                if method != "exact":
                    raise
                continue
            seconds.setdefault((place, method), []).append(process_time() - start)
            for key, (value, width) in system.truth.items():
                row = (found[key].value / value - 1.0, found[key].error / value, width / value)
                tallies.setdefault((place, method, key), Tally()).rows.append(row)
    return tallies, seconds


def table(tallies: dict[Any, Tally], seconds: dict[Any, list[float]]) -> str:
    """The guide's tables, all figures in %."""
    lines = []
    for place in dict.fromkeys(group for group, _ in seconds):
        count = len(seconds[place, "mgc"])
        lines += [
            f"### {place} arrivals, {count} systems",
            "",
            "| method | measure | systems | max | p90 | median | covered | claim / error | time, median / max |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for method in METHODS:
            for key in KEYS:
                tally = tallies.get((place, method, key))
                if tally is None:
                    continue
                errors = 100.0 * tally.errors()
                times = seconds[place, method]
                time = f"{np.median(times):.2g} / {max(times):.2g} s" if key == KEYS[0] else ""
                name = f"{'E[R]' if key[0] == 'mean_response' else 'p95'} {key[1]}"
                lines.append(
                    f"| {method if key == KEYS[0] else ''} | {name} | {len(errors)} | {errors.max():.2g} | "
                    f"{np.quantile(errors, 0.9):.2g} | {np.median(errors):.2g} | {100 * tally.covered():.0f} % | "
                    f"{tally.ratio():.2g} | {time} |"
                )
        lines.append("")
    return "\n".join(lines)


def write() -> None:
    """Put the tables into the guide."""
    text = GUIDE.read_text("utf-8")
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    GUIDE.write_text(f"{head}{BEGIN}\n{table(*measured())}\n{END}{tail}", "utf-8")


if __name__ == "__main__":
    write()
