"""From a recorded log to a model: a law for the gaps and for each group's service times, and how far they are off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from qtheory.models import (
    Deterministic,
    Dispatcher,
    Empirical,
    Exponential,
    Gamma,
    Law,
    LogNormal,
    Mixture,
    Weibull,
)
from qtheory.models.errors import InvalidModel
from validation.traces import Trace

Floats = NDArray[np.float64]
Laws = Literal["parametric", "empirical"]


@dataclass(frozen=True, kw_only=True)
class FittedLaw:
    """One law and its distance from the data.

    `ks` is the largest distance between the distribution functions, `ks_critical` what chance alone would leave at
    the 1 % level for independent values (smaller, since the law was fitted to them); `scv` the data's own squared
    coefficient of variation, `law_scv` the law's.
    """

    field: str
    law: Law
    count: int
    mean: float
    scv: float
    law_scv: float
    ks: float
    ks_critical: float

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "law"} | {
            "law": self.law.kind()
        }


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A model made from a log.

    `autocorrelation` is that of successive gaps (0 for a renewal process) and `dispersion` the variance-to-mean
    ratio of arrivals in windows of 100 mean gaps (about the gaps' scv for a renewal process): what a model with
    independent gaps leaves out.
    """

    model: Dispatcher
    laws: tuple[FittedLaw, ...]
    autocorrelation: float
    dispersion: float
    notices: tuple[str, ...]


def fit(trace: Trace, *, servers: tuple[int, int], time_limit: float, laws: Laws = "parametric") -> Fit:
    """The dispatcher model closest to a log.

    Each law is the one of exponential, gamma, Weibull and lognormal with the smallest Akaike criterion by maximum
    likelihood, with an atom at 0 where the log has zeros; with ``laws="empirical"`` the recorded values themselves.

    Raises `InvalidModel` when the log has fewer than 2 jobs or no time passes in it.
    """
    gaps = np.diff(trace.arrival)
    if gaps.size == 0 or gaps.max() <= 0:
        raise InvalidModel(rule="needs at least two instants of arrival to fit a law", file=trace.source)
    fitted = [_fit(gaps, field="interarrival", laws=laws)]
    notices = list(trace.notices)
    for group in (0, 1):
        times = trace.service[trace.group == group]
        field = f"service{group}"
        if times.size == 0 or times.max() <= 0:
            notices.append(f"no work for group {group} in the log: {field} is a stand-in that is never used")
            continue
        fitted.append(_fit(times, field=field, laws=laws))
    chosen: dict[str, Law] = {row.field: row.law for row in fitted}
    stand_in = Exponential(mean=1.0)
    model = Dispatcher(
        servers=servers,
        time_limit=time_limit,
        short_fraction=float(np.mean(trace.group == 0)),
        interarrival=chosen["interarrival"],
        service0=chosen.get("service0", stand_in),
        service1=chosen.get("service1", stand_in),
    )
    return Fit(
        model=model,
        laws=tuple(fitted),
        autocorrelation=_autocorrelation(gaps),
        dispersion=_dispersion(trace.arrival),
        notices=tuple(notices),
    )


def _fit(values: Floats, *, field: str, laws: Laws) -> FittedLaw:
    law: Law = Empirical(values=values.tolist()) if laws == "empirical" else best_law(values)
    mean = float(values.mean())
    from qtheory import laws as analytic

    ordered = np.sort(values)
    steps = np.arange(1, values.size + 1) / values.size
    curve = np.asarray(analytic.cdf(law, t=ordered))
    before = np.asarray(analytic.cdf(law, t=np.nextafter(ordered, -math.inf)))
    # Ties share one step of the empirical function: its value is that of the last of them.
    last = np.searchsorted(ordered, ordered, side="right") / values.size
    first = np.searchsorted(ordered, ordered, side="left") / values.size
    ks = float(max(np.max(np.abs(last - curve)), np.max(np.abs(first - before)), abs(steps[-1] - 1)))
    return FittedLaw(
        field=field,
        law=law,
        count=int(values.size),
        mean=mean,
        scv=float(values.var() / mean**2),
        law_scv=float(analytic.scv(law)),
        ks=ks,
        ks_critical=float(special.kolmogi(0.01) / math.sqrt(values.size)),
    )


def best_law(values: Floats) -> Law:
    """The law with the smallest Akaike criterion; zeros become an atom."""
    positive = values[values > 0]
    zeros = 1 - positive.size / values.size
    body = _positive_law(positive)
    if zeros == 0:
        return body
    return Mixture(weights=(zeros, 1 - zeros), laws=(Deterministic(value=0.0), body))


def _positive_law(values: Floats) -> Law:
    mean = float(values.mean())
    if float(values.std()) <= 1e-9 * mean:
        return Deterministic(value=mean)
    candidates: list[Callable[[Floats, float], tuple[float, Law]]] = [_exponential, _gamma, _weibull, _lognormal]
    scored = [candidate(values, mean) for candidate in candidates]
    return min(scored, key=lambda row: row[0])[1]


def _exponential(values: Floats, mean: float) -> tuple[float, Law]:
    likelihood = -values.size * (math.log(mean) + 1)
    return 2 - 2 * likelihood, Exponential(mean=mean)


def _gamma(values: Floats, mean: float) -> tuple[float, Law]:
    shape, _, scale = stats.gamma.fit(values, floc=0)
    likelihood = float(np.sum(stats.gamma.logpdf(values, shape, scale=scale)))
    return 4 - 2 * likelihood, Gamma(shape=float(shape), scale=float(scale))


def _weibull(values: Floats, mean: float) -> tuple[float, Law]:
    # In units of the mean, else the search starts far from the scale.
    shape, _, scale = stats.weibull_min.fit(values / mean, floc=0)
    scale *= mean
    likelihood = float(np.sum(stats.weibull_min.logpdf(values, shape, scale=scale)))
    return 4 - 2 * likelihood, Weibull(shape=float(shape), scale=float(scale))


def _lognormal(values: Floats, mean: float) -> tuple[float, Law]:
    logs = np.log(values)
    sigma = float(logs.std())
    likelihood = float(np.sum(stats.norm.logpdf(logs, logs.mean(), sigma) - logs))
    law = LogNormal(mean=math.exp(float(logs.mean()) + sigma**2 / 2), scv=math.expm1(sigma**2))
    return 4 - 2 * likelihood, law


def _autocorrelation(gaps: Floats) -> float:
    centred = gaps - gaps.mean()
    variance = float(centred @ centred)
    return float(centred[:-1] @ centred[1:]) / variance if variance > 0 else 0.0


def _dispersion(arrival: Floats, *, window: float = 100.0) -> float:
    span = float(arrival[-1] - arrival[0])
    windows = int((arrival.size - 1) / window)
    if windows < 2:
        return math.nan
    edges = arrival[0] + np.linspace(0, span, windows + 1)
    counts = np.histogram(arrival, edges)[0]
    return float(counts.var(ddof=1) / counts.mean())
