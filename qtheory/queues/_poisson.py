"""Poisson probabilities of real order, to full relative accuracy: the one ingredient of Erlang and Crommelin."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from qtheory.queues._values import FloatArray

_SMALL_ORDER = 16.0
_LEVELS = 40
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


def pmf(*, order: FloatArray, mean: FloatArray) -> FloatArray:
    """mean^k e^-mean / Gamma(k + 1) at real k = `order` > 0, `mean` > 0, of one shape.

    The saddle-point form exp(-k D(mean / k) - s(k)) / sqrt(2 pi k), with D the relative entropy and s what
    Stirling's formula leaves out, loses no digits at large k where k log(mean) - mean - log k! would lose
    log10 k of them; small orders are multiplied out. Underflows to 0 below about 1e-308.

    Loader, C. (2000). Fast and accurate computation of binomial probabilities.
    """
    small = (order < _SMALL_ORDER) & (mean < 600.0)
    if not np.any(small):
        return _saddle_point(order=order, mean=mean)
    if np.all(small):
        return _product(order=order, mean=mean)
    out = np.empty_like(order)
    out[small] = _product(order=order[small], mean=mean[small])
    out[~small] = _saddle_point(order=order[~small], mean=mean[~small])
    return out


def tail_ratio(*, order: FloatArray, mean: FloatArray) -> FloatArray:
    """P(N > k) / P(N = k) of a Poisson N at real k = `order`, where `is_deep` says so.

    There the usual series of the incomplete gamma function needs thousands of terms at large k, and scipy's
    stops after 2000 of them.
    """
    return mean / (order + 1.0 - mean + tail_rest(order=order, mean=mean))


def tail_rest(*, order: FloatArray, mean: FloatArray) -> FloatArray:
    """R in P(N > k) / P(N = k) = m / (k + 1 - m + R): m / (k + 2 - m + 2 m / (k + 3 - m + ...)), all positive.

    Noerlund's continued fraction, cut after 40 levels: settled to 1e-15 where `is_deep`.
    Gautschi (1979), A computational procedure for incomplete gamma functions, sec. 4.
    """
    gap = order + 1.0 - mean
    rest = np.zeros_like(gap)
    for n in range(_LEVELS, 0, -1):
        rest += gap + n
        np.divide(n * mean, rest, out=rest)
    return rest


def is_deep(*, order: FloatArray, mean: FloatArray) -> NDArray[np.bool_]:
    """Whether the order lies so far above the mean that the continued fraction is the way to the tail."""
    return (mean <= 0.75 * order) | (order - mean >= 3.3 * np.sqrt(order))


def _product(*, order: FloatArray, mean: FloatArray) -> FloatArray:
    return mean**order * np.exp(-mean) / special.gamma(order + 1.0)


def _saddle_point(*, order: FloatArray, mean: FloatArray) -> FloatArray:
    exponent = -_entropy(order=order, mean=mean) - _stirling_rest(order)
    return np.exp(exponent) / np.sqrt(2.0 * np.pi * order)


def _entropy(*, order: FloatArray, mean: FloatArray) -> FloatArray:
    """k log(k / mean) + mean - k, which is k (x - log(1 + x)) with x = (mean - k) / k."""
    excess = mean - order
    with np.errstate(over="ignore"):
        out = order * np.log(order / mean) + excess
    x = excess / order
    near = np.abs(x) < 0.3
    if np.any(near):
        # log(1 + x) = 2 artanh(v): the leading x cancels by algebra instead of by subtraction.
        k, v = order[near], x[near] / (2.0 + x[near])
        square = v * v
        series = np.full_like(v, 1.0 / 23.0)
        for odd in range(21, 1, -2):
            series *= square
            series += 1.0 / odd
        out[near] = k * v * (x[near] - 2.0 * square * series)
    return out


def _stirling_rest(k: FloatArray) -> FloatArray:
    """log Gamma(k + 1) - (k + 1/2) log k + k - log(2 pi) / 2."""
    inverse = 1.0 / k
    square = inverse * inverse
    out = np.full_like(k, _STIRLING[-1])
    for coefficient in _STIRLING[-2::-1]:
        out *= square
        out += coefficient
    out *= inverse
    small = k < _SMALL_ORDER
    if np.any(small):
        n = k[small]
        out[small] = special.gammaln(n + 1.0) - (n + 0.5) * np.log(n) + n - _HALF_LOG_2PI
    return out
