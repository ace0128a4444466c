"""Laws of `scipy.stats` by name: checked here, their tails judged from their densities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qtheory.laws import _quadrature
from qtheory.laws._distribution import Distribution, FloatArray, describes
from qtheory.models import laws
from qtheory.models.errors import InvalidModel

#: Further ends of pieces, in units of the last: what lies beyond the first of them is below 1e-12.
_FURTHER = 2.0 ** (np.arange(1, 161) / 8.0)
#: Pairs of times, in units of the law's scale, between which the slope of the log density is taken.
_FAR = ((1e8, 1e12), (1e16, 1e24))


@describes(laws.Scipy)
class ScipyDistribution(Distribution):
    """Distribution function and density from scipy, moments by quadrature over the density."""

    name = "scipy law"

    def __init__(self, law: laws.Scipy) -> None:
        self._frozen = frozen(law)
        low, high = self._frozen.support()
        self._support = (float(low), float(high))
        self.tail_index = self._tail_index()
        self._known: dict[float, float] = {}

    @property
    def support(self) -> tuple[float, float]:
        return self._support

    @property
    def density_share(self) -> float:
        return 1.0

    def _tail_index(self) -> float:
        """a where the density falls like t^-(a+1): the slope of log density in log time has settled."""
        if self._support[1] < math.inf:
            return math.inf
        scale = float(self._frozen.median())
        slopes = []
        for near, far in _FAR:
            with np.errstate(all="ignore"):
                at = self._frozen.logpdf(np.array([near, far]) * scale)
            slopes.append(float((at[1] - at[0]) / math.log(far / near)))
        if not np.all(np.isfinite(slopes)) or abs(slopes[1] - slopes[0]) > 1e-3 * abs(slopes[1]):
            return math.inf
        index = -slopes[1] - 1.0
        return index if index > 0.0 else math.inf

    def _moment(self, order: float) -> float:
        # The slope is known to some six digits: an order that close to it counts as on it.
        if order >= self.tail_index * (1.0 - 1e-6):
            return math.inf
        if order not in self._known:
            self._known[order] = super()._moment(order)
        return self._known[order]

    def _survival(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._frozen.sf(t))

    def _cdf(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._frozen.cdf(t))

    def _excess(self, t: FloatArray) -> FloatArray:
        """E[max(S - t, 0)], the integral of P(S > x) from t on, by Gauss-Legendre sums from one end of `pieces` to
        the next; for few times, or beyond the last end, as every other law."""
        ends = np.exp(self.pieces)
        further = ends[-1] * _FURTHER
        ends = np.append(ends, further[self._survival(further) > 0.0])
        few = t.size <= ends.size
        inside = (t <= ends[-1]) & (not few)
        out = np.empty_like(t)
        out[~inside] = super()._excess(t[~inside])
        if not np.any(inside):
            return out
        stops = np.unique(np.concatenate([t[inside], ends]))
        first = stops[stops <= ends[0]]
        points, widths = _quadrature.gauss(left=np.log(stops[first.size - 1 : -1]), right=np.log(stops[first.size :]))
        steps = np.concatenate([np.diff(first), (widths * points * self._survival(points)).sum(axis=1)])
        last = super()._excess(ends[-1:])
        beyond = np.append(np.cumsum(steps[::-1])[::-1], 0.0) + last
        out[inside] = beyond[np.searchsorted(stops, t[inside])]
        return out

    def _density(self, t: FloatArray) -> FloatArray:
        return np.asarray(self._frozen.pdf(t))

    def _quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(np.where(p <= 0.5, self._frozen.ppf(p), self._frozen.isf(1.0 - p)))


def frozen(law: laws.Scipy) -> Any:
    """The scipy law with its parameters; `InvalidModel` unless it is a continuous law on [0, inf)."""
    from scipy import stats  # costs more than all the rest of the start-up

    family = getattr(stats, law.name, None)
    if not isinstance(family, stats.rv_continuous):
        discrete = isinstance(family, stats.rv_discrete)
        rule = "must be a continuous law" if discrete else "must be the name of a continuous law of scipy.stats"
        raise InvalidModel(field="name", rule=rule, value=law.name)
    shapes = [] if family.shapes is None else [shape.strip() for shape in family.shapes.split(",")]
    known = [*shapes, "loc", "scale"]
    for parameter in law.parameters:
        if parameter not in known:
            rule = f"unknown parameter; {law.name} has {', '.join(known)}"
            raise InvalidModel(field=f"parameters.{parameter}", rule=rule)
    for shape in shapes:
        if shape not in law.parameters:
            raise InvalidModel(field=f"parameters.{shape}", rule=f"is required by the law {law.name}")
    if not law.parameters.get("scale", 1.0) > 0.0:
        raise InvalidModel(field="parameters.scale", rule="must be above 0", value=law.parameters["scale"])
    made = family(**law.parameters)
    low, high = made.support()
    if math.isnan(low) or math.isnan(high):
        rule = f"must lie in the range that the law {law.name} allows"
        raise InvalidModel(field="parameters", rule=rule, value=dict(law.parameters))
    if low < 0.0:
        rule = f"must be a law on [0, inf); the support of {law.name} begins at {low:g}"
        place, value = ("parameters.loc", law.parameters["loc"]) if "loc" in law.parameters else ("name", law.name)
        raise InvalidModel(field=place, rule=rule, value=value)
    return made
