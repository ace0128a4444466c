"""Laws from moments: two-moment rules, order 2 from three moments, order n from 2n - 1, mixtures of Erlangs.

Order-n fits match 2n - 1 moments by a rational transform of degree n. Such a law need not be phase-type and
may not be a law at all (`PhaseType.kind` says which): a fixed time fitted in this way is ``signed``, with its
three moments right and a density that dips below 0. Means of queues come out well from it, tails do not.
"""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.linear import Array
from qtheory.queues.phase_algebra import mixture
from qtheory.queues.phase_type import PhaseType, erlang, exponential, hyperexponential

LARGEST_SHAPE = 400


def two_moments(*, mean: float, scv: float) -> PhaseType:
    """A phase-type law with this mean and squared coefficient of variation.

    scv < 1: mixture of Erlang(k-1) and Erlang(k) with one rate, 1/k <= scv (Tijms 1994, Stochastic Models,
    p. 358); scv > 1: two exponentials with balanced means. scv below 1/400 is refused: no phase-type law of
    moderate order is so regular.

    >>> law = two_moments(mean=2.0, scv=0.3)
    >>> law.order, round(law.mean, 12), round(law.scv, 12)
    (4, 2.0, 0.3)
    """
    _check_positive(mean, "mean")
    if not 0.0 <= scv < np.inf:
        raise InvalidModel(field="scv", rule="must be at least 0 and finite", value=scv)
    if abs(scv - 1.0) < 1e-14:
        return exponential(mean=mean)
    if scv > 1.0:
        share = (1.0 + sqrt((scv - 1.0) / (scv + 1.0))) / 2.0
        rest = 1.0 / (scv + 1.0) / (2.0 * share)  # 1 - share, without cancellation
        return hyperexponential(probabilities=[share, rest], means=[mean / (2.0 * share), mean / (2.0 * rest)])
    if scv < 1.0 / LARGEST_SHAPE:
        raise InvalidModel(
            field="scv",
            rule=f"must be at least 1/{LARGEST_SHAPE} for a phase-type law; treat it as a constant",
            value=scv,
        )
    k = ceil(1.0 / scv - 1e-12)
    short = (k * scv - sqrt(max(k * (1.0 + scv) - k * k * scv, 0.0))) / (1.0 + scv)
    rate = (k - short) / mean
    chain = np.diag(np.full(k - 1, rate), 1) - rate * np.eye(k)
    alpha = np.zeros(k)
    alpha[0] = 1.0 - short
    alpha[min(1, k - 1)] += short
    return PhaseType(alpha=alpha, generator=chain)


def three_moments(*, m1: float, m2: float, m3: float) -> PhaseType:
    """The order-2 law with E[X] = m1, E[X^2] = m2, E[X^3] = m3, its transform (1 + a s) / (1 + b1 s + b2 s^2).

    Real poles: Coxian form, fast phase first, accurate for near-equal poles as no difference of poles is
    divided by. Complex poles (scv < 1/2 or so; a fixed time has them): a real pair of phases, ``signed``.
    It exists iff m3 is below 1.5 m2^2 / m1 for scv < 1 and above it for scv > 1; otherwise `InvalidModel`
    says so (`mixed_erlang` then gives a law of higher order with the same moments).

    >>> law = three_moments(m1=1.0, m2=2.5, m3=12.0)
    >>> law.kind, [round(law.moment(k), 10) for k in (1, 2, 3)]
    ('phase-type', [1.0, 2.5, 12.0])
    """
    r1, r2, r3 = _reduced([m1, m2, m3])
    spread = r2 - r1 * r1
    if abs(spread) < 1e-13 and abs(r3 - 1.0) < 1e-9:
        return exponential(mean=m1)
    b1 = (r3 - r1 * r2) / spread if spread else np.inf
    b2 = b1 * r1 - r2
    if not (0.0 < b1 < 1e8 and b2 > 0.0):
        side = "below" if m2 < 2.0 * m1 * m1 else "above"
        raise InvalidModel(
            field="m3",
            rule=f"must be {side} 1.5 m2^2 / m1 = {1.5 * m2**2 / m1:.6g} for a law of order 2 (use more phases)",
            value=m3,
        )
    half = b1 / 2.0
    square = half * half - b2
    if square >= 0.0:
        slow = half + sqrt(square)
        fast = b2 / slow
        onward = (r1 - fast) / slow
        matrix = np.array([[-1.0 / fast, onward / fast], [0.0, -1.0 / slow]])
        return PhaseType(alpha=np.array([1.0, 0.0]), generator=matrix / m1)
    rate = half / b2
    turn = sqrt(-square) / b2
    onward = r1 / half - 1.0
    if abs(onward) * rate >= turn:
        matrix = np.array([[-rate, onward * rate], [-turn * turn / (onward * rate), -rate]])
        return PhaseType(alpha=np.array([1.0, 0.0]), generator=matrix / m1)
    # The same pair turned, for the corner where the form above would divide by a small number.
    start = (1.0 + onward * rate / turn) / 2.0
    matrix = np.array([[-rate, turn], [-turn, -rate]])
    return PhaseType(alpha=np.array([start, 1.0 - start]), generator=matrix / m1)


def rational(moments: ArrayLike) -> PhaseType:
    """The order-n law with the 2n - 1 given moments E[X], E[X^2], ..., by a Padé approximant of the transform.

    The phases stand in series, slowest first (the canonical form of Cumani 1982 when it is phase-type), a
    complex pair of poles as two phases with feedback; the start vector carries the numerator, so that
    near-equal poles do no harm. Orders 2 and 3 are the useful ones: the moments of a law fix it ever less
    well. Raises `InvalidModel` if no such law with poles left of 0 exists.

    >>> law = rational([1.0, 1.25, 1.875, 3.28125, 6.5625])   # Erlang with 4 phases
    >>> law.order, law.kind, [round(law.moment(k), 8) for k in (1, 2, 3, 4, 5)]
    (3, 'signed', [1.0, 1.25, 1.875, 3.28125, 6.5625])
    """
    values = [float(value) for value in np.asarray(moments, dtype=np.float64)]
    if len(values) % 2 != 1:
        raise InvalidModel(field="moments", rule="must be an odd number of moments", value=len(values))
    n = (len(values) + 1) // 2
    series = np.array([1.0, *_reduced(values)]) * (-1.0) ** np.arange(2 * n)
    hankel = np.array([[series[k - j] for j in range(1, n + 1)] for k in range(n, 2 * n)])
    if np.linalg.cond(hankel) > 1e13:
        raise InvalidModel(
            field="moments", rule=f"must not be those of a law of order below {n} (use fewer moments)", value=values
        )
    denominator = np.concatenate([[1.0], np.linalg.solve(hankel, -series[n:])])
    numerator = np.array([denominator[: k + 1] @ series[k::-1] for k in range(n)])
    poles = np.roots(denominator[::-1]).astype(np.complex128)
    if not poles.real.max() < 0.0:
        raise InvalidModel(
            field="moments",
            rule=f"must be those of a law with a stable fit of order {n} (try another order)",
            value=values,
        )
    law = _series_form(poles, numerator)
    for k, wanted in enumerate(_reduced(values), start=1):
        found = law.moment(k) / float(np.prod(np.arange(1, k + 1)))
        if not abs(found - wanted) <= 1e-6 * wanted:
            raise NotConverged(
                where="moment fit", residual=abs(found / wanted - 1.0), iterations=1, advice="use a lower order"
            )
    return law.scaled(factor=values[0])


def mixed_erlang(*, m1: float, m2: float, m3: float) -> PhaseType:
    """A mixture of two Erlang laws of one shape with these three moments: always phase-type.

    The smallest shape that can do it is taken (Johnson and Taaffe 1989, "Matching moments to phase
    distributions: mixtures of Erlang distributions of common order", Stoch. Models 5). Any law on (0, inf)
    that is not a constant can be matched; shapes above 400 are refused.

    >>> law = mixed_erlang(m1=1.0, m2=1.7, m3=1.7**3)   # lognormal, scv .7: out of reach of order 2
    >>> law.order, law.kind, round(law.moment(3), 10)
    (4, 'phase-type', 4.913)
    """
    _reduced([m1, m2, m3])
    c2, c3 = m2 / m1**2, m3 / m1**3
    for shape in range(1, LARGEST_SHAPE + 1):
        u2, u3 = c2 * shape / (shape + 1), c3 * shape**2 / ((shape + 1) * (shape + 2))
        spread = u2 - 1.0
        if abs(spread) < 1e-12 and abs(u3 - 1.0) < 1e-9:
            return erlang(shape=shape, mean=m1)
        if spread <= 1e-12 or u3 <= u2 * u2:
            continue
        # Two-point law of the means with moments 1, u2, u3: its points are the roots of x^2 - s x + p.
        s, p = (u3 - u2) / spread, (u3 - u2 * u2) / spread
        high = (s + sqrt(max(s * s - 4.0 * p, 0.0))) / 2.0
        low = p / high
        weight = (high - 1.0) / (high - low)
        parts = [erlang(shape=shape, mean=m1 * low), erlang(shape=shape, mean=m1 * high)]
        return mixture(weights=[weight, 1.0 - weight], laws=parts)
    raise InvalidModel(
        field="moments",
        rule=f"need Erlang phases of shape above {LARGEST_SHAPE}; treat the time as a constant",
        value=c2 - 1.0,
    )


def _series_form(poles: NDArray[np.complex128], numerator: Array) -> PhaseType:
    """Phases in series, slowest first, with `numerator` over prod(1 - s / pole) as transform."""
    ordered = sorted((pole for pole in poles if pole.imag >= 0.0), key=lambda pole: -pole.real)
    n = len(poles)
    matrix = np.zeros((n, n))
    entry = []  # numerator polynomials of the transform of entering at each phase, up to the common denominator
    before = np.ones(1)
    at = 0
    for pole in ordered:
        rate = -float(pole.real)
        matrix[at, at] = -rate
        entry.append(before)
        if pole.imag == 0.0:
            onward, width = rate, 1
            before = np.convolve(before, [1.0, 1.0 / rate])
        else:
            back = float(pole.imag) ** 2 / rate
            matrix[at, at + 1], matrix[at + 1, at], matrix[at + 1, at + 1] = rate, -back, -rate
            entry.append(np.convolve(before, [1.0, 1.0 / rate]))
            onward, width = rate + back, 2
            before = np.convolve(before, [1.0, 2.0 / (rate + back), 1.0 / (rate * (rate + back))])
        if at + width < n:
            matrix[at + width - 1, at + width] = onward
        at += width
    system = np.array([np.pad(polynomial, (0, n - len(polynomial))) for polynomial in entry])
    alpha = np.linalg.solve(system.T, numerator)
    return PhaseType(alpha=alpha, generator=matrix)


def _reduced(moments: list[float]) -> list[float]:
    """E[(X / m1)^k] / k!, after checks that the moments can be those of a law on (0, inf)."""
    for k, value in enumerate(moments, start=1):
        if np.isinf(value):
            raise InvalidModel(
                field=f"m{k}", rule="must be finite (fit the tail, or fewer moments, of such a law)", value=value
            )
        _check_positive(value, f"m{k}")
    scaled = [value / moments[0] ** k for k, value in enumerate(moments, start=1)]
    for k in range(1, len(scaled)):
        before = scaled[k - 2] if k >= 2 else 1.0
        if scaled[k] * before < scaled[k - 1] ** 2 * (1.0 - 1e-10):
            raise InvalidModel(
                field=f"m{k + 1}",
                rule=f"must be at least m{k}^2 / m{k - 1} (log-convexity of moments)"
                if k > 1
                else "must be at least m1^2",
                value=moments[k],
            )
    reduced, factorial = [], 1.0
    for k, value in enumerate(scaled, start=1):
        factorial *= k
        reduced.append(value / factorial)
    return reduced


def _check_positive(value: float, field: str) -> None:
    if not 0.0 < value < np.inf:
        raise InvalidModel(field=field, rule="must be positive and finite", value=value)
