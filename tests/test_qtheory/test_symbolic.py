"""Symbolic formulas against hand values, textbook forms, and the numeric code, which is written apart from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import anchors
import numpy as np
import pytest
import sympy

import qtheory
from qtheory import symbolic
from qtheory.models import Dispatcher, Exponential, InvalidModel
from qtheory.queues import erlang, markovian, single_server
from qtheory.symbolic import numeric, symbols
from qtheory.systems.dispatcher.loads import traffic

EXAMPLE = {
    "arrival_rate": 3.0,
    "time_limit": 3.0,
    "short_fraction": 0.65,
    "mean_service0": 1.2,
    "mean_service1": 2.0,
}


def model(values: dict[str, float], *, servers: tuple[int, int]) -> Dispatcher:
    return Dispatcher(
        servers=servers,
        time_limit=values["time_limit"],
        short_fraction=values["short_fraction"],
        interarrival=Exponential(mean=1.0 / values["arrival_rate"]),
        service0=Exponential(mean=values["mean_service0"]),
        service1=Exponential(mean=values["mean_service1"]),
    )


def test_loaded_lazily() -> None:
    code = (
        "import sys, qtheory; before = 'sympy' in sys.modules; qtheory.symbolic; print(before, 'sympy' in sys.modules)"
    )
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert run.stdout.split() == ["False", "True"]
    assert qtheory.symbolic is symbolic


def test_erlang_by_hand() -> None:
    assert symbolic.erlang_b(servers=1, offered_load=1) == sympy.Rational(1, 2)
    assert symbolic.erlang_b(servers=2, offered_load=1) == sympy.Rational(1, 5)
    assert symbolic.erlang_c(servers=1, offered_load=sympy.Rational(3, 4)) == sympy.Rational(3, 4)
    assert symbolic.erlang_c(servers=2, offered_load=1) == sympy.Rational(1, 3)
    assert symbolic.erlang_c(servers=3, offered_load=2) == sympy.Rational(4, 9)


def test_erlang_recursion() -> None:
    """B(c) = a B(c-1) / (c + a B(c-1)) holds identically in a."""
    a = symbols.offered_load
    for c in range(2, 6):
        before = symbolic.erlang_b(servers=c - 1)
        assert sympy.simplify(symbolic.erlang_b(servers=c) - a * before / (c + a * before)) == 0


@pytest.mark.parametrize(("servers", "load"), [(1, 0.3), (3, 2.0), (10, 9.5), (60, 51.0), (120, 90.0)])
def test_erlang_sums_gammas_and_numeric_code(servers: int, load: float) -> None:
    for name in ("erlang_b", "erlang_c"):
        right = getattr(erlang, name)(offered_load=load, servers=servers)
        form = getattr(symbolic, name)
        assert numeric(form(servers=servers))(offered_load=load) == pytest.approx(right, rel=1e-11)
        assert numeric(form())(offered_load=load, servers=servers) == pytest.approx(right, rel=1e-10)


def test_fractional_servers() -> None:
    value = numeric(symbolic.erlang_c())(offered_load=1.7, servers=2.5)
    assert value == pytest.approx(erlang.erlang_c(offered_load=1.7, servers=2.5), rel=1e-12)


def test_slope_of_erlang_c() -> None:
    for servers in (1, 4, symbols.servers):
        slope = numeric(sympy.diff(symbolic.erlang_c(servers=servers), symbols.offered_load))
        given = {"servers": 4.0} if servers is symbols.servers else {}
        right = erlang.erlang_c_slope(offered_load=0.8, servers=given.get("servers", servers))
        assert slope(offered_load=0.8, **given) == pytest.approx(right, rel=1e-10)


def test_single_server_forms() -> None:
    rate, mean = symbols.arrival_rate, symbols.mean_service
    assert sympy.simplify(symbolic.mean_response(servers=1) - mean / (1 - rate * mean)) == 0
    assert sympy.simplify(symbolic.mean_number(servers=1) - rate * mean / (1 - rate * mean)) == 0
    assert sympy.simplify(symbolic.mean_queue(servers=1) - (rate * mean) ** 2 / (1 - rate * mean)) == 0
    exponential = symbolic.pollaczek_khinchine().subs(symbols.second_moment, 2 * mean**2)
    assert sympy.simplify(exponential - symbolic.mean_wait(servers=1)) == 0


def test_pollaczek_khinchine_numbers() -> None:
    wait = numeric(symbolic.pollaczek_khinchine())
    arguments = {"arrival_rate": 0.5, "mean_service": 1.0}
    assert wait(**arguments, second_moment=1.0) == 0.5  # M/D/1 at load 1/2
    right = single_server.mean_wait(**arguments, service_second_moment=3.7)
    assert wait(**arguments, second_moment=3.7) == pytest.approx(right, rel=1e-14)


@pytest.mark.parametrize("servers", [1, 2, 7])
def test_mmc_against_numeric_code(servers: int) -> None:
    arguments = {"arrival_rate": 0.9 * servers / 1.3, "mean_service": 1.3}
    for name in ("wait_probability", "mean_wait", "mean_response", "mean_queue", "mean_number"):
        right = getattr(markovian, name)(**arguments, servers=servers)
        assert numeric(getattr(symbolic, name)(servers=servers))(**arguments) == pytest.approx(right, rel=1e-11)
        assert numeric(getattr(symbolic, name)())(**arguments, servers=servers) == pytest.approx(right, rel=1e-11)


def test_dispatcher_against_numeric_code() -> None:
    rng = np.random.default_rng(5)
    for servers in ((1, 1), (3, 4), (2, 6)):
        values = dict(EXAMPLE)
        for name in ("time_limit", "short_fraction", "mean_service0", "mean_service1"):
            values[name] *= rng.uniform(0.6, 1.4)
        values["arrival_rate"] = 1.0
        loads = [load / n for load, n in zip(traffic(model(values, servers=servers)).offered, servers, strict=True)]
        values["arrival_rate"] = 0.85 / max(loads)
        solution = qtheory.solve(model(values, servers=servers), method="mmc")
        whole, real = symbolic.dispatcher(servers=servers), symbolic.dispatcher()
        counts = {"servers0": servers[0], "servers1": servers[1]}
        for scope, response in whole.responses.items():
            right = solution["mean_response", scope].value
            assert numeric(response)(**values, **counts) == pytest.approx(right, rel=1e-11)
            assert numeric(real.responses[scope])(**values, **counts) == pytest.approx(right, rel=1e-10)
        for group in (0, 1):
            scope = f"group{group}"
            for name, forms in (
                ("utilisation", whole.loads),
                ("mean_wait", whole.waits),
                ("wait_probability", whole.wait_probabilities),
                ("throughput", whole.rates),
            ):
                right = solution[name, scope].value
                assert numeric(forms[group])(**values) == pytest.approx(right, rel=1e-11)
        right = solution["kill_probability", "group0"].value
        assert numeric(whole.kill_probability)(**values) == pytest.approx(right, rel=1e-12)


def test_dispatcher_loads_of_the_standing_example() -> None:
    for servers, group in (((2, 5), 0), ((5, 2), 1)):
        load = numeric(symbolic.dispatcher(servers=servers).loads[group])(**EXAMPLE)
        anchor = anchors.EXAMPLE_E_UNSTABLE[servers]
        assert abs(load - anchor.value) <= anchor.within
    kills = numeric(symbolic.dispatcher().kill_probability)(**EXAMPLE)
    assert kills == pytest.approx(anchors.EXAMPLE_E_KILL_PROBABILITY.value, rel=1e-14)


def test_dispatcher_limits() -> None:
    """Without kills (T infinite, p0 = 1) Group 0 is a lone M/M/1; mean occupation and the work of a kill by hand."""
    two = symbolic.dispatcher(servers=(1, 1))
    rate, mean, limit = symbols.arrival_rate, symbols.mean_service0, symbols.time_limit
    short = two.responses["short"].subs({symbols.short_fraction: 1})
    assert sympy.simplify(sympy.limit(two.occupations[0], limit, sympy.oo) - mean) == 0
    at = {rate: 0.5, mean: 1.0, limit: 60.0}
    assert float(short.subs(at)) == pytest.approx(2.0, rel=1e-12)
    # The work a submitted job brings to Group 1 at p0 = 1: E[S0; S0 > T] as an integral.
    t = sympy.Symbol("t", positive=True)
    work = sympy.integrate(t * sympy.exp(-t / mean) / mean, (t, limit, sympy.oo))
    assert sympy.simplify(two.offered[1].subs(symbols.short_fraction, 1) / rate - work) == 0


def test_derivative_by_differences() -> None:
    """The slope of E[R] in the time limit against central differences of the numeric method."""
    slope = numeric(sympy.diff(symbolic.dispatcher(servers=(3, 4)).responses["all"], symbols.time_limit))(**EXAMPLE)
    step = 1e-4
    ends = [
        qtheory.solve(model(EXAMPLE | {"time_limit": 3.0 + shift}, servers=(3, 4)), method="mmc")
        for shift in (-step, step)
    ]
    low, high = (end["mean_response", "all"].value for end in ends)
    assert slope == pytest.approx((high - low) / (2 * step), rel=1e-6)


def test_arrays() -> None:
    loads = np.array([0.5, 1.0, 1.5])
    values = numeric(symbolic.erlang_c(servers=2))(offered_load=loads)
    np.testing.assert_allclose(values, erlang.erlang_c(offered_load=loads, servers=2.0), rtol=1e-12)


def test_prints() -> None:
    for expression in (symbolic.erlang_b(), symbolic.pollaczek_khinchine(), symbolic.dispatcher().responses["all"]):
        assert sympy.latex(expression)
        assert ElementTree.fromstring(symbolic.mathml(expression)).tag.endswith("math")
    assert "\\lambda" in sympy.latex(symbolic.mean_wait())


def test_donor_stability_is_here_too() -> None:
    rho1, _ = symbolic.donor.loads()
    assert str(rho1) == "lambda1/mu1"


def test_wrong_input() -> None:
    with pytest.raises(InvalidModel, match="servers: must be above 0, got 0"):
        symbolic.erlang_b(servers=0)
    with pytest.raises(InvalidModel, match="must also give servers"):
        numeric(symbolic.erlang_b())(offered_load=1.0)
