"""Distributions of the M/D/c queue: number waiting and waiting time, exact, with quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from qtheory._lazy import special
from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues import _poisson
from qtheory.queues._inversion import survival_quantile
from qtheory.queues._values import FloatArray, Values, levels, nonnegative, positive, shaped
from qtheory.queues.deterministic import arguments

# Arguments throughout: arrival_rate lambda > 0, service_time D > 0, servers c whole, one queue at a time (numbers);
# at >= 0 a time, level in [0, 1), numbers or arrays. Every function raises `Unstable` if lambda D >= c,
# `InvalidModel` for an argument out of range, and `NotConverged` for loads per server above about 1 - 1e-5, whose
# queue lengths would need more than 2^23 points: use an exponential of the exact mean there.
# Relative error below 1e-9 for probabilities down to 1e-12.

_LARGEST = 1 << 23
_ALIAS = 39.0  # e^-39: what folds back onto itself in a Fourier series of the length chosen
_DEPTH = 35.0  # e^-35: what is left of P(Q > m) where the distribution is cut
_SMALLEST = 1e-12
_NEWTON_STEPS = 80  # at most a dozen are taken
_LARGEST_SUM = 600.0  # arrivals in a service time up to which e^-a is no underflow


def queue_distribution(*, arrival_rate: float, service_time: float, servers: int) -> FloatArray:
    """P(Q = m), m = 0, 1, ..., of the number waiting at an arbitrary instant, until what is left is below 1e-15.

    Seen every D, the number waiting is the random walk (Q + N - c)^+ with N Poisson of mean a = lambda D. By
    Spitzer's identity its generating function is exp(sum_(m>=1) b_m (z^m - 1)), b_m the coefficient of z^m in
    -log(1 - e^(a (z - 1)) z^-c) on the circle |z| = c / a; both steps are Fourier transforms.

    Spitzer (1956), A combinatorial lemma and its application to probability theory; Abate, Choudhury and Whitt
    (1993), Calculation of the GI/G/1 waiting-time distribution and its cumulants from Pollaczek's formulas.

    >>> q = queue_distribution(arrival_rate=0.8, service_time=1.0, servers=1)
    >>> round(float(q @ range(len(q))), 12)  # lambda E[W] = rho^2 / (2 (1 - rho))
    1.6
    """
    return _law(arrival_rate, service_time, servers).queue.copy()


def wait_probability(*, arrival_rate: float, service_time: float, servers: int) -> float:
    """P(W > 0), the probability that an arrival finds all c servers busy.

    >>> round(wait_probability(arrival_rate=0.8, service_time=1.0, servers=1), 12)
    0.8
    """
    law = _law(arrival_rate, service_time, servers)
    return float(_survival(np.zeros(1), law=law)[0])


def wait_survival(*, at: Values | float, arrival_rate: float, service_time: float, servers: int) -> Values:
    """P(W > t).

    With k whole and (k - 1) D <= t < k D, an arrival waits longer than t if and only if Q + N' >= k c, N' the
    Poisson arrivals of a time k D - t: a sum of positive terms, where Crommelin's alternate.

    Franx (2001), A simple solution for the M/D/c waiting time distribution, eq. 3.
    """
    (time,) = nonnegative(at=at)
    law = _law(arrival_rate, service_time, servers)
    return shaped(_survival(np.atleast_1d(time), law=law).reshape(time.shape), at)


def wait_quantile(*, level: Values | float, arrival_rate: float, service_time: float, servers: int) -> Values:
    """Smallest t with P(W <= t) >= level, for levels to 1 - 1e-12."""
    share = levels(level)
    if np.any(share > 1.0 - _SMALLEST):
        raise InvalidModel(field="level", rule=f"must be at most 1 - {_SMALLEST:g}", value=float(share.max()))
    law = _law(arrival_rate, service_time, servers)

    def survival(time: FloatArray) -> FloatArray:
        return _survival(time.ravel(), law=law).reshape(time.shape)

    start = np.asarray(law.service_time / law.servers)
    quantile = survival_quantile(survival, level=share, start=start, where="M/D/c wait quantile")
    return shaped(quantile, level)


@dataclass(frozen=True, slots=True)
class _Law:
    service_time: float
    load: float
    servers: int
    tilt: float  # the root above 1 of load (z - 1) = servers log z: P(Q >= m) falls like tilt^-m
    queue: FloatArray
    at_least: FloatArray  # P(Q >= m), m = 0, 1, ..., one longer than `queue`


@lru_cache(maxsize=16)
def _law(arrival_rate: float, service_time: float, servers: int) -> _Law:
    positive(arrival_rate=arrival_rate)
    _, time, load, count, spare = (np.atleast_1d(x) for x in arguments(arrival_rate, service_time, servers))
    share = float(load[0] / count[0])
    tilt = _tilt(share) if share < 1.0 - 1e-6 else 1.0
    slowest = max(min(-np.log(share), np.log(tilt) + np.log(share)), 1e-300)
    length = 2.0 * _ALIAS / slowest + 20.0 * np.sqrt(count[0]) + 64.0
    if length > _LARGEST:
        raise NotConverged(
            where="M/D/c queue length",
            residual=float(np.exp(-0.5 * slowest * _LARGEST)),
            iterations=_LARGEST,
            advice="the load is so near 1 that the wait given a wait is exponential to within 1 - load: use that",
        )
    queue = _transform(load=load, servers=count, spare=spare, points=1 << (int(length) - 1).bit_length())
    queue = queue[: int(np.ceil(_DEPTH / np.log(tilt) + 8.0 * np.sqrt(count[0]))) + 2]
    rest = queue[-1] / (tilt - 1.0)
    at_least = np.append(np.cumsum(queue[::-1])[::-1], 0.0) + rest
    return _Law(float(time[0]), float(load[0]), int(count[0]), tilt, queue, at_least)


def _tilt(share: float) -> float:
    """The root above 1 of share (z - 1) = log z, by Newton's method from above, where it falls to the root."""
    beyond = 4.0 / share * math.log(2.0 / share)
    for _ in range(_NEWTON_STEPS):
        step = (share * beyond - math.log1p(beyond)) / (share - 1.0 / (1.0 + beyond))
        beyond -= step
        if step <= 1e-14 * beyond:
            break
    return 1.0 + beyond


def _transform(*, load: FloatArray, servers: FloatArray, spare: FloatArray, points: int) -> FloatArray:
    """P(Q = m) for m below half the number of points on the circle |z| = c / a, where e^(a (z - 1)) z^-c is least.

    On it the logarithm of that step transform is c (e^(i x) - 1 - i x) - D, D the relative entropy of c and a.
    """
    angle = 2.0 * np.pi * np.arange(points // 2 + 1) / points
    decay = _poisson.entropy(order=servers, mean=load, gap=spare)[0]
    real = -2.0 * servers * np.sin(0.5 * angle) ** 2 - decay
    steps = -np.log(-np.expm1(real + 1j * servers * (np.sin(angle) - angle)))
    weights = np.fft.irfft(np.conj(steps), n=points)
    weights[0] = 0.0
    weights[points // 2 :] = 0.0
    with np.errstate(under="ignore"):
        shrink = np.exp(-np.log(servers / load) * np.arange(points // 2))
    empty = np.exp(-np.sum(weights[: points // 2] * shrink))
    waiting = np.fft.irfft(np.conj(np.expm1(np.conj(np.fft.rfft(weights)))), n=points)[: points // 2]
    queue: FloatArray = np.maximum(empty * waiting * shrink, 0.0)
    queue[0] = empty
    return queue


def _survival(time: FloatArray, *, law: _Law) -> FloatArray:
    step = np.floor(time / law.service_time)
    arrivals = law.load * (step + 1.0 - time / law.service_time)
    reach = law.load * law.tilt
    short = np.arange(1, int(reach + 12.0 * np.sqrt(reach)) + 60)
    full = (step.astype(np.int64) + 1) * law.servers
    index = full[:, None] - short
    inside = (index >= 0) & (index < law.queue.size)
    queue = np.where(inside, law.queue[np.where(inside, index, 0)], 0.0)
    beyond = law.at_least[np.minimum(full, law.queue.size)]
    reached: FloatArray = np.sum(queue * _at_least(short, arrivals[:, None]), axis=1)
    return np.asarray(beyond + reached)


def _at_least(counts: NDArray[np.int64], mean: FloatArray) -> FloatArray:
    """P(N >= k) for k = 1, 2, ..., N Poisson; the last k lies so far out that nothing counts beyond twice it."""
    if float(mean.max()) > _LARGEST_SUM:
        return np.asarray(special.gammainc(counts, mean))
    further = np.arange(1, 2 * counts.size + 1)
    chances = np.exp(-mean) * np.cumprod(mean / further, axis=1)
    tails: FloatArray = np.cumsum(chances[:, ::-1], axis=1)[:, ::-1]
    return tails[:, : counts.size]
