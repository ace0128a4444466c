"""Which places carry the test function of a network's route expansion.

V(x) = max_C gamma^|C| sum_{c in C} max_R beta^|R| sum_{r in R} max_j alpha^(j-1) (x_r1 + ... + x_rj): the places up to
the best j of the best routes of the best classes. Of several sets that attain a maximum the smallest is taken, and the
first listed of equal members.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper

Ints = NDArray[np.int64]
Array = NDArray[np.float64]


class Weights(NamedTuple):
    """alpha, beta, gamma; first places of the routes and first routes of the classes (one more each); scratch."""

    alpha: float
    beta: float
    gamma: float
    route_start: Ints
    class_start: Ints
    route_value: Array
    route_end: Ints
    class_value: Array
    order: Ints
    kept: Ints


@helper
def _ranked(values: Array, start: int, end: int, discount: float, order: Ints) -> tuple[int, float]:
    """Sort members by value, largest first; how many of them make discount^m (sum of the first m) largest, and that."""
    for i in range(start, end):
        j = i
        while j > start and values[order[j - 1]] < values[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i
    best, members, total, factor = -1.0, 0, 0.0, 1.0
    for i in range(start, end):
        total += values[order[i]]
        factor *= discount
        if factor * total > best:
            best, members = factor * total, i - start + 1
    return members, best


@helper
def dominant(weights: Weights, counts: Ints, carrying: Ints) -> None:
    """Set `carrying` to 1 for the places that carry V, else to 0."""
    for r in range(weights.route_start.size - 1):
        best, jobs, factor = -1.0, 0, 1.0
        for k in range(weights.route_start[r], weights.route_start[r + 1]):
            carrying[k] = 0
            jobs += counts[k]
            if factor * jobs > best:
                best = factor * jobs
                weights.route_end[r] = k + 1
            factor *= weights.alpha
        weights.route_value[r] = best
    classes = weights.class_start.size - 1
    for c in range(classes):
        start, end = weights.class_start[c], weights.class_start[c + 1]
        weights.kept[c], weights.class_value[c] = _ranked(weights.route_value, start, end, weights.beta, weights.order)
    # The routes' order is kept; classes are sorted behind it.
    routes = weights.route_start.size - 1
    tail = weights.order[routes:]
    members, _ = _ranked(weights.class_value, 0, classes, weights.gamma, tail)
    for i in range(members):
        c = tail[i]
        start = weights.class_start[c]
        for q in range(start, start + weights.kept[c]):
            r = weights.order[q]
            for k in range(weights.route_start[r], weights.route_end[r]):
                carrying[k] = 1
