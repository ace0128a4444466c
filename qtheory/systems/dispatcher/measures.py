"""The measures of a dispatcher from the waits of its two groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from qtheory.laws import Distribution, MixtureDistribution, Sum
from qtheory.measures import LEVELS, Key, Table, quantile_measure
from qtheory.solution import Value
from qtheory.systems.dispatcher.delay import Delay, both
from qtheory.systems.dispatcher.loads import Traffic

FloatArray = NDArray[np.float64]
_LEVELS = np.array(LEVELS)

#: Killed jobs that wait in Group 0 wait in Group 1 more often than others: P(wait at all) lies between what independent
#: waits would give and the larger of the two probabilities, on 74 simulated systems 16 % of the way at the median, and
#: within 20 +- 30 % in 19 cases of 20.
_TOGETHER, _TOGETHER_ERROR = 0.2, 0.3


@dataclass(frozen=True, kw_only=True)
class Stay:
    """What the jobs of one scope go through: a wait, then a time of known law that no queue changes.

    Attributes
    ----------
    rate : how many such jobs a unit of time brings.
    wait : mean wait, with its error.
    probability : P(wait > 0), with its error.
    law : law of the wait, or None where its mean is infinite.
    service : law of the rest of the response.
    mean_service : its mean.
    shape_error : see `Delay`.
    """

    rate: float
    wait: Value
    probability: Value
    law: Distribution | None
    service: Distribution
    mean_service: float
    shape_error: float

    @cached_property
    def response(self) -> Distribution | None:
        """Law of the response."""
        return None if self.law is None else Sum(wait=self.law, service=self.service)

    @property
    def mean_response(self) -> Value:
        """Mean wait plus mean service; the error is that of the wait."""
        return Value(value=self.wait.value + self.mean_service, error=self.wait.error, note=self.wait.note)


def table(
    traffic: Traffic,
    *,
    servers: tuple[int, int],
    delays: tuple[Delay | None, Delay | None],
    apart: Mapping[str, Delay] | None = None,
    correlation: float = 0.0,
    at: Sequence[float] = (),
    quantiles: bool = True,
) -> Table[Value]:
    """All measures that the waits give.  Scopes without jobs are left out; a group without jobs has no delay.

    Mean numbers by Little's law.  `correlation` is that of the two waits of a killed job.  `apart` holds the waits
    in Queue 1 of the classes ``killed`` and ``long`` where they are known apart; else both are that of any job there.
    Without `quantiles` those, which take most of the time, are left out.
    """
    stays = _stays(traffic, delays, apart or {}, correlation)
    rows = [
        *_means(stays),
        *_tails(stays, at=at),
        *_numbers(stays),
        *_flows(traffic, servers=servers, stays=stays),
        *(_quantiles(stays) if quantiles else ()),
    ]
    return Table(rows)


def _stays(
    traffic: Traffic, delays: tuple[Delay | None, Delay | None], apart: Mapping[str, Delay], correlation: float
) -> dict[str, Stay]:
    first, second = delays
    stays: dict[str, Stay] = {}
    if first is not None and traffic.short_rate > 0.0:
        stays["short"] = _stay(first, rate=traffic.short_rate, service=traffic.completed)
    if second is not None and traffic.long_rate > 0.0:
        stays["long"] = _stay(apart.get("long", second), rate=traffic.long_rate, service=traffic.service1)
    if first is not None and second is not None and traffic.killed_rate > 0.0:
        stays["killed"] = _killed(first, apart.get("killed", second), traffic, correlation)
    stays = {"all": _mixed(list(stays.values()))} | stays
    for group, delay in enumerate(delays):
        if delay is not None:
            rate = traffic.rates[group]
            stays[f"group{group}"] = _stay(delay, rate=rate, service=traffic.occupations[group])
    return stays


def _stay(delay: Delay, *, rate: float, service: Distribution) -> Stay:
    return Stay(
        rate=rate,
        wait=Value(value=delay.mean, error=delay.error, note=delay.note),
        probability=Value(value=delay.probability, error=delay.probability_error),
        law=delay.law if math.isfinite(delay.mean) else None,
        service=service,
        mean_service=service.mean,
        shape_error=delay.shape_error,
    )


def _killed(first: Delay, second: Delay, traffic: Traffic, correlation: float) -> Stay:
    independent = 1.0 - (1.0 - first.probability) * (1.0 - second.probability)
    # Not the difference of the two, which is round-off where a probability is tiny.
    low, high = sorted((first.probability, second.probability))
    together = low * (1.0 - high)
    probability_error = first.probability_error * (1.0 - second.probability)
    probability_error += second.probability_error * (1.0 - first.probability)
    finite = math.isfinite(first.mean + second.mean)
    return Stay(
        rate=traffic.killed_rate,
        wait=Value(value=first.mean + second.mean, error=first.error + second.error, note=first.note or second.note),
        probability=Value(
            value=independent - _TOGETHER * together,
            error=math.hypot(probability_error, _TOGETHER_ERROR * together),
        ),
        law=both(first, second, correlation=correlation, together=_TOGETHER * together) if finite else None,
        service=traffic.killed_service,
        mean_service=traffic.aborted.mean + traffic.killed.mean,
        shape_error=math.hypot(first.shape_error, second.shape_error),
    )


def _mixed(parts: list[Stay]) -> Stay:
    """All jobs: a class at random."""
    rate = sum(part.rate for part in parts)
    shares = [part.rate / rate for part in parts]

    def average(values: list[float]) -> float:
        return math.fsum(share * value for share, value in zip(shares, values, strict=True))

    laws = [part.law for part in parts if part.law is not None]
    service = MixtureDistribution(weights=shares, components=[part.service for part in parts])
    whole = len(laws) == len(parts)
    return _Mixed(
        rate=rate,
        wait=Value(
            value=average([part.wait.value for part in parts]),
            error=average([part.wait.error for part in parts]),
            note=next((part.wait.note for part in parts if part.wait.note), ""),
        ),
        probability=Value(
            value=average([part.probability.value for part in parts]),
            error=average([part.probability.error for part in parts]),
        ),
        law=MixtureDistribution(weights=shares, components=laws) if whole else None,
        service=service,
        mean_service=average([part.mean_service for part in parts]),
        shape_error=max(part.shape_error for part in parts),
        parts=tuple(parts),
    )


@dataclass(frozen=True, kw_only=True)
class _Mixed(Stay):
    """Wait and service depend on each other through the class."""

    parts: tuple[Stay, ...]

    @cached_property
    def response(self) -> Distribution | None:
        laws = [part.response for part in self.parts]
        known = [law for law in laws if law is not None]
        if len(known) < len(laws):
            return None
        return MixtureDistribution(weights=[part.rate for part in self.parts], components=known)


_CLASSES = ("all", "short", "long", "killed")


def _means(stays: dict[str, Stay]) -> Iterator[tuple[Key, Value]]:
    for scope, stay in stays.items():
        if scope in _CLASSES:
            yield ("mean_response", scope), stay.mean_response
    for scope, stay in stays.items():
        yield ("mean_wait", scope), stay.wait
    for scope, stay in stays.items():
        yield ("wait_probability", scope), stay.probability


def _numbers(stays: dict[str, Stay]) -> Iterator[tuple[Key, Value]]:
    """Little's law, scope by scope."""
    for name, of in (("mean_number", "mean_response"), ("mean_queue", "wait")):
        for scope, stay in stays.items():
            mean: Value = getattr(stay, of)
            yield (name, scope), Value(value=stay.rate * mean.value, error=stay.rate * mean.error, note=mean.note)


def _flows(traffic: Traffic, *, servers: tuple[int, int], stays: dict[str, Stay]) -> Iterator[tuple[Key, Value]]:
    offered = traffic.offered
    yield ("utilisation", "all"), Value(value=sum(offered) / sum(servers))
    for group in (0, 1):
        yield ("utilisation", f"group{group}"), Value(value=offered[group] / servers[group])
    for scope, stay in stays.items():
        yield ("throughput", scope), Value(value=stay.rate)
    if traffic.rates[0] > 0.0:
        yield ("kill_probability", "group0"), Value(value=traffic.kill_probability)
    yield ("kill_probability", "all"), Value(value=traffic.killed_rate / traffic.rate)


def _quantiles(stays: dict[str, Stay]) -> Iterator[tuple[Key, Value]]:
    rows: dict[Key, Value] = {}
    known: dict[int, tuple[FloatArray, FloatArray]] = {}  # a group and its class share a law
    for scope, stay in stays.items():
        if stay.law is None or stay.response is None:
            continue
        if id(stay.law) not in known:
            known[id(stay.law)] = _wait_quantiles(stay.law, stay.probability)
        wait, slips = known[id(stay.law)]
        if scope in _CLASSES:
            response, service = np.asarray(stay.response.quantile(_LEVELS)), np.asarray(stay.service.quantile(_LEVELS))
            for level, value, bare in zip(LEVELS, response, service, strict=True):
                rows[quantile_measure(level), scope] = Value(
                    value=float(value),
                    error=_response_quantile_error(stay, float(value), part=max(float(value - bare), 0.0)),
                )
        for level, value, slip in zip(LEVELS, wait, slips, strict=True):
            error = _wait_quantile_error(stay, float(value), level=level, slip=float(slip))
            rows[quantile_measure(level, kind="wait"), scope] = Value(value=float(value), error=error)
    for kind in ("response", "wait"):
        for level in LEVELS:
            name = quantile_measure(level, kind=kind)
            yield from ((key, value) for key, value in rows.items() if key[0] == name)


def _wait_quantiles(law: Distribution, probability: Value) -> tuple[FloatArray, FloatArray]:
    """The quantiles of a wait, and how far they move where P(W > 0) is off by its error.

    With p for P(W > 0), P(W > t) = p P(W > t | W > 0) moves by a share error / p of itself.
    """
    share = probability.error / probability.value if probability.value > 0.0 else 0.0
    if share == 0.0:
        return np.asarray(law.quantile(_LEVELS)), np.zeros(_LEVELS.size)
    shift = share * (1.0 - _LEVELS)
    around = np.clip(np.concatenate([_LEVELS, _LEVELS - shift, _LEVELS + shift]), 0.0, 1.0 - 1e-9)
    middle, below, above = np.split(np.asarray(law.quantile(around)), 3)
    return middle, np.maximum(middle - below, above - middle)


def _wait_quantile_error(stay: Stay, value: float, *, level: float, slip: float) -> float:
    """A quantile of the wait moves with the mean wait, with P(W > 0) and with the shape of the law."""
    probability = stay.probability
    if value == 0.0 and probability.value + probability.error <= 1.0 - level:
        return 0.0
    return (_relative(stay) + stay.shape_error + _numerical(stay)) * value + slip


def _response_quantile_error(stay: Stay, value: float, *, part: float) -> float:
    """Only the part of the quantile that the wait adds to the service is uncertain."""
    uncertain = max(part, 0.35 * stay.wait.value)
    return (_relative(stay) + stay.shape_error) * uncertain + _numerical(stay) * value


def _relative(stay: Stay) -> float:
    return stay.wait.error / stay.wait.value if stay.wait.value > 0.0 else 0.0


def _numerical(stay: Stay) -> float:
    """Relative error of the quadrature in the convolution."""
    return 1e-9 if stay.wait.error == stay.shape_error == 0.0 else 1e-6


def _tails(stays: dict[str, Stay], *, at: Sequence[float]) -> Iterator[tuple[Key, Value]]:
    """P(response > at), the error by moving the time as far as a quantile there may be off."""
    for time in at:
        for scope, stay in stays.items():
            if scope not in _CLASSES or stay.response is None:
                continue
            value = float(stay.response.survival(time))
            bare = float(stay.service.quantile(min(max(1.0 - value, 0.0), 1.0)))
            part = max(time - bare, 0.0) if math.isfinite(bare) else time
            slip = _response_quantile_error(stay, time, part=part)
            around = [float(stay.response.survival(moved)) for moved in (max(time - slip, 0.0), time + slip)]
            error = max(abs(value - other) for other in around) + 1e-9
            yield ("tail_response", scope, time), Value(value=value, error=min(error, 1.0))
