"""Quantiles from distribution functions: all levels at once, exact at jumps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qtheory.models.errors import NotConverged

FloatArray = NDArray[Any]
Function = Callable[[FloatArray], FloatArray]
_LARGEST = float(np.finfo(np.float64).max)
_SIZES = np.geomspace(1e-3, 1e3, 25)
_STEPS = 2200  # more than enough to walk through all doubles


def first_at_least(
    *,
    cdf: Function,
    survival: Function,
    levels: FloatArray,
    low: float,
    high: float,
    within: float = 4e-16,
    scale: float = 0.0,
) -> FloatArray:
    """The smallest t in [low, high] with cdf(t) >= level, to a relative `within` (the last bits).

    Levels from 1/2 on are compared on the survival function, which keeps its digits there.  Scipy's root
    finders of this kind take one level at a time or cost as much to load as all the rest of a small model.
    With a `scale` the search begins with one call over a grid of many sizes.  Raises `NotConverged` if the
    distribution function never reaches a level.
    """
    upper = levels >= 0.5

    def over(t: FloatArray) -> FloatArray:
        """cdf(t) - level: at least 0 where t is far enough."""
        if np.all(upper):
            return (1.0 - levels) - survival(t)
        if not np.any(upper):
            return cdf(t) - levels
        out = np.empty_like(levels)
        out[upper] = (1.0 - levels[upper]) - survival(t[upper])
        out[~upper] = cdf(t[~upper]) - levels[~upper]
        return out

    start = np.full_like(levels, low)
    at_low = over(start)
    if 0.0 < scale < math.inf:
        grid = low + scale * _SIZES
        grid = grid[grid < high]
        above = np.where(upper[:, None], survival(grid) > 1.0 - levels[:, None], cdf(grid) < levels[:, None])
        place = above.sum(axis=1)
        start = np.append(low, grid)[place]
        left, right = _bracket(over, start=start, first=np.append(grid, high)[place], high=high)
    else:
        left, right = _bracket(over, start=start, first=2.0 * start + 1.0, high=high)
    left, right = _narrowed(over, left=left, right=right)
    found = _chandrupatla(over, left=left, right=right, within=within)
    return np.where(at_low >= 0.0, low, found)


def _bracket(over: Function, *, start: FloatArray, first: FloatArray, high: float) -> tuple[FloatArray, FloatArray]:
    """Ends between which each level is reached; the upper one, `first` at first, doubles up to the largest value."""
    left = start
    right = np.where(np.isfinite(first), first, 2.0 * start + 1.0)
    value = over(right)
    for _ in range(_STEPS):
        missing = value < 0.0
        if not np.any(missing) or np.all(right[missing] >= min(high, _LARGEST)):
            break
        left = np.where(missing, right, left)
        right = np.where(missing, np.minimum(right * 2.0, min(high, _LARGEST)), right)
        value = over(right)
    if high == math.inf and np.any(value < 0.0):
        advice = "the distribution function stays below the level; check the parameters of the law"
        raise NotConverged(where="quantile", residual=float(-np.min(value)), iterations=_STEPS, advice=advice)
    return left, right


def _narrowed(over: Function, *, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bisection of exponents until the ends are within a factor of 4, so that any size is found soon."""
    for _ in range(_STEPS):
        wide = (right > 4.0 * left) & (right > 1e-300)
        if not np.any(wide):
            break
        middle = np.where(wide, np.sqrt(np.maximum(left, right * 1e-8) * right), right)
        there = over(middle) >= 0.0
        right = np.where(wide & there, middle, right)
        left = np.where(wide & ~there, middle, left)
    return left, right


def _chandrupatla(over: Function, *, left: FloatArray, right: FloatArray, within: float) -> FloatArray:
    """The upper end of a bracket of a few last bits: inverse quadratic steps where safe, else bisection.

    Chandrupatla (1997), A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function
    without using derivatives, Advances in Engineering Software 28.
    """
    x1, x2 = left, right
    f1, f2 = over(x1), over(x2)
    t = np.full_like(x1, 0.5)
    for turn in range(_STEPS):
        x = x1 + t * (x2 - x1)
        f = over(x)
        same = (f >= 0.0) == (f1 >= 0.0)
        x3, f3 = np.where(same, x1, x2), np.where(same, f1, f2)
        x2, f2 = np.where(same, x2, x1), np.where(same, f2, f1)
        x1, f1 = x, f
        width = np.abs(x2 - x1)
        least = within * np.maximum(np.abs(x1), 1e-300) / np.where(width > 0.0, width, 1.0)
        if np.all((width == 0.0) | (least >= 0.5)):
            break
        with np.errstate(all="ignore"):
            xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
            step = f1 / (f2 - f1) * f3 / (f2 - f3) + (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
            safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi) & np.isfinite(step)
        # Beside a jump the quadratic steps creep along one side: every fourth step halves the bracket.
        safe &= turn % 4 != 3
        bound = np.minimum(least, 0.5)
        t = np.clip(np.where(safe, step, 0.5), bound, 1.0 - bound)
    return np.where(f1 >= 0.0, np.where(f2 >= 0.0, np.minimum(x1, x2), x1), x2)


def snapped(found: FloatArray, *, levels: FloatArray, points: FloatArray, cdf: Function) -> FloatArray:
    """`found` with quantiles that stand within rounding of an atom put on it."""
    if points.size == 0:
        return found
    place = np.clip(np.searchsorted(points, found), 0, points.size - 1)
    before = points[np.maximum(place - 1, 0)]
    near = np.where(np.abs(found - before) < np.abs(found - points[place]), before, points[place])
    on_it = (np.abs(found - near) <= 1e-14 * np.abs(near)) & (cdf(near) >= levels * (1.0 - 1e-15))
    return np.where(on_it, near, found)
