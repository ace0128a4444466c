"""Loads, reductions to known queues, and what must hold of every answer for the dispatcher."""

from __future__ import annotations

import math
from itertools import pairwise

import anchors
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import qtheory
from qtheory.laws import distribution
from qtheory.measures import scopes
from qtheory.models import (
    Deterministic,
    Dispatcher,
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
    Unstable,
    Weibull,
    parse,
)
from qtheory.systems.dispatcher import mgc
from qtheory.systems.dispatcher.delay import both, fitted
from qtheory.systems.dispatcher.kill_stream import kill_interval_scv, work_dispersion_ratio
from qtheory.systems.dispatcher.loads import is_exponential, traffic
from qtheory.systems.dispatcher.thinned import exponential_service, renewal_factors
from qtheory.systems.dispatcher.waits import least_residual

E = parse(anchors.EXAMPLE_E_MODEL)
D = parse(anchors.EXAMPLE_D_MODEL)
METHODS = ("mmc", "mgc")


def one_group(service, *, servers, rate, interarrival=None):
    """Group 0 alone, nothing killed: M/G/c, or GI/G/c."""
    return Dispatcher(
        servers=(servers, 1),
        time_limit=math.inf,
        short_fraction=1.0,
        interarrival=interarrival or Exponential(mean=1 / rate),
        service0=service,
        service1=Exponential(mean=1.0),
    )


def erlang_c(load, servers):
    """From the defining sum."""
    top = load**servers / math.factorial(servers) * servers / (servers - load)
    return top / (sum(load**k / math.factorial(k) for k in range(servers)) + top)


class TestLoads:
    def test_example_e(self):
        """rho0 = 3 x .65 x 1.2 (1 - e^-2.5) / 3; rho1 = (1.95 e^-2.5 (3 + 1.2) + 1.05 x 2) / 4."""
        offered = traffic(E)
        q = math.exp(-2.5)
        assert offered.kill_probability == pytest.approx(anchors.EXAMPLE_E_KILL_PROBABILITY.value, abs=1e-16)
        assert offered.offered == pytest.approx((1.95 * 1.2 * (1 - q), 1.95 * q * 4.2 + 2.1), rel=1e-14)
        assert offered.rates == pytest.approx((1.95, 1.05 + 1.95 * q), rel=1e-14)
        assert offered.killed_load_share == pytest.approx(1.95 * q * 4.2 / (1.95 * q * 4.2 + 2.1))
        assert offered.occupation0.scv == pytest.approx(2 * (1 - (1 + 2.5) * q) / (1 - q) ** 2 - 1, rel=1e-12)
        assert offered.occupation1.mean == pytest.approx(offered.offered[1] / offered.rates[1], rel=1e-12)

    @pytest.mark.parametrize("method", METHODS)
    def test_overloaded_group_is_named(self, method):
        for servers, load in anchors.EXAMPLE_E_UNSTABLE.items():
            with pytest.raises(Unstable) as caught:
                qtheory.solve(E.replace(servers=servers), method=method)
            assert caught.value.where == ("group0" if servers == (2, 5) else "group1")
            assert caught.value.load == pytest.approx(load.value, abs=load.within)

    @pytest.mark.parametrize("method", METHODS)
    def test_infinite_means(self, method):
        heavy = Pareto(shape=0.9, minimum=0.1)
        with pytest.raises(Unstable) as caught:
            qtheory.solve(E.replace(service1=heavy), method=method)
        assert (caught.value.where, caught.value.load) == ("group1", math.inf)
        with pytest.raises(Unstable) as caught:  # killed jobs bring their infinite mean along
            qtheory.solve(E.replace(service0=heavy), method=method)
        assert (caught.value.where, caught.value.load) == ("group1", math.inf)
        with pytest.raises(Unstable) as caught:
            qtheory.solve(one_group(heavy, servers=9, rate=0.1), method=method)
        assert (caught.value.where, caught.value.load) == ("group0", math.inf)

    def test_load_of_exactly_one_is_unstable(self):
        with pytest.raises(Unstable):
            qtheory.solve(one_group(Deterministic(value=1.0), servers=2, rate=2.0))

    def test_service_equal_to_the_limit_completes(self):
        model = E.replace(service0=Empirical(values=[1.0, 3.0, 3.0, 6.0]))
        offered = traffic(model)
        assert offered.kill_probability == 0.25
        assert offered.offered[0] == pytest.approx(1.95 * (1 + 3 + 3 + 3) / 4)
        assert offered.offered[1] == pytest.approx(1.95 * 6 / 4 + 2.1)
        assert traffic(E.replace(service0=Deterministic(value=3.0))).kill_probability == 0.0
        below = math.nextafter(3.0, 0)
        assert traffic(E.replace(service0=Deterministic(value=3.0), time_limit=below)).kill_probability == 1.0

    def test_laws_are_checked(self):
        with pytest.raises(InvalidModel) as caught:
            qtheory.solve(E.replace(service1=Scipy(name="norm")))
        assert caught.value.field == "service1.name"

    def test_exponential_under_other_names(self):
        same = [
            Exponential(mean=2.0),
            Erlang(shape=1, mean=2.0),
            Gamma(shape=1.0, scale=2.0),
            Weibull(shape=1.0, scale=2.0),
            Hyperexponential(probabilities=[0.5, 0.5], means=[2.0, 2.0]),
            Product(factors=[Exponential(mean=1.0), Deterministic(value=2.0)]),
            PhaseType(alpha=[0.3, 0.7], generator=[[-0.5, 0.0], [0.0, -0.5]]),
        ]
        assert all(is_exponential(distribution(law)) for law in same)
        for law in (Gamma(shape=1.01, scale=2.0), Deterministic(value=1.0), PhaseType(alpha=[0.9], generator=[[-1.0]])):
            assert not is_exponential(distribution(law))


class TestReductions:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize(("servers", "load"), [(1, 0.6), (3, 0.85), (20, 0.9)])
    def test_markovian_group_is_exact(self, method, servers, load):
        """M/M/c: mean, P(W > 0), the whole law of wait and response, all with error 0 or rounding."""
        rate = load * servers
        found = qtheory.solve(one_group(Exponential(mean=1.0), servers=servers, rate=rate), method=method, at=[2.0])
        delay, spare = erlang_c(rate, servers), servers - rate
        expected = {
            ("mean_wait", "short"): delay / spare,
            ("mean_response", "all"): 1 + delay / spare,
            ("wait_probability", "group0"): delay,
            ("mean_queue", "group0"): rate * delay / spare,
            ("mean_number", "short"): rate * (1 + delay / spare),
            ("p99_wait", "short"): max(0.0, math.log(delay / 0.01) / spare),
            ("tail_response", "all", 2.0): math.exp(-2) + delay * (math.exp(-spare * 2) - math.exp(-2)) / (1 - spare)
            if abs(spare - 1) > 1e-9
            else math.exp(-2) * (1 + 2 * delay),
        }
        for key, value in expected.items():
            assert found[key].value == pytest.approx(value, rel=1e-8), key
            assert found[key].error <= 1e-7 * value, key

    @pytest.mark.parametrize(
        "service", [Deterministic(value=1.0), Gamma(shape=0.3, scale=2.0), Uniform(low=0.0, high=2.0)]
    )
    def test_single_server_is_pollaczek_khinchine(self, service):
        law = distribution(service)
        rate = 0.7 / law.mean
        found = qtheory.solve(one_group(service, servers=1, rate=rate))
        expected = rate * law.moment(2.0) / (2 * (1 - 0.7))
        assert found["mean_wait", "group0"].value == pytest.approx(expected, rel=1e-10)
        assert found["mean_wait", "group0"].error == 0.0
        assert found["wait_probability", "group0"].value == pytest.approx(0.7)

    def test_single_server_with_kills_is_pollaczek_khinchine(self):
        limit, rate, p0 = 3.0, 1 / 1.14, 0.6
        tail = math.exp(-limit)
        model = Dispatcher(
            servers=(1, 1),
            time_limit=limit,
            short_fraction=p0,
            interarrival=Exponential(mean=1 / rate),
            service0=Exponential(mean=1.0),
            service1=Exponential(mean=1.13),
        )
        first, second = 1 - tail, 2 - 2 * (1 + limit) * tail
        wait = rate * p0 * second / (2 * (1 - rate * p0 * first))
        found = qtheory.solve(model)
        assert found["mean_wait", "group0"].value == pytest.approx(wait, rel=1e-10)
        assert found["mean_response", "short"].value == pytest.approx(
            wait + (first - limit * tail) / (1 - tail), rel=1e-10
        )
        assert found["mean_response", "short"].error == 0.0

    @pytest.mark.parametrize("servers", [1, 2, 7])
    def test_renewal_arrivals_with_exponential_service_are_exact(self, servers):
        """D/M/c and H2/M/1 from the root of sigma = phi(c mu (1 - sigma)), solved here by scipy."""
        rate = 0.8 * servers
        found = qtheory.solve(
            one_group(Exponential(mean=1.0), servers=servers, rate=rate, interarrival=Deterministic(value=1 / rate))
        )
        sigma = brentq(lambda s: math.exp(-servers * (1 - s) / rate) - s, 0, 1 - 1e-6, xtol=1e-15)
        # Those who wait, wait exponentially with rate c (1 - sigma).
        probability = found["wait_probability", "short"].value
        assert found["mean_wait", "short"].value / probability == pytest.approx(1 / (servers * (1 - sigma)), rel=1e-7)
        if servers == 1:
            assert probability == pytest.approx(sigma, rel=1e-7)
        assert found["mean_wait", "short"].error <= 1.1e-7 * found["mean_wait", "short"].value

    @pytest.mark.parametrize("servers", [1, 3])
    def test_thinned_arrivals_against_the_embedded_chain(self, servers):
        """E2/M/c, each arrival kept with probability .6: the number found by arrivals, from a cut chain."""
        keep, rate, most = 0.6, 0.8 * servers / 0.6, 400
        matrix = np.zeros((most, most))
        # Time between kept arrivals: E2 of mean 1/rate, geometrically many; step the clock in its phases.
        beta = 2 * rate
        for start in range(most):
            spread = np.zeros((most + 1, 2))
            spread[min(start + 1, most - 1), 0] = 1.0
            # absorbing chain over (number, phase) solved from the top down: departures only lower the number
            total = np.zeros(most)
            mass = spread
            for number in range(min(start + 1, most - 1), -1, -1):
                busy = float(min(number, servers))
                out = beta + busy
                first, second = mass[number]
                # phase 0 -> phase 1 at beta; phase 1 -> kept (absorbed) or lost (phase 0) at beta
                solve = np.linalg.solve(np.array([[out, -beta * (1 - keep)], [-beta, out]]), np.array([first, second]))
                total[number] = beta * keep * solve[1]
                if number > 0:
                    mass[number - 1] += busy * solve
            matrix[start] = total
        values, vectors = np.linalg.eig(matrix.T)
        found = np.real(vectors[:, np.argmax(np.real(values))])
        found = found / found.sum()
        waits = sum(found[k] * (k - servers + 1) / servers for k in range(servers, most))
        exact = exponential_service(
            interarrival=distribution(Erlang(shape=2, mean=1 / rate)),
            keep=keep,
            mean_service=1.0,
            servers=np.array([float(servers)]),
        )
        delay = erlang_c(0.8 * servers, servers)
        assert exact.wait[0] * delay / (0.2 * servers) == pytest.approx(waits, rel=1e-6)
        assert exact.probability[0] * delay == pytest.approx(found[servers:].sum(), rel=1e-6)

    def test_poisson_arrivals_change_nothing(self):
        for interarrival in (Exponential(mean=0.3), Hyperexponential(probabilities=[0.5, 0.5], means=[0.3, 0.3])):
            factors = renewal_factors(
                interarrival=distribution(interarrival),
                keep=0.4,
                mean_service=1.0,
                service_scv=3.0,
                servers=np.array([2.0, 5.0]),
            )
            assert factors.wait == pytest.approx([1.0, 1.0], rel=1e-8)
            assert factors.probability == pytest.approx([1.0, 1.0], rel=1e-8)

    def test_heavy_traffic_of_gi_g_c(self):
        """The factor tends to (ca2 + cs2) / (1 + cs2) as the load tends to 1."""
        for interarrival, cs2 in ((Erlang(shape=3, mean=0.2), 0.2), (LogNormal(mean=0.2, scv=3.0), 0.2)):
            law = distribution(interarrival)
            mean_service = 4 * 0.2 * 0.99999
            factors = renewal_factors(
                interarrival=law, keep=1.0, mean_service=mean_service, service_scv=cs2, servers=np.array([4.0])
            )
            assert factors.wait[0] == pytest.approx((law.scv + cs2) / (1 + cs2), rel=2e-3)

    def test_no_kills_when_the_limit_exceeds_the_support(self):
        short = Uniform(low=0.5, high=1.0)
        free, limited = (E.replace(service0=short, time_limit=limit) for limit in (math.inf, 1.0))
        assert "killed" not in {key[1] for key in qtheory.solve(limited).measures}
        one, two = (qtheory.solve(model).measures for model in (free, limited))
        assert {key: value.value for key, value in one.items()} == pytest.approx(
            {key: value.value for key, value in two.items()}
        )

    def test_groups_are_alike_without_kills(self):
        """All to Group 0 without limit, or all to Group 1: the same queue under other names."""
        service = LogNormal(mean=1.0, scv=2.0)
        base = {"interarrival": Erlang(shape=2, mean=0.3), "service0": service, "service1": service}
        first = qtheory.solve(Dispatcher(servers=(4, 1), time_limit=math.inf, short_fraction=1.0, **base))
        second = qtheory.solve(Dispatcher(servers=(1, 4), time_limit=math.inf, short_fraction=0.0, **base))
        for measure in ("mean_response", "p95_response", "wait_probability", "mean_queue", "p99_wait"):
            assert first[measure, "short"].value == pytest.approx(second[measure, "long"].value, rel=1e-9)
            assert first[measure, "short"].error == pytest.approx(second[measure, "long"].error, rel=1e-6)


class TestScopes:
    def test_all_present_are_on_the_closed_list(self):
        for model in (E, D):
            for method in METHODS:
                found = qtheory.solve(model, method=method, at=[1.0, 9.0])
                for key, value in found.measures.items():
                    assert key[1] in scopes(model, measure=key[0])
                    assert math.isfinite(value.value)
                    assert value.error >= 0
                wanted = {
                    (m, s) for m in found.measures.names if m != "tail_response" for s in scopes(model, measure=m)
                }
                assert wanted <= set(found.measures)

    @pytest.mark.parametrize(
        ("changes", "missing"),
        [
            ({"short_fraction": 0.0}, {"short", "killed", "group0"}),
            ({"short_fraction": 1.0}, {"long"}),
            ({"time_limit": math.inf}, {"killed"}),
            ({"time_limit": math.inf, "short_fraction": 1.0}, {"killed", "long", "group1"}),
            ({"service0": Uniform(low=3.5, high=4.0), "servers": (7, 20)}, {"short"}),
        ],
    )
    @pytest.mark.parametrize("method", METHODS)
    def test_scopes_without_jobs_are_left_out(self, changes, missing, method):
        found = qtheory.solve(E.replace(servers=(9, 9)).replace(**changes), method=method)
        present = {key[1] for key in found.measures if key[0] not in ("utilisation", "kill_probability")}
        assert present == {"all", "short", "long", "killed", "group0", "group1"} - missing
        assert found["utilisation", "group0"].value >= 0
        assert found["kill_probability", "all"].value >= 0

    def test_auto_says_what_it_took(self):
        assert qtheory.solve(E).method == "mgc"
        assert qtheory.methods(E)[-1] == "auto"

    def test_options_are_checked(self):
        with pytest.raises(InvalidModel, match="dispersed"):
            qtheory.solve(E, method="mgc", kills="regular")


times = st.floats(0.2, 3.0)
services = st.one_of(
    st.builds(Exponential, mean=times),
    st.builds(Erlang, shape=st.integers(2, 6), mean=times),
    st.builds(LogNormal, mean=times, scv=st.floats(0.2, 5.0)),
    st.builds(Gamma, shape=st.floats(0.4, 3.0), scale=times),
    st.builds(lambda low, width: Uniform(low=low, high=low + width), times, times),
    st.builds(Deterministic, value=times),
    st.builds(
        lambda a, m: Mixture(weights=[0.3, 0.7], laws=[Deterministic(value=a), Exponential(mean=m)]), times, times
    ),
)
arrivals = st.one_of(
    st.builds(Exponential, mean=times),
    st.builds(Erlang, shape=st.integers(2, 4), mean=times),
    st.builds(lambda m: Hyperexponential(probabilities=[0.2, 0.8], means=[3 * m, m]), times),
)


@st.composite
def stable(draw):
    """A stable dispatcher with a little of everything."""
    base = Dispatcher(
        servers=(1, 1),
        time_limit=draw(st.one_of(st.floats(0.3, 5.0), st.just(math.inf))),
        short_fraction=draw(st.sampled_from([0.0, 0.3, 0.65, 0.9, 1.0])),
        interarrival=draw(arrivals),
        service0=draw(services),
        service1=draw(services),
    )
    offered = traffic(base).offered
    spare = draw(st.tuples(st.floats(0.1, 2.0), st.floats(0.1, 2.0)))
    servers = tuple(
        max(1, math.ceil(load + extra * math.sqrt(load))) for load, extra in zip(offered, spare, strict=True)
    )
    model = base.replace(servers=servers)
    assume(all(load < 0.98 * count for load, count in zip(offered, servers, strict=True)))
    return model


QUIET = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class TestProperties:
    @QUIET
    @given(stable(), st.sampled_from(METHODS))
    def test_little_and_the_utilisation_law(self, model, method):
        found = qtheory.solve(model, method=method)
        value = {key: entry.value for key, entry in found.measures.items()}
        offered = traffic(model)
        for scope in ("all", "short", "long", "killed", "group0", "group1"):
            if ("throughput", scope) not in value:
                continue
            rate = value["throughput", scope]
            assert value["mean_queue", scope] == pytest.approx(rate * value["mean_wait", scope], rel=1e-9)
            if ("mean_response", scope) in value:
                assert value["mean_number", scope] == pytest.approx(rate * value["mean_response", scope], rel=1e-9)
        for group, count in enumerate(model.servers):
            scope = f"group{group}"
            assert value["utilisation", scope] * count == pytest.approx(offered.offered[group])
            if ("mean_number", scope) in value:
                busy = value["mean_number", scope] - value["mean_queue", scope]
                assert busy == pytest.approx(value["utilisation", scope] * count, rel=1e-6)
        assert value["throughput", "all"] == pytest.approx(1 / distribution(model.interarrival).mean)
        classes = [scope for scope in ("short", "long", "killed") if ("throughput", scope) in value]
        for measure in ("throughput", "mean_number", "mean_queue"):
            parts = math.fsum(value[measure, scope] for scope in classes)
            assert value[measure, "all"] == pytest.approx(parts, rel=1e-9)
        groups = [scope for scope in ("group0", "group1") if ("mean_number", scope) in value]
        assert value["mean_number", "all"] == pytest.approx(
            math.fsum(value["mean_number", scope] for scope in groups), rel=1e-6
        )

    @QUIET
    @given(stable())
    def test_quantiles_rise_and_mix(self, model):
        found = qtheory.solve(model)
        value = {key: entry.value for key, entry in found.measures.items()}
        for scope in ("all", "short", "long", "killed"):
            if ("mean_response", scope) not in value:
                continue
            for kind in ("response", "wait"):
                row = [value[f"p{p}_{kind}", scope] for p in (50, 90, 95, 99)]
                assert all(a <= b * (1 + 1e-9) for a, b in pairwise(row))
            assert 0 <= value["wait_probability", scope] <= 1
            assert value["p50_wait", scope] == 0 or value["wait_probability", scope] >= 0.5
        again = qtheory.solve(model, at=[value["p95_response", "all"]])
        assert again["tail_response", "all", value["p95_response", "all"]].value <= 0.05 + 1e-6

    @QUIET
    @given(stable(), st.floats(0.01, 100.0))
    def test_change_of_the_unit_of_time(self, model, factor):
        def scaled(law):
            return Product(factors=[law, Deterministic(value=factor)])

        other = model.replace(
            time_limit=model.time_limit * factor,
            interarrival=scaled(model.interarrival),
            service0=scaled(model.service0),
            service1=scaled(model.service1),
        )
        one, two = mgc.solve(model).measures, mgc.solve(other).measures
        assert set(one) == set(two)
        for key, entry in one.items():
            power = 1.0 if "response" in key[0] or "_wait" in key[0] else -1.0 if key[0] == "throughput" else 0.0
            power = 0.0 if key[0] == "wait_probability" else power
            assert two[key].value == pytest.approx(entry.value * factor**power, rel=1e-6, abs=1e-9)
            assert two[key].error == pytest.approx(entry.error * factor**power, rel=1e-4, abs=1e-6)

    @QUIET
    @given(stable())
    def test_curve_is_what_solve_says(self, model):
        total = sum(model.servers)
        curve = mgc.curve(model, total=total)
        place = curve.servers.tolist().index(list(model.servers))
        found = mgc.solve(model)
        for scope, values in curve.mean_response.items():
            assert values[place] == pytest.approx(found["mean_response", scope].value, rel=1e-9)
            assert curve.error[scope][place] == pytest.approx(found["mean_response", scope].error, rel=1e-9, abs=1e-15)

    @QUIET
    @given(stable(), st.integers(1, 3))
    def test_more_servers_in_group_0_wait_less_there(self, model, more):
        assume(traffic(model).short_rate > 0)
        servers = np.array([[model.servers[0] + k, model.servers[1]] for k in (0, more)])
        curve = mgc.rank_designs(model, servers=servers)
        short = curve.mean_response["short"]
        assert short[1] <= short[0] * (1 + 1e-9)

    @QUIET
    @given(st.floats(0.3, 3.0), st.sampled_from([0.4, 0.8, 1.0]), st.floats(1.05, 3.0))
    def test_kills_as_a_poisson_stream_wait_longer(self, limit, share, spare):
        """Kill intervals of an exponential requirement vary less than exponentially."""
        model = E.replace(time_limit=limit, short_fraction=share)
        offered = traffic(model)
        assert kill_interval_scv(offered) < 1
        model = model.replace(servers=tuple(math.ceil(load * spare) for load in offered.offered))
        one, two = (mgc.solve(model, kills=kills)["mean_wait", "group1"] for kills in ("dispersed", "poisson"))
        assert one.value <= two.value * (1 + 1e-9)
        assert two.error >= (two.value - one.value) * (1 - 1e-9)


class TestCurve:
    def test_unstable_designs_are_left_out(self):
        assert mgc.curve(E, total=7).servers.tolist() == [[3, 4], [4, 3]]
        assert mgc.curve(D, total=10).servers[:, 0].tolist() == list(anchors.EXAMPLE_D_STABLE)

    def test_nothing_stable(self):
        with pytest.raises(Unstable) as caught:
            mgc.curve(E, total=4)
        assert caught.value.where in ("group0", "group1")
        with pytest.raises(InvalidModel, match="at least 2"):
            mgc.curve(E, total=1)

    def test_example_d_has_its_best_design(self):
        curve = mgc.curve(D, total=10)
        objective = sum(weight * curve.mean_response[scope] for scope, weight in anchors.EXAMPLE_D_WEIGHTS.items())
        assert curve.servers[np.argmin(objective)].tolist() == [4, 6]
        for place, n0 in enumerate(anchors.EXAMPLE_D_STABLE[:3]):
            assert objective[place] == pytest.approx(anchors.EXAMPLE_D_OBJECTIVE[n0].value, rel=0.015)

    def test_many_designs_at_once(self):
        thousand = E.replace(interarrival=Exponential(mean=7 / 3000))
        curve = mgc.curve(thousand, total=1000)
        assert curve.servers[0].tolist() == [307, 693]
        assert len(curve.servers) == 297
        assert np.all(np.diff(curve.mean_response["short"]) <= 1e-12)
        assert np.all(np.diff(curve.mean_response["long"]) >= -1e-12)


class TestHeavyTails:
    def test_infinite_mean_wait_has_a_note(self):
        model = Dispatcher(
            servers=(1, 2),
            time_limit=math.inf,
            short_fraction=0.0,
            interarrival=Exponential(mean=1 / 1.2),
            service0=Exponential(mean=1.0),
            service1=Pareto(shape=1.5, minimum=1 / 3),
        )
        for method in METHODS:
            found = qtheory.solve(model, method=method)
            assert found["mean_response", "all"].value == math.inf
            row = next(row for row in found.to_dict()["measures"] if row["measure"] == "mean_wait")
            assert row["value"] is None
            assert row["error"] is None
            assert row["note"] == "infinite: second moment of service1"
            assert found["utilisation", "group1"].value == pytest.approx(0.6)
            assert ("p95_response", "all") not in found.measures

    def test_spare_servers_keep_the_mean_finite(self):
        """1.5 servers busy of 4: three spare, so that E[S^(4/3)] is enough; two spare need E[S^1.5]."""
        service = Pareto(shape=1.45, minimum=0.45 / 1.45)
        for servers, finite in ((4, True), (3, False), (2, False)):
            found = qtheory.solve(one_group(service, servers=servers, rate=1.5))
            assert math.isfinite(found["mean_wait", "group0"].value) is finite
            if finite:
                assert found["mean_wait", "group0"].error == found["mean_wait", "group0"].value
            elif servers == 3:
                assert found["mean_wait", "group0"].note == "infinite: moment of order 1.5 of service0"

    def test_limit_tames_group_0(self):
        model = E.replace(service0=Pareto(shape=1.5, minimum=0.4), servers=(3, 7))
        assert math.isfinite(qtheory.solve(model)["mean_wait", "group0"].value)


class TestPieces:
    def test_fitted_has_its_moments(self):
        for scv in (0.05, 0.2, 0.25, 0.34, 0.5, 0.7, 1.0 - 1e-7, 1.0, 1.0 + 1e-12, 4.0):
            law = fitted(mean=2.0, scv=scv)
            assert (law.mean, law.scv) == (pytest.approx(2.0), pytest.approx(scv))

    def test_sum_of_two_waits(self):
        first, second = (mgc.solve(E)["mean_wait", scope].value for scope in ("group0", "group1"))
        assert mgc.solve(E)["mean_wait", "killed"].value == pytest.approx(first + second)
        design = mgc._Designs(traffic(E), servers=np.array([E.servers]), kills="dispersed")
        one, two = design.delay(0), design.delay(1)
        law = both(one, two)
        assert law.mean == pytest.approx(first + second, rel=1e-9)
        assert law.variance == pytest.approx(one.law.variance + two.law.variance, rel=1e-9)
        assert law.cdf(0.0) == pytest.approx((1 - one.probability) * (1 - two.probability))

    def test_kill_intervals(self):
        """Exponential requirement killed at its median; always killed: a fixed time."""
        base = E.replace(short_fraction=1.0, servers=(20, 20))
        offered = traffic(base.replace(service0=Exponential(mean=1.0), time_limit=math.log(2)))
        # T + N Y, N geometric of mean 1, Y exponential cut at log 2: by hand from its two moments.
        mean = 1 - math.log(2)
        second = 2 - 2 * math.log(2) - math.log(2) ** 2
        expected = ((second - mean**2) + 2 * mean**2) / (math.log(2) + mean) ** 2
        assert kill_interval_scv(offered) == pytest.approx(expected, rel=1e-9)
        assert kill_interval_scv(traffic(base.replace(service0=Deterministic(value=4.0)))) == 0.0

    def test_dispersion_ratio_has_its_limits(self):
        offered = traffic(E)
        many, few = np.array([1e7]), np.array([1.2 * offered.offered[0]])
        group1 = np.array([4.0])
        assert work_dispersion_ratio(offered, servers0=many, servers1=group1)[0] == pytest.approx(1.0, abs=1e-3)
        assert work_dispersion_ratio(offered, servers0=few, servers1=group1)[0] < 1.0
        assert work_dispersion_ratio(traffic(E.replace(time_limit=math.inf)), servers0=few, servers1=group1)[0] == 1.0
        # A saturated Group 0 and a Group 1 near saturation: work arrives as from a renewal process of kills.
        offered = traffic(E.replace(short_fraction=1.0))
        killed = offered.killed
        own = killed.variance + killed.mean**2 * kill_interval_scv(offered)
        limit = own / (killed.variance + killed.mean**2)
        saturated = np.array([offered.offered[0] * (1 + 1e-7)])
        ratio = work_dispersion_ratio(offered, servers0=saturated, servers1=np.array([offered.offered[1] * 1.05]))
        assert ratio[0] == pytest.approx(limit, rel=1e-2)

    def test_least_residual_of_recorded_values(self):
        """Many atoms take another road than few: compare a fine lattice with the uniform law it stands for."""
        lattice = distribution(Empirical(values=(np.arange(3000) + 0.5) / 3000))
        servers = np.array([1.0, 2.0, 10.0])
        # Residual life of a uniform on [0, 1]: P(Y > t) = (1 - t)^2, so E[min] = 1 / (2c + 1).
        assert least_residual(lattice, servers=servers) == pytest.approx(1 / (2 * servers + 1), rel=1e-4)
        uniform = distribution(Uniform(low=0.0, high=1.0))
        assert least_residual(uniform, servers=servers) == pytest.approx(1 / (2 * servers + 1), rel=1e-8)
        mixed = distribution(Mixture(weights=[0.5, 0.5], laws=[Empirical(values=(np.arange(300) + 0.5) / 300),
                                                               Uniform(low=0.0, high=1.0)]))  # fmt: skip
        assert least_residual(mixed, servers=servers) == pytest.approx(1 / (2 * servers + 1), rel=1e-3)


NARROW = (1e-1, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-7)


@pytest.mark.parametrize(
    "laws",
    [
        [Erlang(shape=round(1 / scv), mean=1.2) for scv in NARROW],
        [Gamma(shape=1 / scv, scale=1.2 * scv) for scv in NARROW],
        [LogNormal(mean=1.2, scv=scv) for scv in NARROW],
    ],
)
def test_narrow_laws_lead_to_the_fixed_time(laws) -> None:
    """However rare a kill becomes on the way: at scv 1e-3 its probability is below 1e-300."""
    answers = [qtheory.solve(E.replace(service0=law), method="mgc")["mean_response", "all"].value for law in laws]
    fixed = qtheory.solve(E.replace(service0=Deterministic(value=1.2)), method="mgc")["mean_response", "all"].value
    gaps = [answer - fixed for answer in answers]
    assert all(0.0 < later < sooner for sooner, later in pairwise(gaps[:5]))
    assert abs(gaps[-1]) < 1e-5


def test_a_mixture_of_narrow_laws_leads_to_one_of_fixed_times() -> None:
    near = Mixture(weights=(0.5, 0.5), laws=(LogNormal(mean=0.4, scv=1e-5), LogNormal(mean=2.0, scv=1e-5)))
    fixed = Mixture(weights=(0.5, 0.5), laws=(Deterministic(value=0.4), Deterministic(value=2.0)))
    ours, limit = (
        qtheory.solve(E.replace(service0=law), method="mgc")["mean_response", "all"].value for law in (near, fixed)
    )
    assert ours == pytest.approx(limit, rel=1e-4)


@pytest.mark.parametrize("limit", [1.2 * 400, 1.2 * 740, 1.2 * 745, 1e100, 1e300])
def test_kills_too_rare_to_square(limit: float) -> None:
    never = E.replace(servers=(4, 4), time_limit=math.inf)
    answers = [
        qtheory.solve(model, method="mgc")["mean_response", "all"].value
        for model in (never.replace(time_limit=limit), never)
    ]
    assert answers[0] == pytest.approx(answers[1], rel=1e-9)


def test_a_limit_far_below_the_mean_service_time() -> None:
    """Everything is killed at once: Group 1 serves all, and Group 0 vanishes."""
    models = [E.replace(servers=(1, 9), time_limit=limit) for limit in (1e-6, 1e-12, 1e-30)]
    answers = [qtheory.solve(model, method="mgc")["mean_response", "all"].value for model in models]
    assert answers[0] == pytest.approx(answers[1], rel=1e-5)
    assert answers[1] == pytest.approx(answers[2], rel=1e-9)


def test_a_scipy_law_gives_what_its_closed_form_gives() -> None:
    laws = (Scipy(name="gamma", parameters={"a": 2.0, "scale": 0.6}), Gamma(shape=2.0, scale=0.6))
    ours, theirs = (qtheory.solve(E.replace(service0=law), method="mgc") for law in laws)
    for key, value in theirs.measures.items():
        assert ours[key].value == pytest.approx(value.value, rel=1e-6, abs=1e-9), key


@pytest.mark.parametrize("method", ["mgc", "phase-type"])
@pytest.mark.parametrize("keep", [1.0, 0.65])
def test_simultaneous_arrivals_are_the_limit_of_close_ones(method: str, keep: float) -> None:
    """Half of the gaps are 0: geometric batches, which wait like arrivals a moment apart."""

    def wait(gap: float) -> float:
        law = Mixture(weights=(0.5, 0.5), laws=(Deterministic(value=gap), Exponential(mean=1.0)))
        model = E.replace(interarrival=law, short_fraction=keep, servers=(4, 4))
        return qtheory.solve(model, method=method)["mean_wait", "group0"].value

    assert wait(0.0) == pytest.approx(wait(1e-9), rel=1e-4)


def test_batches_of_poisson_arrivals_in_one_server() -> None:
    """M^X/M/1 with geometric batches of mean 2, load 1/2: E[W] = (rho + (E[X^2]/E[X] - 1) / 2) / (mu (1 - rho)) = 3.

    E[X^2] = 6; Gross and Harris (1998), sec. 3.1.
    """
    law = Mixture(weights=(0.5, 0.5), laws=(Deterministic(value=0.0), Exponential(mean=4.0)))
    model = one_group(Exponential(mean=1.0), servers=1, rate=0.5, interarrival=law)
    answer = qtheory.solve(model, method="mgc")["mean_wait", "group0"]
    assert answer.value == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("thing", [None, 3, "dispatcher", {"kind": "dispatcher"}, Exponential(mean=1.0)])
def test_only_systems_are_solved(thing) -> None:
    for call in (qtheory.solve, qtheory.methods):
        with pytest.raises(InvalidModel, match="model: must be a model of kind dispatcher, donor"):
            call(thing)


def test_a_missing_measure_is_named_as_it_was_asked_for() -> None:
    answer = qtheory.solve(E, method="mmc")
    with pytest.raises(KeyError, match="no mean_response; measures:"):
        answer["mean_response"]
    with pytest.raises(KeyError, match="no mean_response/nobody"):
        answer["mean_response", "nobody"]
