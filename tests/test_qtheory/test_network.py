"""Networks by theory: expansion, stabilizability, product form, and the method that auto takes."""

from __future__ import annotations

import anchors
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_cases import DOMINANT, POLICIES, PRIORITY, figure, name, random_network, small

import qtheory
from qtheory.models import Bernoulli, InvalidModel, NotConverged, Unstable, parse
from qtheory.systems.network import expand, with_load, with_static_split
from qtheory.systems.network.places import places
from qtheory.systems.network.stability import check_stable
from qtheory.systems.network.stabilizability import max_flow_factor, stabilizability

JSR = {"kind": "jsr"}
SPLIT = {"kind": "bernoulli", "split": anchors.NETWORK_FIG1_SPLIT}


class TestExpansion:
    def test_figure2(self):
        """The expanded network of figure 1: 3a and 3b are duplicates, on different routes."""
        expansion = expand(figure("fig1", rate=1.0, policy=JSR))
        assert expansion.names == ("s1", "s3a", "s4", "s2", "s3b", "s5")
        assert expansion.upstream.tolist() == [-1, 0, -1, -1, -1, 4]
        assert expansion.downstream.tolist() == [1, -1, -1, -1, 5, -1]
        assert expansion.duplicates(1).tolist() == [4]
        assert expansion.duplicates(0).tolist() == []

    def test_figure3(self):
        expansion = expand(figure("fig3", rate=1.0, policy=JSR))
        assert expansion.names == ("s1a", "s2", "s1b", "s3", "s5a", "s4", "s5b")

    def test_many_duplicates_have_names(self):
        routes = [[f"a{n}", "hub"] for n in range(30)]
        servers = {"hub": 1.0} | {row[0]: 1.0 for row in routes}
        classes = [{"rate": 1.0, "routes": routes}]
        model = parse({"kind": "network", "servers": servers, "classes": classes, "policy": JSR})
        names = expand(model).names
        assert len(set(names)) == len(names)
        assert {"huba", "hubz", "hubaa", "hubad"} <= set(names)

    def test_jobs_with_the_same_future_share_a_place(self):
        deciding = places(figure("fig3", rate=1.0, policy={"kind": "jsq"}))
        assert sorted(deciding.server.tolist()) == [0, 1, 2, 3, 4]
        crossing = {
            "kind": "network",
            "servers": dict.fromkeys("abdef", 1.0),
            "classes": [{"rate": 1.0, "routes": [["a", "b", "d"], ["e", "b", "f"]]}],
            "policy": {"kind": "jsq"},
        }
        assert places(parse(crossing)).size == 6


class TestStabilizability:
    @pytest.mark.parametrize("which", ["fig1", "fig3"])
    def test_theta(self, which):
        found = stabilizability(figure(which, rate=1.0, policy=JSR))
        assert found.theta_star == pytest.approx(anchors.NETWORK_THETA[which].value, abs=1e-9)

    def test_figure1_in_full(self):
        """By hand: flows (.125, 1), (1, .125); prices 1/2 for servers 2, 3 and 4; split = flows / theta*."""
        found = stabilizability(figure("fig1", rate=1.0, policy=JSR))
        assert np.allclose(found.flows, [[0.125, 1.0], [1.0, 0.125]], atol=1e-9)
        assert np.allclose(found.split, anchors.NETWORK_FIG1_SPLIT, atol=1e-9)
        assert found.bottleneck == ("s2", "s3", "s4")
        assert [found.duals[name] for name in found.bottleneck] == pytest.approx([0.5] * 3, abs=1e-9)

    @pytest.mark.parametrize("seed", range(8))
    def test_figure1_condition_by_hand(self, seed):
        """lam1 < mu4 + min(mu1, mu3), lam2 < mu2 + min(mu3, mu5), lam1 + lam2 < mu2 + mu3 + mu4."""
        rng = np.random.default_rng(seed)
        mu, lam = rng.uniform(0.1, 2.0, 5), rng.uniform(0.1, 2.0, 2)
        servers = {f"s{n + 1}": float(rate) for n, rate in enumerate(mu)}
        model = figure("fig1", rate=1.0, policy=JSR)
        classes = tuple(c.replace(rate=float(rate)) for c, rate in zip(model.classes, lam, strict=True))
        by_hand = min(
            (mu[3] + min(mu[0], mu[2])) / lam[0],
            (mu[1] + min(mu[2], mu[4])) / lam[1],
            (mu[1] + mu[2] + mu[3]) / lam.sum(),
        )
        # Both classes through server 3 at once are also bounded by what feeds it.
        by_hand = min(by_hand, (mu[1] + mu[3] + min(mu[2], mu[0] + min(mu[2], mu[4]))) / lam.sum())
        found = stabilizability(model.replace(servers=servers, classes=classes))
        assert found.theta_star == pytest.approx(by_hand, rel=1e-9)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10**9))
    def test_flows_balance_and_prices_prove_them(self, seed):
        """Weak duality is the proof: a feasible flow and prices with the same value are both optimal."""
        model = random_network(np.random.default_rng(seed), policy=JSR)
        expansion = expand(model)
        found = stabilizability(model)
        flows = np.concatenate(found.flows)
        prices = np.array(list(found.duals.values()))
        scale = float(expansion.rates.max())
        assert flows.min() >= 0
        for c, rate in enumerate(expansion.arrival_rates):
            assert sum(found.flows[c]) == pytest.approx(found.theta_star * rate, rel=1e-7)
            assert sum(found.split[c]) == pytest.approx(1.0, abs=1e-12)
        assert (expansion.visits() @ flows <= expansion.rates + 1e-7 * scale).all()
        lengths = expansion.visits().T @ prices
        cheapest = [lengths[expansion.of_class(c)].min() for c in range(len(expansion.arrival_rates))]
        assert expansion.arrival_rates @ cheapest == pytest.approx(1.0, rel=1e-6)
        assert expansion.rates @ prices == pytest.approx(found.theta_star, rel=1e-6)

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**9))
    def test_one_class_is_a_max_flow(self, seed):
        """Random stages of servers, all paths through them: the programme over paths against the flow over arcs."""
        rng = np.random.default_rng(seed)
        names = [f"s{n}" for n in range(rng.integers(2, 8))]
        edges = [("A", names[0]), (names[-1], "B")]
        edges += [
            (a, b) for i, a in enumerate(names) for b in names[i + 1 :] if rng.random() < 0.5 or b == names[i + 1]
        ]
        edges += [("A", name) for name in names[1:] if rng.random() < 0.3]
        servers = {name: float(rng.uniform(0.2, 2.0)) for name in names}
        jobs = {"rate": float(rng.uniform(0.1, 2.0)), "origin": "A", "destination": "B"}
        fields = {"kind": "network", "servers": servers, "classes": [jobs], "edges": edges, "policy": JSR}
        model = parse(fields)
        assert max_flow_factor(model) == pytest.approx(stabilizability(model).theta_star, rel=1e-7)

    def test_max_flow_says_when_it_does_not_apply(self):
        with pytest.raises(InvalidModel, match="one class"):
            max_flow_factor(figure("fig1", rate=1.0, policy=JSR))
        crossing = {"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 1.0}
        classes = [{"rate": 1.0, "routes": [["a", "c", "d"], ["b", "c", "e"]]}]
        with pytest.raises(InvalidModel, match="all the paths"):
            max_flow_factor(parse({"kind": "network", "servers": crossing, "classes": classes, "policy": JSR}))

    def test_scaling(self):
        model = figure("fig1", rate=1.0, policy=JSR)
        assert stabilizability(with_load(model, factor=0.5)).theta_star == pytest.approx(2.25, rel=1e-9)
        tiny = model.replace(
            servers={name: 1e-9 * rate for name, rate in model.servers.items()},
            classes=tuple(c.replace(rate=1e-9 * c.rate) for c in model.classes),
        )
        assert stabilizability(tiny).theta_star == pytest.approx(1.125, rel=1e-9)

    @pytest.mark.parametrize("policy", POLICIES, ids=name)
    def test_too_much_traffic_is_refused_under_every_policy(self, policy):
        with pytest.raises(Unstable) as refusal:
            qtheory.solve(figure("fig1", rate=1.2, policy=policy))
        assert refusal.value.where == "all"
        assert refusal.value.load == pytest.approx(1.2 / 1.125)
        assert "0.9375" in str(refusal.value)

    def test_exactly_at_the_limit_is_refused(self):
        with pytest.raises(Unstable):
            check_stable(figure("fig1", rate=1.125, policy=JSR))

    def test_a_single_bottleneck_is_named(self):
        line = {"a": 2.0, "b": 0.5}
        classes = [{"rate": 1.0, "routes": [["a", "b"]]}]
        with pytest.raises(Unstable) as refusal:
            check_stable(parse({"kind": "network", "servers": line, "classes": classes, "policy": JSR}))
        assert refusal.value.where == "b"
        assert refusal.value.load == pytest.approx(2.0)

    def test_the_static_split_is_written_into_the_model(self):
        model = with_static_split(figure("fig1", rate=1.0, policy={"kind": "bernoulli"}))
        assert isinstance(model.policy, Bernoulli)
        assert np.allclose(model.policy.split, anchors.NETWORK_FIG1_SPLIT)
        assert with_static_split(model) is model
        other = figure("fig1", rate=1.0, policy=JSR)
        assert with_static_split(other) is other


class TestProductForm:
    def test_figure1_is_exact(self):
        """8 + 8 + 8 + 1/8 + 1/8 jobs."""
        solution = qtheory.solve(figure("fig1", rate=1.0, policy={"kind": "bernoulli"}))
        assert solution.method == "product-form"
        assert solution["mean_number", "all"].value == pytest.approx(24.25, rel=1e-12)
        assert solution["mean_number", "all"].error == 0
        assert solution["mean_response", "class1"].value == pytest.approx(12.125, rel=1e-12)
        for server in ("s2", "s3", "s4"):
            assert solution["mean_number", server].value == pytest.approx(8.0, rel=1e-12)
            assert solution["utilisation", server].value == pytest.approx(8 / 9, rel=1e-12)

    def test_a_tandem_of_one_route(self):
        """Two M/M/1 queues in series, whatever the policy: 1/(2 - 1) and 1/(3 - 1)."""
        for policy in ({"kind": "jsr"}, {"kind": "jsq"}, {"kind": "bernoulli"}, {"kind": "jsr", "sharing": "longest"}):
            fields = {"servers": {"a": 2.0, "b": 3.0}, "classes": [{"rate": 1.0, "routes": [["a", "b"]]}]}
            solution = qtheory.solve(parse({"kind": "network", "policy": policy} | fields))
            assert solution.method == "product-form"
            assert solution["mean_response", "a"].value == pytest.approx(1.0)
            assert solution["mean_response", "b"].value == pytest.approx(0.5)
            assert solution["mean_wait", "all"].value == pytest.approx(1.0 - 0.5 + 0.5 - 1 / 3)

    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**9))
    def test_little_and_balance(self, seed):
        """Flows in equal flows out, Little's law at every scope, and each server an M/M/1 queue."""
        rng = np.random.default_rng(seed)
        model = random_network(rng, policy={"kind": "bernoulli"}, load=float(rng.uniform(0.1, 0.95)))
        solution = qtheory.solve(model, method="product-form")
        loads = solution.details["loads"]
        scopes = ["all", *(c.name for c in model.classes), *(s for s in model.servers if loads[s] > 1e-9)]
        for scope in scopes:
            number, rate = solution["mean_number", scope].value, solution["throughput", scope].value
            assert number == pytest.approx(rate * solution["mean_response", scope].value, rel=1e-9)
        for server, load in loads.items():
            if load > 1e-9:
                assert solution["mean_number", server].value == pytest.approx(load / (1 - load), rel=1e-9)
                assert solution["throughput", server].value == pytest.approx(load * model.servers[server], rel=1e-9)
        total = sum(solution["mean_number", s].value for s in model.servers if loads[s] > 1e-9)
        assert total == pytest.approx(solution["mean_number", "all"].value, rel=1e-9)

    def test_an_overloaded_server_is_named(self):
        policy = {"kind": "bernoulli", "split": [[0.5, 0.5], [0.5, 0.5]]}
        with pytest.raises(Unstable) as refusal:
            qtheory.solve(figure("fig1", rate=1.0, policy=policy))
        assert refusal.value.where == "s3"
        assert refusal.value.load == pytest.approx(4.0)

    @pytest.mark.parametrize(
        "policy",
        [JSR, {"kind": "jsq"}, {"kind": "maxweight"}, {"kind": "jsq-as"}, SPLIT | {"sharing": "longest"}],
        ids=name,
    )
    def test_what_has_no_product_form_says_so(self, policy):
        with pytest.raises(InvalidModel, match="has no product form"):
            qtheory.solve(figure("fig1", rate=1.0, policy=policy), method="product-form")


class TestAuto:
    def test_small_networks_are_solved_exactly(self):
        solution = qtheory.solve(small({"kind": "jsr"}))
        assert solution.method == "chain"
        assert solution.details["theta_star"] > 1

    def test_larger_ones_hold_what_is_known(self):
        solution = qtheory.solve(figure("fig1", rate=1.0, policy={"kind": "maxweight"}))
        assert solution.method == "bounds"
        assert solution["throughput", "all"].value == 2.0
        assert ("mean_number", "all") not in solution.measures
        solution = qtheory.solve(figure("fig1", rate=1.0, policy=PRIORITY))
        assert solution.measures.to_list() == []
        assert solution.details["stability"] == "not proved: simulate"

    def test_forced_flows_are_known(self):
        """All of class 1 passes server b or c, and all of it a: only a's utilisation does not depend on the policy."""
        servers = {"a": 2.0, "b": 1.0, "c": 1.0}
        classes = [{"rate": 1.2, "routes": [["a", "b"], ["a", "c"]]}]
        model = parse({"kind": "network", "servers": servers, "classes": classes, "policy": {"kind": "maxweight"}})
        with pytest.raises(NotConverged, match="need more than 500 states"):
            qtheory.solve(model, method="chain", most_states=500)
        solution = qtheory.solve(model)
        assert solution["utilisation", "a"].value == pytest.approx(
            0.6, abs=2 * solution["utilisation", "a"].error + 1e-12
        )

    def test_the_certificate_is_printed(self):
        solution = qtheory.solve(figure("fig1", rate=1.0, policy=DOMINANT))
        assert solution.details["certificate"]["text"] == "stable: drift <= -0.079102 outside a bounded set"
        assert solution["throughput", "class2"].value == 1.0

    def test_tails_are_refused(self):
        for method in ("auto", "product-form", "chain"):
            with pytest.raises(InvalidModel, match="tail_response"):
                qtheory.solve(small(SPLIT), method=method, at=[1.0])
