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

#: Replications for each control: so many keep what the controls cost in variance near a fifth.
REPLICATIONS_A_CONTROL = 6
#: Over all controls of a run, the probability that one is called suspect though its mean is right.
SUSPECT = 1e-6
#: An estimate that its controls determine up to this relative error would merely repeat their known means.
_KNOWN = 1e-9
#: Less than this share of itself is none: of a control what is new to those before it, of a replication what is free.
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
    """
    if not findings.samples:
        return Table({}), {"known": [], "adjusted": []}
    usable, known_rows = deviations(findings.controls, controls)
    regressions: dict[tuple[str, ...], Regression | None] = {}
    figures: dict[Any, Figure] = {}
    adjusted_rows = []
    for key, sample in findings.samples.items():
        plain = sample.figure(confidence=confidence)
        if math.isnan(plain.value):
            continue
        figures[key] = plain
        names = tuple(name for name in findings.controlled.get(key, ()) if name in usable)
        if names not in regressions:
            regressions[names] = regression({name: usable[name] for name in names})
        chosen = regressions[names]
        adjusted = adjust(sample, chosen, confidence=confidence)
        if chosen is None or adjusted is None:
            continue
        figures[key] = adjusted
        place: dict[str, Any] = {"measure": key[0], "scope": key[1]}
        if len(key) > 2:
            place["at"] = key[2]
        adjusted_rows.append(place | {"factor": (plain.se / adjusted.se) ** 2, "controls": list(chosen.names)})
    return Table(figures), {"known": known_rows, "adjusted": adjusted_rows}


@dataclass(frozen=True, kw_only=True, slots=True)
class Regression:
    """Controls of mean 0 ready for least squares: one regression serves every measure that they go with.

    `names` are the controls taken; `orthogonal` has orthonormal columns that span them and the constant; `intercept`
    times a column of values is the intercept of its regression.
    """

    names: tuple[str, ...]
    orthogonal: Array
    intercept: Array


def regression(controls: Mapping[str, Array]) -> Regression | None:
    """The regression on controls (name -> deviation from the known mean in each replication), the first ones first.

    At most one control for every `REPLICATIONS_A_CONTROL` replications is taken; left out are those that do not vary
    and combinations of those before them.  None if nothing is left.
    """
    if not controls:
        return None
    count = next(iter(controls.values())).size
    taken = [np.ones(count)]
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
        if length > _NEW * max(spread, 1e-9 * float(np.abs(values).max(initial=0.0))):
            taken.append(values / spread)
            directions.append(new / length)
            names.append(name)
    if not names:
        return None
    orthogonal, triangle = np.linalg.qr(np.column_stack(taken))
    first = np.zeros(len(taken))
    first[0] = 1.0
    intercept = orthogonal @ np.linalg.solve(triangle.T, first)
    return Regression(names=tuple(names), orthogonal=orthogonal, intercept=intercept)


def adjust(sample: Sample, controls: Regression | None, *, confidence: float) -> Figure | None:
    """One measure adjusted by controls.

    With u_k the weighted residual of replication k in the ratio estimate R (its value less R where replications weigh
    the same) and C_k its controls, R + a is the estimate of Lavenberg and Welch (Management Sci. 27, 1981, 322-335),
    where a is the intercept of the least-squares regression of u on C.  In the mean its variance is that of the
    residuals times (n - 2) / (n - q - 2), n replications and q controls.

    Replications where waits pile up are skewed, move with their controls more than in proportion and scatter more
    about them: the intercept is then biased and its usual error too small.  Both are jackknifed, as Nelson advises
    (Oper. Res. 38, 1990, 974-992): with r_k the weight of u_k in a, e_k the residual and h_k the leverage of
    replication k, the pseudo-values are a + (n - 1) r_k e_k / (1 - h_k); the adjustment is their mean, its standard
    error that of the mean, and the interval Student's with n - q - 1 degrees of freedom.

    None when there is nothing to adjust with (no controls, a replication without weight, a value that is not finite),
    when one replication alone decides on a coefficient, and when the controls say all, as for a measure that is itself
    a control.

    Nearly all of the deviation from 10 is what the control says.

    >>> deviations = np.array([-1.0, 0.5, 1.5, -0.5, 0.25, 0.75])
    >>> sample = Sample(values=10.0 + 2.0 * deviations + 0.01 * deviations**2)
    >>> figure = adjust(sample, regression({"gap": deviations}), confidence=0.95)
    >>> abs(figure.value - 10.0) < 0.02 < abs(sample.figure(confidence=0.95).value - 10.0)
    True
    """
    count = sample.values.size
    weights = np.ones(count) if sample.weights is None else sample.weights
    if controls is None or not (np.all(weights > 0) and np.all(np.isfinite(sample.values))):
        return None
    centre = float(np.average(sample.values, weights=weights))
    residuals = weights * (sample.values - centre) / weights.mean()
    left = residuals - controls.orthogonal @ (residuals @ controls.orthogonal)
    free = 1.0 - np.sum(controls.orthogonal**2, axis=1)
    if not free.min() > _NEW:
        return None
    pseudo = float(controls.intercept @ residuals) + (count - 1) * controls.intercept * left / free
    variance = float(pseudo.var(ddof=1)) / count
    if not math.sqrt(variance) > _KNOWN * abs(centre):
        return None
    se = math.sqrt(variance + sample.resolution**2 / 12)
    degrees = count - len(controls.names) - 1
    return sample.placed(
        mean=centre,
        shift=float(pseudo.mean()),
        se=se,
        reach=student(confidence=confidence, degrees=degrees) * se,
    )


def deviations(
    samples: Mapping[str, Sample], controls: Sequence[Control]
) -> tuple[dict[str, Array], list[dict[str, Any]]]:
    """What `regression` takes: weighted deviations from the known means in each replication, by name.

    And one row a control as plain data: name, mean, sample value, z, and a note where it must not be used.
    """
    usable: dict[str, Array] = {}
    rows: list[dict[str, Any]] = []
    for control in controls:
        sample = samples.get(control.name)
        if sample is None:
            rows.append({"name": control.name, "mean": control.mean, "note": "not used: this run does not sample it"})
            continue
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
