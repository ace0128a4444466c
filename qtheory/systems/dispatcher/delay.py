"""The wait of one group in one design, as a law with the errors of its figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from qtheory.laws import Distribution, Hypoexponential, MixtureDistribution, distribution
from qtheory.models import Deterministic, Erlang, Exponential, Gamma, Hyperexponential
from qtheory.systems.dispatcher.wait_law import law_of


@dataclass(frozen=True, kw_only=True)
class Delay:
    """A wait: 0, or with `probability` a positive time of two known moments.

    Attributes
    ----------
    mean : E[W]; ``inf`` where a moment of the service law is missing.
    probability : P(W > 0).
    scv : squared coefficient of variation of the wait of those who wait.
    error : of `mean`, absolute.
    probability_error : of `probability`, absolute.
    shape_error : what the two-moment law adds to the relative error of a quantile; 0 where the law is exact.
    note : why the mean is infinite.
    moments : E[W^k | W > 0] for k = 1 to 5, where they are known; they then make the law.
    """

    mean: float
    probability: float
    scv: float
    error: float
    probability_error: float
    shape_error: float
    note: str = ""
    moments: tuple[float, ...] = ()

    @cached_property
    def law(self) -> Distribution:
        """The whole law; the mean must be finite."""
        if self.mean == 0.0 or self.probability == 0.0:
            return _ZERO
        return MixtureDistribution(
            weights=[1.0 - self.probability, self.probability], components=[_ZERO, self.positive]
        )

    @cached_property
    def positive(self) -> Distribution:
        """The law of a wait that is not 0."""
        law = law_of(self.moments) if self.moments else None
        return law or fitted(mean=self.mean / self.probability, scv=self.scv)


_ZERO = distribution(Deterministic(value=0.0))
_LEAST_ERLANG_SCV = 1.0 / 12.0
#: Of a sum of waits: moments may leave it no variance, up to rounding.
_LEAST_SCV = 0.01


def fitted(*, mean: float, scv: float) -> Distribution:
    """The positive law taken for these two moments.

    Exponential at scv 1, Coxian of two phases from 1/2 up to it (many have hardly begun to wait when a server gets
    free: the density must not vanish at 0), a mixture of Erlang laws of neighbouring shapes from 1/12, gamma below,
    hyperexponential with balanced means above 1.

    Marie (1980), Calculating equilibrium probabilities for lambda(n)/C_k/1/N queues (the Coxian law); Tijms (1994),
    Stochastic Models: An Algorithmic Approach, app. B (the mixture of Erlang laws).
    """
    if abs(scv - 1.0) < 1e-9:
        return distribution(Exponential(mean=mean))
    if 0.5 <= scv < 1.0:
        return _coxian(mean=mean, scv=scv)
    if _LEAST_ERLANG_SCV <= scv < 0.5:
        return _erlang_mixture(mean=mean, scv=scv)
    if scv < 1.0:
        return distribution(Gamma(shape=1.0 / scv, scale=mean * scv))
    first = 0.5 * (1.0 + ((scv - 1.0) / (scv + 1.0)) ** 0.5)
    shares = (first, 1.0 - first)
    means = (mean / (2.0 * first), mean / (2.0 * (1.0 - first)))
    return distribution(Hyperexponential(probabilities=shares, means=means))


def _coxian(*, mean: float, scv: float) -> Distribution:
    """An exponential time of mean m/2, followed with probability 1 / (2 scv) by one of mean m scv."""
    further = 0.5 / scv
    first = distribution(Exponential(mean=0.5 * mean))
    both_phases = Hypoexponential(slow=mean * scv, fast=0.5 * mean)
    return MixtureDistribution(weights=[1.0 - further, further], components=[first, both_phases])


def _erlang_mixture(*, mean: float, scv: float) -> Distribution:
    """Shape k - 1 with probability p, else k, of one rate; 1/k <= scv < 1/(k - 1)."""
    k = math.ceil(1.0 / scv - 1e-12)
    p = (k * scv - math.sqrt(max(k * (1.0 + scv) - k * k * scv, 0.0))) / (1.0 + scv)
    scale = mean / (k - p)
    shapes = [distribution(Erlang(shape=shape, mean=shape * scale)) for shape in (k - 1, k)]
    return MixtureDistribution(weights=[p, 1.0 - p], components=shapes)


def both(first: Delay, second: Delay, *, correlation: float = 0.0, together: float = 0.0) -> Distribution:
    """The law of the sum of two waits.

    `together` is how much more probable than for independent waits it is that both are positive.  Where both are, a
    share of the jobs that makes the `correlation` right has waits that rise and fall together; for the others they are
    independent and their moments add up.
    """
    none = (1.0 - first.probability) * (1.0 - second.probability) + together
    parts: list[tuple[float, Distribution]] = [(none, _ZERO)]
    for one, other in ((first, second), (second, first)):
        alone = one.probability * (1.0 - other.probability) - together
        if one.probability > 0.0 and alone > 0.0:
            parts.append((alone, one.positive))
    together += first.probability * second.probability
    if together > 0.0:
        share = min(correlation * _spread(first) * _spread(second) / math.sqrt(first.scv * second.scv), 1.0)
        parts.append((together * (1.0 - share), _sum(first, second, _independent)))
        parts.append((together * share, _sum(first, second, _side_by_side)))
    return MixtureDistribution(weights=[share for share, _ in parts], components=[law for _, law in parts])


def _spread(delay: Delay) -> float:
    """Standard deviation of the wait, zeros included, over the mean of the positive ones, over sqrt P(W > 0)."""
    return math.sqrt(delay.scv + 1.0 - delay.probability)


def _independent(one: Sequence[float], two: Sequence[float], k: int) -> float:
    return math.fsum(math.comb(k, j) * one[j] * two[k - j] for j in range(k + 1))


def _side_by_side(one: Sequence[float], two: Sequence[float], k: int) -> float:
    return float((one[k] ** (1.0 / k) + two[k] ** (1.0 / k)) ** k)


def _sum(first: Delay, second: Delay, moment: Callable[[Sequence[float], Sequence[float], int], float]) -> Distribution:
    """Two positive waits together, from the moments of the sum."""
    one, two = ((1.0, *(delay.moments or _two_moments(delay))) for delay in (first, second))
    sums = [moment(one, two, k) for k in range(1, min(len(one), len(two)))]
    law = law_of(sums) if len(sums) > 2 else None
    return law or fitted(mean=sums[0], scv=max(sums[1] / sums[0] ** 2 - 1.0, _LEAST_SCV))


def _two_moments(delay: Delay) -> tuple[float, float]:
    mean = delay.mean / delay.probability
    return mean, mean**2 * (1.0 + delay.scv)
