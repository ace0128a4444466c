"""Laws of times: parameters only.  Moments live in `qtheory.laws`, samplers in `qsim.sampling`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from qtheory.models.base import (
    Count,
    NonNegative,
    Positive,
    Probability,
    Spec,
    check_probabilities,
    require,
)


class Exponential(Spec, frozen=True, kw_only=True, tag="exponential"):
    """Density exp(-t / mean) / mean."""

    mean: Positive


class Deterministic(Spec, frozen=True, kw_only=True, tag="deterministic"):
    """Always `value`."""

    value: NonNegative


class Uniform(Spec, frozen=True, kw_only=True, tag="uniform"):
    """Uniform on [low, high]."""

    low: NonNegative
    high: Positive

    def check(self) -> None:
        require(self.low < self.high, field="low", rule=f"must be below high ({self.high!r})", value=self.low)


class Erlang(Spec, frozen=True, kw_only=True, tag="erlang"):
    """Sum of `shape` independent exponentials of mean `mean` / `shape`."""

    shape: Count
    mean: Positive


class Hyperexponential(Spec, frozen=True, kw_only=True, tag="hyperexponential"):
    """Exponential of mean `means[i]` with probability `probabilities[i]`."""

    probabilities: Annotated[tuple[Probability, ...], Meta(min_length=1)]
    means: Annotated[tuple[Positive, ...], Meta(min_length=1)]

    def check(self) -> None:
        _same_length(self.means, self.probabilities, field="means", other="probabilities")
        check_probabilities(self.probabilities, field="probabilities")


class Gamma(Spec, frozen=True, kw_only=True, tag="gamma"):
    """Density proportional to t^(shape-1) exp(-t / scale)."""

    shape: Positive
    scale: Positive


class Weibull(Spec, frozen=True, kw_only=True, tag="weibull"):
    """P(X > t) = exp(-(t / scale)^shape)."""

    shape: Positive
    scale: Positive


class LogNormal(Spec, frozen=True, kw_only=True, tag="lognormal"):
    """Logarithm normal; `mean` and `scv` (variance / mean^2) of the time itself."""

    mean: Positive
    scv: Positive


class Pareto(Spec, frozen=True, kw_only=True, tag="pareto"):
    """P(X > t) = (minimum / t)^shape for t >= minimum."""

    shape: Positive
    minimum: Positive


class BoundedPareto(Spec, frozen=True, kw_only=True, tag="bounded-pareto"):
    """Density proportional to t^-(shape+1) on [minimum, maximum]."""

    shape: Positive
    minimum: Positive
    maximum: Positive

    def check(self) -> None:
        rule = f"must be below maximum ({self.maximum!r})"
        require(self.minimum < self.maximum, field="minimum", rule=rule, value=self.minimum)


class PhaseType(Spec, frozen=True, kw_only=True, tag="phase-type"):
    """Time to absorption of a Markov chain: initial vector `alpha`, sub-generator `generator`.

    What `alpha` lacks to 1 is an atom at 0.
    """

    alpha: Annotated[tuple[Probability, ...], Meta(min_length=1)]
    generator: Annotated[tuple[tuple[float, ...], ...], Meta(min_length=1)]

    def check(self) -> None:
        check_probabilities(self.alpha, field="alpha", exactly_one=False)
        require(sum(self.alpha) > 0, field="alpha", rule="must give some phase a chance", value=self.alpha)
        size = len(self.alpha)
        _same_length(self.generator, self.alpha, field="generator", other="alpha")
        exits = []
        for i, row in enumerate(self.generator):
            field = f"generator.{i}"
            require(len(row) == size, field=field, rule=f"must have {size} entries", value=row)
            require(row[i] < 0, field=field, rule="must be negative on the diagonal", value=row)
            off_diagonal = [rate for j, rate in enumerate(row) if j != i]
            rule = "must not be negative off the diagonal"
            require(min(off_diagonal, default=0.0) >= 0, field=field, rule=rule, value=row)
            exit_rate = -row[i] - sum(off_diagonal)
            rule = "must not sum to more than 0"
            require(exit_rate >= -1e-9 * -row[i], field=field, rule=rule, value=row)
            exits.append(exit_rate > 1e-12 * -row[i])
        self._check_absorbed(exits)

    def _check_absorbed(self, exits: list[bool]) -> None:
        """Every phase must reach an exit, or the time never ends."""
        ends = {i for i, leaves in enumerate(exits) if leaves}
        grown = True
        while grown:
            new = {i for i, row in enumerate(self.generator) if any(row[j] > 0 for j in ends if j != i)} - ends
            grown = bool(new)
            ends |= new
        stuck = [i for i in range(len(exits)) if i not in ends]
        rule = f"never ends from phase {stuck[0] if stuck else 0}: give it a way out"
        require(not stuck, field="generator", rule=rule, value=self.generator)


class Mixture(Spec, frozen=True, kw_only=True, tag="mixture"):
    """Law `laws[i]` with probability `weights[i]`."""

    weights: Annotated[tuple[Probability, ...], Meta(min_length=1)]
    laws: Annotated[tuple[Law, ...], Meta(min_length=1)]

    def check(self) -> None:
        _same_length(self.laws, self.weights, field="laws", other="weights")
        check_probabilities(self.weights, field="weights")


class Product(Spec, frozen=True, kw_only=True, tag="product"):
    """Product of independent factors."""

    factors: Annotated[tuple[Law, ...], Meta(min_length=1)]


class Empirical(Spec, frozen=True, kw_only=True, tag="empirical"):
    """Each of the recorded `values` with the same probability."""

    values: Annotated[tuple[NonNegative, ...], Meta(min_length=1)]

    def check(self) -> None:
        # Not hashed by each use: a log may have millions of values.
        require(max(self.values) > 0, field="values", rule="must not all be 0", value=self.values[:3])


class Scipy(Spec, frozen=True, kw_only=True, tag="scipy"):
    """A continuous law of `scipy.stats` on [0, inf), by name; checked by `qtheory.laws.check`."""

    name: Annotated[str, Meta(min_length=1)]
    parameters: Mapping[str, float] = {}


Law = (
    Exponential
    | Deterministic
    | Uniform
    | Erlang
    | Hyperexponential
    | Gamma
    | Weibull
    | LogNormal
    | Pareto
    | BoundedPareto
    | PhaseType
    | Mixture
    | Product
    | Empirical
    | Scipy
)

#: Every law, by the name it bears in files.
LAWS: dict[str, type[Spec]] = {law.kind(): law for law in Law.__args__}


def _same_length(one: tuple[object, ...], two: tuple[object, ...], *, field: str, other: str) -> None:
    rule = f"must have as many entries as {other} ({len(two)})"
    require(len(one) == len(two), field=field, rule=rule, value=len(one))
