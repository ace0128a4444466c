"""Poisson probabilities of real order, to full relative accuracy: the one ingredient of Erlang and Crommelin.

Everywhere `gap` = order - mean is an argument of its own: near saturation it is known to more digits than the
difference of two large rounded numbers would have.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from qtheory._lazy import special
from qtheory.queues._values import FloatArray

_SMALL_ORDER = 16.0
_LARGE_ORDER = 1e6
_LEVELS = 40
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
_FACTORIALS = np.array([float(math.factorial(n)) for n in range(int(_SMALL_ORDER))])
_TEMME_0 = (-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835)
_TEMME_1 = (-1 / 540, -1 / 288, 1 / 378)


def pmf(*, order: FloatArray, mean: FloatArray, gap: FloatArray) -> FloatArray:
    """mean^k e^-mean / Gamma(k + 1) at real k = `order` > 0, `mean` >= 0, of one shape.

    The saddle-point form exp(-k D(mean / k) - s(k)) / sqrt(2 pi k), with D the relative entropy and s what
    Stirling's formula leaves out, loses no digits at large k where k log(mean) - mean - log k! would lose
    log10 k of them; small orders are multiplied out. Underflows to 0 below about 1e-308.

    Loader (2000), Fast and accurate computation of binomial probabilities.
    """
    small = (order < _SMALL_ORDER) & (mean < 600.0)
    if not np.any(small):
        return _saddle_point(order=order, mean=mean, gap=gap)
    if np.all(small):
        return _product(order=order, mean=mean)
    out = np.empty_like(order)
    large = ~small
    out[small] = _product(order=order[small], mean=mean[small])
    out[large] = _saddle_point(order=order[large], mean=mean[large], gap=gap[large])
    return out


def is_deep(*, order: FloatArray, gap: FloatArray) -> NDArray[np.bool_]:
    """Whether the order lies so far above the mean that the continued fraction is the way to the tail."""
    return (gap >= 0.25 * order) | (gap >= 3.3 * np.sqrt(order))


def tail_rest(*, mean: FloatArray, gap: FloatArray) -> FloatArray:
    """R in P(N > k) / P(N = k) = m / (k + 1 - m + R): m / (k + 2 - m + 2 m / (k + 3 - m + ...)), all positive.

    Noerlund's continued fraction, cut after 40 levels: settled to 1e-15 where `is_deep`. There the usual series
    of the incomplete gamma function needs thousands of terms at large k, and scipy's stops after 2000 of them.

    Gautschi (1979), A computational procedure for incomplete gamma functions, sec. 4.
    """
    first = gap + 1.0
    rest = np.zeros_like(first)
    for n in range(_LEVELS, 0, -1):
        rest += first + n
        np.divide(n * mean, rest, out=rest)
    return rest


def shallow_tail(*, order: FloatArray, mean: FloatArray, gap: FloatArray) -> FloatArray:
    """P(N > k), the regularised incomplete gamma function P(k + 1, mean), where not `is_deep`.

    From order 1e6 on Temme's uniform expansion, whose only large argument is the gap in standard deviations.

    Temme (1979), The asymptotic expansion of the incomplete gamma functions, eq. 1.3 and 3.10.
    """
    large = order > _LARGE_ORDER
    if not np.any(large):
        return np.asarray(special.gammainc(order + 1.0, mean))
    out = np.empty_like(order)
    out[~large] = special.gammainc(order[~large] + 1.0, mean[~large])
    shape = order[large] + 1.0
    x = -(gap[large] + 1.0) / shape
    zeta_square = 2.0 * entropy(order=np.ones_like(x), mean=1.0 + x, gap=-x)
    zeta = np.sign(x) * np.sqrt(zeta_square)
    correction = np.polynomial.polynomial.polyval(zeta, _TEMME_0)
    correction += np.polynomial.polynomial.polyval(zeta, _TEMME_1) / shape
    density = np.exp(-0.5 * shape * zeta_square) / np.sqrt(2.0 * np.pi * shape)
    out[large] = special.ndtr(zeta * np.sqrt(shape)) - density * correction
    return out


def _product(*, order: FloatArray, mean: FloatArray) -> FloatArray:
    whole = order.astype(np.int64)
    factorial = _FACTORIALS[whole] if np.all(whole == order) else special.gamma(order + 1.0)
    return np.asarray(mean**order * np.exp(-mean) / factorial)


def _saddle_point(*, order: FloatArray, mean: FloatArray, gap: FloatArray) -> FloatArray:
    exponent = -entropy(order=order, mean=mean, gap=gap) - _stirling_rest(order)
    return np.exp(exponent) / np.sqrt(2.0 * np.pi * order)


def entropy(*, order: FloatArray, mean: FloatArray, gap: FloatArray) -> FloatArray:
    """k log(k / mean) - gap, which is k (x - log(1 + x)) with x = -gap / k."""
    with np.errstate(over="ignore", divide="ignore"):
        out = order * np.log(order / mean) - gap
    x = -gap / order
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
