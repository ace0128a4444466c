"""Means of laws, from their definitions: what turns a load into an arrival rate.

Derived here and not taken from `qtheory`, like the samplers, so that an error in one of the two shows as a
disagreement.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from qtheory.models.base import Spec
from qtheory.models.errors import InvalidModel
from qtheory.models.laws import (
    BoundedPareto,
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    LogNormal,
    Mixture,
    Pareto,
    PhaseType,
    Product,
    Scipy,
    Uniform,
    Weibull,
)


def mean_time(law: Spec, *, field: str) -> float:
    """E[S]; may be infinite.

    Raises
    ------
    InvalidModel : a law whose mean is not known here; `field` names it.

    >>> mean_time(Erlang(shape=3, mean=2.0), field="service")
    2.0
    """
    match law:
        case Exponential() | Erlang() | LogNormal():
            return law.mean
        case Deterministic():
            return law.value
        case Uniform():
            return (law.low + law.high) / 2
        case Hyperexponential():
            return math.fsum(p * mean for p, mean in zip(law.probabilities, law.means, strict=True))
        case Gamma():
            return law.shape * law.scale
        case Weibull():
            return law.scale * math.gamma(1 + 1 / law.shape)
        case Pareto():
            return law.shape * law.minimum / (law.shape - 1) if law.shape > 1 else math.inf
        case BoundedPareto():
            return _bounded_pareto(law)
        case PhaseType():
            return float(np.asarray(law.alpha) @ np.linalg.solve(-np.asarray(law.generator), np.ones(len(law.alpha))))
        case Mixture():
            parts = zip(law.weights, law.laws, strict=True)
            return math.fsum(weight * mean_time(part, field=field) for weight, part in parts if weight > 0)
        case Product():
            return math.prod(mean_time(factor, field=field) for factor in law.factors)
        case Empirical():
            return math.fsum(law.values) / len(law.values)
        case Scipy():
            return _scipy(law)
    raise InvalidModel(field=field, rule="qsim knows no mean of this law", value=law.kind())


def _bounded_pareto(law: BoundedPareto) -> float:
    """Integral of P(S > t): the minimum, and beyond it that of a power."""
    a, low, high = law.shape, law.minimum, law.maximum
    ratio = math.log(high / low)
    inside = -math.expm1(-a * ratio)
    # shape / (shape - 1) (1 - r^(1 - shape)), which is shape log r at shape 1.
    growth = ratio if abs(a - 1) * ratio < 1e-9 else -math.expm1((1 - a) * ratio) / (a - 1)
    return a * low * growth / inside


def _scipy(law: Scipy) -> float:
    from scipy import stats

    family = cast(Any, getattr(stats, law.name))
    return float(family(**law.parameters).mean())
