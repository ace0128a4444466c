"""Phase-type times: the survival function is alpha exp(A t) 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from qtheory.laws import _quadrature, _roots
from qtheory.laws._absorption import Absorption
from qtheory.laws._distribution import NO_ATOMS, Distribution, FloatArray, describes
from qtheory.laws._interpolation import Interpolated
from qtheory.models import laws

#: Moments of the time left that are kept by pieces.
_MOMENTS = 3
#: Below 2^-20 of the shortest mean stay, and where less than this survives, the chain is asked itself.
_FIRST, _LEAST = 20, 1e-280
#: Which function of the pieces is which; from the third on the moments of the time left.
_HAZARD, _RATE, _LEFT = 0, 1, 2


@describes(laws.PhaseType)
class PhaseTypeDistribution(Distribution):
    """Absorption time with initial vector alpha, sub-generator A; E[S^k] = Gamma(k+1) alpha (-A)^-k 1.

    The chain is followed by products of positive matrices (`Absorption`). Where many values are asked they come from
    polynomials through it, of the logarithms of the cumulated hazard, of the density and of E[R^k] of the time left:
    relative error about 1e-12, in the tail and at small times too.
    """

    name = "phase-type"

    def __init__(self, law: laws.PhaseType) -> None:
        self._alpha: FloatArray = np.array(law.alpha)
        self._generator: FloatArray = np.array(law.generator)
        total = float(self._alpha.sum())
        if total > 1.0 - 1e-9:
            self._alpha = self._alpha / total
        self.atoms = NO_ATOMS if total > 1.0 - 1e-9 else (np.array([0.0]), np.array([1.0 - total]))
        self._share = float(self._alpha.sum())
        self._chain = Absorption(alpha=self._alpha / self._share, generator=self._generator)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf

    @property
    def density_share(self) -> float:
        return self._share

    @cached_property
    def cuts(self) -> FloatArray:
        scales = np.append(-1.0 / np.diag(self._generator), self.mean)
        return np.unique(np.outer(scales, [0.01, 0.1, 1.0, 3.0, 10.0, 30.0]))

    @cached_property
    def _powers(self) -> list[FloatArray]:
        """(-A)^-k 1 for k = 0, 1, ...: moments of the time left by phase, over k!."""
        powers: list[FloatArray] = [np.ones(self._alpha.size)]
        for _ in range(_MOMENTS):
            powers.append(np.linalg.solve(-self._generator, powers[-1]))
        return powers

    def _power(self, order: int) -> FloatArray:
        powers = self._powers
        while len(powers) <= order:
            powers.append(np.linalg.solve(-self._generator, powers[-1]))
        return powers[order]

    def _moment(self, order: float) -> float:
        if order == int(order):
            return math.gamma(order + 1.0) * float(self._alpha @ self._power(int(order)))
        from scipy import linalg  # dear to load, and few models need it

        power = linalg.fractional_matrix_power(-self._generator, -order)
        return math.gamma(order + 1.0) * float(np.real(self._alpha @ power).sum())

    def _logarithms(self, t: FloatArray) -> Sequence[FloatArray]:
        """What the polynomials go through, without the atom at 0."""
        states, ended = self._chain.at(t)
        alive = states.sum(axis=-1)
        hazard = -np.where(alive < 0.5, np.log(alive), np.log1p(-np.minimum(ended, 0.75)))
        left = [np.log(states @ self._power(k)) for k in range(1, _MOMENTS + 1)]
        return [np.log(hazard), np.log(states @ self._chain.exits), *left]

    @cached_property
    def _pieces(self) -> Interpolated | None:
        """None where polynomials do not settle."""
        low = -math.ceil(math.log2(self._chain.rate)) - _FIRST
        high = math.ceil(math.log2(self.mean / self._share))
        while high < 1000 and self._chain.at(np.array([2.0 ** (high + 1)]))[0].sum() > _LEAST:
            high += 1
        with np.errstate(all="ignore"):
            found = Interpolated(self._logarithms, low=low, high=high)
        return found if found.settled else None

    def _look(self, t: FloatArray, *, which: int) -> FloatArray:
        """The logarithm of a function at the times t."""
        pieces = self._pieces
        if pieces is None:
            return self._logarithms(t)[which]
        out = pieces.at(t, which=which)
        beyond = ~pieces.covered(t)
        if np.any(beyond):
            out[beyond] = self._logarithms(t[beyond])[which]
        return out

    def _survival(self, t: FloatArray) -> FloatArray:
        return self._share * np.exp(-np.exp(self._look(t, which=_HAZARD)))

    def _cdf(self, t: FloatArray) -> FloatArray:
        return (1.0 - self._share) - self._share * np.expm1(-np.exp(self._look(t, which=_HAZARD)))

    def _density(self, t: FloatArray) -> FloatArray:
        return self._share * np.exp(self._look(t, which=_RATE))

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
        if k > _MOMENTS:
            terms = [math.perm(k, j) * t[..., None] ** (k - j) * self._power(j) for j in range(k + 1)]
            return np.asarray(self._share * np.einsum("...i,...i->...", self._chain.at(t)[0], np.sum(terms, axis=0)))
        left = [self._left(j, t) * math.perm(k, j) for j in range(1, k + 1)]
        return np.asarray(t**k * self._survival(t) + sum(t ** (k - j) * part for j, part in enumerate(left, start=1)))

    def _left(self, order: int, t: FloatArray) -> FloatArray:
        """E[R^k; S > t] / k!."""
        return self._share * np.exp(self._look(t, which=_LEFT + order - 1))

    def _excess(self, t: FloatArray) -> FloatArray:
        return self._left(1, t)

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        """What is not above t, or where that is most of the whole a sum over the density."""
        whole = self.moment(order)
        rest = self._upper(order, t)
        lower = whole - rest
        early = (rest > 0.9 * whole) & (t > 0.0)
        if np.any(early):
            lower[early] = self._early(order, t[early])
        return np.where(t > 0.0, lower, 0.0)

    def _early(self, order: float, t: FloatArray) -> FloatArray:
        """E[S^k; S <= t] over octaves below t, wider ones where no rate is fast, down to where nothing is left."""
        octaves = max(math.ceil(math.log2(max(self._chain.rate * float(t.max()), 1.0))), 0) + 1
        wide = octaves + 2.0 * np.arange(math.ceil(27.0 / (order + 1.0)) + 1.0)
        ends = np.log(t)[..., None] - math.log(2.0) * np.append(np.arange(octaves), wide)
        points, widths = _quadrature.gauss(left=ends[..., 1:], right=ends[..., :-1])
        return np.asarray((widths * points ** (order + 1.0) * self._density(points)).sum(axis=(-2, -1)))

    def _laplace(self, s: FloatArray) -> FloatArray:
        identity = np.eye(self._alpha.size)
        values = [self._alpha @ np.linalg.solve(rate * identity - self._generator, self._chain.exits) for rate in s]
        return (1.0 - self._share) + np.array(values)
