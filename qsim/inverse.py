"""Laws of `scipy.stats` as tables: the inverse of -log P(X > x), piecewise polynomial, to a stated accuracy.

A draw is the table's value at an exponential variate z.  An error d in z is a relative error d of the survival
function, and for small z an absolute error d of the distribution function.  Cells are halved until the polynomial
of degree 7 through the law's own quantiles is within d = 1e-10 or 1e-13 of the time itself between its nodes, or the
cell holds less than that (kinks and gaps of the density); where the survival function falls below 1e-6, d may grow
to 1e-15 divided by it, which is what scipy's quantiles are good for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from qsim.kernels.random import Array
from qsim.kernels.sampling import DEGREE
from qtheory.models.errors import InvalidModel
from qtheory.models.laws import Scipy

_TOLERANCE = 1e-10
_ROUND_OFF = 1e-15
#: No exponential variate of `qsim.kernels.random` is larger.
_MOST = 45.0
_MOST_CELLS = 20_000

_NODES = -np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)
_BETWEEN = (_NODES[1:] + _NODES[:-1]) / 2
_PLACES = np.concatenate([_NODES, _BETWEEN])
_FIT = np.linalg.inv(np.vander(_NODES, increasing=True))
_AT_BETWEEN = np.vander(_BETWEEN, DEGREE + 1, increasing=True) @ _FIT


@lru_cache(maxsize=64)
def inverse_table(law: Scipy, *, field: str) -> tuple[Array, Array]:
    """Knots z_0 < ... < z_m and the coefficients of each cell, in powers of the place in it from -1 to 1.

    Raises
    ------
    InvalidModel : not a continuous law of scipy.stats on [0, inf), wrong parameters, or quantiles too rough.
    """
    frozen = _frozen(law, field)
    edges = np.concatenate([[0.0], np.geomspace(0.25, 32.0, 8), [_MOST]])
    edges = edges[: _usable(frozen, edges)]
    left, right = edges[:-1], edges[1:]
    done: list[tuple[Array, Array, Array]] = []
    while left.size:
        if left.size + sum(part[0].size for part in done) > _MOST_CELLS:
            raise InvalidModel(field=field, rule="has quantiles too rough to tabulate", value=law.name)
        z = (left + right)[:, None] / 2 + (right - left)[:, None] / 2 * _PLACES
        x = _quantiles(frozen, z)
        nodes, between = x[:, : DEGREE + 1], x[:, DEGREE + 1 :]
        base = nodes[:, :1]
        error = np.abs((nodes - base) @ _AT_BETWEEN.T + base - between).max(axis=1)
        slope = (nodes[:, -1] - nodes[:, 0]) / (right - left)
        allowed = slope * (_TOLERANCE + _ROUND_OFF * np.exp(left)) + 1e-13 * np.abs(nodes[:, -1])
        fine = (error <= allowed) | (right - left <= _TOLERANCE)
        coefficients = (nodes[fine] - base[fine]) @ _FIT.T
        coefficients[:, 0] += base[fine, 0]
        done.append((left[fine], right[fine], coefficients))
        middle = (left + right) / 2
        left, right = (
            np.concatenate([left[~fine], middle[~fine]]),
            np.concatenate([middle[~fine], right[~fine]]),
        )
    starts, ends, rows = (np.concatenate([part[k] for part in done]) for k in range(3))
    order = np.argsort(starts)
    return np.append(starts[order], ends.max()), rows[order]


def _quantiles(frozen: Any, z: Array) -> Array:
    """x with P(X > x) = exp(-z), from whichever tail is the smaller."""
    lower = z < np.log(2.0)
    x = np.empty_like(z)
    with np.errstate(all="ignore"):
        x[lower] = frozen.ppf(-np.expm1(-z[lower]))
        x[~lower] = frozen.isf(np.exp(-z[~lower]))
    return x


def _usable(frozen: Any, edges: Array) -> int:
    """How many edges have finite quantiles in order: a law known by its distribution function alone loses its tail."""
    x = _quantiles(frozen, edges)
    wrong = ~np.isfinite(x) | (np.diff(x, prepend=x[0]) < 0)
    return int(np.argmax(wrong)) if wrong.any() else edges.size


def _frozen(law: Scipy, field: str) -> Any:
    from scipy import stats

    family = getattr(stats, law.name, None)
    if not isinstance(family, stats.rv_continuous):
        raise InvalidModel(field=f"{field}.name", rule="must be a continuous law of scipy.stats", value=law.name)
    shapes = [name.strip() for name in (family.shapes or "").split(",") if name.strip()]
    for name in law.parameters:
        if name not in (*shapes, "loc", "scale"):
            rule = f"unknown parameter; {law.name} has {', '.join([*shapes, 'loc', 'scale'])}"
            raise InvalidModel(field=f"{field}.parameters.{name}", rule=rule)
    for name in shapes:
        if name not in law.parameters:
            raise InvalidModel(field=f"{field}.parameters.{name}", rule="is required")
    frozen = family(**law.parameters)
    least, most = frozen.support()
    if not least <= most:
        rule = f"are outside the range of {law.name}"
        raise InvalidModel(field=f"{field}.parameters", rule=rule, value=dict(law.parameters))
    if least < 0:
        raise InvalidModel(field=field, rule="must have no negative values", value=f"{law.name} from {least:g}")
    return frozen
