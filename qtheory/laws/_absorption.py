"""A Markov chain on its way to absorption, at many times at once and without a subtraction."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from qtheory.laws._distribution import FloatArray

#: Terms of a Poisson series of mean 1/2 beyond those that the longest way through the phases takes.
_TERMS = 16
#: Steps after which nothing is left that floating point could tell from nothing.
_MOST_STEPS = 2.0**1000
#: Numbers held at once.
_BLOCK = 500_000


class Absorption:
    """Where the chain with sub-generator A that starts in a phase by `alpha` is at time t, and whether it has ended.

    With q the largest rate, P = I + A / q and a step h <= 1 / (2 q), exp(A h) is a Poisson mixture of powers of P and
    exp(A 2^k h) a square; t is written in binary. Of each matrix the entries off the diagonal and the chances to end
    are kept, all sums of positive terms; the diagonal is what they leave of 1 while they are small. So
    survival and distribution function keep their relative accuracy at times of any size, whether A is stiff or
    defective: log2(q t) products with as many rows as there are times.

    Sidje and Stewart (1999), A numerical study of large sparse matrix exponentials arising in Markov chains,
    Comput. Statist. Data Anal. 29, compares uniformisation with others; O'Cinneide (1993), Entrywise perturbation
    theory and error analysis for Markov chains, Numer. Math. 65, is why nothing is lost.
    """

    def __init__(self, *, alpha: FloatArray, generator: FloatArray) -> None:
        size = alpha.size
        self.rate = float(-np.diag(generator).min())
        #: Rates of ending by phase; what rounding leaves of rows that sum to 0 is none.
        self.exits = np.array([max(-math.fsum(row), 0.0) for row in generator])
        self.exits[self.exits < size * np.finfo(np.float64).eps * -np.diag(generator)] = 0.0
        jumps = np.zeros((size + 1, size + 1))
        jumps[:size, :size], jumps[:size, size] = generator / self.rate, self.exits / self.rate
        self._jumps = _with_diagonal(jumps)
        self._start = np.append(alpha, 0.0)
        self._step = 2.0 ** -math.ceil(math.log2(2.0 * self.rate))

    def at(self, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Chances of the phases at each of the finite times t >= 0 (one row each), and of having ended."""
        flat = np.minimum(t.ravel(), self._step * _MOST_STEPS)
        steps = np.floor(flat / self._step)
        rows = np.tile(self._start, (flat.size, 1))
        top = float(steps.max(initial=0.0))
        digit = 0
        while 2.0**digit <= top:
            odd = np.flatnonzero(np.floor(steps / 2.0**digit) % 2.0 == 1.0)
            if odd.size:
                rows[odd] = rows[odd] @ self._power(digit)
            digit += 1
            if not rows[:, :-1].any():
                break
        rows = self._poisson(rows, (flat - steps * self._step) * self.rate)
        return rows[:, :-1].reshape(*t.shape, -1), rows[:, -1].reshape(t.shape)

    @cached_property
    def _powers(self) -> list[FloatArray]:
        whole = np.eye(len(self._jumps))
        return [_with_diagonal(self._poisson(whole, np.full(len(whole), self._step * self.rate)))]

    def _power(self, digit: int) -> FloatArray:
        while len(self._powers) <= digit:
            last = self._powers[-1]
            self._powers.append(_with_diagonal(last @ last))
        return self._powers[digit]

    def _poisson(self, rows: FloatArray, mean: FloatArray) -> FloatArray:
        """The rows after a Poisson number of jumps."""
        size, count = len(self._jumps), self._ladder.shape[1] // len(self._jumps)
        chances = np.ones((len(rows), count))
        chances[:, 1:] = mean[:, None] / np.arange(1.0, count)
        chances = np.cumprod(chances, axis=1) * np.exp(-mean)[:, None]
        block = max(1, _BLOCK // (size * count))
        if len(rows) <= block:
            return self._after(rows, chances)
        pieces = [self._after(rows[i : i + block], chances[i : i + block]) for i in range(0, len(rows), block)]
        return np.concatenate(pieces)

    def _after(self, rows: FloatArray, chances: FloatArray) -> FloatArray:
        powers = (rows @ self._ladder).reshape(len(rows), chances.shape[1], -1)
        return np.asarray((chances[:, None, :] @ powers)[:, 0, :])

    @cached_property
    def _ladder(self) -> FloatArray:
        """Powers of the jump matrix side by side, from 0 on."""
        powers = [np.eye(len(self._jumps))]
        for _ in range(len(self._jumps) + _TERMS - 1):
            powers.append(powers[-1] @ self._jumps)
        return np.concatenate(powers, axis=1)


def _with_diagonal(matrix: FloatArray) -> FloatArray:
    """Rows sum to 1: the diagonal from the rest of its row where that is at most 1/2."""
    diagonal = np.diag(matrix).copy()
    np.fill_diagonal(matrix, 0.0)
    rest = matrix.sum(axis=1)
    np.fill_diagonal(matrix, np.where((rest <= 0.5) | (diagonal < 0.0), np.maximum(1.0 - rest, 0.0), diagonal))
    return matrix
