"""Approximations of M/G/c and GI/G/c: exact reductions, printed tables, exact matrix-analytic and GI/M/c values.

The tolerances against exact values are the errors the documentation states, not tuned to what comes out.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.queues import (
    deterministic,
    finiteness,
    many_server,
    markovian,
    renewal,
    residual,
    single_server,
    whitt,
)

TWO_MOMENTS = (many_server.allen_cunneen, many_server.kimura)
WITH_RESIDUAL = (many_server.tijms, many_server.boxma_cohen_huffels)


def balanced_residual(scv: float):
    """Residual survival function of the hyperexponential law of mean 1 with balanced means."""
    p = 0.5 * (1.0 + np.sqrt((scv - 1.0) / (scv + 1.0)))
    return lambda t: 0.5 * (np.exp(-2.0 * p * t) + np.exp(-2.0 * (1.0 - p) * t))


def erlang4_residual(t):
    return np.exp(-4 * t) * (1 + 3 * t + 4 * t**2 + 8 * t**3 / 3)


def wait_gi_m_c(transform, *, servers: int) -> float:
    """E[W] of GI/M/c with unit service rate, from the transform of the interarrival time: Takacs (1962), 60 digits."""
    with mpmath.workdps(60):
        root = mpmath.mpf("0.5")
        while True:
            following = transform(servers * (1 - root))
            if abs(following - root) < mpmath.mpf(10) ** -40:
                break
            root = following
        product, total = mpmath.mpf(1), 1 / (1 - root)
        for j in range(1, servers + 1):
            step = transform(mpmath.mpf(j))
            product *= step / (1 - step)
            gap = (servers * (1 - step) - j) / (servers * (1 - root) - j)
            total += mpmath.binomial(servers, j) / (product * (1 - step)) * gap
        return float(1 / (total * (1 - root) ** 2 * servers))


@settings(max_examples=60, deadline=None)
@given(rho=st.floats(1e-2, 0.9999), servers=st.integers(1, 300), mean=st.floats(1e-2, 1e2))
def test_exponential_service_is_exact(rho, servers, mean):
    queue = {"arrival_rate": rho * servers / mean, "mean_service": mean, "servers": servers}
    exact = pytest.approx(markovian.mean_wait(**queue), rel=1e-10, abs=1e-280)
    for formula in TWO_MOMENTS:
        assert formula(service_scv=1.0, **queue) == exact
    for formula in WITH_RESIDUAL:
        assert formula(service_scv=1.0, least_residual=mean / servers, **queue) == exact
    assert whitt.mean_wait(service_scv=1.0, **queue) == exact
    assert whitt.wait_probability(service_scv=1.0, **queue) == markovian.wait_probability(**queue)


@pytest.mark.parametrize("servers", [1, 2, 7, 60])
@pytest.mark.parametrize("rho", [0.1, 0.7, 0.97])
def test_constant_service_is_exact(servers, rho):
    queue = {"arrival_rate": rho * servers, "mean_service": 1.0, "servers": servers, "service_scv": 0.0}
    exact = deterministic.mean_wait(arrival_rate=rho * servers, service_time=1.0, servers=servers)
    assert many_server.kimura(**queue) == pytest.approx(exact, rel=1e-12)
    least = 1.0 / (servers + 1)
    assert many_server.boxma_cohen_huffels(least_residual=least, **queue) == pytest.approx(exact, rel=1e-12)
    closed = deterministic.kimura_wait(arrival_rate=rho * servers, service_time=1.0, servers=servers)
    assert many_server.kimura(deterministic_wait=closed, **queue) == pytest.approx(closed, rel=1e-14)


@pytest.mark.parametrize("scv", [0.0, 0.3, 1.0, 4.0, 100.0])
def test_one_server_is_the_queue_of_pollaczek_and_khinchine(scv):
    rate = np.array([0.05, 0.6, 0.99])
    queue = {"arrival_rate": rate, "mean_service": 1.0, "servers": 1, "service_scv": scv}
    exact = single_server.mean_wait(arrival_rate=rate, mean_service=1.0, service_second_moment=1.0 + scv)
    for formula in TWO_MOMENTS:
        assert formula(**queue) == pytest.approx(exact, rel=1e-10)
    for formula in WITH_RESIDUAL:
        assert formula(least_residual=0.5 * (1.0 + scv), **queue) == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize(
    ("scv", "rho", "printed"),
    [(4.0, 0.9, 16.26), (4.0, 0.7, 1.82), (1.5, 0.9, 8.50), (1.5, 0.7, 1.06), (0.5, 0.9, 5.19), (0.5, 0.7, 0.68)],
)
def test_kimura_as_printed(scv, rho, printed):
    """Kimura (1994), table 1: mean queue of M/G/5. He used a closed form of the M/D/5 wait, good to 1 %."""
    wait = many_server.kimura(arrival_rate=5 * rho, mean_service=1.0, servers=5, service_scv=scv)
    assert 5 * rho * wait == pytest.approx(printed, rel=0.015)


@pytest.mark.parametrize(
    ("servers", "residual_survival", "scv", "response"),
    [
        (2, balanced_residual(4.0), 4.0, 5.28538),
        (10, balanced_residual(4.0), 4.0, 1.43237),
        (50, balanced_residual(4.0), 4.0, 1.01408),
        (3, erlang4_residual, 0.25, 1.68782),
        (8, erlang4_residual, 0.25, 1.18700),
    ],
)
def test_against_exact_responses(servers, residual_survival, scv, response):
    """Mean response at load 0.8 from matrix-analytic solutions: the wait within errors stated for scv up to 4."""
    queue = {"arrival_rate": 0.8 * servers, "mean_service": 1.0, "servers": servers, "service_scv": scv}
    least = residual.least_residual(residual_survival=residual_survival, mean_service=1.0, servers=servers)
    wait = response - 1.0
    assert many_server.kimura(**queue) == pytest.approx(wait, rel=0.053)
    assert many_server.boxma_cohen_huffels(least_residual=least, **queue) == pytest.approx(wait, rel=0.04)
    assert many_server.tijms(least_residual=least, **queue) == pytest.approx(wait, rel=0.48)
    assert whitt.mean_wait(**queue) == pytest.approx(wait, rel=0.48)
    assert many_server.allen_cunneen(**queue) == pytest.approx(wait, rel=1.1)


@pytest.mark.parametrize("scv", [0.0, 0.5, 4.0])
def test_saturation_needs_two_moments_only(scv):
    queue = {"arrival_rate": 5 * (1 - 1e-7), "mean_service": 1.0, "servers": 5, "service_scv": scv}
    heavy = 0.5 * (1.0 + scv) * markovian.mean_wait(arrival_rate=5 * (1 - 1e-7), mean_service=1.0, servers=5)
    for formula in TWO_MOMENTS:
        assert formula(**queue) == pytest.approx(heavy, rel=1e-5)
    for formula in WITH_RESIDUAL:
        assert formula(least_residual=0.2, **queue) == pytest.approx(heavy, rel=1e-5)


def test_light_traffic_waits_for_the_least_residual():
    queue = {"arrival_rate": 1e-6, "mean_service": 1.0, "servers": 3}
    for formula in WITH_RESIDUAL:
        wait = formula(service_scv=4.0, least_residual=0.4, **queue)
        assert wait == pytest.approx(0.4 * markovian.wait_probability(**queue), rel=1e-5)


@pytest.mark.parametrize(
    ("servers", "rho", "arrivals", "services", "printed"),
    [(4, 0.9, 1.0, 1.0, 0.79), (4, 0.9, 0.0, 1.0, 0.65), (4, 0.9, 2.25, 1.0, 0.85), (4, 0.9, 0.25, 1.0, 0.70),
     (4, 0.9, 0.56, 1.0, 0.75), (4, 0.9, 1.0, 0.0, 0.79), (4, 0.9, 0.0, 2.0, 0.71), (4, 0.9, 0.5, 2.0, 0.76),
     (4, 0.9, 0.0, 9.0, 0.75), (4, 0.9, 9.0, 9.0, 0.86), (4, 0.9, 0.1, 0.5, 0.60), (20, 0.9, 0.0, 1.0, 0.31),
     (2, 0.6, 0.5, 9.0, 0.38), (4, 0.9, 2.25, 0.0, 0.86)],
)  # fmt: skip
def test_whitt_probability_as_printed(servers, rho, arrivals, services, printed):
    """Whitt (1993), the approximation's column of the tables of section 3, two digits."""
    got = whitt.wait_probability(
        arrival_rate=rho * servers, mean_service=1.0, servers=servers, service_scv=services, arrival_scv=arrivals
    )
    assert got == pytest.approx(printed, abs=0.009)


def test_whitt_conditional_scv_is_that_of_the_single_server():
    """M/G/1 with E[S^3] = 3 cs^2 (1 + cs^2): the wait given a wait has E[W^k] / rho."""
    rho, scv = 0.6, 4.0
    moments = {"arrival_rate": rho, "mean_service": 1.0, "service_second_moment": 1 + scv}
    first = single_server.mean_wait(**moments) / rho
    second = single_server.wait_second_moment(service_third_moment=3 * scv * (1 + scv), **moments) / rho
    assert whitt.conditional_scv(load=rho, service_scv=scv) == pytest.approx(second / first**2 - 1, rel=1e-12)
    assert residual.conditional_scv(
        load=rho, servers=1, mean_service=1.0, service_second_moment=5.0, service_third_moment=60.0,
        least_residual=2.5, least_residual_square=20.0,
    ) == pytest.approx(second / first**2 - 1, rel=1e-12)  # fmt: skip


def regular(rate):
    return lambda s: mpmath.exp(-s / rate)


def erlang(rate, shape):
    return lambda s: (shape * rate / (shape * rate + s)) ** shape


def hyperexponential(rate, scv):
    p = (1 + mpmath.sqrt(mpmath.mpf(scv - 1) / (scv + 1))) / 2
    fast, slow = 2 * p * rate, 2 * (1 - p) * rate
    return lambda s: p * fast / (fast + s) + (1 - p) * slow / (slow + s)


def test_the_referee_of_renewal_arrivals_knows_poisson_arrivals():
    """M/M/3 is GI/M/3 as well, and E2/M/1 has the root of a quadratic: sigma = (2 r / (2 r + 1 - sigma))^2."""
    poisson = wait_gi_m_c(erlang(mpmath.mpf("2.4"), 1), servers=3)
    assert poisson == pytest.approx(markovian.mean_wait(arrival_rate=2.4, mean_service=1.0, servers=3), rel=1e-12)
    root = min(np.roots([1.0, -(4 * 0.8 + 1), (2 * 0.8) ** 2]))
    assert wait_gi_m_c(erlang(mpmath.mpf("0.8"), 2), servers=1) == pytest.approx(root / (1 - root), rel=1e-10)


@pytest.mark.parametrize("servers", [1, 4, 20, 60])
@pytest.mark.parametrize("rho", [0.8, 0.9])
@pytest.mark.parametrize(
    ("law", "scv"), [(regular, 0.0), ((erlang, 4), 0.25), ((erlang, 2), 0.5), ((hyperexponential, 2), 2.0),
                     ((hyperexponential, 10), 10.0)],
)  # fmt: skip
def test_renewal_arrivals_within_the_stated_error(servers, rho, law, scv):
    rate = mpmath.mpf(rho) * servers
    transform = law(rate) if callable(law) else law[0](rate, law[1])
    exact = wait_gi_m_c(transform, servers=servers)
    factor = renewal.wait_factor(offered_load=rho * servers, servers=servers, arrival_scv=scv, service_scv=1.0)
    poisson = markovian.mean_wait(arrival_rate=rho * servers, mean_service=1.0, servers=servers)
    assert factor * poisson == pytest.approx(exact, rel=0.27 if servers == 60 and scv == 0.0 else 0.16)
    queue = {"arrival_rate": rho * servers, "mean_service": 1.0, "servers": servers, "service_scv": 1.0}
    assert many_server.kimura(arrival_scv=scv, **queue) == pytest.approx(factor * poisson, rel=1e-10)


def test_poisson_arrivals_change_nothing():
    given_ = {"offered_load": np.array([0.1, 1.0, 1.9]), "servers": 2, "arrival_scv": 1.0, "service_scv": 3.0}
    assert np.all(renewal.wait_factor(**given_) == 1.0)
    assert np.all(renewal.wait_probability_factor(**given_) == 1.0)


def test_least_residual_closed_forms():
    servers = np.array([1, 2, 5, 40, 10**6])
    exponential = residual.least_residual(residual_survival=lambda t: np.exp(-t / 3), mean_service=3.0, servers=servers)
    assert exponential == pytest.approx(3.0 / servers, rel=1e-9)
    uniform = {"residual_survival": lambda t: np.maximum(1 - t / 2, 0.0), "mean_service": 2.0, "breakpoints": [2.0]}
    assert residual.least_residual(servers=servers, **uniform) == pytest.approx(2.0 / (servers + 1), rel=1e-9)
    square = residual.least_residual(servers=servers, order=2, **uniform)
    assert square == pytest.approx(8.0 / ((servers + 1) * (servers + 2.0)), rel=1e-9)
    pareto = residual.least_residual(residual_survival=lambda t: (1 + t) ** -0.8, mean_service=1.0, servers=2)
    assert pareto == pytest.approx(1 / 0.6, rel=1e-8)
    with pytest.raises(NotConverged, match="heavy"):
        residual.least_residual(residual_survival=lambda t: (1 + t) ** -0.4, mean_service=1.0, servers=2)


def test_finite_means_by_the_theorem_of_scheller_wolf_and_vesilo():
    assert finiteness.required_moment(offered_load=0.5, servers=1) == 2.0
    assert list(finiteness.required_moment(offered_load=1.5, servers=np.array([2, 3, 4]))) == [2.0, 1.5, 4 / 3]
    assert finiteness.required_moment(offered_load=0.5, servers=2, order=2) == 2.0
    tail = {"offered_load": 2.5, "servers": np.array([3, 4, 5, 6])}
    assert list(finiteness.wait_is_finite(tail_index=1.4, **tail)) == [False, False, True, True]
    assert finiteness.wait_is_finite(offered_load=2.5, servers=3, tail_index=np.inf) is True
    assert finiteness.wait_is_finite(offered_load=2.0, servers=4, tail_index=1.51) is True
    assert finiteness.wait_is_finite(offered_load=2.0, servers=4, tail_index=1.33) is False
    with pytest.raises(InvalidModel, match="whole"):
        finiteness.wait_is_finite(offered_load=2.0, servers=4, tail_index=1.4)
    with pytest.raises(Unstable):
        finiteness.wait_is_finite(offered_load=2.0, servers=2, tail_index=3.0)


def test_an_infinite_second_moment_is_infinite_or_refused():
    near, spare = {"arrival_rate": 1.5, "mean_service": 1.0, "servers": 2}, {"mean_service": 1.0, "servers": 2}
    for formula in TWO_MOMENTS:
        assert formula(service_scv=np.inf, **near) == np.inf
        for rate in (0.5, 1.0):
            with pytest.raises(InvalidModel, match="service_scv"):
                formula(arrival_rate=rate, service_scv=np.inf, **spare)
    limit = many_server.boxma_cohen_huffels
    assert limit(service_scv=np.inf, least_residual=2.0, **near) == np.inf
    assert limit(service_scv=np.inf, least_residual=np.inf, arrival_rate=0.5, **spare) == np.inf
    far = limit(service_scv=1e13, least_residual=2.0, arrival_rate=0.5, **spare)
    assert limit(service_scv=np.inf, least_residual=2.0, arrival_rate=0.5, **spare) == pytest.approx(far, rel=1e-9)


def test_extremes_and_refusals():
    for formula in (*TWO_MOMENTS, whitt.mean_wait, whitt.wait_probability):
        quiet = formula(arrival_rate=np.array([0.0, 1e-300]), mean_service=1.0, servers=3, service_scv=2.0)
        assert np.all(quiet == 0.0)
        with pytest.raises(Unstable) as caught:
            formula(arrival_rate=3.0, mean_service=1.0, servers=np.array([4, 3]), service_scv=2.0)
        assert caught.value.where == "queue [1]"
        with pytest.raises(InvalidModel, match="service_scv"):
            formula(arrival_rate=1.0, mean_service=1.0, servers=3, service_scv=-0.1)
        with pytest.raises(InvalidModel, match="arrival_scv"):
            formula(arrival_rate=1.0, mean_service=1.0, servers=3, service_scv=1.0, arrival_scv=np.inf)
    clockwork = {"arrival_rate": 1.0, "mean_service": 1.0, "servers": 3, "service_scv": 0.0, "arrival_scv": 0.0}
    for formula in (*TWO_MOMENTS, whitt.mean_wait):
        assert formula(**clockwork) == 0.0


@settings(max_examples=60, deadline=None)
@given(
    rho=st.floats(0.05, 0.99), servers=st.integers(1, 200), scv=st.floats(0.0, 50.0), more=st.floats(0.0, 10.0),
    scale=st.floats(1e-3, 1e3),
)  # fmt: skip
def test_order_and_time_scale(rho, servers, scv, more, scale):
    queue = {"arrival_rate": rho * servers, "mean_service": 1.0, "servers": servers}
    scaled = {"arrival_rate": rho * servers / scale, "mean_service": scale, "servers": servers}
    for formula in TWO_MOMENTS:
        wait = formula(service_scv=scv, **queue)
        assert wait <= formula(service_scv=scv + more, **queue) * (1 + 1e-12)
        assert formula(service_scv=scv, **scaled) == pytest.approx(scale * wait, rel=1e-9, abs=1e-280)
