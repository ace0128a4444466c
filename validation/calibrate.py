"""Do the intervals of a simulation cover the truth as often as they say?

The whole procedure - warm-up from theory, replications, intervals, controls - is carried out many times with seeds of
its own, and each interval is held against the answer: from theory where a method gives it to the last digits, else
from one long run, whose own error, narrowed by the controls, is added to the interval's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import qsim
import qtheory
from qsim.controls import Control
from qsim.estimate import Estimate, Figure, figures
from qtheory.measures import Key, model_data
from qtheory.models import InvalidModel, Model, NotConverged
from validation import steer

#: Measures whose coverage is reported where nothing else is asked for.
MEASURES = ("mean_response", "mean_wait", "mean_number", "p95_response")
#: One procedure counts this part of the jobs of a plain simulation, the long run this many times one procedure's.
SCALE, LONG_RUN = 50, 400
#: A replication counts at least this many times its warm-up: averages over few relaxation times are too skewed for
#: Student's intervals, and a plain simulation's are far longer.
LEAST_WARMUPS = 4
#: An answer from theory counts as known if its error is at most this share of the value.
_KNOWN = 1e-6
#: Of the interval of a coverage.
_CONFIDENCE = 0.95
#: Seeds of one calibration: the long run's comes after those of all procedures.
_SEEDS = 2**32


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What is held to be true, the half-width of its own error (0 from theory), and where it is from."""

    value: float
    half_width: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """How often the intervals of one measure covered the reference.

    Attributes
    ----------
    measure, scope : what was estimated.
    controls : whether the estimates were adjusted by control variates.
    reference : the value held to be true.
    runs, covered : intervals, and those that covered.
    low, high : interval of the coverage (Clopper and Pearson, Biometrika 26, 1934, 404-413).
    half_width : mean half-width of the intervals.
    bias : mean of (estimate - reference) / half-width: 0 if unbiased; its own standard error is about
        0.5 / sqrt(runs) at 95 % confidence.
    factor : squared ratio of the mean half-widths without and with controls; 1 without.
    """

    measure: str
    scope: str
    controls: bool
    reference: Reference
    runs: int
    covered: int
    low: float
    high: float
    half_width: float
    bias: float
    factor: float

    @property
    def coverage(self) -> float:
        """The share that covered."""
        return self.covered / self.runs

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "measure": self.measure,
            "scope": self.scope,
            "controls": self.controls,
            "coverage": self.coverage,
            "low": self.low,
            "high": self.high,
            "runs": self.runs,
            "half_width": self.half_width,
            "bias": self.bias,
            "factor": self.factor,
            "reference": self.reference.value,
            "reference_half_width": self.reference.half_width,
            "source": self.reference.source,
        }


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What `calibrate` returns: `rows` by measure and scope, without and with controls where there are some.

    `jobs` are those counted in one procedure, on the average where a precision ends it; `replications` the least.
    `note` says so where their warm-up is too short for the system.
    """

    model: Model
    rows: tuple[Coverage, ...]
    runs: int
    jobs: int
    replications: int
    precision: float | None
    confidence: float
    seed: int
    seconds: float = 0.0
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "model": model_data(self.model),
            "status": "ok",
            "measures": [row.to_dict() for row in self.rows],
            "runs": self.runs,
            "jobs": self.jobs,
            "replications": self.replications,
            "precision": self.precision,
            "confidence": self.confidence,
            "seed": self.seed,
            "seconds": self.seconds,
            **({"note": self.note} if self.note else {}),
        }


def calibrate(
    model: Model,
    *,
    runs: int = 200,
    jobs: int | None = None,
    precision: float | None = None,
    replications: int = 32,
    reference_jobs: int | None = None,
    confidence: float = 0.95,
    seed: int = 1,
    measures: Iterable[str] = MEASURES,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Coverage of the intervals of `model`'s simulation.

    Parameters
    ----------
    model : a stable system.
    runs : whole procedures.
    jobs : jobs counted in each, over its replications; None takes a fiftieth of a plain simulation's, and in heavy
        traffic at least four warm-ups a replication.
    precision : instead of a number of jobs, the precision at which each procedure ends.
    replications : of each; with a precision the least number of them.
    reference_jobs : jobs of the long run that stands for the truth where theory has no exact answer; None takes 400
        times those of a procedure.
    confidence : nominal coverage.
    seed : of the whole calibration.
    measures : names of measures; every scope that the simulation knows is reported.
    progress : called with (finished, all) procedures.

    Raises
    ------
    InvalidModel : an option is wrong.
    Unstable : there is no steady state to be right about.
    """
    for name, value, holds, rule in (
        ("runs", runs, 1 <= runs < _SEEDS // 2, "must be at least 1"),
        ("replications", replications, replications >= 2, "must be at least 2: intervals rest on them"),
        ("confidence", confidence, 0 < confidence < 1, "must lie between 0 and 1"),
        ("seed", seed, seed >= 0, "must not be negative"),
    ):
        if not holds:
            raise InvalidModel(field=name, rule=rule, value=value)
    start = perf_counter()
    steer.check_stable(model)
    wanted = tuple(measures)
    length: dict[str, Any] = {"precision": precision, "warmup": steer.warmup(model, jobs=None)}
    if precision is None:
        least = LEAST_WARMUPS * max(length["warmup"] or 0, 1)
        count = jobs or max(steer.simulation_jobs(model) // SCALE, replications * least)
        length = {"jobs": count, "warmup": steer.warmup(model, jobs=-(-count // replications))}
    elif jobs is not None:
        raise InvalidModel(field="jobs", rule="goes without a precision", value=jobs)
    controls = steer.controls(model)
    counted = 0
    tallies: dict[tuple[Key, bool], list[Figure]] = {}
    for run in range(runs):
        estimate = qsim.simulate(
            model,
            **length,
            replications=replications,
            seed=_SEEDS * seed + run,
            confidence=confidence,
            controls=controls,
        )
        counted += estimate.jobs
        _note(tallies, estimate, wanted=wanted, controls=bool(controls))
        if progress is not None:
            progress(run + 1, runs)
    truths = _references(
        model,
        jobs=reference_jobs or LONG_RUN * (counted // runs),
        warmup=length["warmup"],
        seed=_SEEDS * seed + _SEEDS // 2,
        confidence=confidence,
        controls=controls,
    )
    rows = []
    for (key, adjusted), found in tallies.items():
        if key in truths:
            plain = tallies[key, False]
            rows.append(_coverage(key, found, plain=plain, controls=adjusted, reference=truths[key]))
    return Calibration(
        model=model,
        rows=tuple(rows),
        runs=runs,
        jobs=counted // runs,
        replications=replications,
        precision=precision,
        confidence=confidence,
        seed=seed,
        seconds=perf_counter() - start,
        note=steer.remark(model, warmup=estimate.warmup),
    )


def _note(
    tallies: dict[tuple[Key, bool], list[Figure]], estimate: Estimate, *, wanted: tuple[str, ...], controls: bool
) -> None:
    """Enter the intervals of one procedure; the same run gives those without and those with controls."""
    plain = figures(estimate.samples, confidence=estimate.confidence)
    for key, figure in plain.items():
        if key[0] in wanted and math.isfinite(figure.value) and math.isfinite(figure.half_width):
            tallies.setdefault((key, False), []).append(figure)
            if controls:
                tallies.setdefault((key, True), []).append(estimate[key])


def _references(
    model: Model, *, jobs: int, warmup: int | None, seed: int, confidence: float, controls: tuple[Control, ...]
) -> dict[Key, Reference]:
    """The answers: from one long run, and from theory wherever it knows better."""
    long_run = qsim.simulate(model, jobs=jobs, seed=seed, warmup=warmup, confidence=confidence, controls=controls)
    found = {
        key: Reference(value=figure.value, half_width=figure.half_width, source=f"{jobs} jobs")
        for key, figure in long_run.measures.items()
    }
    if not qtheory.methods(model):
        return found
    try:
        solution = qtheory.solve(model)
    except (NotConverged, InvalidModel):
        # A law that no method takes: the long run is all there is.
        return found
    for key, value in solution.measures.items():
        if math.isfinite(value.value) and value.error <= _KNOWN * abs(value.value):
            found[key] = Reference(value=value.value, half_width=0.0, source=solution.method)
    return found


def _coverage(key: Key, found: list[Figure], *, plain: list[Figure], controls: bool, reference: Reference) -> Coverage:
    """Intervals widened by the reference's own error, as independent errors add."""
    covered = sum(
        abs(figure.value - reference.value) <= math.hypot(figure.half_width, reference.half_width) for figure in found
    )
    low, high = clopper_pearson(covered=covered, runs=len(found))
    width = math.fsum(figure.half_width for figure in found) / len(found)
    plain_width = math.fsum(figure.half_width for figure in plain) / len(plain)
    offset = math.fsum(figure.value - reference.value for figure in found) / len(found)
    return Coverage(
        measure=key[0],
        scope=key[1],
        controls=controls,
        reference=reference,
        runs=len(found),
        covered=covered,
        low=low,
        high=high,
        half_width=width,
        bias=offset / width if width > 0 else 0.0,
        factor=(plain_width / width) ** 2 if width > 0 else 1.0,
    )


def clopper_pearson(*, covered: int, runs: int, confidence: float = _CONFIDENCE) -> tuple[float, float]:
    """The interval of a probability of which `covered` of `runs` trials came true.

    >>> low, high = clopper_pearson(covered=950, runs=1000)
    >>> round(low, 4), round(high, 4)
    (0.9346, 0.9627)
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = float(betaincinv(covered, runs - covered + 1, tail)) if covered > 0 else 0.0
    high = float(betaincinv(covered + 1, runs - covered, 1 - tail)) if covered < runs else 1.0
    return low, high
