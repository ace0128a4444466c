"""The questions one asks of a law, as functions of the law."""

from __future__ import annotations

import math

import numpy as np

from qtheory.laws._distribution import Values, distribution
from qtheory.models.base import Spec


def mean(law: Spec) -> float:
    """E[S]; may be ``inf``.

    >>> from qtheory.models import Erlang
    >>> mean(Erlang(shape=2, mean=3.0))
    3.0
    """
    return distribution(law).mean


def scv(law: Spec) -> float:
    """Squared coefficient of variation, Var S / E[S]^2; ``inf`` where the second moment is.

    >>> from qtheory.models import Erlang
    >>> scv(Erlang(shape=2, mean=3.0))
    0.5
    """
    return distribution(law).scv


def moment(law: Spec, *, order: float) -> float:
    """E[S^order] for a real order >= 0; ``inf`` where it does not exist.

    >>> from qtheory.models import Pareto
    >>> moment(Pareto(shape=2.5, minimum=1.0), order=2), moment(Pareto(shape=2.5, minimum=1.0), order=3)
    (5.0, inf)
    """
    return distribution(law).moment(order)


def tail_index(law: Spec) -> float:
    """Supremum of the orders of finite moments; ``inf`` for light tails."""
    return distribution(law).tail_index


def support(law: Spec) -> tuple[float, float]:
    """Smallest and largest value."""
    return distribution(law).support


def cdf(law: Spec, *, t: Values) -> Values:
    """P(S <= t), for a number or an array."""
    return distribution(law).cdf(t)


def survival(law: Spec, *, t: Values) -> Values:
    """P(S > t), with its digits also far out in the tail."""
    return distribution(law).survival(t)


def density(law: Spec, *, t: Values) -> Values:
    """Density of the part without atoms."""
    return distribution(law).density(t)


def quantile(law: Spec, *, p: Values) -> Values:
    """The smallest t with P(S <= t) >= p."""
    return distribution(law).quantile(p)


def laplace(law: Spec, *, s: Values) -> Values:
    """E[exp(-s S)], s >= 0.

    >>> from qtheory.models import Exponential
    >>> laplace(Exponential(mean=2.0), s=0.5)
    0.5
    """
    return distribution(law).laplace(s)


def partial_moment(law: Spec, *, order: float, limit: Values) -> Values:
    """E[S^order; S <= limit].

    >>> from qtheory.models import Uniform
    >>> partial_moment(Uniform(low=0.0, high=1.0), order=1, limit=0.5)
    0.125
    """
    return distribution(law).partial_moment(order, limit)


def tail_moment(law: Spec, *, order: float, limit: Values) -> Values:
    """E[S^order; S > limit]."""
    return distribution(law).tail_moment(order, limit)


def capped_moment(law: Spec, *, order: float, limit: Values) -> Values:
    """E[min(S, limit)^order]."""
    return distribution(law).capped_moment(order, limit)


def conditional_moment_upto(law: Spec, *, order: float, limit: float) -> float:
    """E[S^order | S <= limit]; nan if that never happens."""
    known = distribution(law)
    share = known.cdf(limit)
    return known.partial_moment(order, limit) / share if share > 0.0 else math.nan


def conditional_moment_above(law: Spec, *, order: float, limit: float) -> float:
    """E[S^order | S > limit]; nan if that never happens.

    >>> from qtheory.models import Exponential
    >>> round(conditional_moment_above(Exponential(mean=2.0), order=1, limit=5.0), 12)
    7.0
    """
    known = distribution(law)
    share = known.survival(limit)
    return known.tail_moment(order, limit) / share if share > 0.0 else math.nan


def mean_residual(law: Spec, *, t: Values) -> Values:
    """E[S - t | S > t]; nan where P(S > t) = 0."""
    return distribution(law).mean_residual(t)


def equilibrium_moment(law: Spec, *, order: float) -> float:
    """E[S_e^k] = E[S^(k+1)] / ((k+1) E[S]) of the residual life in equilibrium."""
    return distribution(law).equilibrium_moment(order)


def atoms(law: Spec) -> tuple[tuple[float, float], ...]:
    """Points of positive probability with their masses, ascending."""
    points, masses = distribution(law).atoms
    return tuple(zip(np.asarray(points).tolist(), np.asarray(masses).tolist(), strict=True))
