"""Products of independent factors: moments multiply, the rest is an average over one factor."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from qtheory.laws._distribution import NO_ATOMS, Atoms, Distribution, FloatArray, describes, distribution
from qtheory.laws.simple import DeterministicDistribution
from qtheory.models import laws
from qtheory.models.errors import InvalidModel

#: Most pairs of recorded values that are listed one by one.
_MOST_PAIRS = 4_000_000
_LARGEST = float(np.finfo(np.float64).max)


class ScaledDistribution(Distribution):
    """c S for a constant c > 0."""

    name = "scaled law"

    def __init__(self, base: Distribution, *, factor: float) -> None:
        self._base, self._factor = base, factor
        self.tail_index = base.tail_index
        self.atoms = (base.atoms[0] * factor, base.atoms[1])

    @property
    def support(self) -> tuple[float, float]:
        low, high = self._base.support
        return low * self._factor, high * self._factor

    @property
    def scv(self) -> float:
        return self._base.scv

    @property
    def density_share(self) -> float:
        return self._base.density_share

    @cached_property
    def cuts(self) -> FloatArray:
        return self._base.cuts * self._factor

    @property
    def kinks(self) -> FloatArray:
        return self._base.kinks * self._factor

    def tabulated(self) -> Distribution:
        return ScaledDistribution(self._base.tabulated(), factor=self._factor)

    def _moment(self, order: float) -> float:
        return float(self._factor**order * self._base.moment(order))

    def _survival(self, t: FloatArray) -> FloatArray:
        return self._base.survival(t / self._factor)

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self._base.cdf(t / self._factor)

    def _density(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._base.density(t / self._factor)) / self._factor

    def _quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(self._base.quantile(p)) * self._factor

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return np.asarray(self._factor**order * np.asarray(self._base.partial_moment(order, t / self._factor)))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return np.asarray(self._factor**order * np.asarray(self._base.tail_moment(order, t / self._factor)))

    def _laplace(self, s: FloatArray) -> FloatArray:
        return self._base.laplace(s * self._factor)


class ProductDistribution(Distribution):
    """A B with A, B independent: E[(AB)^k; AB <= t] = E[B^k g(t/B)] with g(x) = E[A^k; A <= x].

    B is the factor that is averaged over: by summing where it is discrete, else by quadrature.
    """

    name = "product"

    def __init__(self, one: Distribution, two: Distribution) -> None:
        # A finite sum is exact; failing that, the factor that varies less makes the easier integral.
        self._outer, self._inner = sorted((one, two), key=lambda part: (part.density_share, part.scv))
        self.tail_index = min(one.tail_index, two.tail_index)

    @property
    def support(self) -> tuple[float, float]:
        (low, high), (low2, high2) = self._outer.support, self._inner.support
        return low * low2, high * high2

    @property
    def scv(self) -> float:
        one, two = self._outer.scv, self._inner.scv
        return one + two + one * two

    @property
    def density_share(self) -> float:
        (points, masses), (points2, masses2) = self._outer.atoms, self._inner.atoms
        one, two = self._outer.density_share, self._inner.density_share
        return one * two + one * math.fsum(masses2[points2 > 0]) + two * math.fsum(masses[points > 0])

    # A plain attribute in the base; here cached, for two logs have as many pairs as need seconds, and few ask.
    @cached_property
    def atoms(self) -> Atoms:  # type: ignore[override]
        (points, masses), (points2, masses2) = self._outer.atoms, self._inner.atoms
        if points.size * points2.size > _MOST_PAIRS:
            rule = f"have more than {_MOST_PAIRS} pairs of recorded values: shorten one of them"
            raise InvalidModel(field="factors", rule=rule, value=points.size * points2.size)
        distinct, place = np.unique(np.outer(points, points2), return_inverse=True)
        weights = np.bincount(place.ravel(), weights=np.outer(masses, masses2).ravel())
        zero = self._cdf(np.zeros(1))[0]
        if zero > 0.0:
            positive = distinct > 0.0
            return np.append(0.0, distinct[positive]), np.append(zero, weights[positive])
        return (distinct, weights) if distinct.size else NO_ATOMS

    @cached_property
    def cuts(self) -> FloatArray:
        one, two = self._outer.cuts, self._inner.cuts
        middle, middle2 = float(self._outer.quantile(0.5)), float(self._inner.quantile(0.5))
        return np.unique(np.concatenate([one * middle2, two * middle, self.corners]))

    @property
    def corners(self) -> FloatArray:
        """Products of the factors' kinks: where the density bends."""
        return np.unique(np.outer(self._outer.kinks, self._inner.kinks))

    def tabulated(self) -> Distribution:
        """B replaced by a sum over Gauss-Legendre points: about 1e-6 where A is smooth, else about 1e-4."""
        points, masses = self._outer.atoms
        if self._inner.atoms[0].size and self._outer.density_share > 1e-15:
            return self  # atoms carried along a density would be torn into points
        scales, weights = points[points > 0.0], masses[points > 0.0]
        if self._outer.density_share > 1e-15:
            found, shares = self._outer.nodes(split=8 if self._inner.kinks.size else 1)
            scales, weights = np.append(scales, found), np.append(weights, shares)
        return _ScaleMixture(self, inner=self._inner.tabulated(), scales=scales, weights=weights)

    def _moment(self, order: float) -> float:
        return self._outer.moment(order) * self._inner.moment(order)

    def _average(self, function: Callable[[FloatArray, FloatArray], FloatArray], t: FloatArray) -> FloatArray:
        """E[function(t/B, B); B > 0] for each t."""

        def at(x: float) -> float:
            breaks = tuple(x / self._inner.kinks[self._inner.kinks > 0.0])
            return self._outer.expect(lambda b: function(np.minimum(x / b, _LARGEST), b), above=0.0, breaks=breaks)

        return np.array([at(float(x)) for x in t.ravel()]).reshape(t.shape)

    def _survival(self, t: FloatArray) -> FloatArray:
        return self._average(lambda x, b: self._inner._survival(x), t)

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self._outer.cdf(0.0) + self._average(lambda x, b: self._inner._cdf(x), t)

    def _density(self, t: FloatArray) -> FloatArray:
        """The inner factor's density carried by B, and B's density carried by the inner atoms."""
        carried = self._average(lambda x, b: self._inner._density(x) / b, t)
        points, masses = self._inner.atoms
        for point, mass in zip(points[points > 0.0], masses[points > 0.0], strict=True):
            carried = carried + mass * np.asarray(self._outer.density(t / point)) / point
        return carried

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return self._average(lambda x, b: b**order * self._inner._lower(order, x), t)

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return self._average(lambda x, b: b**order * self._inner._upper(order, x), t)

    def _laplace(self, s: FloatArray) -> FloatArray:
        def at(rate: float) -> float:
            return self._outer.expect(lambda b: self._inner.laplace(rate * b))

        return np.array([at(float(rate)) for rate in s.ravel()]).reshape(s.shape)


class _ScaleMixture(Distribution):
    """A product whose outer factor takes finitely many values; answers for whole arrays at once."""

    name = "product"

    def __init__(
        self, whole: ProductDistribution, *, inner: Distribution, scales: FloatArray, weights: FloatArray
    ) -> None:
        self._whole, self._inner, self._scales, self._weights = whole, inner, scales, weights
        self.tail_index = whole.tail_index
        self.atoms = whole.atoms

    @property
    def support(self) -> tuple[float, float]:
        return self._whole.support

    @property
    def density_share(self) -> float:
        return self._whole.density_share

    @property
    def kinks(self) -> FloatArray:
        return self._whole.corners

    def _moment(self, order: float) -> float:
        return self._whole.moment(order)

    def _average(self, hook: Callable[[FloatArray], FloatArray], t: FloatArray, order: float = 0.0) -> FloatArray:
        flat, out = t.ravel(), np.empty(t.size)
        step = max(1, _MOST_PAIRS // self._scales.size)
        for i in range(0, flat.size, step):
            ratios = np.minimum(flat[i : i + step, None] / self._scales, _LARGEST)
            out[i : i + step] = hook(ratios) @ (self._weights * self._scales**order)
        return out.reshape(t.shape)

    def _survival(self, t: FloatArray) -> FloatArray:
        return self._average(self._inner._survival, t)

    def _density(self, t: FloatArray) -> FloatArray:
        return self._average(self._inner._density, t, order=-1.0)

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return self._average(lambda x: self._inner._lower(order, x), t, order=order)

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return self._average(lambda x: self._inner._upper(order, x), t, order=order)


@describes(laws.Product)
def product(law: laws.Product) -> Distribution:
    """The product of the laws named in the model; constants only scale it."""
    constant, factors = 1.0, []
    for index, factor in enumerate(law.factors):
        try:
            part = distribution(factor)
        except InvalidModel as error:
            raise error.at(prefix=f"factors.{index}") from None
        low, high = part.support
        if low == high:
            constant *= low
        else:
            factors.append(part)
    if not factors or constant == 0.0:
        return DeterministicDistribution(laws.Deterministic(value=constant))
    result = factors[0]
    for part in factors[1:]:
        result = ProductDistribution(result, part)
    return result if constant == 1.0 else ScaledDistribution(result, factor=constant)
