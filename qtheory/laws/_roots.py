"""Quantiles from distribution functions: bisection over whole arrays, exact at jumps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from qtheory.models.errors import NotConverged

FloatArray = NDArray[np.float64]
Function = Callable[[FloatArray], FloatArray]
_LARGEST = float(np.finfo(np.float64).max)
_STEPS = 2200  # enough to walk through all doubles


def first_at_least(*, cdf: Function, survival: Function, levels: FloatArray, low: float, high: float) -> FloatArray:
    """The smallest t in [low, high] with cdf(t) >= level, to the last bits.

    The upper half of the levels is compared on the survival function, which keeps its digits there.  Bisection,
    because it needs nothing but monotony and takes all levels at once.  Raises `NotConverged` if the
    distribution function never reaches a level.
    """

    def reached(t: FloatArray) -> NDArray[np.bool_]:
        return np.where(levels <= 0.5, cdf(t) >= levels, survival(t) <= 1.0 - levels)

    left = np.full_like(levels, low)
    at_low = reached(left)
    right = np.full_like(levels, high if high < math.inf else 2.0 * low + 1.0)
    for _ in range(_STEPS):
        missing = ~reached(right)
        if high < math.inf or not np.any(missing):
            break
        left = np.where(missing, right, left)
        right = np.where(missing, np.minimum(right * 2.0, _LARGEST), right)
    if high == math.inf and np.any(missing):
        where = "quantile"
        raise NotConverged(where=where, residual=float(np.max(1.0 - cdf(right))), iterations=_STEPS)
    for _ in range(_STEPS):
        # Halving the exponents first finds a quantile of any size in as many steps as bits.
        wide = right > 4.0 * left
        middle = np.where(wide, np.sqrt(np.maximum(left, right * 1e-12) * right), left + (right - left) / 2.0)
        below_all = (left == 0.0) & (right < 1e-300)
        done = (middle <= left) | (middle >= right) | below_all | (right - left <= 2e-16 * right)
        if np.all(done):
            break
        there = reached(middle)
        right = np.where(there & ~done, middle, right)
        left = np.where(~there & ~done, middle, left)
    return np.where(at_low, low, right)


def snapped(found: FloatArray, *, levels: FloatArray, points: FloatArray, cdf: Function) -> FloatArray:
    """`found` with quantiles that stand within rounding of an atom put on it."""
    if points.size == 0:
        return found
    index = (
        np.clip(np.searchsorted(points, found), 1, points.size - 1) if points.size > 1 else np.zeros_like(found, int)
    )
    near = points[index]
    if points.size > 1:
        before = points[index - 1]
        near = np.where(np.abs(found - before) < np.abs(found - near), before, near)
    on_it = (np.abs(found - near) <= 1e-14 * np.abs(near)) & (cdf(near) >= levels * (1 - 1e-15))
    return np.where(on_it, near, found)
