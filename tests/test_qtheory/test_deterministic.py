"""M/D/c: the sum in high precision, Pollaczek-Khinchine, Crommelin's formula for one server, and two roads to one law.

The mean wait comes from incomplete gamma functions, the distributions from Fourier transforms: they share no code
beyond the argument checks, and Little's law in distribution ties them together.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.queues import deterministic, deterministic_law, markovian


def wait_by_the_sum(*, load: float, servers: int) -> float:
    """sum_i E[(N_i - i c)^+] / (i a) in 40 digits, each excess as a Poisson weight times a series."""
    with mpmath.workdps(40):
        a, total, i = mpmath.mpf(load), mpmath.mpf(0), 0
        while True:
            i += 1
            order, mean = i * servers, i * a
            ratio, series, j = mpmath.mpf(1), mpmath.mpf(0), 0
            while j * ratio >= series * mpmath.mpf(10) ** -25:
                j += 1
                ratio *= mean / (order + j)
                series += j * ratio
            term = mpmath.exp(order * mpmath.log(mean) - mean - mpmath.loggamma(order + 1)) * series / i
            total += term
            if term < total * mpmath.mpf(10) ** -18:
                return float(total / a)


def queue_by_iteration(*, load: float, servers: int, size: int) -> np.ndarray:
    """P(number present = n) as the fixed point of N -> (N - c)^+ + Poisson(a), iterated."""
    arrivals = stats.poisson.pmf(np.arange(size), load)
    present = arrivals
    for _ in range(20000):
        left = np.concatenate([[present[: servers + 1].sum()], present[servers + 1 :], np.zeros(servers)])
        following = np.convolve(left, arrivals)[:size]
        following /= following.sum()
        if np.max(np.abs(following - present)) < 1e-16:
            return following
        present = following
    raise AssertionError("the iteration did not settle")


@pytest.mark.parametrize(
    ("servers", "rho"),
    [(2, 0.01), (2, 0.5), (3, 0.6), (5, 0.1), (5, 0.7), (17, 0.6), (40, 0.3), (40, 0.8), (150, 0.5), (1000, 0.8)],
)  # fmt: skip
def test_mean_wait_is_the_sum(servers, rho):
    wait = deterministic.mean_wait(arrival_rate=rho * servers, service_time=1.0, servers=servers)
    assert wait == pytest.approx(wait_by_the_sum(load=rho * servers, servers=servers), rel=1e-12)


@pytest.mark.parametrize("idle", [0.9, 0.5, 0.1, 0.02, 2e-3, 1e-4, 1e-6, 1e-9])
def test_one_server_is_the_queue_of_pollaczek_and_khinchine(idle):
    rho = 1.0 - idle
    wait = deterministic.mean_wait(arrival_rate=rho / 3.0, service_time=3.0, servers=1)
    assert wait == pytest.approx(1.5 * rho / (1.0 - rho), rel=1e-11 + 3e-16 / idle)


@pytest.mark.parametrize("servers", [2, 10, 1000, 10**6])
def test_saturation_halves_the_exponential_wait(servers):
    queue = {"arrival_rate": servers * (1.0 - 1e-9), "servers": servers}
    ratio = deterministic.mean_wait(service_time=1.0, **queue) / markovian.mean_wait(mean_service=1.0, **queue)
    assert ratio == pytest.approx(0.5, abs=1e-6 + 1e-9 * servers**0.5)


@pytest.mark.parametrize("servers", [2, 5, 20])
def test_light_traffic_waits_for_the_first_of_c_uniform_residuals(servers):
    queue = {"arrival_rate": 1e-7, "servers": servers}
    ratio = deterministic.mean_wait(service_time=1.0, **queue) / markovian.mean_wait(mean_service=1.0, **queue)
    assert ratio == pytest.approx(servers / (servers + 1), rel=1e-6)
    assert deterministic.kimura_wait(service_time=1.0, **queue) == pytest.approx(
        deterministic.mean_wait(service_time=1.0, **queue), rel=1e-6
    )


@pytest.mark.parametrize(
    ("servers", "rate", "rho", "printed", "digits"),
    [(2, 1.0, 0.9, 2.1445, 4), (2, 1.0, 0.7, 0.4916, 4), (2, 1.0, 0.5, 0.1757, 4), (2, 1.0, 0.3, 0.0557, 4),
     (2, 1.0, 0.1, 0.0075, 4), (4, 1.0, 0.7, 0.1890, 4), (4, 1.0, 0.5, 0.0494, 4), (4, 1.0, 0.3, 0.0087, 4),
     (25, 0.01, 0.9, 10.7922, 4), (25, 0.01, 0.8, 2.3845, 4), (25, 0.01, 0.7, 0.5258, 4), (50, 0.01, 0.9, 3.9838, 4),
     (50, 0.01, 0.8, 0.5275, 4), (50, 0.01, 0.7, 0.0502, 4)],
)  # fmt: skip
def test_cosmetatos_as_printed(servers, rate, rho, printed, digits):
    """Kimura (1991), table 1, column Cosmetatos."""
    wait = deterministic.cosmetatos_wait(arrival_rate=rho * rate * servers, service_time=1 / rate, servers=servers)
    assert wait == pytest.approx(printed, abs=0.51 * 10**-digits)


def test_closed_forms_keep_their_stated_errors():
    servers, rho = (a.ravel() for a in np.meshgrid(np.arange(1.0, 1001.0, 3), np.linspace(0.02, 0.999, 50)))
    queue = {"arrival_rate": servers * rho, "service_time": 1.0, "servers": servers}
    exact = deterministic.mean_wait(**queue)
    seen = exact > 1e-300
    kimura = deterministic.kimura_wait(**queue)[seen] / exact[seen] - 1.0
    cosmetatos = deterministic.cosmetatos_wait(**queue)[seen] / exact[seen] - 1.0
    for least, most in ((0.1, 0.01), (0.01, 0.017), (0.001, 0.05)):
        assert np.abs(kimura[exact[seen] > least]).max() < most
    assert kimura.min() > -0.14
    assert kimura.max() < 0.014
    assert np.abs(cosmetatos[exact[seen] > 0.1]).max() < 0.01
    assert cosmetatos.min() > -0.085


@pytest.mark.parametrize(("servers", "rho"), [(1, 0.6), (3, 0.5), (3, 0.9), (12, 0.8)])
def test_queue_distribution_is_the_fixed_point(servers, rho):
    present = queue_by_iteration(load=rho * servers, servers=servers, size=400)
    law = {"arrival_rate": rho * servers, "service_time": 1.0, "servers": servers}
    queue = deterministic_law.queue_distribution(**law)
    count = min(queue.size, 400 - servers)
    waiting = np.append(present[: servers + 1].sum(), present[servers + 1 :])[:count]
    assert queue[:count] == pytest.approx(waiting, abs=1e-12)
    assert deterministic_law.wait_probability(**law) == pytest.approx(present[servers:].sum(), rel=1e-11)


@pytest.mark.parametrize(("servers", "rho"), [(1, 0.3), (2, 0.95), (8, 0.9), (60, 0.97), (500, 0.98), (4, 0.9995)])
def test_distributions_agree_with_the_mean_wait(servers, rho):
    """Little's law for the mean and in distribution: E[Q] = lambda E[W], E[Q (Q - 1)] = lambda^2 E[W^2]."""
    rate, time = rho * servers / 2.0, 2.0
    law = {"arrival_rate": rate, "service_time": time, "servers": servers}
    queue = deterministic_law.queue_distribution(**law)
    count = np.arange(queue.size)
    wait = deterministic.mean_wait(**law)
    assert queue.sum() == pytest.approx(1.0, abs=1e-13)
    assert queue @ count / rate == pytest.approx(wait, rel=1e-10)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    panels = np.unique(np.concatenate([[0.0, time / 16, time / 4], np.arange(1, 400) * time]))
    panels = panels[panels <= max(time, 60 * wait)]
    half = 0.5 * np.diff(panels)[:, None]
    at, width = (panels[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    survival = deterministic_law.wait_survival(at=at, **law)
    if panels[-1] > 45 * wait:
        assert width @ survival == pytest.approx(wait, rel=1e-9)
        assert width @ (2 * at * survival) == pytest.approx(queue @ (count * (count - 1.0)) / rate**2, rel=1e-9)


@pytest.mark.parametrize("rho", [0.2, 0.7, 0.95])
def test_one_server_follows_erlang(rho):
    """P(W <= t) = (1 - rho) sum_k (rho (k - t))^k e^(-rho (k - t)) / k!, Erlang (1909), alternating, in 60 digits."""
    t = np.array([0.0, 0.25, 1.0, 2.5, 6.75, 11.0])
    got = deterministic_law.wait_survival(at=t, arrival_rate=rho, service_time=1.0, servers=1)
    with mpmath.workdps(60):
        for time, survival in zip(t, got, strict=True):
            steps = [mpmath.mpf(rho) * (k - time) for k in range(int(time) + 1)]
            inside = sum(x**k * mpmath.exp(-x) / mpmath.factorial(k) for k, x in enumerate(steps))
            assert survival == pytest.approx(float(1 - (1 - mpmath.mpf(rho)) * inside), rel=1e-10)


@pytest.mark.parametrize(("servers", "rho"), [(1, 0.5), (7, 0.9), (200, 0.95)])
def test_quantiles_invert_the_survival_function(servers, rho):
    law = {"arrival_rate": rho * servers, "service_time": 1.0, "servers": servers}
    level = np.array([0.0, 0.2, 0.6, 0.9, 0.99, 0.9999, 1 - 1e-9])
    wait = deterministic_law.wait_quantile(level=level, **law)
    survival = deterministic_law.wait_survival(at=wait, **law)
    assert np.all(np.diff(wait) >= 0.0)
    assert survival[wait > 0] == pytest.approx(1.0 - level[wait > 0], rel=1e-10)
    assert np.all(survival[wait == 0] <= (1.0 - level[wait == 0]) * (1 + 1e-12))


@settings(max_examples=60, deadline=None)
@given(rho=st.floats(1e-3, 0.9999), servers=st.integers(1, 2000), scale=st.floats(1e-3, 1e3))
def test_order_and_time_scale(rho, servers, scale):
    queue = {"arrival_rate": rho * servers, "service_time": 1.0, "servers": servers}
    wait = deterministic.mean_wait(**queue)
    exponential = markovian.mean_wait(arrival_rate=rho * servers, mean_service=1.0, servers=servers)
    if exponential > 1e-250:
        assert 0.5 * exponential * (1 - 1e-11) <= wait <= exponential * servers / (servers + 1) * (1 + 1e-11)
    scaled = deterministic.mean_wait(arrival_rate=rho * servers / scale, service_time=scale, servers=servers)
    assert scaled == pytest.approx(scale * wait, rel=1e-9, abs=1e-300)


def test_extremes_and_refusals():
    assert deterministic.mean_wait(arrival_rate=0.0, service_time=1.0, servers=3) == 0.0
    assert deterministic.mean_wait(arrival_rate=1e-300, service_time=1.0, servers=1) == 5e-301
    assert deterministic.mean_wait(arrival_rate=1e-300, service_time=1.0, servers=2) == 0.0
    for formula in (deterministic.mean_wait, deterministic.kimura_wait, deterministic.cosmetatos_wait):
        with pytest.raises(Unstable) as caught:
            formula(arrival_rate=np.array([0.5, 1.0, 2.0]), service_time=2.0, servers=np.array([2, 2, 5]))
        assert caught.value.where == "queue [1]"
        with pytest.raises(InvalidModel, match="whole"):
            formula(arrival_rate=1.0, service_time=1.0, servers=2.5)
    with pytest.raises(NotConverged):
        deterministic_law.wait_probability(arrival_rate=1 - 1e-7, service_time=1.0, servers=1)
    with pytest.raises(InvalidModel, match="level"):
        deterministic_law.wait_quantile(level=1 - 1e-14, arrival_rate=0.5, service_time=1.0, servers=1)
