"""The busy period of M/M/1, exactly and in a few phases: what an excursion beyond a threshold looks like.

With arrival rate a and service rate b (r = a / b < 1) the busy period has the transform

    beta(s) = (a + b + s - sqrt((a + b + s)^2 - 4 a b)) / (2 a) = integral of x / (x + s) dW(x),

a mixture of exponentials with rates x in [(sqrt b - sqrt a)^2, (sqrt b + sqrt a)^2] under a semicircle law divided
by x. A quadrature of the integral is a hyperexponential law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.special import ellipj, ellipk, ellipkm1

Array = NDArray[np.float64]

# What would give 1e-23 on s >= 0 gives better than 1e-12 on Re s >= 0.
PRECISION = 54.0
_MARGIN = 4


@dataclass(frozen=True, eq=False, kw_only=True)
class Mixture:
    """Exponential laws of given `rates`, chosen with `weights` (sum 1).

    `error` is the largest |transform - beta| on Re s >= 0; by the maximum principle it is reached on the imaginary
    axis, where it is measured.
    """

    weights: Array
    rates: Array
    error: float

    def moment(self, order: int) -> float:
        """E[X^order] = order! sum of weights / rates^order."""
        return float(math.factorial(order) * (self.weights / self.rates**order).sum())

    def transform(self, s: ArrayLike) -> NDArray[np.complex128]:
        """E[exp(-s X)] for Re s >= 0, elementwise."""
        points = np.asarray(s, complex)[..., None]
        return np.asarray((self.weights * self.rates / (self.rates + points)).sum(axis=-1))


def transform(s: ArrayLike, *, arrival: float, service: float) -> NDArray[np.complex128]:
    """beta(s) for Re s >= 0, elementwise.

    >>> round(float(transform(0.0, arrival=0.5, service=1.0).real), 12)
    1.0
    """
    # The product of two roots keeps to the branch that is 1 at s = 0; written so that s = 0 loses no digits.
    low, high = _support(arrival=arrival, service=service)
    points = np.asarray(s, complex)
    return np.asarray(2 * service / (arrival + service + points + np.sqrt(points + low) * np.sqrt(points + high)))


def _support(*, arrival: float, service: float) -> tuple[float, float]:
    """(sqrt b - sqrt a)^2 and (sqrt b + sqrt a)^2."""
    high = (math.sqrt(service) + math.sqrt(arrival)) ** 2
    return (service - arrival) ** 2 / high, high


def _mixture(*, weights: Array, rates: Array, arrival: float, service: float) -> Mixture:
    """The law with its error, measured on the imaginary axis."""
    law = Mixture(weights=weights, rates=rates, error=0.0)
    low, high = _support(arrival=arrival, service=service)
    axis = 1j * np.geomspace(low / 100, high * 100, 8 * (8 + len(rates)))
    exact = transform(axis, arrival=arrival, service=service)
    return replace(law, error=max(2**-52, float(np.abs(law.transform(axis) - exact).max())))


def moments(*, arrival: float, service: float) -> tuple[float, float, float]:
    """E T, E T^2, E T^3: 1/(b (1-r)), 2/(b^2 (1-r)^3), 6 (1+r)/(b^3 (1-r)^5).

    >>> moments(arrival=0.5, service=1.0)
    (2.0, 16.0, 288.0)
    """
    r = arrival / service
    return (
        1 / (service * (1 - r)),
        2 / (service**2 * (1 - r) ** 3),
        6 * (1 + r) / (service**3 * (1 - r) ** 5),
    )


@lru_cache(maxsize=64)
def matching(*, arrival: float, service: float, phases: int) -> Mixture:
    """The law of `phases` phases that has the first 2 phases - 1 moments of the busy period.

    It is the Gauss quadrature in 1/x, hence a true law for every r < 1, found by Lanczos's process on the nodes of
    `exact`. Two phases are the choice of dimensionality reduction (Osogami 2005, ch. 3), here in closed form: rates
    b (1 - r) (1 -+ sqrt r) with probabilities (1 -+ sqrt r) / 2.

    >>> law = matching(arrival=0.25, service=1.0, phases=2)
    >>> law.rates.round(12).tolist(), law.weights.round(12).tolist()
    ([1.125, 0.375], [0.75, 0.25])
    """
    law = exact(arrival=arrival, service=service)
    diagonal, off = _lanczos(1 / law.rates, law.weights, steps=min(phases, len(law.rates)))
    scales, vectors = eigh_tridiagonal(diagonal, off)
    return _mixture(weights=vectors[0] ** 2, rates=1 / scales, arrival=arrival, service=service)


def _lanczos(nodes: Array, weights: Array, *, steps: int) -> tuple[Array, Array]:
    """Diagonal and off-diagonal of the Jacobi matrix of a discrete measure, fully reorthogonalised."""
    basis = np.zeros((steps, len(nodes)))
    diagonal, off = np.zeros(steps), np.zeros(steps)
    vector = np.sqrt(weights / weights.sum())
    for k in range(steps):
        basis[k] = vector
        vector = nodes * vector
        diagonal[k] = basis[k] @ vector
        for _ in range(2):
            vector = vector - (basis[: k + 1] @ vector) @ basis[: k + 1]
        off[k] = np.linalg.norm(vector)
        vector = vector / (off[k] or 1.0)
    return diagonal, off[:-1]


@lru_cache(maxsize=64)
def exact(*, arrival: float, service: float, precision: float = PRECISION) -> Mixture:
    """The busy period to rounding error, for any r < 1, in a number of phases that grows with log 1/(1 - r) only.

    With x = (x0 + x1 t^2) / (1 + t^2) the integrand has its singularities at t = +-i [k, 1], k^2 = x0 / x1; the
    elliptic substitution t = k sc(u | 1 - k^2) moves them to Im u = +-K', and the trapezoidal rule with n intervals
    on [0, K] errs by exp(-2 pi n K' / K) (as for matrix square roots: Hale, Higham, Trefethen 2008, "Computing
    A^alpha, log(A), and related matrix functions by contour integrals", SIAM J. Numer. Anal. 46, sec. 3). So
    `precision` is -log of the error on s >= 0; on Re s >= 0 it is some exp(-precision / 2).

    >>> law = exact(arrival=0.81, service=1.0)
    >>> len(law.rates) <= 40, abs(law.moment(3) * 0.19**5 / 6 - 1.81) < 1e-11
    (True, True)
    """
    low, high = _support(arrival=arrival, service=service)
    k1 = low / high
    quarter, conjugate = float(ellipkm1(k1)), float(ellipk(k1))
    intervals = math.ceil(precision * quarter / (2 * math.pi * conjugate)) + _MARGIN
    u = quarter * np.arange(1, intervals) / intervals
    t, slope = _sc(u, k1=k1)
    t2 = k1 * t * t
    # 8 t^2 dt / ((1 + t^2)^2 (x0 + x1 t^2)), the semicircle over x, times 2 b / pi.
    density = (16 * service / math.pi) * t2 / ((1 + t2) ** 2 * (low + high * t2)) * math.sqrt(k1) * slope
    weights = density * quarter / intervals
    rates = (low + high * t2) / (1 + t2)
    return _mixture(weights=weights / weights.sum(), rates=rates, arrival=arrival, service=service)


def _sc(u: Array, *, k1: float) -> tuple[Array, Array]:
    """sc(u | 1 - k1) = sn / cn and its derivative dn / cn^2, for u within (0, K).

    Beyond K/2 by sc(K - u) = 1 / (sqrt(k1) sc(u)), where a plain evaluation would lose digits for small k1.
    """
    quarter = float(ellipkm1(k1))
    mirrored = u > quarter / 2
    inner = np.where(mirrored, quarter - u, u)
    if k1 > 1e-4:
        sn, cn, dn, _ = ellipj(inner, 1 - k1)
        value, slope = sn / cn, dn / cn**2
    else:
        # Theta functions of the complementary nome q, which is at most 1e-5 here: terms beyond q^2 vanish.
        scale = math.pi / (2 * float(ellipk(k1)))
        q = math.exp(-2 * scale * quarter)
        z = scale * inner
        top, bottom = np.sinh(z) - q**2 * np.sinh(3 * z), 1 - 2 * q * np.cosh(2 * z)
        factor = 2 * (q / k1) ** 0.25
        value = factor * top / bottom
        rise = (np.cosh(z) - 3 * q**2 * np.cosh(3 * z)) / bottom + 4 * q * np.sinh(2 * z) * top / bottom**2
        slope = factor * scale * rise
    root = math.sqrt(k1)
    return np.where(mirrored, 1 / (root * value), value), np.where(mirrored, slope / (root * value**2), slope)
