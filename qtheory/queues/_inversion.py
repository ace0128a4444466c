"""Quantiles by inverting a survival function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from qtheory.models.errors import NotConverged
from qtheory.queues._values import FloatArray


def survival_quantile(
    survival: Callable[..., FloatArray],
    *,
    level: FloatArray,
    upper: FloatArray,
    parameters: tuple[FloatArray, ...] = (),
    where: str,
) -> FloatArray:
    """t >= 0 with survival(t, *parameters) = 1 - level, 0 where survival(0) is no more than that.

    `survival` falls with t and takes and returns arrays; `upper` is a time at which it has fallen below
    1 - level. Chandrupatla's method on its logarithm, which is close to a straight line far out.

    Raises `NotConverged` if the root is not found, `upper` not beyond it included.
    """
    level, upper, *given = np.broadcast_arrays(level, upper, *parameters)
    target = np.log1p(-level)

    def excess(time: FloatArray, goal: FloatArray, *rest: Any) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(survival(time, *rest)), -1e4) - goal

    start = excess(np.zeros_like(upper), target, *given)
    inside = start > 0.0
    out = np.zeros_like(upper)
    if not np.any(inside):
        return out
    picked = tuple(np.asarray(values)[inside] for values in (target, *given))
    found = elementwise.find_root(
        excess,
        (np.zeros_like(upper[inside]), upper[inside]),
        args=picked,
        tolerances={"xatol": 0.0, "xrtol": 4e-15, "fatol": 0.0, "frtol": 0.0},
        maxiter=200,
    )
    if not np.all(found.success):
        raise NotConverged(
            where=where,
            residual=float(np.max(np.abs(np.asarray(found.f_x)[~np.asarray(found.success)]))),
            iterations=int(np.max(found.nit)),
            advice="ask for a lower level",
        )
    out[inside] = found.x
    return out
