"""Integrals over a density on [0, inf), with a checked error."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qtheory.models.errors import NotConverged

#: Largest relative error that an integral may leave.
TOLERANCE = 1e-8
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def integral(
    function: Callable[[float], float],
    *,
    low: float,
    high: float,
    cuts: NDArray[np.float64],
    where: str,
) -> float:
    """Integral of `function` over [low, high], 0 <= low < high <= inf.

    Works in y = log x, where power-law ends are exponential, piece by piece between the `cuts`.
    Raises `NotConverged` if the estimated error exceeds 1e-8 of the integral of the absolute pieces.
    """
    # Half of scipy's start-up time, and most laws have closed forms.
    from scipy.integrate import quad

    inner = np.unique(cuts[(cuts > low) & (cuts < high) & np.isfinite(cuts) & (cuts > 0.0)])
    if inner.size == 0:
        inner = np.array([math.sqrt(low * high) if low > 0 and math.isfinite(high) else max(low, 1.0)])
        inner = inner if low < inner[0] < high else np.array([low + (min(high, 2 * low + 1) - low) / 2])
    ends = [math.log(low) if low > 0 else -math.inf, *np.log(inner), math.log(high) if high < math.inf else math.inf]

    def transformed(y: float) -> float:
        x = math.exp(y) if y < 709.0 else math.inf
        value = function(x) * x if 0.0 < x < math.inf else 0.0
        return value if math.isfinite(value) else 0.0

    total, scale, error, evaluations = 0.0, 0.0, 0.0, 0
    pieces = list(pairwise(ends))
    # From the middle outwards, so that the ends need only be as accurate as the sum.
    for left, right in sorted(pieces, key=lambda piece: sum(not math.isfinite(end) for end in piece)):
        if not left < right:
            continue
        value, slip, info, *_ = quad(
            transformed, left, right, epsabs=1e-12 * scale, epsrel=1e-11, limit=200, full_output=1
        )
        total, scale, error = total + value, scale + abs(value), error + slip
        evaluations += int(info["neval"])
    if not error <= TOLERANCE * scale + 1e-300 or not math.isfinite(total):
        residual = error / scale if scale > 0 else math.inf
        advice = "use a law with closed forms, or a phase-type or empirical approximation of it"
        raise NotConverged(where=where, residual=residual, iterations=evaluations, advice=advice)
    return total


def gauss(*, left: NDArray[Any], right: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Points x and widths dy of Gauss-Legendre sums in y = log x, one row of 12 for each piece [left, right] of y."""
    half = np.asarray((right - left) / 2.0)[..., None]
    middle = np.asarray((right + left) / 2.0)[..., None]
    return np.exp(middle + half * _NODES), half * _WEIGHTS
