"""Two queues, exactly: the generating function of the diagonal from a boundary value problem.

Service rate 1, arrival rate a = rho (1 + p) to the shorter queue, b = rho (1 - p) to the longer, 2 rho in all.
D(w) is the generating function of P(both queues hold m), beta(v) that of P(shorter = 0, longer = j), with the term
j = 0 doubled. Where

    a u + 1/u + b v + 1/v = 2 + 2 rho,

the balance equations leave beta(v) = 2 D(uv) g(u, v), g = 1 + rho v (1 - a u) / (1 - b v). For v between the branch
points the two u are conjugate, u = exp(+-i theta) / sqrt(a), so D(w) g is real on the closed curve w = u v around 0;
inside D is the analytic function for which this holds, up to a factor. With the two poles of D next to the curve taken
out, the rest is so smooth that a polynomial of degree 20 to 80 has it to all digits: its coefficients are the null
vector of the imaginary parts at points of the curve. The number present T then follows from

    E[z^T] = beta(z) / (2 (1 - rho z)),    E[T] = rho / (1 - rho) + beta'(1) / beta(1),

and the laws of the longer and the shorter queue have the generating functions

    D(v) (1 + a v) / (1 - b v)    and    (2 (1 - rho) - D(u) (1 + a u)) / (1 - a u).

p = 1 is the shortest of two queues of Kingman (1961), Ann. Math. Statist. 32, 1314-1323, and Flatto and McKean (1977),
Comm. Pure Appl. Math. 30, 255-263; for the method see Cohen and Boxma (1983), Boundary Value Problems in Queueing
System Analysis. The basis is orthogonal on the curve (Brubeck, Nakatsukasa and Trefethen 2021, SIAM Rev. 63, 405-415).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from qtheory.models.errors import NotConverged
from qtheory.systems.flexible.fixed_point import check

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

_DEGREES = (20, 32, 48, 72, 108, 162, 243)
_ACCEPTED = 1e-13
_WEAKEST = 1e-8
_LEAST = 1e-17
#: Round-off in E[T], however few jobs there are.
_ROUND_OFF = 4e-16


@dataclass(frozen=True, kw_only=True)
class PairMeans:
    """Mean numbers in two queues; `error` bounds `number` by the change from one degree to the next and round-off."""

    number: float
    shorter: float
    longer: float
    error: float
    degree: int


def pair_means(*, load: float, fraction: float) -> PairMeans:
    """Mean numbers in both queues, the shorter and the longer; a flexible job joins the shorter of the two.

    `fraction` in (0, 1].  Raises `NotConverged` where two successive degrees differ by more than 1e-8.

    >>> round(pair_means(load=0.9, fraction=1.0).number / 1.8, 8)
    5.47491282
    """
    number, error, diagonal = _converged(load=load, fraction=fraction)
    # By Little's law and the identity 1 + number / 2 for the response of a dedicated job.
    shorter = (number / (2.0 * load) - (1.0 - fraction) * (1.0 + number / 2.0)) / fraction - 1.0
    return PairMeans(
        number=number,
        shorter=shorter,
        longer=number - shorter,
        error=error,
        degree=diagonal.degree,
    )


def tail_terms(*, load: float, fraction: float) -> int:
    """How many terms `pair_tails` computes: the longer queue falls by load (1 - fraction), the diagonal by load^2.

    >>> tail_terms(load=0.9, fraction=1.0)
    256
    """
    b = load * (1.0 - fraction)
    return max(_diagonal_terms(load), math.ceil(math.log(_LEAST) / math.log(b)) if b > 0.0 else 0)


def _diagonal_terms(load: float) -> int:
    """The least power of two from which on P(both queues hold m) counts for nothing."""
    return 1 << math.ceil(math.log2(max(math.log(_LEAST) / (2.0 * math.log(load)), 32.0)))


def pair_tails(*, load: float, fraction: float) -> tuple[Array, Array]:
    """P(shorter >= k) and P(longer >= k) for k = 0, 1, ..., to an absolute 1e-13 or so.

    >>> shorter, longer = pair_tails(load=0.9, fraction=1.0)
    >>> round(float(shorter[1] + longer[1]) / 2, 12)
    0.9
    """
    diagonal = _converged(load=load, fraction=fraction)[2]
    a, b = diagonal.a, diagonal.b
    size = _diagonal_terms(load)
    both = (np.fft.fft(diagonal.anywhere(np.exp(2j * math.pi * np.arange(size) / size))).real / size).tolist()
    length = tail_terms(load=load, fraction=fraction)
    both += [0.0] * (length - size)
    longer, chance, before = [], 0.0, 0.0
    for at in both:
        chance = b * chance + at + a * before
        longer.append(chance)
        before = at
    if a < 1.0:
        shorter, chance, before = [], 2.0 * (1.0 - load), 0.0
        for at in both:
            chance -= at + a * before
            shorter.append(chance)
            chance *= a
            before = at
    else:
        # Upwards the recursion is unstable; downwards its terms are positive.
        shorter = [0.0] * length
        for m in range(length - 1, 0, -1):
            shorter[m - 1] = (shorter[m] + both[m]) / a + both[m - 1]
    return _sums(shorter), _sums(longer)


def _sums(chances: list[float]) -> Array:
    """P(>= k) from P(= k), with P(>= 0) = 1 to the last digit."""
    tail = np.cumsum(np.maximum(chances, 0.0)[::-1])[::-1]
    return np.asarray(tail / tail[0])


@lru_cache(maxsize=8)
def _converged(*, load: float, fraction: float) -> tuple[float, float, _Diagonal]:
    """E[T], its error and D, the degree raised until E[T] stands still."""
    check(load=load, fraction=fraction, choices=2)
    before, change = math.inf, math.inf
    for degree in _DEGREES:
        diagonal = _fit(load=load, fraction=fraction, degree=degree)
        number = load / (1.0 - load) + diagonal.log_slope()
        change = abs(number - before)
        if change <= _ACCEPTED * number / (1.0 - load):
            break
        before = number
    # Between service at once and no choice: in light traffic these bounds know more than the boundary value problem.
    low, high = 2.0 * load, 2.0 * load / (1.0 - load)
    number = min(max(number, low), high)
    if not min(change, high - low) <= _WEAKEST * number:
        raise NotConverged(
            where="exact solution for two queues",
            residual=change,
            iterations=len(_DEGREES),
            advice="the load is too near to 1 for so small a fraction: take method='mean-field'",
        )
    error = min(change + _ROUND_OFF + 2e-15 * number / (1.0 - load), high - low)
    return number, error, diagonal


@dataclass(frozen=True, eq=False, kw_only=True)
class _Diagonal:
    """D(w) = E(w) / (product of 1 - w / pole), E by coefficients in the basis that `recurrence` generates."""

    a: float
    b: float
    load: float
    poles: tuple[float, float]
    recurrence: Array
    coefficients: Array

    @property
    def degree(self) -> int:
        return len(self.coefficients) - 1

    def inside(self, points: ComplexArray) -> ComplexArray:
        """D at points inside the curve, up to the factor of the null vector."""
        basis = np.empty((len(points), len(self.coefficients)), complex)
        basis[:, 0] = 1.0
        for k in range(self.degree):
            column = points * basis[:, k] - basis[:, : k + 1] @ self.recurrence[: k + 1, k]
            basis[:, k + 1] = column / self.recurrence[k + 1, k]
        value: ComplexArray = np.asarray(basis @ self.coefficients, complex)
        for pole in self.poles:
            value = value / (1.0 - points / pole)
        return np.asarray(value)

    def ratio(self, u: ComplexArray, v: ComplexArray | Array) -> ComplexArray:
        """g(u, v)."""
        return np.asarray(1.0 + self.load * v * (1.0 - self.a * u) / (1.0 - self.b * v))

    def beta(self, v: ComplexArray) -> ComplexArray:
        """beta(v) / 2, from the u of smaller modulus."""
        centre = 2.0 + 2.0 * self.load - self.b * v - 1.0 / v
        root = np.sqrt(centre**2 - 4.0 * self.a)
        u = 2.0 / (centre + np.where((centre.conj() * root).real >= 0.0, root, -root))
        return np.asarray(self.inside(u * v) * self.ratio(u, v))

    def log_slope(self) -> float:
        """beta'(1) / beta(1), from a circle around 1."""
        radius = (1.0 / self.load - 1.0) / 2.0 if self.load > 0.6 else 1.0 / 3.0
        turn = np.exp(2j * math.pi * np.arange(64) / 64)
        values = self.beta(1.0 + radius * turn)
        return float((np.mean(values / turn) / np.mean(values)).real) / radius

    def anywhere(self, points: ComplexArray) -> ComplexArray:
        """D at points with |w| <= 1, inside the curve or not, with the right factor.

        Outside, w = u v is led to w' = u' v inside, u' = 1 / (a u) the other root for v: D(w) = D(w') g(u', v) / g(u,
        v).
        """
        a, b, rho = self.a, self.b, self.load
        root = np.sqrt((1.0 + rho) ** 2 - (a + 1.0 / points) * (1.0 + b * points))
        images: list[ComplexArray] = [points]
        factors: list[ComplexArray] = [np.ones_like(points)]
        for sign in (1.0, -1.0):
            u = (1.0 + rho + sign * root) / (a + 1.0 / points)
            v = points / u
            other = 1.0 / (a * u)
            images.append(other * v)
            factors.append(self.ratio(other, v) / self.ratio(u, v))
        depth = np.array([np.abs(w) / _radius(np.angle(w), a=a, b=b, load=rho) for w in images])
        best = np.where(depth[0] <= 1.0, 0, 1 + np.argmin(depth[1:], axis=0))
        place = np.arange(len(points))
        value = self.inside(np.array(images)[best, place]) * np.array(factors)[best, place]
        return np.asarray(value * (1.0 - rho) / self.beta(np.ones(1, complex)).real)


def _radius(angle: Array, *, a: float, b: float, load: float) -> Array:
    """|w| = v / sqrt(a) on the curve, v the smaller root of b v + 1/v = 2 + 2 rho - 2 sqrt(a) cos(angle)."""
    root = math.sqrt(a)
    excess = ((a - 1.0) / (root + 1.0)) ** 2 + 4.0 * root * np.sin(angle / 2.0) ** 2
    linear = 1.0 - b + excess
    gap = 2.0 * excess / (linear + np.sqrt(linear**2 + 4.0 * b * excess))
    return np.asarray((1.0 - gap) / root)


def _fit(*, load: float, fraction: float, degree: int) -> _Diagonal:
    """The null vector of Im[D g] over the polynomials of one degree."""
    a, b = load * (1.0 + fraction), load * (1.0 - fraction)
    second = (1.0 + fraction + load) ** 2 / (load * (1.0 + fraction) * (1.0 - fraction + load) ** 2)
    poles = (1.0 / load**2, second)
    count = 3 * (degree + 1)
    # Near the tip of the curve, at theta = 0, things change on the scale of 1 - rho: half of the points gather there.
    even = (np.arange(count) + 0.5) / count
    scale = max(1.0 - load, 1e-4)
    angle = np.concatenate([math.pi * even, scale * np.sinh(math.asinh(math.pi / scale) * even)])
    u: ComplexArray = np.asarray(np.exp(1j * angle) / math.sqrt(a), complex)
    v = _radius(angle, a=a, b=b, load=load) * math.sqrt(a)
    w = u * v
    basis = np.empty((len(w), degree + 1), complex)
    recurrence = np.zeros((degree + 1, degree))
    basis[:, 0] = 1.0
    for k in range(degree):
        column = w * basis[:, k]
        for _ in range(2):
            # The inner product is over both halves of the curve, hence the real part.
            share = (basis[:, : k + 1].conj().T @ column).real / len(w)
            column = column - basis[:, : k + 1] @ share
            recurrence[: k + 1, k] += share
        recurrence[k + 1, k] = np.linalg.norm(column) / math.sqrt(len(w))
        basis[:, k + 1] = column / recurrence[k + 1, k]
    nothing = _Diagonal(a=a, b=b, load=load, poles=poles, recurrence=recurrence, coefficients=np.zeros(degree + 1))
    direction = nothing.ratio(u, v) / ((1.0 - w / poles[0]) * (1.0 - w / poles[1]))
    phase = direction / np.abs(direction)
    coefficients = np.linalg.svd((basis * phase[:, None]).imag, full_matrices=False)[2][-1]
    return _Diagonal(a=a, b=b, load=load, poles=poles, recurrence=recurrence, coefficients=coefficients)
