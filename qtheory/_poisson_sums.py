"""Incomplete gamma functions of whole order, as sums of Poisson probabilities: no special function to load."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Orders at which the sums are short enough to be worth it.
SHORT = range(1, 13)


def below(count: int, mean: Array) -> Array:
    """P(N < count) = Q(count, mean), N Poisson and count >= 1: positive terms only."""
    term = np.exp(-mean)
    total = term.copy()
    for k in range(1, count):
        term = term * mean / k
        total += term
    return total


def at_least(count: int, mean: Array) -> Array:
    """P(N >= count) = P(count, mean), N Poisson and count >= 1, to full relative accuracy.

    The series from `count` on where it falls from its first term, else the complement, which is below 2/3.
    """
    short = mean < count + 1.0
    x = np.where(short, mean, 0.0)
    term = np.exp(-x) * x**count / math.factorial(count)
    total = term.copy()
    k = count
    while np.any(term > 1e-17 * total):
        k += 1
        term = term * x / k
        total += term
    return total if np.all(short) else np.where(short, total, 1.0 - below(count, mean))
