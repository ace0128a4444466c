"""Phase-type times: the survival function is alpha exp(A t) 1."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from qtheory._lazy import special
from qtheory.laws._distribution import NO_ATOMS, Distribution, FloatArray, describes
from qtheory.models import laws

#: Numbers held at once while many exponentials are worked out.
_BLOCK = 2_000_000


@describes(laws.PhaseType)
class PhaseTypeDistribution(Distribution):
    """Absorption time with initial vector alpha, sub-generator A; E[S^k] = Gamma(k+1) alpha (-A)^-k 1."""

    name = "phase-type"

    def __init__(self, law: laws.PhaseType) -> None:
        self._alpha: FloatArray = np.array(law.alpha)
        self._generator: FloatArray = np.array(law.generator)
        self._exits: FloatArray = np.maximum(-self._generator.sum(axis=1), 0.0)
        total = float(self._alpha.sum())
        if total > 1.0 - 1e-9:
            self._alpha = self._alpha / total
        self.atoms = NO_ATOMS if total > 1.0 - 1e-9 else (np.array([0.0]), np.array([1.0 - total]))

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    @property
    def density_share(self) -> float:
        return float(self._alpha.sum())

    @cached_property
    def cuts(self) -> FloatArray:
        scales = np.append(-1.0 / np.diag(self._generator), self.mean)
        return np.unique(np.outer(scales, [0.01, 0.1, 1.0, 3.0, 10.0, 30.0]))

    def _state(self, t: FloatArray) -> FloatArray:
        """alpha exp(A t), one row for each t."""
        from scipy import linalg  # dear to load, and few models need it

        size = self._alpha.size
        flat = t.ravel()
        step = max(1, _BLOCK // (size * size * 8))
        rows = [
            self._alpha @ linalg.expm(flat[i : i + step, None, None] * self._generator)
            for i in range(0, flat.size, step)
        ]
        return np.asarray(np.maximum(np.concatenate(rows), 0.0).reshape(*t.shape, size))

    def _mean_powers(self, order: int) -> list[FloatArray]:
        """Vectors j! (-A)^-j 1 for j = 0 to order: moments by starting phase."""
        powers: list[FloatArray] = [np.ones(self._alpha.size)]
        for j in range(1, order + 1):
            powers.append(j * np.linalg.solve(-self._generator, powers[-1]))
        return powers

    def _moment(self, order: float) -> float:
        if order == int(order):
            return float(self._alpha @ self._mean_powers(int(order))[-1])
        from scipy import linalg

        power = linalg.fractional_matrix_power(-self._generator, -order)
        return math.gamma(order + 1.0) * float(np.real(self._alpha @ power).sum())

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._state(t).sum(axis=-1))

    def _cdf(self, t: FloatArray) -> FloatArray:
        from scipy import linalg

        above = self._survival(t)
        # What has been absorbed so far, as the extra phase of the same chain: no 1 - (1 - x) at small times.
        size = self._alpha.size
        whole = np.zeros((size + 1, size + 1))
        whole[:size, :size], whole[:size, size] = self._generator, self._exits
        early = above > 0.9
        out = 1.0 - above
        start = np.append(self._alpha, 0.0)
        atom = 1.0 - self.density_share
        out[early] = [(start @ linalg.expm(x * whole))[-1] + atom for x in t[early]]
        return out

    def _density(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._state(np.atleast_1d(t)).dot(self._exits).reshape(np.shape(t)))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        """From the state at t: E[(t + R)^k] with R the remaining time."""
        if order != int(order):
            return super()._upper(order, t)
        k = int(order)
        terms = [special.comb(k, j) * t[..., None] ** (k - j) * power for j, power in enumerate(self._mean_powers(k))]
        return np.asarray(np.einsum("...i,...i->...", self._state(t), np.sum(terms, axis=0)))

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        whole = self.moment(order)
        rest = self._upper(order, t)
        lower = whole - rest
        early = rest > 0.9 * whole
        lower[early] = super()._lower(order, t[early])
        return lower

    def _excess(self, t: FloatArray) -> FloatArray:
        return self._state(t) @ self._mean_powers(1)[1]

    def _laplace(self, s: FloatArray) -> FloatArray:
        identity = np.eye(self._alpha.size)
        atom = 1.0 - self.density_share
        values = [atom + self._alpha @ np.linalg.solve(rate * identity - self._generator, self._exits) for rate in s]
        return np.array(values)
