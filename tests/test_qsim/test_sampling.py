"""Samplers of all laws against scipy.stats (by distribution) and closed forms (by moments).

Per law a KS test with false-alarm rate 1e-8 over 300,000 draws (an error of the distribution function above 0.011
is found with probability above .9) and z tests of mean and second moment at 1e-8, whose detectable relative errors
are asserted to be small.  Sampling the density's inverse in place of the distribution function's moves a bounded
Pareto's mean by tens of per cent.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from qsim.inverse import inverse_table
from qsim.kernels.sampling import draw, fill
from qsim.sampling import alias, check_progress, program, sample
from qsim.streams import stream
from qtheory.models import (
    LAWS,
    BoundedPareto,
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    Mixture,
    Pareto,
    PhaseType,
    Product,
    Scipy,
    Uniform,
    Weibull,
)
from qtheory.models.base import Positive, Spec

DRAWS = 300_000
FALSE_ALARM = 1e-8
BOUND = stats.norm.isf(FALSE_ALARM / 2)


def state(seed: int = 1) -> np.ndarray:
    return stream(seed=seed, replication=0, name="service0")


def mixture_cdf(weights, laws):
    return lambda x: sum(w * law.cdf(x) for w, law in zip(weights, laws, strict=True))


# Each law with its distribution function, mean and second moment, worked out apart from the samplers.
CONTINUOUS = {
    "exponential": (Exponential(mean=2.0), stats.expon(scale=2).cdf, 2.0, 8.0),
    "uniform": (Uniform(low=1.0, high=4.0), stats.uniform(1, 3).cdf, 2.5, 7.0),
    "erlang": (Erlang(shape=3, mean=2.0), stats.gamma(3, scale=2 / 3).cdf, 2.0, 4 * (1 + 1 / 3)),
    "erlang of many stages": (Erlang(shape=40, mean=2.0), stats.gamma(40, scale=0.05).cdf, 2.0, 4 * (1 + 1 / 40)),
    "hyperexponential": (
        Hyperexponential(probabilities=(0.3, 0.0, 0.7), means=(1.0, 99.0, 5.0)),
        mixture_cdf((0.3, 0.7), (stats.expon(), stats.expon(scale=5))),
        0.3 + 3.5,
        2 * (0.3 + 0.7 * 25),
    ),
    "gamma": (Gamma(shape=2.5, scale=3.0), stats.gamma(2.5, scale=3).cdf, 7.5, 7.5**2 + 22.5),
    "gamma below 1": (Gamma(shape=0.3, scale=2.0), stats.gamma(0.3, scale=2).cdf, 0.6, 0.36 + 1.2),
    "weibull": (
        Weibull(shape=0.7, scale=2.0),
        stats.weibull_min(0.7, scale=2).cdf,
        2 * math.gamma(1 + 1 / 0.7),
        4 * math.gamma(1 + 2 / 0.7),
    ),
    "lognormal": (
        LogNormal(mean=2.0, scv=0.8),
        stats.lognorm(math.sqrt(math.log(1.8)), scale=2 / math.sqrt(1.8)).cdf,
        2.0,
        4 * 1.8,
    ),
    "pareto": (
        Pareto(shape=5.5, minimum=2.7),
        stats.pareto(5.5, scale=2.7).cdf,
        2.7 * 5.5 / 4.5,
        2.7**2 * 5.5 / 3.5,
    ),
    "bounded-pareto": (
        BoundedPareto(shape=1.9, minimum=0.5, maximum=5.7),
        stats.truncpareto(1.9, 5.7 / 0.5, scale=0.5).cdf,
        1.9 * 0.5**1.9 / (1 - (0.5 / 5.7) ** 1.9) * (5.7**-0.9 - 0.5**-0.9) / -0.9,
        1.9 * 0.5**1.9 / (1 - (0.5 / 5.7) ** 1.9) * (5.7**0.1 - 0.5**0.1) / 0.1,
    ),
    # Two stages of rate 2 in a row, the second skipped half of the time: an exponential or an Erlang.
    "phase-type": (
        PhaseType(alpha=(1.0, 0.0), generator=((-2.0, 1.0), (0.0, -2.0))),
        mixture_cdf((0.5, 0.5), (stats.expon(scale=0.5), stats.gamma(2, scale=0.5))),
        0.75,
        0.5 * 0.5 + 0.5 * 1.5,
    ),
    "product": (
        # A uniform times an independent gamma(2) is exponential (Beta-gamma algebra).
        Product(factors=(Uniform(low=0.0, high=1.0), Gamma(shape=2.0, scale=3.0))),
        stats.expon(scale=3).cdf,
        3.0,
        18.0,
    ),
    "mixture of products": (
        Mixture(
            weights=(0.25, 0.5, 0.25),
            laws=(
                Product(factors=(Deterministic(value=2.0), Exponential(mean=1.5))),
                Mixture(weights=(0.4, 0.6), laws=(Exponential(mean=1.0), Uniform(low=3.0, high=4.0))),
                Product(factors=(Deterministic(value=0.5), Product(factors=(Uniform(low=0.0, high=2.0),)))),
            ),
        ),
        mixture_cdf(
            (0.25, 0.2, 0.3, 0.25), (stats.expon(scale=3), stats.expon(), stats.uniform(3, 1), stats.uniform(0, 1))
        ),
        0.75 + 0.2 + 0.3 * 3.5 + 0.125,
        0.25 * 18 + 0.2 * 2 + 0.3 * (3.5**2 + 1 / 12) + 0.25 / 3,
    ),
    "scipy": (
        Scipy(name="burr12", parameters={"c": 2.0, "d": 4.0}),
        stats.burr12(2, 4).cdf,
        stats.burr12(2, 4).mean(),
        stats.burr12(2, 4).moment(2),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution_and_moments(name: str) -> None:
    law, cdf, mean, second = CONTINUOUS[name]
    draws = sample(law, size=DRAWS, state=state())
    assert draws.min() >= 0.0
    assert stats.kstest(draws, cdf, method="asymp").pvalue > FALSE_ALARM
    for power, truth in ((1, mean), (2, second)):
        values = draws**power
        error = values.std() / math.sqrt(DRAWS)
        assert abs(values.mean() - truth) < BOUND * error
        assert (BOUND + stats.norm.isf(0.1)) * error / truth < (0.03 if power == 1 else 0.15)


def test_every_law_has_a_sampler() -> None:
    examples = [case[0] for case in CONTINUOUS.values()] + [Deterministic(value=1.0), Empirical(values=(1.0,))]
    assert {type(law) for law in examples} == set(LAWS.values())


def test_a_law_without_sampler_is_named() -> None:
    class Toy(Spec, frozen=True, kw_only=True, tag="toy"):
        mean: Positive

    with pytest.raises(InvalidModel, match=r"service0: qsim has no sampler for this law.*toy"):
        program(Toy(mean=1.0), field="service0")


@pytest.mark.parametrize("name", CONTINUOUS)
def test_fill_gives_what_single_draws_give(name: str) -> None:
    law = CONTINUOUS[name][0]
    one, two = state(2), state(2)
    ops, params = program(law, field="law")
    filled = np.empty(300)
    fill(ops, params, one, filled)
    assert filled.tolist() == [draw(ops, params, two) for _ in range(filled.size)]
    assert np.array_equal(one, two)


def test_atoms() -> None:
    assert set(sample(Deterministic(value=3.5), size=10, state=state())) == {3.5}
    values = sample(Empirical(values=(1.0, 1.0, 2.5, 0.0)), size=40_000, state=state())
    counts = [int((values == value).sum()) for value in (0.0, 1.0, 2.5)]
    assert sum(counts) == values.size
    assert stats.chisquare(counts, [10_000, 20_000, 10_000]).pvalue > FALSE_ALARM
    law = PhaseType(alpha=(0.3, 0.2), generator=((-1.0, 0.5), (0.0, -4.0)))
    draws = sample(law, size=100_000, state=state())
    assert stats.binomtest(int((draws == 0).sum()), draws.size, 0.5).pvalue > FALSE_ALARM


@pytest.mark.parametrize("probabilities", [(1.0,), (0.5, 0.5), (0.1, 0.0, 0.9), (0.2, 0.3, 0.1, 0.4), (1e-9, 1 - 1e-9)])
def test_alias_tables_hold_the_probabilities(probabilities) -> None:
    table = alias(probabilities)
    count = len(probabilities)
    found = [table[i] / count for i in range(count)]
    for i in range(count):
        found[int(table[count + i])] += (1 - table[i]) / count
    assert found == pytest.approx(probabilities, abs=1e-15)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("lognorm", {"s": 0.9}),
        ("weibull_min", {"c": 0.4, "scale": 3.0}),
        ("triang", {"c": 0.3}),  # its density has a kink
        ("beta", {"a": 0.3, "b": 2.0}),  # its density is infinite at 0
        ("invgauss", {"mu": 1.2}),
        ("kappa4", {"h": 0.1, "k": 0.2, "loc": 5.0}),
        ("pareto", {"b": 1.2}),
        ("expon", {"loc": 0.5}),
    ],
)
def test_tables_of_scipy_laws_are_as_exact_as_they_say(name: str, parameters) -> None:
    """Checked between the nodes, through the distribution function rather than the quantiles it was made from."""
    knots, rows = inverse_table(Scipy(name=name, parameters=parameters), field="law")
    law = getattr(stats, name)(**parameters)
    rng = np.random.default_rng(1)
    z = np.concatenate([rng.exponential(size=3000), rng.uniform(0, 13, 3000)])
    cell = np.searchsorted(knots, z, side="right") - 1
    place = 2 * (z - knots[cell]) / (knots[cell + 1] - knots[cell]) - 1
    x = np.array([np.polynomial.polynomial.polyval(p, rows[c]) for p, c in zip(place, cell, strict=True)])
    survival = law.sf(x)
    assert np.abs(survival - np.exp(-z)).max() < 3e-10
    assert np.abs(survival * np.exp(z) - 1).max() < 1e-7


@pytest.mark.parametrize(
    ("name", "parameters", "field"),
    [
        ("poisson", {"mu": 3.0}, "service0.name"),
        ("no such law", {}, "service0.name"),
        ("norm", {"loc": 9.0}, "service0"),
        ("gamma", {"a": 2.0, "loc": -1.0}, "service0"),
        ("gamma", {}, "service0.parameters.a"),
        ("gamma", {"a": -2.0}, "service0.parameters"),
        ("gamma", {"a": 2.0, "b": 1.0}, "service0.parameters.b"),
    ],
)
def test_scipy_laws_that_are_no_times(name: str, parameters, field: str) -> None:
    with pytest.raises(InvalidModel) as found:
        program(Scipy(name=name, parameters=parameters), field="service0")
    assert found.value.field == field


def test_a_clock_that_stands_still() -> None:
    still = Product(
        factors=(
            Exponential(mean=1.0),
            Mixture(weights=(1.0, 0.0), laws=(Deterministic(value=0.0), Exponential(mean=1.0))),
        )
    )
    with pytest.raises(InvalidModel, match="interarrival: must not be always 0"):
        check_progress(still, field="interarrival")
    check_progress(Empirical(values=(0.0, 0.0, 1.0)), field="interarrival")
