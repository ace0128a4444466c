"""M/M/c against textbook numbers, the closed forms of one server and the two-exponential formula in 50 digits."""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qtheory.models.errors import InvalidModel, Unstable
from qtheory.queues import markovian, single_server


class Exact:
    """The same queue from the sum of Poisson weights, in 50 digits."""

    def __init__(self, *, arrival_rate: float, mean_service: float, servers: int) -> None:
        self.rate, self.service = mpmath.mpf(arrival_rate), 1 / mpmath.mpf(mean_service)
        load = self.rate / self.service
        last = load**servers / factorial(servers) * servers / (servers - load)
        self.waits = last / (sum(load**k / factorial(k) for k in range(servers)) + last)
        self.decay = servers * self.service - self.rate

    def response_survival(self, t: float) -> mpmath.mpf:
        alone, queued = mpmath.exp(-self.service * t), mpmath.exp(-self.decay * t)
        gap = self.service - self.decay
        both = self.decay * (t * alone if gap == 0 else (queued - alone) / gap)
        return (1 - self.waits) * alone + self.waits * (queued + both)


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(50):
        yield


def test_the_example_of_gross_and_harris():
    """Gross and Harris (1985), example 2.2: six arrivals, three servers of rate three."""
    queue = {"arrival_rate": 6.0, "mean_service": 1 / 3, "servers": 3}
    assert markovian.wait_probability(**queue) == pytest.approx(4 / 9, rel=1e-14)
    assert markovian.mean_queue(**queue) == pytest.approx(8 / 9, rel=1e-14)
    assert markovian.mean_wait(**queue) == pytest.approx(8 / 54, rel=1e-14)
    assert markovian.mean_response(**queue) == pytest.approx(13 / 27, rel=1e-14)
    assert markovian.mean_number(**queue) == pytest.approx(26 / 9, rel=1e-14)


@pytest.mark.parametrize("servers", [1, 2, 5, 40])
@pytest.mark.parametrize("rho", [0.05, 0.5, 0.8, 0.975, 1 - 1e-7, 1 - 1e-9])
@pytest.mark.parametrize("mean_service", [1.0, 0.3])
def test_all_measures_in_fifty_digits(servers, rho, mean_service):
    queue = {"arrival_rate": rho * servers / mean_service, "mean_service": mean_service, "servers": servers}
    exact = Exact(**queue)
    assert markovian.wait_probability(**queue) == pytest.approx(float(exact.waits), rel=1e-13)
    assert markovian.mean_wait(**queue) == pytest.approx(float(exact.waits / exact.decay), rel=1e-13)
    for t in (0.0, 0.2, 1.0, 7.0):
        waiting = exact.waits * mpmath.exp(-exact.decay * t)
        assert markovian.wait_survival(at=t, **queue) == pytest.approx(float(waiting), rel=1e-12, abs=1e-300)
        response = float(exact.response_survival(t))
        assert markovian.response_survival(at=t, **queue) == pytest.approx(response, rel=1e-12, abs=1e-300)
    for level in (0.0, 0.3, 0.9, 0.999, 1 - 1e-10):
        left = 1 - mpmath.mpf(level)
        t = markovian.response_quantile(level=level, **queue)
        assert float(exact.response_survival(t) / left) == pytest.approx(1.0, rel=1e-11)
        t = markovian.wait_quantile(level=level, **queue)
        if t > 0.0:
            assert float(exact.waits * mpmath.exp(-exact.decay * t) / left) == pytest.approx(1.0, rel=1e-11)
        else:
            assert exact.waits <= left * (1 + 1e-14)


@pytest.mark.parametrize("off", [0.0, 1e-14, -1e-14, 1e-9, -1e-6, 1e-3])
def test_the_queue_may_empty_at_the_service_rate(off):
    """c mu - lambda = mu, where the two exponentials of the response time coincide."""
    queue = {"arrival_rate": 3.0 * (1.0 + off), "mean_service": 1.0, "servers": 4}
    response = float(Exact(**queue).response_survival(2.5))
    assert markovian.response_survival(at=2.5, **queue) == pytest.approx(response, rel=1e-14)


def test_one_server_has_an_exponential_response():
    t = np.linspace(0.0, 40.0, 9)
    survival = markovian.response_survival(at=t, arrival_rate=0.8, mean_service=1.0, servers=1)
    assert survival == pytest.approx(np.exp(-0.2 * t), rel=1e-13)


@settings(max_examples=100, deadline=None)
@given(rho=st.floats(1e-3, 0.9999), servers=st.integers(1, 500), mean=st.floats(1e-3, 1e3), scale=st.floats(1e-3, 1e3))
def test_little_time_scale_and_the_integral_of_the_survival_function(rho, servers, mean, scale):
    rate = rho * servers / mean
    queue = {"arrival_rate": rate, "mean_service": mean, "servers": servers}
    wait = markovian.mean_wait(**queue)
    assert markovian.mean_queue(**queue) == pytest.approx(rate * wait, rel=1e-13, abs=1e-300)
    assert markovian.mean_number(**queue) == pytest.approx(rate * markovian.mean_response(**queue), rel=1e-13)
    scaled = {"arrival_rate": rate / scale, "mean_service": mean * scale, "servers": servers}
    assert markovian.mean_wait(**scaled) == pytest.approx(scale * wait, rel=1e-10, abs=1e-300)
    waits = markovian.wait_probability(**queue)
    if waits > 1e-200:
        assert 0.0 <= markovian.wait_survival(at=wait / waits, **queue) == pytest.approx(waits / np.e, rel=1e-12)


def test_one_server_is_the_queue_of_pollaczek_and_khinchine():
    rate = np.array([0.1, 0.5, 0.99])
    wait = single_server.mean_wait(arrival_rate=rate, mean_service=1.0, service_second_moment=2.0)
    assert markovian.mean_wait(arrival_rate=rate, mean_service=1.0, servers=1) == pytest.approx(wait, rel=1e-14)


def test_the_digits_of_the_input_survive_near_saturation():
    """lambda m within 1e-9 of c = 7: rounding lambda m would leave seven digits of the difference."""
    rate, mean = 21.000000013, 0.3333333331
    spare = 7 - Fraction(rate) * Fraction(mean)
    wait = markovian.mean_wait(arrival_rate=rate, mean_service=mean, servers=7)
    waits = markovian.wait_probability(arrival_rate=rate, mean_service=mean, servers=7)
    assert wait == pytest.approx(waits * mean / float(spare), rel=1e-15)


def test_extremes_and_refusals():
    assert markovian.mean_wait(arrival_rate=0, mean_service=1, servers=3) == 0.0
    assert markovian.mean_wait(arrival_rate=1e300, mean_service=1e-300, servers=2) == pytest.approx(1e-300 / 3)
    assert markovian.response_quantile(level=0.99, arrival_rate=0.0, mean_service=1.0, servers=1) == pytest.approx(
        np.log(100), rel=1e-14
    )
    for rate in (3.0, 1e300):
        with pytest.raises(Unstable):
            markovian.mean_wait(arrival_rate=rate, mean_service=1 / 3 if rate == 3.0 else 1e200, servers=1)
    with pytest.raises(InvalidModel, match="level"):
        markovian.wait_quantile(level=1.0, arrival_rate=0.5, mean_service=1.0, servers=1)
    with pytest.raises(InvalidModel, match="at: "):
        markovian.wait_survival(at=-1.0, arrival_rate=0.5, mean_service=1.0, servers=1)
