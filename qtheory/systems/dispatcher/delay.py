"""The wait of one group in one design, as a law with the errors of its figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from qtheory.laws import Distribution, MixtureDistribution, distribution
from qtheory.models import Deterministic, Exponential, Gamma, Hyperexponential


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
    """

    mean: float
    probability: float
    scv: float
    error: float
    probability_error: float
    shape_error: float
    note: str = ""

    @cached_property
    def law(self) -> Distribution:
        """The whole law; the mean must be finite."""
        if self.mean == 0.0 or self.probability == 0.0:
            return _ZERO
        positive = fitted(mean=self.mean / self.probability, scv=self.scv)
        return MixtureDistribution(weights=[1.0 - self.probability, self.probability], components=[_ZERO, positive])


_ZERO = distribution(Deterministic(value=0.0))


def fitted(*, mean: float, scv: float) -> Distribution:
    """Exponential, gamma (scv below 1) or balanced hyperexponential law with this mean and scv."""
    if abs(scv - 1.0) < 1e-9:
        return distribution(Exponential(mean=mean))
    if scv < 1.0:
        return distribution(Gamma(shape=1.0 / scv, scale=mean * scv))
    first = 0.5 * (1.0 + ((scv - 1.0) / (scv + 1.0)) ** 0.5)
    shares = (first, 1.0 - first)
    means = (mean / (2.0 * first), mean / (2.0 * (1.0 - first)))
    return distribution(Hyperexponential(probabilities=shares, means=means))


def both(first: Delay, second: Delay) -> Distribution:
    """The law of the sum of two independent waits; where both are positive, by its two moments."""
    parts: list[tuple[float, Distribution]] = [((1.0 - first.probability) * (1.0 - second.probability), _ZERO)]
    for one, other in ((first, second), (second, first)):
        if one.probability > 0.0:
            parts.append(
                (one.probability * (1.0 - other.probability), fitted(mean=one.mean / one.probability, scv=one.scv))
            )
    together = first.probability * second.probability
    if together > 0.0:
        means = [delay.mean / delay.probability for delay in (first, second)]
        variance = sum(mean**2 * delay.scv for mean, delay in zip(means, (first, second), strict=True))
        parts.append((together, fitted(mean=sum(means), scv=variance / sum(means) ** 2)))
    return MixtureDistribution(weights=[share for share, _ in parts], components=[law for _, law in parts])
