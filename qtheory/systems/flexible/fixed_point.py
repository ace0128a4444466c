"""Partial power of d choices for infinitely many queues: the mean-field fixed point.

With s_k the fraction of queues that hold at least k jobs, service rate 1 and arrival rate rho per queue,

    s_0 = 1,    s_k = rho [(1 - p) s_(k-1) + p s_(k-1)^d].

A dedicated job finds at least k jobs with probability s_k, a flexible one with s_k^d, hence the mean responses
ET_ded = sum_(k>=0) s_k, ET_flex = sum_(k>=0) s_k^d and ET = (1 - p) ET_ded + p ET_flex = sum_(k>=1) s_k / rho.
p = 1 is the power of d choices of Mitzenmacher (2001), IEEE Trans. Parallel Distrib. Syst. 12, 1094-1104, and
Vvedenskaya, Dobrushin and Karpelevich (1996), Probl. Inf. Transm. 32, 15-27: s_k = rho^((d^k - 1) / (d - 1)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qtheory.models.errors import InvalidModel, NotConverged, Unstable

Array = NDArray[np.float64]

_CLOSED = 1e-17
#: Terms that are summed before giving up, a second or two: more are needed next to load 1 with hardly any choice only.
_MOST_TERMS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class Means:
    """Mean responses in units of the mean service time; numbers for numbers, arrays for arrays.

    `flexible` and `dedicated` are what a job of that class would have, also where the class is empty (p = 0 or 1).
    """

    all: Any
    flexible: Any
    dedicated: Any


def means(*, load: ArrayLike, fraction: ArrayLike, choices: int) -> Means:
    """Mean responses for any loads and flexible fractions, broadcast against each other.

    Once s_k is small the rest of the sums follows in closed form: with a = rho (1 - p) and b = rho p, the sum of the
    orbit of x -> a x + b x^d is x / (1 - a) + b x^d / ((1 - a)(1 - a^d)) up to a relative (b x^(d-1) / (1 - a))^2.

    Raises `Unstable` at load >= 1, `InvalidModel` for arguments out of range and `NotConverged` after 4 million terms.

    >>> round(means(load=0.9, fraction=1.0, choices=2).all, 10)
    2.6140573773
    >>> means(load=[0.5, 0.9], fraction=0.0, choices=2).all.round(10).tolist()
    [2.0, 10.0]
    """
    check(load=load, fraction=fraction, choices=choices)
    single = np.ndim(load) == 0 and np.ndim(fraction) == 0
    rho: Any = load if single else np.asarray(load, np.float64)
    p: Any = fraction if single else np.asarray(fraction, np.float64)
    a, b = rho * (1.0 - p), rho * p
    x = 1.0 + 0.0 * a
    dedicated, flexible = 0.0 * a, 0.0 * a
    spread = b / (1.0 - a)
    power: Any = 1.0
    for _ in range(_MOST_TERMS):
        closing = (spread * power) ** 2
        if (closing if single else closing.max() if np.ndim(closing) else closing) <= _CLOSED:
            break
        joint = power * x
        dedicated = dedicated + x
        flexible = flexible + joint
        x = a * x + b * joint
        power = x ** (choices - 1)
    else:
        raise _too_long(residual=float(np.max(closing)))
    joint = power * x
    curved = 1.0 - a**choices
    dedicated = dedicated + (x + b * joint / curved) / (1.0 - a)
    # The flexible sum closes to the same order: the orbit of x^d shrinks by a^d, its correction by a^(2d-1).
    flexible = flexible + joint / curved
    flexible = flexible + choices * b * a ** (choices - 1) * joint * power / (curved * (1.0 - a ** (2 * choices - 1)))
    return Means(all=(1.0 - p) * dedicated + p * flexible, flexible=flexible, dedicated=dedicated)


def tails(*, load: float, fraction: float, choices: int, least: float = 1e-20) -> Array:
    """s_0, s_1, ... down to the last that is at least `least`.

    >>> tails(load=0.5, fraction=1.0, choices=2)[:4].tolist()
    [1.0, 0.5, 0.125, 0.0078125]
    """
    check(load=load, fraction=fraction, choices=choices)
    a, b = load * (1.0 - fraction), load * fraction
    values, x = [], 1.0
    while x >= least:
        values.append(x)
        x *= a + b * x ** (choices - 1)
        if len(values) > _MOST_TERMS:
            raise _too_long(residual=x)
    return np.array(values)


def _too_long(*, residual: float) -> NotConverged:
    advice = "the load is too near to 1 for so small a fraction: take a fraction of 0"
    return NotConverged(where="mean-field fixed point", residual=residual, iterations=_MOST_TERMS, advice=advice)


def check(*, load: ArrayLike, fraction: ArrayLike, choices: int) -> None:
    """0 < load < 1, 0 <= fraction <= 1, choices >= 2, or an error that names what is wrong."""
    loads, fractions = np.asarray(load, np.float64), np.asarray(fraction, np.float64)
    if not np.all(loads > 0.0):
        raise InvalidModel(field="load", rule="must be positive", value=float(loads.min()))
    if not np.all(loads < 1.0):
        raise Unstable(where="all", load=float(loads.max()))
    if not np.all((fractions >= 0.0) & (fractions <= 1.0)):
        raise InvalidModel(field="flexible_fraction", rule="must be from 0 to 1", value=float(fractions.max()))
    if choices < 2:
        raise InvalidModel(field="choices", rule="must be at least 2", value=choices)


def slope_at_zero(*, load: float, choices: int) -> float:
    """dET/dp at p = 0, in mean service times.

    The first flexible jobs meet independent M/M/1 queues and find at least k jobs with probability rho^(dk) where a
    dedicated job does with rho^k; each job not queued saves 1 / (1 - rho) jobs their service,

        -[rho / (1 - rho) - rho^d / (1 - rho^d)] / (1 - rho),

    for every number of queues N >= d when d distinct queues are sampled, and in the limit for both samplings.

    >>> round(slope_at_zero(load=0.5, choices=2), 12)
    -1.333333333333
    """
    check(load=load, fraction=0.0, choices=choices)
    power = load**choices
    return -(load / (1.0 - load) - power / (1.0 - power)) / (1.0 - load)


def heavy_traffic(*, load: float, fraction: float, choices: int) -> float:
    """ln(1 / (1 - rho)) / ln(1 + p (d - 1)): how ET grows as the load tends to 1, for p > 0."""
    check(load=load, fraction=fraction, choices=choices)
    if fraction == 0.0:
        raise InvalidModel(field="flexible_fraction", rule="must be positive for this limit", value=fraction)
    return math.log(1.0 / (1.0 - load)) / math.log1p(fraction * (choices - 1))
