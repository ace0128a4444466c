"""Means of services that are cut at a limit, E[min(S, T)], from the laws' definitions.

Derived here and not taken from `qtheory`, as the means of whole services in `qsim.mean_time`.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from scipy import special

from qsim.mean_time import mean_time
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
    Scipy,
    Uniform,
    Weibull,
)


def restricted_mean(law: Spec, *, limit: float, field: str) -> float:
    """E[min(S, limit)], the integral of P(S > t) up to the limit; may be infinite where the limit is.

    Raises
    ------
    InvalidModel : not known here, e.g. of a product cut at a finite limit; `field` names the law.

    >>> round(restricted_mean(Exponential(mean=2.0), limit=2.0, field="service"), 12)   # 2 (1 - 1/e)
    1.264241117657
    """
    if limit == math.inf:
        return mean_time(law, field=field)
    match law:
        case Exponential():
            return -law.mean * math.expm1(-limit / law.mean)
        case Deterministic():
            return min(law.value, limit)
        case Uniform():
            inside = min(max(limit, law.low), law.high)
            share = 0.0 if law.high == law.low else (inside - law.low) / (law.high - law.low)
            return share * (law.low + inside) / 2 + (1 - share) * min(limit, law.high)
        case Erlang():
            return _gamma(law.shape, law.mean / law.shape, limit)
        case Gamma():
            return _gamma(law.shape, law.scale, limit)
        case Hyperexponential():
            parts = zip(law.probabilities, law.means, strict=True)
            return math.fsum(-p * mean * math.expm1(-limit / mean) for p, mean in parts)
        case Weibull():
            inside = float(special.gammainc(1 / law.shape, (limit / law.scale) ** law.shape))
            return law.scale * math.gamma(1 + 1 / law.shape) * inside
        case LogNormal():
            return _lognormal(law, limit)
        case Pareto():
            return law.minimum * _power(law.shape, max(limit / law.minimum, 1.0)) + min(limit - law.minimum, 0.0)
        case BoundedPareto():
            return _bounded_pareto(law, limit)
        case PhaseType():
            return _phase_type(law, limit)
        case Mixture():
            pieces = zip(law.weights, law.laws, strict=True)
            return math.fsum(w * restricted_mean(part, limit=limit, field=field) for w, part in pieces if w > 0)
        case Empirical():
            return float(np.minimum(law.values, limit).mean())
        case Scipy():
            return _scipy(law, limit)
    raise InvalidModel(field=field, rule="qsim knows no mean of this law cut at a limit: give it", value=law.kind())


def _gamma(shape: float, scale: float, limit: float) -> float:
    inside, outside = special.gammainc(shape + 1, limit / scale), special.gammaincc(shape, limit / scale)
    return float(shape * scale * inside + limit * outside)


def _lognormal(law: LogNormal, limit: float) -> float:
    variance = math.log1p(law.scv)
    place, spread = math.log(limit) - math.log(law.mean) + variance / 2, math.sqrt(variance)
    if spread == 0:
        return min(law.mean, limit)
    return float(law.mean * special.ndtr((place - variance) / spread) + limit * special.ndtr(-place / spread))


def _power(shape: float, ratio: float) -> float:
    """E[min(X, ratio)] of a Pareto law X with minimum 1, for a ratio of at least 1."""
    stretch = math.log(ratio)
    growth = stretch if abs(shape - 1) * stretch < 1e-9 else -math.expm1((1 - shape) * stretch) / (shape - 1)
    return 1.0 + growth


def _bounded_pareto(law: BoundedPareto, limit: float) -> float:
    inside = min(max(limit, law.minimum), law.maximum)
    beyond = (law.minimum / law.maximum) ** law.shape
    growth = law.minimum * (_power(law.shape, inside / law.minimum) - 1.0) - (inside - law.minimum) * beyond
    mean: float = min(limit, law.minimum) + growth / (1.0 - beyond)
    return mean


def _phase_type(law: PhaseType, limit: float) -> float:
    from scipy.linalg import expm

    alpha, generator = np.asarray(law.alpha), np.asarray(law.generator)
    left = np.linalg.solve(-generator, np.ones(len(alpha)))
    return float(alpha @ (left - expm(generator * limit) @ left))


def _scipy(law: Scipy, limit: float) -> float:
    from scipy import integrate, stats

    frozen = cast(Any, getattr(stats, law.name))(**law.parameters)
    middle = min(float(frozen.ppf(0.5)), limit)
    below, _ = integrate.quad(frozen.sf, 0.0, middle, epsrel=1e-11, limit=200)
    above, _ = integrate.quad(frozen.sf, middle, limit, epsrel=1e-11, limit=200)
    return float(below + above)
