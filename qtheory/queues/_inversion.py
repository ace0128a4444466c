"""Quantiles by inverting a survival function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qtheory.models.errors import NotConverged
from qtheory.queues._values import FloatArray

_FLOOR = -1e4  # stands for log 0
_DOUBLINGS = 400
_ITERATIONS = 300


def survival_quantile(
    survival: Callable[..., FloatArray],
    *,
    level: FloatArray,
    start: FloatArray,
    parameters: tuple[FloatArray, ...] = (),
    where: str,
) -> FloatArray:
    """t >= 0 with survival(t, *parameters) = 1 - level, 0 where survival(0) is no more than that.

    `survival` falls with t and takes and returns arrays; `start` > 0 is a time of the order of the answer, from
    which the bracket is found by doubling. Chandrupatla's method on the logarithm, close to a straight line far out.

    Raises `NotConverged` if the survival function does not fall below 1 - level or the root is not found.
    """
    level, start, *given = np.broadcast_arrays(level, start, *parameters)
    target = np.log1p(-level)

    def excess(time: FloatArray, goal: FloatArray, *rest: Any) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.maximum(np.log(survival(time, *rest)), _FLOOR) - goal)

    inside = np.asarray(excess(np.zeros_like(start), target, *given) > 0.0)
    out = np.zeros_like(start)
    if not np.any(inside):
        return out
    args = tuple(np.asarray(values)[inside] for values in (target, *given))
    upper = start[inside]
    for _ in range(_DOUBLINGS):
        short = excess(upper, *args) >= 0.0
        if not np.any(short):
            break
        upper = np.where(short, 2.0 * upper, upper)
    else:
        raise NotConverged(
            where=where,
            residual=float(np.max(excess(upper, *args))),
            iterations=_DOUBLINGS,
            advice="the tail does not come down to 1 - level: ask for a lower level",
        )
    from scipy.optimize import elementwise  # a tenth of a second: only those who ask for quantiles pay it

    found = elementwise.find_root(
        excess,
        (np.zeros_like(upper), upper),
        args=args,
        tolerances={"xatol": 0.0, "xrtol": 4e-15, "fatol": 0.0, "frtol": 0.0},
        maxiter=_ITERATIONS,
    )
    if not np.all(found.success):
        raise NotConverged(
            where=where,
            residual=float(np.max(np.abs(np.asarray(found.f_x)[~np.asarray(found.success)]))),
            iterations=_ITERATIONS,
            advice="ask for a lower level",
        )
    out[inside] = found.x
    return out
