"""Phase-type times: the survival function is alpha exp(A t) 1."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from qtheory.laws import _quadrature, _roots
from qtheory.laws._absorption import Absorption
from qtheory.laws._distribution import NO_ATOMS, Distribution, FloatArray, describes
from qtheory.models import laws


@describes(laws.PhaseType)
class PhaseTypeDistribution(Distribution):
    """Absorption time with initial vector alpha, sub-generator A; E[S^k] = Gamma(k+1) alpha (-A)^-k 1."""

    name = "phase-type"

    def __init__(self, law: laws.PhaseType) -> None:
        self._alpha: FloatArray = np.array(law.alpha)
        self._generator: FloatArray = np.array(law.generator)
        total = float(self._alpha.sum())
        if total > 1.0 - 1e-9:
            self._alpha = self._alpha / total
        self._chain = Absorption(alpha=self._alpha, generator=self._generator)
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
        return np.asarray(self._chain.at(t)[0].sum(axis=-1))

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self._chain.at(t)[1] + (1.0 - self.density_share)

    def _density(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._chain.at(t)[0] @ self._chain.exits)

    def _quantile(self, p: FloatArray) -> FloatArray:
        found = _roots.first_at_least(
            cdf=self._cdf, survival=self._survival, levels=p, low=0.0, high=math.inf, scale=self.mean
        )
        return _roots.snapped(found, levels=p, points=self.atoms[0], cdf=self._cdf)

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        """From the state at t: E[(t + R)^k] with R the remaining time."""
        if order != int(order):
            return super()._upper(order, t)
        k = int(order)
        terms = [math.comb(k, j) * t[..., None] ** (k - j) * power for j, power in enumerate(self._mean_powers(k))]
        return np.asarray(np.einsum("...i,...i->...", self._chain.at(t)[0], np.sum(terms, axis=0)))

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        """What is not above t, or where that is most of the whole a sum over the density."""
        whole = self.moment(order)
        rest = self._upper(order, t)
        lower = whole - rest
        early = rest > 0.9 * whole
        if np.any(early):
            lower[early] = self._early(order, t[early])
        return lower

    def _early(self, order: float, t: FloatArray) -> FloatArray:
        """E[S^k; S <= t] over halves, quarters... of t, down to where nothing is left of a density bounded by q."""
        fastest = -float(np.diag(self._generator).min())
        pieces = max(math.ceil(math.log2(max(fastest * float(t.max()), 1.0))), 0) + math.ceil(54.0 / (order + 1.0))
        ends = np.log(t)[..., None] - math.log(2.0) * np.arange(pieces + 1.0)
        points, widths = _quadrature.gauss(left=ends[..., 1:], right=ends[..., :-1])
        return np.asarray((widths * points ** (order + 1.0) * self._density(points)).sum(axis=(-2, -1)))

    def _excess(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._chain.at(t)[0] @ self._mean_powers(1)[1])

    def _laplace(self, s: FloatArray) -> FloatArray:
        identity = np.eye(self._alpha.size)
        atom = 1.0 - self.density_share
        values = [atom + self._alpha @ np.linalg.solve(rate * identity - self._generator, self._chain.exits) for rate in s]
        return np.array(values)
