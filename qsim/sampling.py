"""From a law to a sampler: each law of `qtheory.models.laws` as a program that kernels interpret.

The samplers are derived here from the laws' definitions alone; moments, distribution functions and transforms of
the same laws live in `qtheory` and are derived there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from qsim.kernels import sampling as kernel
from qsim.kernels.random import Array, State
from qtheory.models.base import Spec, require
from qtheory.models.errors import InvalidModel
from qtheory.models.laws import (
    BoundedPareto,
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    LogNormal,
    Mixture,
    Pareto,
    PhaseType,
    Product,
    Scipy,
    Uniform,
    Weibull,
)

#: Erlang draws of more stages than this come from the gamma sampler.
_STAGES = 8


class Program(NamedTuple):
    """A law lowered to rows of operations and one parameter array; see `qsim.kernels.sampling`."""

    ops: kernel.Rows
    params: Array


def program(law: Spec, *, field: str) -> Program:
    """The sampler of `law`; `field` names it in complaints, e.g. ``service0``.

    ``draw(*program(law, field="service0"), state)`` is one draw, ``fill(*program(law, field="service0"), state, out)``
    fills an array with the numbers that as many draws would give.

    Raises
    ------
    InvalidModel : no sampler is known for this law, or a scipy law is unknown, discrete, or may be negative.
    """
    writer = _Writer()
    writer.law(law, field)
    writer.row(kernel.END)
    return Program(np.array(writer.rows, np.int64), np.array(writer.params or [0.0], np.float64))


def sample(law: Spec, *, size: int, state: State, field: str = "law") -> Array:
    """`size` independent draws; `state` is a stream of `qsim.streams` and advances."""
    out = np.empty(size)
    kernel.fill(*program(law, field=field), state, out)
    return out


def check_progress(law: Spec, *, field: str) -> None:
    """Raise `InvalidModel` if times between arrivals are always 0: the clock would stand still."""
    require(not _always_zero(law), field=field, rule="must not be always 0")


def _always_zero(law: Spec) -> bool:
    if isinstance(law, Deterministic):
        return law.value == 0
    if isinstance(law, Product):
        return any(_always_zero(factor) for factor in law.factors)
    if isinstance(law, Mixture):
        return all(_always_zero(part) for part, weight in zip(law.laws, law.weights, strict=True) if weight > 0)
    return False


class _Writer:
    """Rows and parameters as they grow."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.params: list[float] = []

    def law(self, law: Spec, field: str) -> None:
        """Append the rows of a law."""
        write = _RULES.get(type(law))
        if write is None:
            known = ", ".join(sorted(kind.kind() for kind in _RULES))
            raise InvalidModel(
                field=field, rule=f"qsim has no sampler for this law, only for {known}", value=law.kind()
            )
        write(self, law, field)

    def row(self, op: int, *params: float, count: int = 1, target: int = 0) -> list[int]:
        """Append one row and its parameters; the row may be changed later."""
        row = [op, len(self.params), count, target]
        self.rows.append(row)
        self.params.extend(params)
        return row

    def branch(self, probabilities: tuple[float, ...], alternatives: tuple[Spec, ...], field: str) -> None:
        """One of several laws: a branch row, then each law and a jump behind the last."""
        count = len(alternatives)
        at = len(self.params) + 2 * count
        self.row(kernel.BRANCH, *alias(probabilities), *([0.0] * count), count=count)
        jumps = []
        for index, law in enumerate(alternatives):
            self.params[at + index] = len(self.rows)
            self.law(law, f"{field}.laws.{index}")
            jumps.append(self.row(kernel.JUMP))
        for jump in jumps:
            jump[3] = len(self.rows)


def alias(probabilities: tuple[float, ...]) -> list[float]:
    """Walker's alias table, thresholds then aliases (Vose, IEEE Trans. Softw. Eng. 17, 1991, 972-975)."""
    count = len(probabilities)
    total = math.fsum(probabilities)
    scaled = [p * count / total for p in probabilities]
    thresholds, aliases = [1.0] * count, list(range(count))
    small = [i for i, p in enumerate(scaled) if p < 1]
    large = [i for i, p in enumerate(scaled) if p >= 1]
    while small and large:
        i, j = small.pop(), large[-1]
        thresholds[i], aliases[i] = scaled[i], j
        scaled[j] -= 1 - scaled[i]
        if scaled[j] < 1:
            small.append(large.pop())
    # What is left over differs from 1 by round-off alone, unless it is impossible.
    for i in small:
        if probabilities[i] == 0:
            thresholds[i], aliases[i] = 0.0, max(range(count), key=probabilities.__getitem__)
    return [*thresholds, *(float(i) for i in aliases)]


def _exponential(writer: _Writer, law: Exponential, field: str) -> None:
    writer.row(kernel.EXPONENTIAL, law.mean)


def _deterministic(writer: _Writer, law: Deterministic, field: str) -> None:
    writer.row(kernel.CONSTANT, law.value)


def _uniform(writer: _Writer, law: Uniform, field: str) -> None:
    writer.row(kernel.UNIFORM, law.low, law.high - law.low)


def _erlang(writer: _Writer, law: Erlang, field: str) -> None:
    stage = law.mean / law.shape
    if law.shape <= _STAGES:
        writer.row(kernel.ERLANG, stage, count=law.shape)
    else:
        writer.row(kernel.GAMMA, float(law.shape), stage)


def _hyperexponential(writer: _Writer, law: Hyperexponential, field: str) -> None:
    writer.row(kernel.HYPEREXPONENTIAL, *alias(law.probabilities), *law.means, count=len(law.means))


def _gamma(writer: _Writer, law: Gamma, field: str) -> None:
    writer.row(kernel.GAMMA, law.shape, law.scale)


def _weibull(writer: _Writer, law: Weibull, field: str) -> None:
    writer.row(kernel.WEIBULL, 1 / law.shape, law.scale)


def _lognormal(writer: _Writer, law: LogNormal, field: str) -> None:
    # mean = exp(mu + sigma^2 / 2) and scv = exp(sigma^2) - 1.
    variance = math.log1p(law.scv)
    writer.row(kernel.LOGNORMAL, math.log(law.mean) - variance / 2, math.sqrt(variance))


def _pareto(writer: _Writer, law: Pareto, field: str) -> None:
    writer.row(kernel.PARETO, 1 / law.shape, law.minimum)


def _bounded_pareto(writer: _Writer, law: BoundedPareto, field: str) -> None:
    # The distribution function is inverted: F(x) = (1 - (minimum / x)^shape) / (1 - (minimum / maximum)^shape).
    inside = -math.expm1(-law.shape * math.log(law.maximum / law.minimum))
    writer.row(kernel.BOUNDED_PARETO, 1 / law.shape, law.minimum, law.maximum, inside)


def _phase_type(writer: _Writer, law: PhaseType, field: str) -> None:
    phases = len(law.alpha)
    tables = alias((*law.alpha, _rest(law.alpha, of=1.0)))
    for i, rates in enumerate(law.generator):
        onward = [rate if j != i else 0.0 for j, rate in enumerate(rates)]
        tables += alias((*onward, _rest(onward, of=-rates[i])))
    sojourns = [-1 / law.generator[i][i] for i in range(phases)]
    writer.row(kernel.PHASE_TYPE, *tables, *sojourns, count=phases)


def _rest(parts: Iterable[float], *, of: float) -> float:
    """What the parts lack to the whole; round-off counts as nothing."""
    rest = of - math.fsum(parts)
    return rest if rest > 1e-12 * of else 0.0


def _mixture(writer: _Writer, law: Mixture, field: str) -> None:
    writer.branch(law.weights, law.laws, field)


def _product(writer: _Writer, law: Product, field: str) -> None:
    for index, factor in enumerate(law.factors):
        writer.law(factor, f"{field}.factors.{index}")


def _empirical(writer: _Writer, law: Empirical, field: str) -> None:
    writer.row(kernel.EMPIRICAL, *law.values, count=len(law.values))


def _scipy(writer: _Writer, law: Scipy, field: str) -> None:
    from qsim.inverse import inverse_table

    knots, coefficients = inverse_table(law, field=field)
    writer.row(kernel.TABLE, *knots, *coefficients.ravel(), count=len(coefficients))


_RULES: dict[type[Spec], Callable[[_Writer, Any, str], None]] = {
    Exponential: _exponential,
    Deterministic: _deterministic,
    Uniform: _uniform,
    Erlang: _erlang,
    Hyperexponential: _hyperexponential,
    Gamma: _gamma,
    Weibull: _weibull,
    LogNormal: _lognormal,
    Pareto: _pareto,
    BoundedPareto: _bounded_pareto,
    PhaseType: _phase_type,
    Mixture: _mixture,
    Product: _product,
    Empirical: _empirical,
    Scipy: _scipy,
}
