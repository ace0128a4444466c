"""Mixtures and hyperexponentials: every linear thing is a weighted sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from qtheory.laws import _roots
from qtheory.laws._distribution import NO_ATOMS, Atoms, Distribution, FloatArray, describes, distribution
from qtheory.models import laws
from qtheory.models.errors import InvalidModel


class MixtureDistribution(Distribution):
    """Component i with probability `weights[i]`; components of weight 0 are left out."""

    name = "mixture"

    def __init__(self, *, weights: Sequence[float], components: Sequence[Distribution]) -> None:
        total = math.fsum(weights)
        pairs = [(w / total, part) for w, part in zip(weights, components, strict=True) if w > 0.0]
        self._pairs: tuple[tuple[float, Distribution], ...] = tuple(pairs)
        self.atoms = _merged(self._pairs)
        self.tail_index = min(part.tail_index for _, part in pairs)

    @property
    def support(self) -> tuple[float, float]:
        ends = [part.support for _, part in self._pairs]
        return min(low for low, _ in ends), max(high for _, high in ends)

    @property
    def scv(self) -> float:
        mean = self.mean
        if not 0.0 < mean < math.inf:
            return 0.0 if mean == 0.0 else math.inf
        terms = [(w, part.mean / mean, part.scv) for w, part in self._pairs]
        return math.fsum(w * (ratio**2 * scv + (ratio - 1.0) ** 2) for w, ratio, scv in terms)

    @property
    def density_share(self) -> float:
        return math.fsum(w * part.density_share for w, part in self._pairs)

    @cached_property
    def cuts(self) -> FloatArray:
        return np.unique(np.concatenate([part.cuts for _, part in self._pairs]))

    @property
    def kinks(self) -> FloatArray:
        return np.unique(np.concatenate([part.kinks for _, part in self._pairs]))

    @cached_property
    def pieces(self) -> FloatArray:
        """Those of every part: its scales are between the quantiles of its own, not of the whole."""
        parts = [part.pieces for _, part in self._pairs if part.density_share > 0.0]
        return np.unique(np.concatenate(parts)) if parts else super().pieces

    def tabulated(self) -> Distribution:
        weights, parts = zip(*self._pairs, strict=True)
        return MixtureDistribution(weights=weights, components=[part.tabulated() for part in parts])

    def _sum(self, term: Callable[[Distribution], FloatArray]) -> FloatArray:
        return np.asarray(sum(w * term(part) for w, part in self._pairs))

    def _moment(self, order: float) -> float:
        return math.fsum(w * part.moment(order) for w, part in self._pairs)

    def _survival(self, t: FloatArray) -> FloatArray:
        return self._sum(lambda part: part._survival(t))

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self._sum(lambda part: part._cdf(t))

    def _quantile(self, p: FloatArray) -> FloatArray:
        low, high = self.support
        found = _roots.first_at_least(
            cdf=self._cdf, survival=self._survival, levels=p, low=low, high=high, scale=self.mean
        )
        return _roots.snapped(found, levels=p, points=self.atoms[0], cdf=self._cdf)

    def _density(self, t: FloatArray) -> FloatArray:
        return self._sum(lambda part: part._density(t))

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return self._sum(lambda part: part._lower(order, t))

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return self._sum(lambda part: part.tail_moment(order, t))

    def _excess(self, t: FloatArray) -> FloatArray:
        return self._sum(lambda part: part.excess(t))

    def _laplace(self, s: FloatArray) -> FloatArray:
        return self._sum(lambda part: part._laplace(s))


def _merged(pairs: Sequence[tuple[float, Distribution]]) -> Atoms:
    """The atoms of all components, equal points joined."""
    points = np.concatenate([part.atoms[0] for _, part in pairs])
    if points.size == 0:
        return NO_ATOMS
    masses = np.concatenate([w * part.atoms[1] for w, part in pairs])
    distinct, place = np.unique(points, return_inverse=True)
    return distinct, np.bincount(place, weights=masses)


@describes(laws.Mixture)
def mixture(law: laws.Mixture) -> Distribution:
    """The mixture of the laws named in the model."""
    components = []
    for index, part in enumerate(law.laws):
        try:
            components.append(distribution(part))
        except InvalidModel as error:
            raise error.at(prefix=f"laws.{index}") from None
    return MixtureDistribution(weights=law.weights, components=components)


@describes(laws.Hyperexponential)
def hyperexponential(law: laws.Hyperexponential) -> Distribution:
    """The mixture of exponentials."""
    components = [distribution(laws.Exponential(mean=mean)) for mean in law.means]
    return MixtureDistribution(weights=law.probabilities, components=components)
