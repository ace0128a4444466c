"""Erlang A against the birth-death chain summed in 50 digits and its limits: Erlang B, Erlang C, fluid overload."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qtheory.models.errors import InvalidModel
from qtheory.queues import abandonment, erlang, markovian


def by_the_chain(*, rate: float, servers: int, patience: float) -> tuple[float, float, float]:
    """P(wait), P(abandon) and E[W] of unit-mean service from the stationary law of the number present."""
    with mpmath.workdps(50):
        arrivals, leaving = mpmath.mpf(rate), 1 / mpmath.mpf(patience)
        weight = total = mpmath.mpf(1)
        busy = queue = mpmath.mpf(0)
        n = 0
        while True:
            n += 1
            out = min(n, servers) + max(n - servers, 0) * leaving
            weight *= arrivals / out
            total += weight
            if n >= servers:
                busy, queue = busy + weight, queue + (n - servers) * weight
                if arrivals < out and weight < busy * mpmath.mpf(10) ** -40:
                    break
        return float(busy / total), float(queue * leaving / arrivals / total), float(queue / arrivals / total)


@pytest.mark.parametrize("servers", [1, 3, 20, 150])
@pytest.mark.parametrize("rho", [1e-2, 0.5, 0.8, 0.97, 1.0, 1.03, 1.5, 6.0])
@pytest.mark.parametrize("patience", [1e-3, 0.1, 1.0, 7.0, 60.0])
def test_every_measure_is_that_of_the_chain(servers, rho, patience):
    rate = servers * rho
    waits, leaves, wait = by_the_chain(rate=rate, servers=servers, patience=patience)
    given_ = {"arrival_rate": rate, "mean_service": 1.0, "servers": servers, "mean_patience": patience}
    assert abandonment.wait_probability(**given_) == pytest.approx(waits, rel=1e-12)
    assert abandonment.abandonment_probability(**given_) == pytest.approx(leaves, rel=1e-12)
    assert abandonment.mean_wait(**given_) == pytest.approx(wait, rel=1e-12)
    assert abandonment.mean_queue(**given_) == pytest.approx(rate * wait, rel=1e-12)


def test_patience_equal_to_service_gives_a_poisson_number_present():
    """theta = mu: every customer stays an exponential time of mean 1, served or not (M/M/inf)."""
    servers, rate = 12, 10.0
    tail = 1.0 - sum(float(mpmath.exp(-rate) * rate**k / mpmath.factorial(k)) for k in range(servers))
    waits = abandonment.wait_probability(arrival_rate=rate, mean_service=1.0, servers=servers, mean_patience=1.0)
    assert waits == pytest.approx(tail, rel=1e-12)


@pytest.mark.parametrize(("rate", "servers"), [(0.5, 1), (3.0, 4), (90.0, 100), (9990.0, 10000)])
def test_limits_of_patience(rate, servers):
    patient = {"arrival_rate": rate, "mean_service": 1.0, "servers": servers, "mean_patience": 1e13}
    markov = {"arrival_rate": rate, "mean_service": 1.0, "servers": servers}
    assert abandonment.wait_probability(**patient) == pytest.approx(markovian.wait_probability(**markov), rel=1e-5)
    assert abandonment.mean_wait(**patient) == pytest.approx(markovian.mean_wait(**markov), rel=1e-5)
    lost = erlang.erlang_b(offered_load=rate, servers=servers)
    hurried = patient | {"mean_patience": 1e-13}
    assert abandonment.abandonment_probability(**hurried) == pytest.approx(lost, rel=1e-8)


def test_overload_loses_the_excess():
    leaves = abandonment.abandonment_probability(arrival_rate=2e6, mean_service=1.0, servers=10**6, mean_patience=10.0)
    assert leaves == pytest.approx(0.5, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    rate=st.floats(1e-3, 1e4), servers=st.floats(0.5, 1e4), patience=st.floats(1e-6, 1e6), scale=st.floats(1e-3, 1e3)
)
def test_time_scale_order_and_balance(rate, servers, patience, scale):
    here = {"arrival_rate": rate, "mean_service": 1.0, "servers": servers, "mean_patience": patience}
    there = {
        "arrival_rate": rate / scale, "mean_service": scale, "servers": servers, "mean_patience": patience * scale
    }  # fmt: skip
    waits, leaves = abandonment.wait_probability(**here), abandonment.abandonment_probability(**here)
    assert 0.0 <= leaves <= waits <= 1.0
    assert leaves >= (1.0 - servers / rate) * (1.0 - 1e-12)  # no more than c mu can be served
    assert abandonment.wait_probability(**there) == pytest.approx(waits, rel=1e-8, abs=1e-300)
    assert abandonment.mean_wait(**there) == pytest.approx(scale * abandonment.mean_wait(**here), rel=1e-8, abs=1e-300)


def test_arrays_and_wrong_arguments():
    given_ = {"mean_service": 1.0, "servers": np.array([1, 2, 3]), "mean_patience": 2.0}
    wait = abandonment.mean_wait(arrival_rate=np.array([[0.0], [5.0]]), **given_)
    assert wait.shape == (2, 3)
    assert np.all(wait[0] == 0.0)
    assert np.all(np.diff(wait[1]) < 0.0)
    for field in ("mean_service", "servers", "mean_patience"):
        with pytest.raises(InvalidModel) as caught:
            abandonment.mean_wait(arrival_rate=1.0, **(given_ | {field: 0.0}))
        assert caught.value.field == field
    with pytest.raises(InvalidModel, match="arrival_rate"):
        abandonment.mean_wait(arrival_rate=float("nan"), **given_)
