"""Mixtures of exponentials for heavy tails (Feldmann and Whitt)."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log

import numpy as np
from numpy.typing import ArrayLike

from qtheory.models.errors import InvalidModel
from qtheory.queues.phase_type import PhaseType, hyperexponential


def feldmann_whitt(*, survival: Callable[[float], float], points: ArrayLike, ratio: float = 2.0) -> PhaseType:
    """A mixture of exponentials that follows P(X > t) at `points` and at `ratio` times each of them.

    From the largest point down: the exponential term through the two values there, minus the terms already
    found (Feldmann and Whitt 1998, "Fitting mixtures of exponentials to long-tail distributions", Perform.
    Eval. 31, sec. 4); the last term makes the weights sum to 1 and passes the smallest point. The law should
    have a decreasing density with a tail heavier than exponential (Pareto, Weibull of shape < 1, lognormal of
    large scv beyond its mode). Spacing them by a factor 4 keeps P(X > t) of a Pareto law within 5 %, a
    decade within 30 %; the fit ends, as any mixture does, with an exponential tail beyond the largest.

    Raises `InvalidModel` where a term would have a negative weight or rate: space the points further apart.

    >>> law = feldmann_whitt(survival=lambda t: (1 + t) ** -1.5, points=1e4 / 4.0 ** np.arange(9))
    >>> law.order, law.kind, bool(abs(law.survival(300.0) / 301.0**-1.5 - 1) < 0.05)
    (9, 'phase-type', True)
    """
    at = np.sort(np.asarray(points, dtype=np.float64))[::-1]
    if at.ndim != 1 or not len(at) or not (at > 0.0).all() or not (at < np.inf).all():
        raise InvalidModel(field="points", rule="must be positive times", value=at.tolist())
    if not ratio > 1.0 or (at[:-1] / at[1:] < ratio).any():
        raise InvalidModel(field="points", rule=f"must be spaced by at least the ratio {ratio}", value=at.tolist())
    weights: list[float] = []
    rates: list[float] = []

    def remainder(t: float) -> float:
        return survival(t) - sum(w * exp(-r * t) for w, r in zip(weights, rates, strict=True))

    for index, point in enumerate(at.tolist()):
        near = remainder(point)
        last = index == len(at) - 1
        if last:
            weight = 1.0 - sum(weights)
            rate = log(weight / near) / point if weight > 0.0 and near > 0.0 else -1.0
        else:
            far = remainder(ratio * point)
            rate = log(near / far) / ((ratio - 1.0) * point) if near > 0.0 and far > 0.0 else -1.0
            weight = near * exp(min(rate * point, 700.0))
        if not rate > 0.0 or not 0.0 < weight < 1.0 + 1e-12:
            raise InvalidModel(
                field=f"points.{index}",
                rule="gives a term with negative weight or rate: space the points further apart, or check that "
                "the tail is heavier than exponential there",
                value=point,
            )
        weights.append(weight)
        rates.append(rate)
    return hyperexponential(probabilities=weights, means=1.0 / np.array(rates))
