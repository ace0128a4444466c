"""Piecewise-linear test functions on the route expansion.

V(x) = max over class sets C of sum_{c in C} b_c g_c(x) with g_c the maximum over upstream-closed sets of subservers
(Xie and Jin, "Stabilizing queuing networks with model data-independent control", section 3).  With constant weights
each maximum is taken by the full set and V is linear; the weights here therefore fall with the size of the set:

    V(x) = max_C gamma^|C| sum_{c in C} max_{R_c} beta^|R_c| sum_{r in R_c} max_j alpha^(j-1) (x_r1 + ... + x_rj).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qtheory.models.base import require
from qtheory.models.network import Network
from qtheory.systems.network.expansion import Array, Expansion, expand

#: More linear pieces than this are refused: they grow exponentially with the number of routes.
MOST_PIECES = 20_000


@dataclass(frozen=True, kw_only=True)
class PiecewiseLinear:
    """V(x) = max_i w_i . x.

    Attributes
    ----------
    weights : one piece a row, shape (pieces, subservers), not negative.
    labels : what each piece stands for: (classes, routes, subservers) that carry it, as numbers of the expansion.
    """

    weights: Array
    labels: tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...]

    @property
    def members(self) -> NDArray[np.bool_]:
        """The subservers that carry each piece, shape (pieces, subservers)."""
        return self.weights > 0

    def best(self, states: ArrayLike) -> NDArray[np.intp]:
        """The piece that attains the maximum in each state, the first of several."""
        return np.asarray(np.argmax(np.atleast_2d(np.asarray(states, float)) @ self.weights.T, axis=1))

    def __call__(self, states: ArrayLike) -> Array:
        """V in each state, states of shape (states, subservers)."""
        return np.asarray((np.atleast_2d(np.asarray(states, float)) @ self.weights.T).max(axis=1))


def default_function(
    model: Network, *, alpha: float = 0.75, beta: float = 0.75, gamma: float = 0.75
) -> PiecewiseLinear:
    """The test function above with weights in (0, 1).

    Smaller sets and shorter prefixes come first among the pieces, so that `best` takes the smallest set of several.
    Raises `InvalidModel` if a weight is out of range or there are more than 20000 pieces.

    >>> from qtheory.models import JSR, NetworkClass
    >>> one = NetworkClass(rate=1.0, routes=[["s1", "s2"], ["s3"]])
    >>> model = Network(servers={"s1": 1.0, "s2": 1.0, "s3": 1.0}, classes=[one], policy=JSR())
    >>> len(default_function(model).weights)
    5
    """
    for name, value in (("alpha", alpha), ("beta", beta), ("gamma", gamma)):
        require(0 < value < 1, field=name, rule="must lie between 0 and 1", value=value)
    expansion = expand(model)
    lengths = np.array([len(route) for route in expansion.routes])
    classes = range(len(expansion.arrival_rates))
    # 1 + pieces = product over the classes of prod over the routes of (1 + length): each may be left out.
    count = float(np.exp(np.log1p(lengths).sum())) - 1
    rule = f"more than {MOST_PIECES} linear pieces (about {count:.3g}): the test function is for small networks"
    require(count < MOST_PIECES + 0.5, field="classes", rule=rule)
    by_class = [list(_class_pieces(expansion, c, alpha=alpha, beta=beta)) for c in classes]
    weights, labels = [], []
    for size in range(1, len(by_class) + 1):
        for chosen in combinations(classes, size):
            for parts in product(*(by_class[c] for c in chosen)):
                weights.append(gamma**size * np.sum([part for part, _ in parts], axis=0))
                routes = tuple(r for _, taken in parts for r in taken)
                labels.append((chosen, routes, tuple(np.flatnonzero(weights[-1] > 0).tolist())))
    return PiecewiseLinear(weights=np.array(weights), labels=tuple(labels))


def _class_pieces(
    expansion: Expansion, c: int, *, alpha: float, beta: float
) -> Iterator[tuple[Array, tuple[int, ...]]]:
    """Weights and routes of the linear pieces of one class."""
    routes = expansion.of_class(c).tolist()
    for size in range(1, len(routes) + 1):
        for chosen in combinations(routes, size):
            for ends in product(*(range(len(expansion.routes[r])) for r in chosen)):
                weights = np.zeros(expansion.size)
                for r, j in zip(chosen, ends, strict=True):
                    weights[expansion.of_route(r)[: j + 1]] = beta**size * alpha**j
                yield weights, chosen


def user_function(model: Network, *, weights: ArrayLike) -> PiecewiseLinear:
    """A test function with weights of one's own, one linear piece a row, by subserver in the order of `expand(model)`.

    Raises `InvalidModel` for a wrong shape or a weight that is negative or not finite.
    """
    expansion = expand(model)
    table = np.atleast_2d(np.asarray(weights, float))
    rule = f"must have one column for each of {expansion.size} subservers ({', '.join(expansion.names)})"
    require(table.ndim == 2 and table.shape[1] == expansion.size, field="weights", rule=rule, value=table.shape)
    require(bool(np.isfinite(table).all() and (table >= 0).all()), field="weights", rule="must be finite and >= 0")
    labels = []
    for row in table:
        carrying = np.flatnonzero(row > 0)
        classes, routes = np.unique(expansion.klass[carrying]), np.unique(expansion.route[carrying])
        labels.append((tuple(classes.tolist()), tuple(routes.tolist()), tuple(carrying.tolist())))
    return PiecewiseLinear(weights=table, labels=tuple(labels))
