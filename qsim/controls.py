"""Control variates: estimates adjusted by quantities of the same run whose means are known beforehand.

The means are arguments: what computes them is independent of the simulation and stays outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsim.estimate import Array, Figure, Sample, student
from qsim.lower import Findings
from qtheory.measures import Table
from qtheory.models.errors import InvalidModel

#: Replications that each control must leave: six in place of one keep the loss of variance below a quarter.
REPLICATIONS_A_CONTROL = 6
#: Over all controls of a run, the probability that one is called suspect though its mean is right.
SUSPECT = 1e-6
#: An estimate that its controls determine up to this relative error would merely repeat their known means.
_KNOWN = 1e-9
#: A control of which less than this share of its standard deviation is new to those before it is left out.
_NEW = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """A quantity that the simulator of a model samples under this name, and its known mean."""

    name: str
    mean: float


def check(controls: Iterable[Control]) -> tuple[Control, ...]:
    """The controls, each with a finite mean and a name of its own; raises `InvalidModel`."""
    found = tuple(controls)
    names = [control.name for control in found]
    for control in found:
        if not math.isfinite(control.mean):
            raise InvalidModel(field="controls", rule=f"mean of {control.name} must be finite", value=control.mean)
        if names.count(control.name) > 1:
            raise InvalidModel(field="controls", rule="must be named once each", value=control.name)
    return found


def controlled_figures(
    findings: Findings, *, controls: Sequence[Control], confidence: float
) -> tuple[Table[Figure], dict[str, Any]]:
    """Every measure adjusted by the controls that go with it, and what the controls did, as plain data.

    The details are ``known``, one row a control with its sample mean, known mean, z = (sample mean - known mean) /
    standard error and, where z is beyond what chance does once in 10^6 runs, a note that it was not used; and
    ``adjusted``, one row a measure with the names used and the factor, the squared ratio of the standard errors
    without and with them, which counts what the controls cost in degrees of freedom.

    Raises
    ------
    InvalidModel : a control that the simulator does not sample.
    """
    for control in controls:
        if control.name not in findings.controls:
            known = ", ".join(findings.controls) or "none for this kind of system"
            raise InvalidModel(field="controls", rule=f"known are {known}", value=control.name)
    usable, known_rows = _usable(findings.controls, controls)
    figures: dict[Any, Figure] = {}
    adjusted_rows = []
    for key, sample in findings.samples.items():
        plain = sample.figure(confidence=confidence)
        if math.isnan(plain.value):
            continue
        names = [name for name in findings.controlled.get(key, ()) if name in usable]
        adjusted, used = adjust(sample, {name: usable[name] for name in names}, confidence=confidence)
        figures[key] = adjusted if used else plain
        if used:
            place: dict[str, Any] = {"measure": key[0], "scope": key[1]}
            if len(key) > 2:
                place["at"] = key[2]
            adjusted_rows.append(place | {"factor": (plain.se / adjusted.se) ** 2, "controls": list(used)})
    return Table(figures), {"known": known_rows, "adjusted": adjusted_rows}


def adjust(sample: Sample, controls: Mapping[str, Array], *, confidence: float) -> tuple[Figure, tuple[str, ...]]:
    """One measure adjusted by controls of mean 0 (name -> deviation in each replication), and the names used.

    With u_k the weighted residual of replication k in the ratio estimate R (its value less R where replications weigh
    the same) and C_k its controls, R* = R + a where a is the intercept of the least-squares regression of u on C.
    Its standard error is that of the intercept, with (replications - controls - 1) degrees of freedom: exact where
    (u, C) is jointly normal, as averages over many jobs nearly are (Lavenberg and Welch, Management Sci. 27, 1981,
    322-335, eqs. 11-16).  In the mean the variance is that of the residual times (n - 2) / (n - q - 2), n
    replications and q controls (ibid.; Nelson, Oper. Res. 38, 1990, 974-992), so at most one control for every
    `REPLICATIONS_A_CONTROL` replications is taken, the first ones first.

    The plain estimate is given, without names, when there is nothing to adjust with (too few replications, one of
    them without weight, no control that varies) and when the controls say all, as for a measure that is a control.

    Nearly all of the deviation from 10 is what the control says.

    >>> deviations = np.array([-1.0, 0.5, 1.5, -0.5, 0.25, 0.75])
    >>> figure, used = adjust(Sample(values=10.0 + 2.0 * deviations + 0.01 * deviations**2), {"gap": deviations},
    ...                       confidence=0.95)
    >>> used, abs(figure.value - 10.0) < 0.02
    (('gap',), True)
    """
    plain = sample.figure(confidence=confidence)
    count = sample.values.size
    weights = np.ones(count) if sample.weights is None else sample.weights
    if not (plain.se > 0 and np.all(weights > 0) and np.all(np.isfinite(sample.values))):
        return plain, ()
    basis, names = _basis(controls, count=count)
    if not names:
        return plain, ()
    residuals = weights * (sample.values - plain.value) / weights.mean()
    design = np.column_stack([np.ones(count), *basis])
    orthogonal, triangle = np.linalg.qr(design)
    intercept = float(np.linalg.solve(triangle, orthogonal.T @ residuals)[0])
    left = residuals - orthogonal @ (orthogonal.T @ residuals)
    degrees = count - len(names) - 1
    # The first entry of the inverse of design' design, as the squared length of a row of the inverse triangle.
    leverage = float(np.sum(np.linalg.solve(triangle.T, np.eye(len(names) + 1)[0]) ** 2))
    variance = float(left @ left) / degrees * leverage + sample.resolution**2 / 12
    se = math.sqrt(variance)
    if not se > _KNOWN * abs(plain.value):
        return plain, ()
    figure = Figure(
        value=plain.value + intercept, half_width=student(confidence=confidence, degrees=degrees) * se, se=se
    )
    return figure, names


def _basis(controls: Mapping[str, Array], *, count: int) -> tuple[list[Array], tuple[str, ...]]:
    """The first controls that vary and are no combination of those before them, scaled to unit deviation."""
    taken: list[Array] = []
    names: list[str] = []
    directions = [np.ones(count) / math.sqrt(count)]
    for name, values in controls.items():
        if len(names) == count // REPLICATIONS_A_CONTROL:
            break
        new = values - values.mean()
        spread = float(np.linalg.norm(new))
        for direction in directions:
            new = new - direction * float(direction @ new)
        length = float(np.linalg.norm(new))
        if not length > _NEW * max(spread, 1e-9 * float(np.abs(values).max(initial=0.0))):
            continue
        taken.append(values / spread)
        directions.append(new / length)
        names.append(name)
    return taken, tuple(names)


def _usable(
    samples: Mapping[str, Sample], controls: Sequence[Control]
) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """Deviations from the known means by name, and one row a control; suspect ones are named but not used."""
    usable: dict[str, Array] = {}
    rows: list[dict[str, Any]] = []
    for control in controls:
        sample = samples[control.name]
        figure = sample.figure(confidence=0.95)
        weights = np.ones_like(sample.values) if sample.weights is None else sample.weights
        row: dict[str, Any] = {"name": control.name, "mean": control.mean}
        if not (np.all(np.isfinite(sample.values)) and figure.se > 1e-12 * abs(figure.value)):
            rows.append(row | {"note": "not used: no spread over the replications"})
            continue
        z = (figure.value - control.mean) / figure.se
        row |= {"value": figure.value, "z": z}
        degrees = int(np.count_nonzero(weights > 0)) - 1
        if abs(z) > student(confidence=1 - SUSPECT / len(controls), degrees=degrees):
            row["note"] = "not used: its sample mean is too far from the known mean"
        else:
            usable[control.name] = weights * (sample.values - control.mean) / weights.mean()
        rows.append(row)
    return usable, rows
