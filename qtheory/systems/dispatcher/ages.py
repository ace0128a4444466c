"""A service that ends by itself or by the time limit, whichever is first, followed by its age.

The law of what is left of a service depends on its age alone, so that a busy server of Group 0 is a point that
moves from age 0 to the limit T and leaves on the way with the hazard of S0. Values along the way are held at the
nodes of Radau's quadrature (collocation, Radau IIA): a matrix-exponential law of `order` phases, whatever the
order of S0.  It has the right probability to be killed, an occupation min(S0, T) whose moments converge faster
than any power of the order, and for a service that always lasts T it is the Padé approximant [order - 1 / order].
Stationary masses at the nodes are positive, being a density times quadrature weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import legendre

from qtheory._lazy import special
from qtheory.laws import Distribution
from qtheory.queues.linear import Array
from qtheory.queues.phase_type import PhaseType


@dataclass(frozen=True, eq=False, kw_only=True)
class AgedService:
    """min(S0, T) as a matrix-exponential law with two kinds of end.

    Attributes
    ----------
    law : the law of the occupation; a service starts at the last node (all of T left).
    kills : rates of being killed by phase; the other ends, `law.exits - kills`, are completions.
    """

    law: PhaseType
    kills: Array


def aged_service(service: Distribution, *, limit: float, order: int) -> AgedService:
    """The service S0 watched up to the time `limit`, at `order` nodes; P(S0 > limit) must be above 0.

    With remaining times T c_i, Radau's matrix A and the survival function G of S0 at the ages T (1 - c_i):
    generator -G^-1 (T A)^-1 G, kill rates G^-1 (T A)^-1 e G(T).

    Hairer, Wanner (1996), Solving Ordinary Differential Equations II, sec. IV.5.

    >>> from qtheory.laws import distribution
    >>> from qtheory.models import Exponential
    >>> aged = aged_service(distribution(Exponential(mean=1.0)), limit=2.0, order=5)
    >>> round(aged.law.mean, 6)  # 1 - exp(-2)
    0.864665
    """
    nodes, matrix = radau(order)
    alive = np.asarray(service.survival(limit * (1.0 - nodes)), dtype=np.float64)
    rates: Array = np.linalg.inv(limit * matrix).astype(np.float64)
    start = np.zeros(order)
    start[-1] = 1.0
    kills = rates.sum(axis=1) / alive * float(service.survival(limit))
    return AgedService(law=PhaseType(alpha=start, generator=-rates * alive / alive[:, None]), kills=kills)


def constant_time(value: float, *, order: int) -> PhaseType:
    """The time `value`, by the same collocation: 2 order - 1 moments right."""
    start = np.zeros(order)
    start[-1] = 1.0
    return PhaseType(alpha=start, generator=-np.linalg.inv(value * radau(order)[1]).astype(np.float64))


def radau(order: int) -> tuple[Array, Array]:
    """Nodes c on (0, 1], the last at 1, and the matrix A with A f the integrals of f from 0 to the nodes.

    >>> nodes, matrix = radau(2)
    >>> bool(np.allclose(matrix, [[5 / 12, -1 / 12], [3 / 4, 1 / 4]]))
    True
    """
    inner = special.roots_jacobi(order - 1, 1.0, 0.0)[0] if order > 1 else np.empty(0)
    points = np.append(inner, 1.0)
    values = legendre.legvander(points, order)
    integrals = np.empty((order, order))
    integrals[:, 0] = (points + 1.0) / 2.0
    for k in range(1, order):
        integrals[:, k] = (values[:, k + 1] - values[:, k - 1]) / (2.0 * (2.0 * k + 1.0))
    return (points + 1.0) / 2.0, integrals @ np.linalg.inv(values[:, :order])
