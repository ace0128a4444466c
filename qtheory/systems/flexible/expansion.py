"""The 1/N term of the mean field: fluctuations of the tail fractions around the fixed point.

With x_k the fraction of queues holding at least k jobs, drift f, fixed point s, A = Df(s) and Q the diffusion there,
the stationary mean is E[x_k] = s_k + V_k / N + O(1/N^2), where (Gast and Van Houdt 2017, "A refined mean field
approximation", Proc. ACM Meas. Anal. Comput. Syst. 1(2), art. 33, theorem 1)

    A W + W A' + Q = 0,    A V + (1/2) B:W + C = 0,

B the second derivatives of f and C what the drift lacks to its limit, times N. Here A is tridiagonal with positive
off-diagonal entries, hence similar to a symmetric matrix whose eigenvectors solve the Lyapunov equation; Q is diagonal,
2 (s_k - s_(k+1)); B acts on variances only. Draws with replacement have C = 0; with d distinct queues x^d is to be
replaced by x^d - (d (d - 1) / 2) x^(d-1) (1 - x) / N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal, solve_banded

from qtheory.models.errors import NotConverged
from qtheory.systems.flexible import fixed_point

Array = NDArray[np.float64]

_LEAST = 1e-13
_LARGEST = 6000
_NOTHING = 1e-60
#: Share of what Gaussian fluctuations would add beyond the second moment: see `Expansion.beyond`.
_BEYOND = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class Expansion:
    """s_k (k = 0, 1, ...), V_k and the limit of N Var(x_k) (k = 1, 2, ...), service rate 1.

    V is the sum of `fluctuation` (C = 0) and, with distinct queues, `lack` (from C; not positive).
    """

    tails: Array
    fluctuation: Array
    lack: Array
    variance: Array
    fraction: float
    choices: int
    distinct: bool

    @property
    def correction(self) -> Array:
        """V_k, k = 1, 2, ..."""
        return self.fluctuation + self.lack if self.distinct else self.fluctuation

    @property
    def mean_queue(self) -> float:
        """Mean number in a queue in the limit, the sum of s_k."""
        return float(self.tails[1:].sum())

    @property
    def coefficient(self) -> float:
        """The sum of V_k: E[number in a queue] = mean_queue + coefficient / N."""
        return float(self.correction.sum())

    def error(self, *, queues: int) -> float:
        """What mean_queue + coefficient / N may be off, 19 times in 20.

        The next term is of the order of the squared fluctuations and of the lack of the lack. The factors come from
        204 systems of 2 to 5 queues with exact means (loads .3 to .99, d = 2, 3, 5, both samplings): the largest excess
        is by half. The same rule holds against published simulations of 10 to 100 queues.

        Where d is no longer small beside the root of N, flexible jobs notice more than the variance (`beyond`); what
        they add to a level is passed on by the dedicated ones.
        """
        draws = self.choices * (self.choices - 1) / 2.0
        size = float(np.abs(self.fluctuation).sum()) / queues
        load, p = float(self.tails[1]), self.fraction
        many = load * p * float(self.beyond(queues=queues).sum()) / (1.0 - load * (1.0 - p))
        lacking = 0.5 * draws * float(np.abs(self.lack).sum()) / queues**2
        return 1.5 * size * self.relative(queues=queues) + lacking + many

    def beyond(self, *, queues: int) -> Array:
        """What the mean of x_k^d owes to moments of the fluctuations beyond the second, 19 times in 20; k = 1, 2, ...

        Were they Gaussian, the sum over j = 4, 6, ... of C(d, j) (j - 1)!! x_k^(d-j) Var(x_k)^(j/2), at most x_k; to
        this comes their skewness, C(d, 3) x_k^(d-3) Var(x_k) / N as for independent queues that are seldom so long.
        They are bounded: in simulations of 20 systems of 6 to 100 queues with 4 choices to all, a twentieth to .38 of
        the sum was missing, hence half of it. Nothing for two choices.
        """
        x, d = self.tails[1:], self.choices
        square = np.maximum(self.variance, 0.0) / queues
        # An underflow of x^(d-2) stands for a level that all of d queues reach hardly ever.
        term = 0.5 * d * (d - 1) * x ** (d - 2) * square
        total = d * (d - 1) * (d - 2) / 6.0 * x ** max(d - 3, 0) * square / queues
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.where(x > 0.0, square / x**2, 0.0)
            for j in range(4, d + 1, 2):
                term = np.where(total < x, term * ratio * ((d - j + 2) * (d - j + 1) / j), 0.0)
                total += term
                if np.all(term <= 1e-3 * total) and (d - j) ** 2 * float(ratio[0]) < j:
                    break
        return _BEYOND * np.minimum(total, x)

    def relative(self, *, queues: int) -> float:
        """Size of the fluctuations' 1/N term relative to the mean: how fast the terms of the expansion fall."""
        refined = max(self.mean_queue + self.coefficient / queues, self.mean_queue)
        return float(np.abs(self.fluctuation).sum()) / queues / refined

    def idle_error(self, *, queues: int) -> float:
        """What P(a flexible job finds no idle queue) to order 1/N may be off."""
        return self.idle_change(queues=queues) * self.relative(queues=queues) + float(self.beyond(queues=queues)[0])

    def idle_change(self, *, queues: int) -> float:
        """By how much P(a flexible job finds no idle queue) differs from its limit, to order 1/N."""
        return abs(float(self.flexible(queues=queues)[1]) - float(self.tails[1]) ** self.choices)

    def dedicated(self, *, queues: int) -> Array:
        """P(a dedicated job finds at least k jobs) to order 1/N, k = 0, 1, ..."""
        return np.concatenate([[1.0], self.tails[1:] + self.correction / queues])

    def flexible(self, *, queues: int) -> Array:
        """P(a flexible job finds at least k jobs) to order 1/N, k = 0, 1, ...: the mean of x_k^d."""
        x, d = self.tails[1:], self.choices
        change = d * x ** (d - 1) * self.correction + 0.5 * d * (d - 1) * x ** (d - 2) * self.variance
        if self.distinct:
            change += _lack(x, d)
        return np.concatenate([[1.0], x**d + change / queues])


def expansion(*, load: float, fraction: float, choices: int, distinct: bool) -> Expansion:
    """The 1/N term for one system; below 0.5 s at loads up to .99.

    Raises `NotConverged` where more than 6000 lengths matter (loads next to 1 with hardly any flexible jobs).

    >>> e = expansion(load=0.9, fraction=1.0, choices=2, distinct=True)
    >>> round(e.mean_queue, 6), round(e.coefficient, 4)
    (2.352652, 2.7748)
    """
    d = choices
    s = fixed_point.tails(load=load, fraction=fraction, choices=d, least=_LEAST)
    if len(s) > _LARGEST:
        raise NotConverged(
            where="refined mean field",
            residual=float(s[_LARGEST]),
            iterations=_LARGEST,
            advice="too many queue lengths matter: take method='mean-field'",
        )
    # One length more, so that even doubly exponential tails lose nothing.
    s = np.append(s, load * ((1.0 - fraction) * s[-1] + fraction * s[-1] ** d))
    gain = load * ((1.0 - fraction) + fraction * d * s[1:] ** (d - 1))
    # A level that hardly anything is passed on from is the last: with many choices tails end abruptly.
    last = int(np.argmax(gain < _NOTHING)) + 1 if gain.min() < _NOTHING else len(gain)
    s, gain = s[: last + 1], gain[:last]
    before, x = s[:-1], s[1:]
    after = np.append(x[1:], 0.0)
    # A = S-hat with diag -(1 + gain), lower gain, upper 1; scaled to the symmetric matrix with sqrt(gain) beside it.
    beside = np.sqrt(gain[:-1])
    scale = np.cumprod(np.concatenate([[1.0], beside]))
    values, vectors = eigh_tridiagonal(-(1.0 + gain), beside)
    noise = (vectors.T * (2.0 * (x - after) / scale**2)) @ vectors
    inner = -noise / (values[:, None] + values[None, :])
    variance = scale**2 * np.einsum("ij,ij->i", vectors @ inner, vectors)

    bend = 0.5 * load * fraction * d * (d - 1) * x ** (d - 2) * variance
    curved = np.concatenate([[0.0], bend[:-1]]) - bend
    missing = load * fraction * (_lack(before, d) - _lack(x, d))
    banded = np.zeros((3, len(x)))
    banded[0, 1:] = 1.0
    banded[1] = -(1.0 + gain)
    banded[2, :-1] = gain[:-1]
    solved = solve_banded((1, 1), banded, -np.stack([curved, missing], axis=1))
    return Expansion(
        tails=s,
        fluctuation=solved[:, 0],
        lack=solved[:, 1],
        variance=variance,
        fraction=fraction,
        choices=d,
        distinct=distinct,
    )


def _lack(x: Array, d: int) -> Array:
    """N times what P(d distinct queues all hold at least k) lacks to x^d."""
    return np.asarray(-0.5 * d * (d - 1) * x ** (d - 1) * (1.0 - x))
