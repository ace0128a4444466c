"""First come first served with phase-type service: the mean-field fixed point of M(k)/PH/1 queues.

In the limit a queue sees Poisson arrivals whose rate depends on the number k it holds,

    lambda_k = rho [(1 - p) + p (s_k^d - s_(k+1)^d) / (s_k - s_(k+1))],

s_k its own P(at least k jobs) (asymptotic independence as in Bramson, Lu and Prabhakar 2012, Queueing Syst. 71,
247-292). With the service law (alpha, T) of mean 1 and pi_k the vector of phases at k jobs, balance and the cut
between k and k + 1 give

    pi_k [lambda_k (I - e alpha) - T] = lambda_(k-1) pi_(k-1)    (lambda_0 pi_0 alpha for k = 1),

so that pi_1, pi_2, ... follow one by one: pi_0 = 1 - rho is known, and at each k one equation is solved for
q_k = pi_k e = s_k - s_(k+1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from qtheory.models.errors import NotConverged
from qtheory.queues.phase_type import PhaseType
from qtheory.systems.flexible import fixed_point
from qtheory.systems.flexible.positions import Stay

Array = NDArray[np.float64]

_LEAST = 1e-13
_LONGEST = 20_000


@dataclass(frozen=True, eq=False, kw_only=True)
class PhaseLaw:
    """Queue length and phase of service in a queue of the limit; service law of mean 1.

    `tails[k]` = s_k; row k - 1 of `vectors` is pi_k; `residual` is what the two ways to the mean response differ by,
    relative to it.
    """

    tails: Array
    vectors: Array
    service: PhaseType
    means: fixed_point.Means
    residual: float
    choices: int
    fraction: float

    def stay(self, *, flexible: bool) -> Stay:
        """Response and wait of one class, by uniformisation at the largest rate of leaving a phase."""
        sub = self.service.generator
        rate = float(-np.diag(sub).min())
        step = np.eye(len(sub)) + sub / rate
        finish = np.outer(self.service.exits / rate, self.service.alpha)
        share = _shares(self.tails, self.choices, flexible=flexible)
        before = self.vectors * share[1:, None]
        # Row j: j + 1 jobs to be served, the one now in service in the phases of the row.
        wait = _left(before, step, finish)
        ahead = np.concatenate([share[:1, None] * (self.tails[0] - self.tails[1]) * self.service.alpha, before])
        return Stay(response=_left(ahead, step, finish), wait=wait, rate=rate)


def phase_law(*, load: float, fraction: float, choices: int, service: PhaseType) -> PhaseLaw:
    """The fixed point for one system.

    Raises `NotConverged` where more than 20 000 lengths matter or the check by Little's law fails by more than 1e-8.

    >>> from qtheory.queues.phase_type import erlang
    >>> round(phase_law(load=0.9, fraction=1.0, choices=3, service=erlang(shape=2, mean=1.0)).means.all, 8)
    1.76202069
    """
    fixed_point.check(load=load, fraction=fraction, choices=choices)
    service = service.scaled(factor=1.0 / service.mean)
    sub, alpha = service.generator, service.alpha
    order = len(alpha)
    mixing = np.eye(order) - np.outer(np.ones(order), alpha)
    tails, vectors = [1.0, load], []

    def rate(upper: float, lower: float) -> float:
        quotient = sum(upper ** (choices - 1 - i) * lower**i for i in range(choices))
        return load * ((1.0 - fraction) + fraction * quotient)

    inflow = rate(1.0, load) * (1.0 - load) * alpha
    while tails[-1] > _LEAST:
        if len(tails) > _LONGEST:
            raise NotConverged(
                where="phase-type fixed point",
                residual=tails[-1],
                iterations=len(tails),
                advice="too many queue lengths matter at this load: lower it",
            )
        level = tails[-1]

        def vector(held: float, level: float = level, inflow: Array = inflow) -> Array:
            """pi_k if q_k were `held`."""
            return np.asarray(np.linalg.solve((rate(level, level - held) * mixing - sub).T, inflow))

        def excess(held: float, level: float = level) -> float:
            return float(vector(held).sum()) - held

        held = level if excess(level) >= 0.0 else float(brentq(excess, 0.0, level, xtol=1e-17, rtol=1e-14))
        found = vector(held)
        vectors.append(found)
        tails.append(max(level - held, 0.0))
        inflow = rate(level, level - held) * found
    s = np.array(tails)
    return _with_means(s, np.array(vectors), load=load, fraction=fraction, choices=choices, service=service)


def _with_means(
    s: Array, vectors: Array, *, load: float, fraction: float, choices: int, service: PhaseType
) -> PhaseLaw:
    """ET by Little's law from the lengths; by class from the phases that jobs find; the two are compared."""
    rest = np.linalg.solve(-service.generator, np.ones(len(service.alpha)))
    found = vectors @ rest + np.arange(1, len(vectors) + 1) * vectors.sum(axis=1)
    responses = np.concatenate([[s[0] - s[1]], found])
    dedicated = float(responses @ _shares(s, choices, flexible=False))
    flexible = float(responses @ _shares(s, choices, flexible=True))
    total = float(s[1:].sum()) / load
    residual = abs((1.0 - fraction) * dedicated + fraction * flexible - total) / total
    if not residual <= 1e-8:
        raise NotConverged(
            where="phase-type fixed point",
            residual=residual,
            iterations=len(s),
            advice="lower the load or take fewer phases",
        )
    return PhaseLaw(
        tails=s,
        vectors=vectors,
        service=service,
        means=fixed_point.Means(all=total, flexible=flexible, dedicated=dedicated),
        residual=residual,
        choices=choices,
        fraction=fraction,
    )


def _shares(s: Array, d: int, *, flexible: bool) -> Array:
    """How much more often than a queue chosen at random the class joins one of k jobs, k = 0, 1, ..."""
    x, y = s[:-1], s[1:]
    if not flexible:
        return np.ones(len(x))
    return np.asarray(sum(x ** (d - 1 - i) * y**i for i in range(d)))


def _left(start: Array, step: Array, finish: Array) -> Array:
    """P(work remains after n events of the uniformised chain), n = 0, 1, ...; row j of `start` has j jobs behind it."""
    state, left = start.copy(), []
    while True:
        mass = float(state.sum())
        left.append(mass)
        if mass <= 1e-16 or len(left) > 10 * _LONGEST:
            return np.array(left)
        done = state @ finish
        state = state @ step
        state[:-1] += done[1:]
