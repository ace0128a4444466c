"""Throughput studies of a network: how a policy fares from light traffic to past theta*, and where it gives up.

theta* is what the best policy could carry; the distance to the load at which a given policy stops being stable is
the price of looking at the wrong part of the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qtheory.models import InvalidModel, Network
from validation import sweep


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """One load.

    Attributes
    ----------
    factor : by which the arrival rates of the model are multiplied.
    theta_star : the largest further factor that any policy could carry; below 1 none can.
    stability, slope, exponent : the simulation's verdict, growth in jobs per unit time and growth exponent.
    number, half_width : simulated mean number of jobs, None where the network is not stable.
    analytic : mean number of jobs by theory, None where there is no answer.
    """

    factor: float
    theta_star: float
    stability: str
    slope: float
    exponent: float
    number: float | None
    half_width: float | None
    analytic: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class Study:
    """A policy at several loads, in increasing order."""

    model: Network
    rows: tuple[StudyRow, ...]

    @property
    def theta_star(self) -> float:
        """Of the model as it stands."""
        return self.rows[0].theta_star * self.rows[0].factor

    @property
    def bracket(self) -> tuple[float | None, float | None]:
        """The last load found stable before the first found critical or unstable, and that one; None where missing."""
        last: float | None = None
        for row in self.rows:
            if row.stability in ("critical", "unstable"):
                return last, row.factor
            if row.stability == "stable":
                last = row.factor
        return last, None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"theta_star": self.theta_star, "bracket": self.bracket, "rows": [row.to_dict() for row in self.rows]}


def throughput_study(
    model: Network,
    *,
    factors: Sequence[float],
    jobs: int | None = None,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Study:
    """Solve and simulate `model` with its arrival rates multiplied by each of `factors`.

    Loads past theta* are simulated too: the verdict says what happens there. `jobs` is for each load.

    Raises `InvalidModel` if there is no factor or one is not positive.
    """
    if not factors:
        raise InvalidModel(field="factors", rule="must name at least one load")
    axis = sweep.Axis(path="load", values=tuple(sorted(factors)))
    return of_sweep(model, sweep.rows(model, [axis], simulate=True, jobs=jobs, seed=seed, progress=progress))


def of_sweep(model: Network, rows: Sequence[Mapping[str, Any]]) -> Study:
    """The study that the rows of a simulated sweep over `load` make up."""
    return Study(model=model, rows=tuple(_row(row) for row in sorted(rows, key=lambda row: row["point"]["load"])))


def _row(row: Mapping[str, Any]) -> StudyRow:
    found = _total(row["simulated"])
    known = _total(row["measures"])
    return StudyRow(
        factor=row["point"]["load"],
        theta_star=row["theta_star"],
        stability=row["stability"],
        slope=row["slope"],
        exponent=row["exponent"],
        number=found["value"] if found else None,
        half_width=found.get("half_width") if found else None,
        analytic=known["value"] if known else None,
    )


def _total(measures: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row of mean_number/all, if there is one."""
    return next((row for row in measures if (row["measure"], row["scope"]) == ("mean_number", "all")), None)
