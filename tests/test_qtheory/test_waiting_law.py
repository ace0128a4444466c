"""Waits and responses from three numbers: exact for M/M/c, moments kept, convolutions known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, linalg, special

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues import deterministic, deterministic_law, markovian, single_server, waiting_law

LEVELS = np.array([0.0, 0.3, 0.9, 0.95, 0.99, 0.9999])


@pytest.mark.parametrize("servers", [1, 3, 50])
@pytest.mark.parametrize("rho", [0.3, 0.8, 0.99])
def test_exponential_service_is_exact(servers, rho):
    queue = {"arrival_rate": rho * servers, "mean_service": 1.0, "servers": servers}
    law = {
        "wait_probability": markovian.wait_probability(**queue),
        "mean_wait": markovian.mean_wait(**queue),
        "conditional_scv": 1.0,
    }
    service = {"service_survival": lambda t: np.exp(-t)}
    at = np.array([0.0, 0.1, 1.0, 5.0, 30.0])
    waiting = markovian.wait_survival(at=at, **queue)
    assert waiting_law.wait_survival(at=at, **law) == pytest.approx(waiting, rel=1e-9, abs=1e-200)
    quantiles = markovian.wait_quantile(level=LEVELS, **queue)
    assert waiting_law.wait_quantile(level=LEVELS, **law) == pytest.approx(quantiles, rel=1e-9)
    responses = markovian.response_survival(at=at, **queue)
    assert waiting_law.response_survival(at=at, **law, **service) == pytest.approx(responses, abs=1e-10)
    quantiles = markovian.response_quantile(level=LEVELS, **queue)
    assert waiting_law.response_quantile(level=LEVELS, **law, **service) == pytest.approx(quantiles, rel=1e-7)


@settings(max_examples=60, deadline=None)
@given(waits=st.floats(0.01, 1.0), mean=st.floats(1e-3, 1e3), scv=st.floats(0.011, 60.0))
def test_the_fit_keeps_its_three_numbers(waits, mean, scv):
    law = {"wait_probability": waits, "mean_wait": mean, "conditional_scv": scv}

    def survival(t):
        return waiting_law.wait_survival(at=t, **law)

    assert survival(0.0) == pytest.approx(waits, rel=1e-12)
    unit = mean / waits
    ends = unit * np.concatenate([[0.0], np.geomspace(1e-3, 4000.0, 60)])
    nodes, weights = np.polynomial.legendre.leggauss(30)
    half = 0.5 * np.diff(ends)[:, None]
    at, width = (ends[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    assert width @ survival(at) == pytest.approx(mean, rel=1e-8)
    assert width @ (2 * at * survival(at)) == pytest.approx(waits * unit**2 * (1 + scv), rel=1e-7)


@pytest.mark.parametrize("scv", [2.0, 4.0, 10.0])
@pytest.mark.parametrize("rho", [0.5, 0.8, 0.9])
def test_quantiles_of_hyperexponential_service_within_the_stated_error(scv, rho):
    """M/H2/1: P(W > t) = rho pi e^((T + rho t pi) t) 1, pi the residual phase (Neuts 1981)."""
    p = 0.5 * (1 + np.sqrt((scv - 1) / (scv + 1)))
    rates, share = np.array([2 * p, 2 * (1 - p)]), np.array([p, 1 - p])
    pi = share / rates
    generator = -np.diag(rates) + rho * np.outer(rates, pi)
    moments = {"arrival_rate": rho, "mean_service": 1.0, "service_second_moment": 1 + scv}
    wait = single_server.mean_wait(**moments)
    square = single_server.wait_second_moment(service_third_moment=6 * share @ rates**-3.0, **moments)
    law = {"wait_probability": rho, "mean_wait": wait, "conditional_scv": square * rho / wait**2 - 1}
    for level, error in ((0.9, 0.09), (0.95, 0.03), (0.99, 0.09)):
        t = waiting_law.wait_quantile(level=level, **law)
        low, high = (rho * (pi @ linalg.expm(generator * t / f)).sum() for f in (1 - error, 1 + error))
        assert low <= 1 - level <= high


@pytest.mark.parametrize(("servers", "rho"), [(1, 0.5), (1, 0.95), (5, 0.8), (100, 0.95)])
def test_quantiles_of_constant_service_within_the_stated_error(servers, rho):
    law = {"arrival_rate": rho * servers, "service_time": 1.0, "servers": servers}
    waits, wait = deterministic_law.wait_probability(**law), deterministic.mean_wait(**law)
    queue = deterministic_law.queue_distribution(**law)
    count = np.arange(queue.size)
    square = queue @ (count * (count - 1.0)) / (rho * servers) ** 2
    level = np.array([0.9, 0.95, 0.99])
    exact = deterministic_law.wait_quantile(level=level, **law)
    got = waiting_law.wait_quantile(
        level=level, wait_probability=waits, mean_wait=wait, conditional_scv=square * waits / wait**2 - 1
    )
    assert got == pytest.approx(exact, rel=0.06)


def test_a_constant_service_shifts_the_wait():
    law = {"wait_probability": 0.7, "mean_wait": 1.4, "conditional_scv": 1.7}
    service = {"service_survival": lambda t: (t < 3.0).astype(float), "breakpoints": [3.0]}
    at = np.array([0.0, 1.0, 2.9999, 3.0, 3.5, 10.0])
    shifted = np.where(at < 3.0, 1.0, waiting_law.wait_survival(at=np.maximum(at - 3.0, 0.0), **law))
    assert waiting_law.response_survival(at=at, **law, **service) == pytest.approx(shifted, abs=1e-9)
    quantiles = 3.0 + waiting_law.wait_quantile(level=LEVELS[1:], **law)
    assert waiting_law.response_quantile(level=LEVELS[1:], **law, **service) == pytest.approx(quantiles, rel=1e-6)
    with pytest.raises(NotConverged, match="breakpoint"):
        waiting_law.response_survival(at=at, **law, service_survival=service["service_survival"])


@pytest.mark.parametrize("scv", [0.2, 0.7, 3.0])
def test_the_convolution_is_that_of_an_adaptive_rule(scv):
    """Gamma service of shape 1/2, whose survival function has a root at 0, against scipy's adaptive quadrature."""
    law = {"wait_probability": 0.6, "mean_wait": 0.9, "conditional_scv": scv}

    def density(t):
        return np.exp(-t) / np.sqrt(np.pi * t)

    for at in (0.05, 1.0, 6.0):
        inside, _ = integrate.quad(
            lambda r, at=at: 2 * r * density(r * r) * waiting_law.wait_survival(at=at - r * r, **law),
            0.0,
            np.sqrt(at),
            epsabs=1e-12,
        )
        got = waiting_law.response_survival(at=at, **law, service_survival=lambda t: special.gammaincc(0.5, t))
        assert got == pytest.approx(inside + special.gammaincc(0.5, at), abs=1e-7)


def test_heavy_service_and_no_wait():
    def pareto(t):
        return np.maximum(t, 1.0) ** -1.5

    none = {"wait_probability": 0.0, "mean_wait": 0.0, "conditional_scv": 1.0}
    assert waiting_law.wait_quantile(level=0.99, **none) == 0.0
    alone = waiting_law.response_quantile(level=0.99, service_survival=pareto, breakpoints=[1.0], **none)
    assert alone == pytest.approx(100 ** (1 / 1.5), rel=1e-9)
    some = {"wait_probability": 0.3, "mean_wait": 0.4, "conditional_scv": 3.0}
    far = waiting_law.response_survival(at=1e6, service_survival=pareto, breakpoints=[1.0], **some)
    assert far == pytest.approx(1e-9, rel=1e-4)


def test_refusals():
    law = {"wait_probability": 0.5, "mean_wait": 1.0, "conditional_scv": 1.0}
    for field, wrong in (
        ("wait_probability", 1.2), ("wait_probability", float("nan")), ("mean_wait", float("inf")),
        ("conditional_scv", 0.0), ("conditional_scv", 1e-3), ("mean_wait", 0.0),
    ):  # fmt: skip
        with pytest.raises(InvalidModel) as caught:
            waiting_law.wait_survival(at=1.0, **(law | {field: wrong}))
        assert caught.value.field == field
    with pytest.raises(InvalidModel, match="level"):
        waiting_law.response_quantile(level=1 - 1e-9, service_survival=lambda t: np.exp(-t), **law)
    with pytest.raises(NotConverged):
        waiting_law.response_quantile(level=0.9, service_survival=lambda t: np.ones_like(t), **law)
