"""Services in progress: the law of the whole of a service seen at an arbitrary instant, P(dx) x / E[S].

What is in progress is longer than what is begun.  Most laws keep their family when weighted by length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

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
    Law,
    LogNormal,
    Mixture,
    Pareto,
    PhaseType,
    Product,
    Scipy,
    Uniform,
    Weibull,
)


def size_biased(law: Spec, *, field: str) -> Law | None:
    """The law weighted by length, if it is one of the laws of models and its mean is finite; None if not.

    >>> size_biased(Exponential(mean=2.0), field="service")
    Erlang(shape=2, mean=4.0)
    """
    rule = _RULES.get(type(law))
    return None if rule is None else rule(law, field)


def upper_bound(law: Spec) -> float:
    """No draw of the law exceeds it; inf if not known to have a bound."""
    match law:
        case Deterministic():
            return law.value
        case Uniform():
            return law.high
        case BoundedPareto():
            return law.maximum
        case Empirical():
            return max(law.values)
        case Mixture():
            return max(upper_bound(part) for part, weight in zip(law.laws, law.weights, strict=True) if weight > 0)
        case Product():
            return math.prod(upper_bound(factor) for factor in law.factors)
    return math.inf


def _exponential(law: Exponential, field: str) -> Law:
    return Erlang(shape=2, mean=2 * law.mean)


def _deterministic(law: Deterministic, field: str) -> Law:
    return law


def _uniform(law: Uniform, field: str) -> Law:
    # A density that grows in proportion to x is a constant one and one that grows from 0.
    width = law.high - law.low
    growing = Scipy(name="beta", parameters={"a": 2.0, "b": 1.0, "loc": law.low, "scale": width})
    share = width / (law.high + law.low)
    return Mixture(weights=(1 - share, share), laws=(law, growing)) if width > 0 else law


def _erlang(law: Erlang, field: str) -> Law:
    return Erlang(shape=law.shape + 1, mean=law.mean * (law.shape + 1) / law.shape)


def _gamma(law: Gamma, field: str) -> Law:
    return Gamma(shape=law.shape + 1, scale=law.scale)


def _weibull(law: Weibull, field: str) -> Law:
    # (X / scale)^shape is exponential; weighted by X it is gamma of shape 1 + 1 / shape.
    return Scipy(name="gengamma", parameters={"a": 1 + 1 / law.shape, "c": law.shape, "scale": law.scale})


def _lognormal(law: LogNormal, field: str) -> Law:
    return LogNormal(mean=law.mean * (1 + law.scv), scv=law.scv)


def _pareto(law: Pareto, field: str) -> Law | None:
    return Pareto(shape=law.shape - 1, minimum=law.minimum) if law.shape > 1 else None


def _bounded_pareto(law: BoundedPareto, field: str) -> Law | None:
    if law.shape <= 1:
        return None
    return BoundedPareto(shape=law.shape - 1, minimum=law.minimum, maximum=law.maximum)


def _hyperexponential(law: Hyperexponential, field: str) -> Law | None:
    parts = tuple(Exponential(mean=mean) for mean in law.means)
    return _weighted(law.probabilities, parts, field)


def _mixture(law: Mixture, field: str) -> Law | None:
    return _weighted(law.weights, law.laws, field)


def _weighted(weights: tuple[float, ...], laws: tuple[Law, ...], field: str) -> Law | None:
    kept = [(weight, part) for weight, part in zip(weights, laws, strict=True) if weight > 0]
    means = [weight * mean_time(part, field=field) for weight, part in kept]
    biased = [size_biased(part, field=field) for (_, part), mean in zip(kept, means, strict=True) if mean > 0]
    found = tuple(part for part in biased if part is not None)
    if len(found) < len(biased) or not 0 < math.fsum(means) < math.inf:
        return None
    shares = [mean / math.fsum(means) for mean in means if mean > 0]
    return Mixture(weights=(*shares[:-1], 1 - math.fsum(shares[:-1])), laws=found)


def _product(law: Product, field: str) -> Law | None:
    biased = [size_biased(factor, field=field) for factor in law.factors]
    found = tuple(factor for factor in biased if factor is not None)
    return Product(factors=found) if len(found) == len(biased) else None


def _phase_type(law: PhaseType, field: str) -> Law:
    """By the phase met: the phases so far, backwards in time until the beginning, then those to come."""
    alpha, generator = np.asarray(law.alpha), np.asarray(law.generator)
    met = np.linalg.solve(-generator.T, alpha)
    reached = np.flatnonzero(met > 0)
    met, alpha, generator = met[reached], alpha[reached], generator[np.ix_(reached, reached)]
    backwards, begins = generator.T * met / met[:, None], alpha / met
    count = len(reached)
    parts = []
    for phase in range(count):
        whole = np.zeros((2 * count, 2 * count))
        whole[:count, :count], whole[count:, count:] = backwards, generator
        whole[:count, count + phase] = begins
        start = [1.0 if k == phase else 0.0 for k in range(2 * count)]
        parts.append(PhaseType(alpha=tuple(start), generator=tuple(map(tuple, whole.tolist()))))
    shares = (met / met.sum()).tolist()
    return Mixture(weights=(*shares[:-1], 1 - math.fsum(shares[:-1])), laws=tuple(parts))


def thinning(law: Spec, *, limit: float, field: str) -> tuple[Spec, float]:
    """A law to draw from and a bound: how a service in progress is drawn that is cut at `limit`.

    With a bound, draws of the law itself are cut at the limit and kept with probability draw / bound.  Without one
    (0), draws are already weighted by length, and those beyond the limit are the limit with probability limit / draw.

    Weighted draws of laws that have a bound may cost a table; they are taken where more than half would be thinned.

    Raises
    ------
    InvalidModel : neither is known here; a finite limit always does.
    """
    bound = min(upper_bound(law), limit)
    biased = size_biased(law, field=field)
    if biased is not None and (bound == math.inf or 2 * mean_time(law, field=field) < bound):
        return biased, 0.0
    if bound == math.inf:
        rule = "has no sampler of services in progress here: a finite time limit would do"
        raise InvalidModel(field=field, rule=rule, value=law.kind())
    return law, bound


_RULES: dict[type[Spec], Callable[[Any, str], Law | None]] = {
    Exponential: _exponential,
    Deterministic: _deterministic,
    Uniform: _uniform,
    Erlang: _erlang,
    Hyperexponential: _hyperexponential,
    Gamma: _gamma,
    Weibull: _weibull,
    LogNormal: _lognormal,
    Pareto: _pareto,
    BoundedPareto: _bounded_pareto,
    PhaseType: _phase_type,
    Mixture: _mixture,
    Product: _product,
}
