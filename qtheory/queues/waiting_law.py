"""Distribution of wait and response of GI/G/c from three numbers: P(W > 0), E[W] and the scv of the wait given a wait.

The wait given a wait is taken as exponential, or as the phase-type law of two branches with its first two moments:
hyperexponential with the third moment of a gamma law (scv > 1) or a mixture of Erlang laws of neighbouring order and
one rate (scv < 1). Exact for M/M/c. With the three numbers exact, the 90, 95 and 99 % points of the wait are met within
9 % for M/H2/1 (scv 2 to 10, load 0.5 and more; 3 % for the 95 % point) and within 6 % for M/D/c.

Whitt (1993), Approximations for the GI/G/m queue, sec. 4; Tijms (2003), A First Course in Stochastic Models, app. B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qtheory._lazy import special
from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues._inversion import survival_quantile
from qtheory.queues._values import FloatArray, Values, levels, nonnegative, positive, probabilities, shaped

# Arguments throughout: wait_probability in [0, 1], mean_wait >= 0 and finite (above 0 where a wait is possible),
# conditional_scv >= 0.01 and finite, at >= 0 a time, level in [0, 1). `InvalidModel` for an argument out of range.

_LEAST_SCV = 0.01  # Erlang laws of order 100 at most
_FINE, _FINE_WEIGHTS = np.polynomial.legendre.leggauss(16)
_COARSE, _COARSE_WEIGHTS = np.polynomial.legendre.leggauss(10)
_TOLERANCE = 1e-7


def wait_survival(
    *,
    at: Values | float,
    wait_probability: Values | float,
    mean_wait: Values | float,
    conditional_scv: Values | float,
) -> Values:
    """P(W > t); arrays broadcast.

    >>> round(wait_survival(at=2.0, wait_probability=0.8, mean_wait=4.0, conditional_scv=1.0), 9)  # 0.8 e^-0.4
    0.536256037
    """
    (time,) = nonnegative(at=at)
    waits, *law = _two_branches(wait_probability, mean_wait, conditional_scv)
    return shaped(waits * _conditional_survival(time, *law), at)


def wait_quantile(
    *,
    level: Values | float,
    wait_probability: Values | float,
    mean_wait: Values | float,
    conditional_scv: Values | float,
) -> Values:
    """Smallest t with P(W <= t) >= level; arrays broadcast. Raises `NotConverged` if the root finder stops early."""
    share = levels(level)
    waits, *law = _two_branches(wait_probability, mean_wait, conditional_scv)

    def survival(time: FloatArray, waits: FloatArray, *law: FloatArray) -> FloatArray:
        return waits * _conditional_survival(time, *law)

    quantile = survival_quantile(
        survival, level=share, start=law[1] / law[2], parameters=(waits, *law), where="wait quantile"
    )
    return shaped(quantile, level)


def response_survival(
    *,
    at: Values | float,
    wait_probability: float,
    mean_wait: float,
    conditional_scv: float,
    service_survival: Callable[[FloatArray], FloatArray],
    breakpoints: Sequence[float] = (),
) -> Values:
    """P(W + S > t) with S independent of W: P(S > t) + P(W > 0) (P(D > t) - P(S > t) + integral of f_D P(S > t - .)).

    `service_survival` is P(S > t) on arrays, `breakpoints` the times where it jumps or bends (the ends of the
    support, atoms). Quadrature by panels that shrink towards both ends, absolute error below 1e-7, checked by a
    second rule.

    Raises `NotConverged` if the two disagree: a breakpoint was left out.

    >>> import numpy as np
    >>> round(response_survival(  # M/M/1 at load 0.8: exp(-0.2 t)
    ...     at=5.0, wait_probability=0.8, mean_wait=4.0, conditional_scv=1.0, service_survival=lambda t: np.exp(-t)), 9)
    0.367879441
    """
    (time,) = nonnegative(at=at)
    waits, *law = _two_branches(wait_probability, mean_wait, conditional_scv)
    response = _Response(waits, tuple(law), service_survival, np.unique(np.asarray(breakpoints, dtype=np.float64)))
    return shaped(response.survival(np.asarray(time)), at)


def response_quantile(
    *,
    level: Values | float,
    wait_probability: float,
    mean_wait: float,
    conditional_scv: float,
    service_survival: Callable[[FloatArray], FloatArray],
    breakpoints: Sequence[float] = (),
) -> Values:
    """Smallest t with P(W + S <= t) >= level. Arguments and errors as for `response_survival`.

    Levels beyond 1 - 1e-6 are refused: the quadrature does not carry that far.
    """
    share = levels(level)
    if np.any(share > 1.0 - 1e-6):
        raise InvalidModel(field="level", rule="must be at most 1 - 1e-6", value=float(np.max(share)))
    waits, *law = _two_branches(wait_probability, mean_wait, conditional_scv)
    response = _Response(waits, tuple(law), service_survival, np.unique(np.asarray(breakpoints, dtype=np.float64)))
    start = np.asarray(mean_wait if mean_wait > 0.0 else 1.0, dtype=np.float64)
    quantile = survival_quantile(response.survival, level=share, start=start, where="response quantile")
    return shaped(quantile, level)


@dataclass(frozen=True, slots=True)
class _Response:
    """The convolution of a wait of two branches with a service time."""

    waits: FloatArray
    law: tuple[FloatArray, ...]
    service_survival: Callable[[FloatArray], FloatArray]
    breakpoints: FloatArray

    def survival(self, time: FloatArray) -> FloatArray:
        flat = time.ravel()
        alone = self.service_survival(flat)
        if not np.any(self.waits > 0.0):
            return np.asarray(alone).reshape(time.shape)
        fine, coarse = self._convolved(flat, _FINE, _FINE_WEIGHTS), self._convolved(flat, _COARSE, _COARSE_WEIGHTS)
        miss = float(np.max(np.abs(fine - coarse), initial=0.0))
        if miss > _TOLERANCE:
            raise NotConverged(
                where="response time",
                residual=miss,
                iterations=_FINE.size,
                advice="give every time at which the service law jumps, starts or ends as a breakpoint",
            )
        both = _conditional_survival(flat, *self.law) + fine
        return np.asarray((1.0 - self.waits) * alone + self.waits * both).reshape(time.shape)

    def _convolved(self, time: FloatArray, nodes: FloatArray, weights: FloatArray) -> FloatArray:
        """integral_0^t f_D(t - s) P(S > s) ds, in panels of s that halve towards 0 and t and end at breakpoints."""
        fastest = float(np.max(np.maximum(self.law[2], self.law[4])))
        longest = float(np.max(time, initial=0.0))
        halvings = int(np.clip(np.ceil(np.log2(max(longest * fastest, 1.0))) + 3, 6, 60))
        shares = 0.5 ** np.arange(1.0, halvings + 1.0)
        edges = np.concatenate([[0.0], shares, 1.0 - shares, [1.0]]) * time[:, None]
        bends = np.minimum(np.broadcast_to(self.breakpoints, (time.size, self.breakpoints.size)), time[:, None])
        edges = np.sort(np.concatenate([edges, bends], axis=1), axis=1)
        half = 0.5 * np.diff(edges, axis=1)[:, :, None]
        service = edges[:, :-1, None] + half * (1.0 + nodes)
        wait = np.maximum(time[:, None, None] - service, 0.0)
        values = _conditional_density(wait, *self.law) * self.service_survival(service)
        return np.asarray(np.sum(values * (half * weights), axis=(1, 2)))


def _two_branches(
    wait_probability: Any, mean_wait: Any, conditional_scv: Any
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """P(W > 0); weight, order and rate of the first Erlang branch; order and rate of the second."""
    waits = probabilities("wait_probability", wait_probability)
    (mean,) = nonnegative(mean_wait=mean_wait)
    (scv,) = positive(conditional_scv=conditional_scv)
    if np.any(scv < _LEAST_SCV):
        raise InvalidModel(field="conditional_scv", rule=f"must be at least {_LEAST_SCV:g}", value=float(np.min(scv)))
    waits, mean, scv = np.broadcast_arrays(waits, mean, scv)
    if np.any((mean > 0.0) != (waits > 0.0)):
        raise InvalidModel(
            field="mean_wait", rule="must be above 0 exactly where wait_probability is", value=float(np.min(mean))
        )
    given = np.where(waits > 0.0, mean / np.where(waits > 0.0, waits, 1.0), 1.0)
    spread = np.maximum(scv, 1.0)
    slow = 2.0 * (1.0 - np.sqrt((spread - 0.5) / (spread + 1.0)))
    fast = 4.0 - slow
    heavy = fast * (1.0 - slow) / (fast - slow)
    tight = np.minimum(scv, 1.0)
    order = np.maximum(np.ceil(1.0 / tight), 2.0)
    root = np.sqrt(np.maximum(order * (1.0 + tight) - order**2 * tight, 0.0))
    light = np.clip((order * tight - root) / (1.0 + tight), 0.0, 1.0)
    erlang = scv < 1.0
    rate = (order - light) / given
    return (
        waits,
        np.where(erlang, light, heavy),
        np.where(erlang, order - 1.0, 1.0),
        np.where(erlang, rate, fast / given),
        np.where(erlang, order, 1.0),
        np.where(erlang, rate, slow / given),
    )


def _conditional_survival(
    time: FloatArray,
    weight: FloatArray,
    order1: FloatArray,
    rate1: FloatArray,
    order2: FloatArray,
    rate2: FloatArray,
) -> FloatArray:
    first, second = special.gammaincc(order1, rate1 * time), special.gammaincc(order2, rate2 * time)
    return np.asarray(weight * first + (1.0 - weight) * second)


def _conditional_density(
    time: FloatArray,
    weight: FloatArray,
    order1: FloatArray,
    rate1: FloatArray,
    order2: FloatArray,
    rate2: FloatArray,
) -> FloatArray:
    first = rate1 * _erlang_density(rate1 * time, order1)
    return np.asarray(weight * first + (1.0 - weight) * rate2 * _erlang_density(rate2 * time, order2))


def _erlang_density(time: FloatArray, order: FloatArray) -> FloatArray:
    return np.asarray(np.exp(special.xlogy(order - 1.0, time) - time - special.gammaln(order)))
