"""start e^(Tt) for many times at once, and the times at which start e^(Tt) e reaches given levels.

A time is written in binary, so that about log2(|T| t) matrix products serve any number of times; the digits
below the last of them are a Taylor series. T may be a sub-generator, a generator or a matrix-exponential's
signed matrix. Products of probabilities lose no digits; the slow rate of a stiff matrix loses about
1e-16 |T| t relative accuracy.
"""

from __future__ import annotations

import numpy as np

from qtheory.models.errors import NotConverged
from qtheory.queues.linear import Array

_TERMS = 16
_DOUBLINGS = 200


def propagate(*, start: Array, generator: Array, times: Array) -> Array:
    """The row vectors start e^(T t), one row for each of the `times` >= 0.

    >>> propagate(start=np.ones(1), generator=-np.eye(1), times=np.array([0.0, 1.0])).round(6).tolist()
    [[1.0], [0.367879]]
    """
    times = np.asarray(times, dtype=np.float64)
    rows = np.tile(np.asarray(start, dtype=np.float64), (len(times), 1))
    if not len(times):
        return rows
    step = _step(generator)
    steps = np.floor(times / step)
    rest = times - steps * step
    power = _exponential(generator * step)
    digit = 0
    top = float(steps.max())
    while 2.0**digit <= top:
        if digit:
            power = power @ power
        odd = np.floor(steps / 2.0**digit) % 2 == 1
        if odd.any():
            rows[odd] = rows[odd] @ power
        digit += 1
        if digit > _DOUBLINGS or not power.any():
            rows[steps >= 2.0**digit] = 0.0
            break
    return _taylor(rows, generator, rest)


def crossing_times(*, start: Array, generator: Array, levels: Array) -> Array:
    """The times t at which start e^(Tt) e falls to each of the `levels`, where 0 < level <= start e.

    The function must decrease to 0, as the survival function of a law does. Raises `NotConverged` if it does
    not get there.
    """
    levels = np.asarray(levels, dtype=np.float64)
    if not len(levels):
        return np.zeros(0)
    step = _step(generator)
    powers = [_exponential(generator * step)]
    ones = np.ones(len(start))
    while float(start @ powers[-1] @ ones) > float(levels.min()):
        if len(powers) > _DOUBLINGS:
            raise NotConverged(
                where="quantile",
                residual=float(start @ powers[-1] @ ones),
                iterations=_DOUBLINGS,
                advice="the survival function does not fall to 0",
            )
        powers.append(powers[-1] @ powers[-1])
    rows = np.tile(np.asarray(start, dtype=np.float64), (len(levels), 1))
    steps = np.zeros(len(levels))
    for digit in range(len(powers) - 1, -1, -1):
        ahead = rows @ powers[digit]
        passed = ahead.sum(axis=1) > levels
        rows[passed] = ahead[passed]
        steps[passed] += 2.0**digit
    return (steps + _fraction(rows, generator * step, levels)) * step


def _fraction(rows: Array, generator: Array, levels: Array) -> Array:
    """The x in [0, 1] with row e^(T x) e = level, by bisection on the Taylor polynomial."""
    coefficients = [rows.sum(axis=1)]
    for k in range(1, _TERMS + 1):
        rows = rows @ generator / k
        coefficients.append(rows.sum(axis=1))
    low, high = np.zeros(len(levels)), np.ones(len(levels))
    for _ in range(54):
        middle = (low + high) / 2
        value = np.zeros(len(levels))
        for coefficient in reversed(coefficients):
            value = value * middle + coefficient
        above = value > levels
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return (low + high) / 2


def _step(generator: Array) -> float:
    """A power of two, so that times divide by it exactly, with |T| step <= 1/2."""
    norm = float(np.abs(generator).sum(axis=1).max())
    return float(2.0 ** -np.ceil(np.log2(2.0 * norm))) if norm > 0.0 else 1.0


def _exponential(small: Array) -> Array:
    return _taylor(np.eye(len(small)), small, np.ones(len(small)))


def _taylor(rows: Array, generator: Array, times: Array) -> Array:
    total = term = rows
    for k in range(1, _TERMS + 1):
        term = (term @ generator) * (times / k)[:, None]
        total = total + term
    return total
