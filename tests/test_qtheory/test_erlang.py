"""Erlang B and C against exact fractions, the incomplete gamma function in 60 digits, integrals and printed tables."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qtheory.models.errors import InvalidModel, Unstable
from qtheory.queues.erlang import erlang_b, erlang_c, erlang_c_slope


def loss_fraction(load: Fraction, servers: int) -> Fraction:
    """B(c) = a B(c - 1) / (c + a B(c - 1)) in exact arithmetic."""
    lost = Fraction(1)
    for c in range(1, servers + 1):
        lost = load * lost / (c + load * lost)
    return lost


def loss_gamma(load: float, servers: float) -> mpmath.mpf:
    """a^c e^-a / Gamma(c + 1, a) in 60 digits."""
    with mpmath.workdps(60):
        a, c = mpmath.mpf(load), mpmath.mpf(servers)
        return mpmath.exp(c * mpmath.log(a) - a) / mpmath.gammainc(c + 1, a)


def loss_integral(load: float, servers: float) -> mpmath.mpf:
    """1 / (a integral of e^(-a t) (1 + t)^c), by quadrature around the peak of the integrand."""
    with mpmath.workdps(30):
        a, c = mpmath.mpf(load), mpmath.mpf(servers)
        peak, width = max(c - a, mpmath.mpf(0)), mpmath.sqrt(c)
        top = c * mpmath.log1p(peak / a) - peak
        cuts = [peak + k * width for k in range(-14, 60, 2) if peak + k * width > width / 10]
        area = mpmath.quad(lambda t: mpmath.exp(c * mpmath.log1p(t / a) - t - top), [mpmath.mpf(0), *cuts])
        return mpmath.exp(-top) / area


@pytest.mark.parametrize("servers", [1, 2, 3, 7, 16, 17, 40, 120])
@pytest.mark.parametrize("rho", [1e-3, 0.1, 0.5, 0.75, 0.9, 0.99, 1 - 2.0**-30, 1.0, 1.25, 3.0, 50.0])
def test_loss_and_delay_are_the_exact_fractions(servers, rho):
    load = servers * rho
    a = Fraction(load)
    lost = loss_fraction(a, servers)
    assert erlang_b(offered_load=load, servers=servers) == pytest.approx(float(lost), rel=2e-13)
    if a < servers:
        waits = servers * lost / (servers - a * (1 - lost))
        assert erlang_c(offered_load=load, servers=servers) == pytest.approx(float(waits), rel=2e-13)


@pytest.mark.parametrize("servers", [1e-3, 0.4, 1.5, 7.3, 15.9, 16.1, 99.5])
@pytest.mark.parametrize("rho", [1e-4, 0.2, 0.6, 0.85, 0.97, 1 - 1e-9, 1.1, 1.6, 4.0])
def test_real_numbers_of_servers_follow_the_incomplete_gamma_function(servers, rho):
    load = servers * rho
    lost = loss_gamma(load, servers)
    assert erlang_b(offered_load=load, servers=servers) == pytest.approx(float(lost), rel=1e-13)
    if load < servers:
        with mpmath.workdps(60):
            c, a = mpmath.mpf(servers), mpmath.mpf(load)
            waits = c * lost / (c - a * (1 - lost))
        assert erlang_c(offered_load=load, servers=servers) == pytest.approx(float(waits), rel=1e-13)


@pytest.mark.parametrize("servers", [1e3, 1e5, 1e6, 1e9])
@pytest.mark.parametrize("deviations", [-8.0, -5.0, -4.3, -4.1, -1.0, -1e-3, 0.0, 1.9, 2.1, 6.0])
def test_many_servers_follow_the_integral(servers, deviations):
    load = servers + deviations * np.sqrt(servers)
    lost = loss_integral(load, servers)
    assert erlang_b(offered_load=load, servers=servers) == pytest.approx(float(lost), rel=5e-14)


@pytest.mark.parametrize("idle", [1e-9, 1e-7, 1e-4, 1e-2])
def test_a_million_servers_near_saturation(idle):
    load = 1e6 * (1.0 - idle)
    lost = loss_integral(load, 1e6)
    with mpmath.workdps(30):
        waits = 1e6 * lost / (1e6 - mpmath.mpf(load) * (1 - lost))
    assert erlang_c(offered_load=load, servers=10**6) == pytest.approx(float(waits), rel=5e-14)


@pytest.mark.parametrize(
    ("servers", "low", "high"), [(1, 0.01005, 0.01015), (5, 1.355, 1.365), (10, 4.455, 4.465), (100, 84.05, 84.15)]
)
def test_loads_of_the_one_per_cent_column_of_the_erlang_b_table(servers, low, high):
    """The printed loads 0.0101, 1.36, 4.46 and 84.1 for 1 % loss, between their rounding limits."""
    assert erlang_b(offered_load=low, servers=servers) < 0.01 < erlang_b(offered_load=high, servers=servers)


def test_halfin_whitt_limit():
    """C -> 1 / (1 + b Phi(b) / phi(b)) as c grows with (1 - rho) sqrt(c) = b, error of order 1 / sqrt(c)."""
    b, c = 1.0, 1e12
    normal = 0.8413447460685429 / (np.exp(-0.5) / np.sqrt(2 * np.pi))
    assert erlang_c(offered_load=c - b * np.sqrt(c), servers=c) == pytest.approx(1 / (1 + normal), rel=5e-6)


@pytest.mark.parametrize(("load", "servers"), [(0.3, 1), (0.9, 1.4), (4.0, 5), (9.0, 30), (950.0, 1000), (3.0, 60)])
def test_slope_is_the_derivative(load, servers):
    with mpmath.workdps(60):

        def waits(a: mpmath.mpf) -> mpmath.mpf:
            lost = mpmath.exp(servers * mpmath.log(a) - a) / mpmath.gammainc(servers + 1, a)
            return servers * lost / (servers - a * (1 - lost))

        slope = mpmath.diff(waits, mpmath.mpf(load))
    assert erlang_c_slope(offered_load=load, servers=servers) == pytest.approx(float(slope), rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.floats(0.01, 1e6), st.floats(1e-6, 0.999999), st.floats(1e-6, 0.5))
def test_delay_grows_with_load_and_falls_with_servers(servers, rho, step):
    load = servers * rho
    more = load + step * (servers - load)
    assert 0.0 <= erlang_c(offered_load=load, servers=servers) <= erlang_c(offered_load=more, servers=servers) <= 1.0
    fewer = load + (1.0 - step) * (servers - load)
    assert erlang_c(offered_load=load, servers=fewer) >= erlang_c(offered_load=load, servers=servers)


@settings(max_examples=100, deadline=None)
@given(st.floats(1e-3, 1e5), st.floats(1e-3, 1e6))
def test_the_recursion_in_servers_holds_for_real_servers(servers, load):
    """1 / B(c + 1) = 1 + (c + 1) / (a B(c)), by parts in the integral."""
    one = erlang_b(offered_load=load, servers=servers)
    two = erlang_b(offered_load=load, servers=servers + 1.0)
    if two > 1e-290:
        assert two == pytest.approx(1.0 / (1.0 + (servers + 1.0) / (load * one)), rel=2e-12)


def test_arrays_broadcast_and_numbers_stay_numbers():
    grid = erlang_c(offered_load=np.array([[0.5], [1.5]]), servers=np.arange(2, 5))
    assert grid.shape == (2, 3)
    for row, load in enumerate((0.5, 1.5)):
        for column, servers in enumerate((2, 3, 4)):
            value = erlang_c(offered_load=load, servers=servers)
            assert type(value) is float
            assert grid[row, column] == value
    assert erlang_c(offered_load=np.empty(0), servers=3).shape == (0,)


def test_extremes():
    assert erlang_c(offered_load=0.0, servers=3) == erlang_b(offered_load=0, servers=3) == 0.0
    assert erlang_c(offered_load=1e-300, servers=1) == 1e-300
    assert erlang_c(offered_load=1e-300, servers=10**6) == 0.0
    assert erlang_b(offered_load=1e300, servers=2) == 1.0
    assert erlang_b(offered_load=1e300, servers=1e300) == pytest.approx(np.sqrt(2 / np.pi) * 1e-150, rel=1e-12)
    with pytest.raises(Unstable) as caught:
        erlang_c(offered_load=np.array([[1.0, 2.0], [3.0, 5.0]]), servers=4)
    assert caught.value.where == "queue [1, 1]"
    assert caught.value.load == 1.25
    with pytest.raises(Unstable):
        erlang_c(offered_load=3.0, servers=3)


@pytest.mark.parametrize(
    ("load", "servers", "field"),
    [(-1.0, 3, "offered_load"), (float("nan"), 3, "offered_load"), (float("inf"), 3, "offered_load"),
     (1.0, 0, "servers"), (1.0, float("nan"), "servers"), (1.0, float("inf"), "servers")],
)  # fmt: skip
def test_wrong_arguments_are_named(load, servers, field):
    for formula in (erlang_b, erlang_c):
        with pytest.raises(InvalidModel) as caught:
            formula(offered_load=load, servers=servers)
        assert caught.value.field == field
