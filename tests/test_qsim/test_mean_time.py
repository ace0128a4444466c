"""Means of laws on the simulation's side: against the analytic side, which derives them on its own."""

from __future__ import annotations

import math

import pytest

from qsim.mean_time import mean_time
from qtheory import laws
from qtheory.models import (
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

LAWS = [
    Exponential(mean=2.0),
    Deterministic(value=3.0),
    Uniform(low=1.0, high=2.5),
    Erlang(shape=3, mean=2.0),
    Hyperexponential(probabilities=(0.25, 0.75), means=(4.0, 1.0)),
    Gamma(shape=0.7, scale=2.0),
    Weibull(shape=0.6, scale=1.5),
    LogNormal(mean=2.0, scv=3.0),
    Pareto(shape=2.2, minimum=1.0),
    BoundedPareto(shape=1.0, minimum=1.0, maximum=50.0),
    BoundedPareto(shape=1.5, minimum=0.5, maximum=1000.0),
    PhaseType(alpha=(0.5, 0.4), generator=((-2.0, 1.0), (0.0, -3.0))),
    Mixture(weights=(0.2, 0.8), laws=(Deterministic(value=5.0), Exponential(mean=1.0))),
    Product(factors=(Exponential(mean=2.0), Uniform(low=0.0, high=1.0))),
    Empirical(values=(1.0, 2.0, 6.0)),
    Scipy(name="invgauss", parameters={"mu": 0.5, "scale": 2.0}),
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind())
def test_mean_is_that_of_the_other_road(law):
    assert mean_time(law, field="service") == pytest.approx(laws.mean(law), rel=1e-9)


def test_heavy_tails_have_none():
    assert math.isinf(mean_time(Pareto(shape=1.0, minimum=1.0), field="service"))
