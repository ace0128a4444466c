"""Pollaczek-Khinchine against the exponential queue, the constant one, and its transform differentiated."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from qtheory.models.errors import InvalidModel, Unstable
from qtheory.queues import single_server


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_wait_moments_are_those_of_the_transform(rate):
    """E[e^-sW] = (1 - rho) s / (s - lambda + lambda b(s)), b of an Erlang-3 law of mean 1, differentiated at 0."""
    with mpmath.workdps(40):

        def transform(s: mpmath.mpf) -> mpmath.mpf:
            return (1 - mpmath.mpf(rate)) * s / (s - rate + rate * (3 / (3 + s)) ** 3) if s else mpmath.mpf(1)

        _, first, second = mpmath.taylor(transform, 0, 2, singular=True)
    moments = {"mean_service": 1.0, "service_second_moment": 12 / 9}
    wait = single_server.mean_wait(arrival_rate=rate, **moments)
    square = single_server.wait_second_moment(arrival_rate=rate, service_third_moment=60 / 27, **moments)
    assert wait == pytest.approx(-float(first), rel=1e-10)
    assert square == pytest.approx(2 * float(second), rel=1e-10)


def test_exponential_service_is_the_markovian_queue():
    """M/M/1 with rho = 0.8: E[W] = 4, E[W^2] = 2 rho / (mu - lambda)^2 = 40, 3.2 waiting, 4 present."""
    moments = {"arrival_rate": 0.8, "mean_service": 1.0, "service_second_moment": 2.0}
    assert single_server.mean_wait(**moments) == pytest.approx(4.0, rel=1e-14)
    assert single_server.wait_second_moment(service_third_moment=6.0, **moments) == pytest.approx(40.0, rel=1e-14)
    assert single_server.mean_queue(**moments) == pytest.approx(3.2, rel=1e-14)
    assert single_server.mean_number(**moments) == pytest.approx(4.0, rel=1e-14)
    assert single_server.mean_response(**moments) == pytest.approx(5.0, rel=1e-14)


def test_infinite_moments_give_infinite_measures_and_nothing_else():
    heavy = {"mean_service": 1.0, "service_second_moment": np.inf}
    assert single_server.mean_wait(arrival_rate=0.5, **heavy) == np.inf
    assert list(single_server.mean_queue(arrival_rate=np.array([0.0, 0.1]), **heavy)) == [0.0, np.inf]
    light = {"arrival_rate": 0.5, "mean_service": 1.0, "service_second_moment": 3.0}
    assert single_server.mean_wait(**light) == 1.5
    assert single_server.wait_second_moment(service_third_moment=np.inf, **light) == np.inf


def test_refusals():
    with pytest.raises(Unstable):
        single_server.mean_wait(arrival_rate=1.0, mean_service=1.0, service_second_moment=2.0)
    with pytest.raises(InvalidModel, match="service_second_moment"):
        single_server.mean_wait(arrival_rate=0.5, mean_service=1.0, service_second_moment=0.9)
    with pytest.raises(InvalidModel, match="service_third_moment"):
        single_server.wait_second_moment(
            arrival_rate=0.5, mean_service=1.0, service_second_moment=2.0, service_third_moment=3.9
        )
    constant = 0.1 + 0.2  # whose square, computed elsewhere, may differ in the last bit
    wait = single_server.mean_wait(
        arrival_rate=1.0, mean_service=constant, service_second_moment=np.nextafter(constant**2, 0.0)
    )
    assert wait == pytest.approx(0.09 / 1.4, rel=1e-12)
