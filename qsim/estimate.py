"""What a simulation found: values with confidence intervals over independent replications."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qsim.student_law import two_sided_quantile
from qtheory.measures import Key, Table, model_data
from qtheory.models.files import Model

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A simulated value; `half_width` of its interval, `se` its standard error, both nan for one replication."""

    value: float
    half_width: float
    se: float

    def row(self) -> dict[str, Any]:
        """The fields of a JSON row."""
        return {"value": self.value, "half_width": self.half_width}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One measure over the replications.

    `values[k]` is replication k's figure and `weights[k]` what it stands for (jobs counted, time observed; 1 where
    every replication counts the same).  The estimate is the weighted mean, a ratio estimator whose standard error
    follows from the residuals weights * (values - mean).  `resolution` is a length that the measurement cannot
    resolve; read as uniform, it adds resolution^2 / 12 to the variance.  Where the values are a linearisation about
    their mean, `curve(d)` is what really lies a linear displacement d away from it.
    """

    values: Array
    weights: Array | None = None
    resolution: float = 0.0
    curve: Callable[[float], float] | None = None

    def figure(self, *, confidence: float) -> Figure:
        """Estimate, Student half-width with (replications - 1) degrees of freedom and standard error."""
        weights = np.ones_like(self.values) if self.weights is None else self.weights
        kept = weights > 0
        values, weights = self.values[kept], weights[kept]
        count = values.size
        if count == 0:
            return Figure(value=math.nan, half_width=math.nan, se=math.nan)
        mean = float(np.average(values, weights=weights))
        if count == 1 or not math.isfinite(mean):
            return Figure(value=mean, half_width=math.nan, se=math.nan)
        residuals = weights * (values - mean) / weights.mean()
        se = math.sqrt(float(residuals @ residuals) / (count * (count - 1)) + self.resolution**2 / 12)
        return self.placed(mean=mean, shift=0.0, se=se, reach=student(confidence=confidence, degrees=count - 1) * se)

    def placed(self, *, mean: float, shift: float, se: float, reach: float) -> Figure:
        """The figure `shift` away from the mean with an interval of `reach` on either side, along the curve.

        Where the curve bends the longer side is the half-width.
        """
        if self.curve is None or not 0 < reach < math.inf:
            return Figure(value=mean + shift, half_width=reach, se=se)
        value = self.curve(shift)
        longer = max(reach, self.curve(shift + reach) - value, value - self.curve(shift - reach))
        return Figure(value=value, half_width=longer, se=se)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What `qsim.simulate` returns; ``e["mean_response", "all"].value`` and ``.half_width``.

    Attributes
    ----------
    model : the system simulated.
    measures : `Figure` by (measure, scope).
    samples : the replications' own figures, `Sample` by (measure, scope).
    confidence : of the intervals.
    jobs : jobs counted over all replications, warm-up excluded.
    replications, seed, warmup : as run (warm-up in jobs per replication).
    seconds : wall-clock time taken.
    status : "ok"; "budget" when a budget ended first (`details["budget"]` says which); "interrupted" by Ctrl-C;
        "undetermined" when a precision was wanted of a measure that the run does not determine.
    details : what one kind of system adds (e.g. stability of a network); plain data.
    distributions : response-time histograms by scope, where the kernel kept them.
    """

    model: Model
    measures: Table[Figure]
    samples: Mapping[Key, Sample]
    confidence: float
    jobs: int
    replications: int
    seed: int
    warmup: int
    seconds: float = 0.0
    status: str = "ok"
    details: Mapping[str, Any] = field(default_factory=dict)
    distributions: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: Key) -> Figure:
        return self.measures[key]

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data for JSON."""
        return {
            "model": model_data(self.model),
            "method": "simulation",
            "status": self.status,
            "measures": self.measures.to_list(),
            "confidence": self.confidence,
            "jobs": self.jobs,
            "replications": self.replications,
            "seed": self.seed,
            "warmup": self.warmup,
            "seconds": self.seconds,
            **self.details,
        }

    def __repr__(self) -> str:
        head = f"Estimate of {self.model.kind()}: {self.jobs} jobs in {self.replications} replications"
        lines = [f"{head}, seed {self.seed}, {100 * self.confidence:g} % intervals, {self.seconds:.3g} s"]
        for key, figure in self.measures.items():
            name = "/".join(str(part) for part in key)
            lines.append(f"  {name:<28} {figure.value:>14.6g} +- {figure.half_width:.2g}")
        return "\n".join(lines)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a simulation; `estimate` is what the finished replications say, None where there are none."""

    def __init__(self, estimate: Estimate | None) -> None:
        super().__init__("interrupted")
        self.estimate = estimate


def student(*, confidence: float, degrees: int) -> float:
    """The two-sided Student quantile."""
    return two_sided_quantile(confidence=confidence, degrees=degrees)


def figures(samples: Mapping[Key, Sample], *, confidence: float) -> Table[Figure]:
    """The table of estimates; measures that no replication could see are left out."""
    rows = {key: sample.figure(confidence=confidence) for key, sample in samples.items()}
    return Table({key: figure for key, figure in rows.items() if not math.isnan(figure.value)})


def stack(tallies: Sequence[Array]) -> Array:
    """The tallies of the replications, one a row."""
    return np.stack(list(tallies))
