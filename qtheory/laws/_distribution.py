"""What every law can be asked, and the table from a law's parameters to its mathematics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from qtheory.laws import _quadrature, _roots
from qtheory.models.base import Spec
from qtheory.models.errors import InvalidModel, NotConverged

FloatArray = NDArray[Any]
Atoms = tuple[FloatArray, FloatArray]
Values = TypeVar("Values", float, NDArray[Any])
"""A number in, a number out; an array in, an array out."""

NO_ATOMS: Atoms = (np.empty(0), np.empty(0))
#: Levels between whose quantiles a density is smooth enough for one piece of a quadrature.
LEVELS = np.array([1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9])


_FINE_LEVELS = np.array([1e-9, 1e-3, 0.03, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999, 0.9999, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12])
#: Share of a density that a sum over it may miss before it is made up for.
_MISSED = 1e-2


class Distribution(ABC):
    """The law of one time S >= 0.

    Public methods check and shape their arguments; a law fills in the hooks (underscored), which take arrays of
    finite values t >= 0.  Hooks that a law has no closed form for fall back on quadrature with a checked error.

    Attributes
    ----------
    support : smallest and largest value.
    atoms : points of positive probability, ascending, and their masses.
    tail_index : supremum of the orders whose moments are finite; ``inf`` for light tails.
    density_share : how much of the probability has a density; 1 without atoms.
    """

    tail_index: float = math.inf
    atoms: Atoms = NO_ATOMS
    name: ClassVar[str] = "law"

    @property
    def density_share(self) -> float:
        return 1.0 - math.fsum(self.atoms[1])

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]: ...

    # Moments

    def moment(self, order: float) -> float:
        """E[S^order] for a real order >= 0; ``inf`` where it does not exist."""
        if not 0.0 <= order < math.inf:
            raise InvalidModel(field="order", rule="must be at least 0 and finite", value=order)
        if order == 0.0:
            return 1.0
        known: dict[float, float] = self.__dict__.setdefault("_known_moments", {})
        if order not in known:
            with np.errstate(all="ignore"):
                known[order] = math.inf if order > self.tail_index else float(self._moment(float(order)))
        return known[order]

    @property
    def mean(self) -> float:
        return self.moment(1.0)

    @property
    def variance(self) -> float:
        return self.scv * self.mean**2 if math.isfinite(self.mean) else math.inf

    @property
    def scv(self) -> float:
        """Variance / mean^2; 0 for the law that is always 0."""
        first, second = self.moment(1.0), self.moment(2.0)
        if first == 0.0:
            return 0.0
        return math.inf if second == math.inf else max(second / first**2 - 1.0, 0.0)

    def equilibrium_moment(self, order: float) -> float:
        """E[S_e^k] = E[S^(k+1)] / ((k+1) E[S]) of the residual life S_e in equilibrium."""
        return self.moment(order + 1.0) / ((order + 1.0) * self.mean)

    # Probabilities

    def cdf(self, t: Values) -> Values:
        """P(S <= t)."""
        return self._shaped(t, self._cdf, below=0.0, beyond=1.0)

    def survival(self, t: Values) -> Values:
        """P(S > t)."""
        return self._shaped(t, self._survival, below=1.0, beyond=0.0)

    def density(self, t: Values) -> Values:
        """Density of the part without atoms."""
        return self._shaped(t, self._density, below=0.0, beyond=0.0)

    def quantile(self, p: Values) -> Values:
        """The smallest t with P(S <= t) >= p; the ends of the support for p = 0 and 1."""
        levels: FloatArray = np.asarray(p, dtype=np.float64)
        if not np.all((levels >= 0.0) & (levels <= 1.0)):
            raise InvalidModel(field="p", rule="must lie between 0 and 1", value=p)
        low, high = self.support
        inner = (levels > 0.0) & (levels < 1.0)
        out = np.where(levels == 0.0, low, high)
        if np.any(inner):
            with np.errstate(all="ignore"):
                out[inner] = np.clip(self._quantile(levels[inner]), low, high)
        return _like(p, out)

    # Moments of parts

    def partial_moment(self, order: float, t: Values) -> Values:
        """E[S^order; S <= t]."""
        if order == 0.0:
            return self.cdf(t)
        whole = self.moment(order)
        return self._shaped(t, lambda x: self._lower(order, x), below=0.0, beyond=whole)

    def tail_moment(self, order: float, t: Values) -> Values:
        """E[S^order; S > t]."""
        if order == 0.0:
            return self.survival(t)
        whole = self.moment(order)
        if whole == math.inf:
            return self._shaped(t, lambda x: np.full_like(x, math.inf), below=math.inf, beyond=math.inf)
        return self._shaped(t, lambda x: self._upper(order, x), below=whole, beyond=0.0)

    def capped_moment(self, order: float, t: Values) -> Values:
        """E[min(S, t)^order]."""
        whole = self.moment(order)

        def capped(x: FloatArray) -> FloatArray:
            above = self._survival(x)
            lower = self._cdf(x) if order == 0.0 else self._lower(order, x)
            return lower + np.where(above > 0.0, x**order * above, 0.0)

        return self._shaped(t, capped, below=0.0, beyond=whole)

    def excess(self, t: Values) -> Values:
        """E[max(S - t, 0)], the integral of P(S > x) over x > t."""
        whole = self.mean
        if whole == math.inf:
            return self._shaped(t, lambda x: np.full_like(x, math.inf), below=math.inf, beyond=math.inf)
        return self._shaped(t, self._excess, below=whole, beyond=0.0)

    def mean_residual(self, t: Values) -> Values:
        """E[S - t | S > t]; nan where P(S > t) = 0."""

        def residual(x: FloatArray) -> FloatArray:
            above = self._survival(x)
            return np.where(above > 0.0, np.asarray(self.excess(x)) / above, math.nan)

        return self._shaped(t, residual, below=self.mean, beyond=math.nan)

    def equilibrium_survival(self, t: Values) -> Values:
        """P(S_e > t) = E[max(S - t, 0)] / E[S] of the residual life in equilibrium."""
        return self._shaped(t, lambda x: np.asarray(self.excess(x)) / self.mean, below=1.0, beyond=0.0)

    # Transform and expectations

    def laplace(self, s: Values) -> Values:
        """E[exp(-s S)] for s >= 0."""
        if not np.all(np.asarray(s) >= 0.0):
            raise InvalidModel(field="s", rule="must be at least 0", value=s)
        at_zero = self.cdf(0.0)
        return self._shaped(s, self._laplace, below=1.0, beyond=at_zero)

    def expect(
        self,
        function: Callable[[Any], Any],
        *,
        above: float = -math.inf,
        upto: float = math.inf,
        breaks: tuple[float, ...] = (),
    ) -> float:
        """E[function(S); above < S <= upto]: sum over atoms, quadrature over the density.

        The function takes an array (the atoms) or a number; `breaks` are points where it is not smooth.
        Raises `NotConverged`.
        """
        points, masses = self.atoms
        inside = (points > above) & (points <= upto)
        low, high = max(self.support[0], above, 0.0), min(self.support[1], upto)
        with np.errstate(all="ignore"):
            total = math.fsum(masses[inside] * function(points[inside]))
            if self.density_share <= 1e-15 or low >= high:
                return total
            return total + _quadrature.integral(
                lambda x: function(np.float64(x)) * float(self._density(np.asarray(x))),
                low=low,
                high=high,
                cuts=np.array([*self.cuts, *breaks]),
                where=f"quadrature over {self.name}",
            )

    @cached_property
    def cuts(self) -> FloatArray:
        """Points between which the density is smooth and of one scale."""
        return np.unique(np.asarray(self.quantile(LEVELS)))

    @property
    def kinks(self) -> FloatArray:
        """Points where the distribution function is not smooth, as far as they are few."""
        ends = [end for end in self.support if 0.0 < end < math.inf]
        return np.unique([*ends, *self.atoms[0][:64]])

    @cached_property
    def pieces(self) -> FloatArray:
        """Ends, as logarithms, of pieces on which Gauss-Legendre sums over the density are good to about 1e-9."""
        low, high = self.support
        # Levels of what is above 0: an atom there would leave the low ones without a time.
        at_zero = float(self.cdf(0.0))
        levels = at_zero + (1.0 - at_zero) * _FINE_LEVELS
        cuts = np.unique([*np.asarray(self.quantile(levels)), *self.kinks])
        cuts = cuts[(cuts > 0.0) & (cuts > low) & (cuts <= high) & np.isfinite(cuts)]
        ends = np.log(np.unique(np.append(low, cuts) if low > 0.0 else cuts))
        # No piece wider than a factor of e^2: what is integrated has scales of its own.
        finer = [np.linspace(a, b, math.ceil((b - a) / 2.0) + 1)[:-1] for a, b in pairwise(ends)]
        return np.append(np.concatenate(finer), ends[-1])

    def nodes(self, *, split: int = 1) -> tuple[FloatArray, FloatArray]:
        """Points and weights of a sum that stands for the integral over the density, each piece cut in `split`."""
        steps = np.arange(split) / split
        ends = np.append((self.pieces[:-1, None] + np.diff(self.pieces)[:, None] * steps).ravel(), self.pieces[-1])
        points, widths = _quadrature.gauss(left=ends[:-1], right=ends[1:])
        weights = widths * points * np.asarray(self.density(points))
        # What lies below the first end (1e-9, or more where times underflow) is next to the first point.
        weights[0, 0] += float(self.cdf(math.exp(ends[0])) - self.cdf(0.0)) - self._atoms_upto(math.exp(ends[0]))
        share = float(weights.sum())
        if not abs(share - self.density_share) <= _MISSED * self.density_share:
            missed = abs(share / self.density_share - 1.0)
            advice = "use a law with closed forms, or a phase-type or empirical approximation of it"
            raise NotConverged(where=f"sum over {self.name}", residual=missed, iterations=ends.size, advice=advice)
        return points.ravel(), (weights * (self.density_share / share)).ravel()

    def _atoms_upto(self, end: float) -> float:
        """Mass of the atoms in (0, end]."""
        points, masses = self.atoms
        return math.fsum(masses[(points > 0.0) & (points <= end)])

    def tabulated(self) -> Distribution:
        """The same law in a form that answers for whole arrays at once, exact or to about 1e-6."""
        return self

    # Hooks

    def _moment(self, order: float) -> float:
        return self.expect(lambda x: x**order)

    @abstractmethod
    def _survival(self, t: FloatArray) -> FloatArray: ...

    def _cdf(self, t: FloatArray) -> FloatArray:
        return 1.0 - self._survival(t)

    def _density(self, t: FloatArray) -> FloatArray:
        return np.zeros_like(t)

    def _quantile(self, p: FloatArray) -> FloatArray:
        low, high = self.support
        found = _roots.first_at_least(cdf=self._cdf, survival=self._survival, levels=p, low=low, high=high)
        return _roots.snapped(found, levels=p, points=self.atoms[0], cdf=self._cdf)

    def _lower(self, order: float, t: FloatArray) -> FloatArray:
        return _each(lambda x: self.expect(lambda y: y**order, upto=x), t)

    def _upper(self, order: float, t: FloatArray) -> FloatArray:
        return _each(lambda x: self.expect(lambda y: y**order, above=x), t)

    def _excess(self, t: FloatArray) -> FloatArray:
        above = self._survival(t)
        return np.where(above > 0.0, np.maximum(self._upper(1.0, t) - t * above, 0.0), 0.0)

    def _laplace(self, s: FloatArray) -> FloatArray:
        def at(rate: float) -> float:
            if rate == 0.0:
                return 1.0
            return self.expect(lambda x: np.exp(-rate * x), breaks=(0.1 / rate, 1 / rate, 5 / rate, 30 / rate))

        return _each(at, s)

    def _shaped(self, t: Values, hook: Callable[[FloatArray], FloatArray], *, below: float, beyond: float) -> Values:
        """`hook` over t, with the values of t < 0 and t = inf put in; nan is refused."""
        array: FloatArray = np.asarray(t, dtype=np.float64)
        if array.size and array.min() >= 0.0 and array.max() < math.inf:  # false also for nan
            with np.errstate(all="ignore"):
                whole = hook(array if array.ndim else array[None])
            return _like(t, whole)
        if np.any(np.isnan(array)):
            raise InvalidModel(field="t", rule="must be a number", value=t)
        inside = (array >= 0.0) & (array < math.inf)
        out = np.where(array < 0.0, below, beyond)
        if np.any(inside):
            with np.errstate(all="ignore"):
                out[inside] = hook(array[inside])
        return _like(t, out)


def _like(asked: Values, found: FloatArray) -> Values:
    """`found` as a number where a number was `asked`; the type checker cannot know that their shapes go together."""
    return cast("Values", found if np.ndim(asked) else found.item())


def _each(function: Callable[[float], float], t: FloatArray) -> FloatArray:
    return np.array([function(float(x)) for x in t.ravel()]).reshape(t.shape)


_TABLE: dict[type[Spec], Callable[[Any], Distribution]] = {}

Builder = TypeVar("Builder", bound=Callable[[Any], Distribution])


def describes(*laws: type[Spec]) -> Callable[[Builder], Builder]:
    """Enter a class (or a function) in the table: it makes the mathematics of a law of one of these kinds."""

    def enter(builder: Builder) -> Builder:
        for law in laws:
            _TABLE[law] = builder
        return builder

    return enter


def distribution(law: Spec) -> Distribution:
    """The mathematics of `law`.

    Raises `InvalidModel` for parameters that the law's own fields could not refuse (scipy laws), and
    `TypeError` for a kind of law that has been added to the models and not here.

    >>> from qtheory.models import Exponential
    >>> distribution(Exponential(mean=2.0)).survival(0.0)
    1.0
    """
    if type(law) not in _TABLE:
        rule = f"qtheory.laws does not know the law {type(law).kind()!r}: give it a Distribution there"
        raise TypeError(rule)
    return _TABLE[type(law)](law)
