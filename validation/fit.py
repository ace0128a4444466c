"""From a recorded log to a model: a law for the gaps and for each group's service times, and how far they are off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from qtheory import laws as analytic
from qtheory.models import (
    Deterministic,
    Dispatcher,
    Empirical,
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    Law,
    LogNormal,
    Mixture,
    Weibull,
)
from qtheory.models.errors import InvalidModel
from qtheory.queues.em import hyper_erlang
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

    `kill_share` is P(service0 > time limit), in the log and in the model.
    `autocorrelation` is that of successive gaps (0 for a renewal process) and `dispersion` the variance-to-mean
    ratio of arrivals in windows of 100 mean gaps (about the gaps' scv for a renewal process): what a model with
    independent gaps leaves out.
    """

    model: Dispatcher
    laws: tuple[FittedLaw, ...]
    kill_share: tuple[float, float]
    autocorrelation: float
    dispersion: float
    notices: tuple[str, ...]


def fit(trace: Trace, *, servers: tuple[int, int], time_limit: float, laws: Laws = "parametric") -> Fit:
    """The dispatcher model closest to a log.

    Each law is the one of exponential, gamma, Weibull, lognormal and hyper-Erlang (three phases) with the smallest
    Akaike criterion by maximum likelihood among laws with the log's own mean, so that the loads are the log's; zeros
    become an atom.  With ``laws="empirical"`` it is the recorded values themselves.

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
        kill_share=_kill_share(trace, model),
        autocorrelation=_autocorrelation(gaps),
        dispersion=_dispersion(trace.arrival),
        notices=tuple(notices),
    )


def _fit(values: Floats, *, field: str, laws: Laws) -> FittedLaw:
    law: Law = Empirical(values=values.tolist()) if laws == "empirical" else best_law(values)
    mean = float(values.mean())
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
    scaled = values / mean
    candidates: list[Callable[[Floats], tuple[float, Law]]] = [
        _exponential,
        _gamma,
        _weibull,
        _lognormal,
        _hyper_erlang,
    ]
    scored = [candidate(scaled) for candidate in candidates]
    return _times(min(scored, key=lambda row: row[0])[1], scale=mean)


def _exponential(values: Floats) -> tuple[float, Law]:
    return 2.0 * values.size, Exponential(mean=1.0)


def _gamma(values: Floats) -> tuple[float, Law]:
    def minus_likelihood(shape: float) -> float:
        return -float(np.sum(stats.gamma.logpdf(values, shape, scale=1 / shape)))

    shape, best = _least(minus_likelihood)
    return 2 + 2 * best, Gamma(shape=shape, scale=1 / shape)


def _weibull(values: Floats) -> tuple[float, Law]:
    def minus_likelihood(shape: float) -> float:
        return -float(np.sum(stats.weibull_min.logpdf(values, shape, scale=1 / special.gamma(1 + 1 / shape))))

    shape, best = _least(minus_likelihood, low=0.1)
    return 2 + 2 * best, Weibull(shape=shape, scale=1 / float(special.gamma(1 + 1 / shape)))


def _lognormal(values: Floats) -> tuple[float, Law]:
    logs = np.log(values)

    def minus_likelihood(scv: float) -> float:
        variance = math.log1p(scv)
        return -float(np.sum(stats.norm.logpdf(logs, -variance / 2, math.sqrt(variance)) - logs))

    scv, best = _least(minus_likelihood)
    return 2 + 2 * best, LogNormal(mean=1.0, scv=scv)


def _hyper_erlang(values: Floats) -> tuple[float, Law]:
    centres, weights = _condensed(values)
    found = hyper_erlang(centres, weights=weights, order=3, branches=3, tolerance=1e-7)
    parameters = 2 * len(found.weights) - 2
    shares = np.array(found.weights) / math.fsum(found.weights)
    parts = [stats.gamma(k, scale=m / k) for k, m in zip(found.shapes, found.means, strict=True)]
    terms = np.stack([math.log(p) + part.logpdf(values) for p, part in zip(shares, parts, strict=True)])
    likelihood = float(np.sum(special.logsumexp(terms, axis=0)))
    law: Law
    if set(found.shapes) == {1}:
        law = Hyperexponential(probabilities=tuple(shares.tolist()), means=found.means)
    else:
        laws = tuple(Erlang(shape=k, mean=m) for k, m in zip(found.shapes, found.means, strict=True))
        law = laws[0] if len(laws) == 1 else Mixture(weights=tuple(shares.tolist()), laws=laws)
    return 2 * parameters - 2 * likelihood, law


def _condensed(values: Floats, *, groups: int = 400) -> tuple[Floats, Floats]:
    """Means of equal groups of the ordered values, and the groups' sizes: the same mean, and EM takes no longer for
    a longer log."""
    if values.size <= groups:
        return values, np.ones_like(values)
    parts = np.array_split(np.sort(values), groups)
    return np.array([part.mean() for part in parts]), np.array([float(part.size) for part in parts])


def _least(function: Callable[[float], float], *, low: float = 1e-3, high: float = 1e3) -> tuple[float, float]:
    """Where a function of one positive number is least, searched on a logarithmic scale."""
    bounds = (math.log(low), math.log(high))
    found = optimize.minimize_scalar(lambda x: function(math.exp(x)), bounds=bounds, method="bounded")
    return math.exp(float(found.x)), float(found.fun)


def _times(law: Law, *, scale: float) -> Law:
    """The law of `scale` times the variable."""
    match law:
        case Exponential():
            return Exponential(mean=scale * law.mean)
        case Gamma():
            return Gamma(shape=law.shape, scale=scale * law.scale)
        case Weibull():
            return Weibull(shape=law.shape, scale=scale * law.scale)
        case LogNormal():
            return LogNormal(mean=scale * law.mean, scv=law.scv)
        case Erlang():
            return Erlang(shape=law.shape, mean=scale * law.mean)
        case Hyperexponential():
            return Hyperexponential(probabilities=law.probabilities, means=tuple(scale * m for m in law.means))
        case Mixture():
            return Mixture(weights=law.weights, laws=tuple(_times(part, scale=scale) for part in law.laws))
    raise TypeError(law.kind())


def _kill_share(trace: Trace, model: Dispatcher) -> tuple[float, float]:
    times = trace.service[trace.group == 0]
    if times.size == 0:
        return 0.0, 0.0
    return float(np.mean(times > model.time_limit)), float(analytic.survival(model.service0, t=model.time_limit))


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
