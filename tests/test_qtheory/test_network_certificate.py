"""Test functions: pieces, dominance, certificates by regime, smoothed drift, fluid paths."""

from __future__ import annotations

import anchors
import numpy as np
import pytest
from network_cases import DOMINANT, PRIORITY, figure, random_network, small
from reference_network import committed_places, dominant_places

from qtheory.models import InvalidModel, plain
from qtheory.systems.network import expand, fluid_path, smoothed_drift
from qtheory.systems.network.certificate import certificate, worst_regime
from qtheory.systems.network.control import control
from qtheory.systems.network.piecewise import default_function, user_function

JSR = {"kind": "jsr"}


def fig1(*, rate=1.0, mu3=0.25, policy=DOMINANT):
    model = figure("fig1", rate=rate, policy=policy)
    return model.replace(servers=dict(model.servers) | {"s3": mu3})


class TestTestFunction:
    def test_figure1_has_35_pieces(self):
        assert len(default_function(fig1()).weights) == 35
        assert len(default_function(figure("fig3", rate=1.0, policy=JSR)).weights) == 35

    def test_value_is_the_nested_maximum(self):
        """max over C, R and j written out for figure 1, weights 1/2, 3/5 and 4/5."""
        function = default_function(fig1(), alpha=0.5, beta=0.6, gamma=0.8)
        rng = np.random.default_rng(1)
        for x in rng.integers(0, 20, (50, 6)):
            first = [max(x[0], 0.5 * (x[0] + x[1])), x[2]]
            second = [x[3], max(x[4], 0.5 * (x[4] + x[5]))]
            g = [max(0.6 * max(v), 0.36 * sum(v)) for v in (first, second)]
            assert function(x)[0] == pytest.approx(max(0.8 * max(g), 0.64 * sum(g)))

    @pytest.mark.parametrize("seed", range(5))
    def test_dominant_places_are_those_of_the_definitions(self, seed):
        rng = np.random.default_rng(seed)
        model = random_network(rng, policy=DOMINANT)
        expansion = expand(model)
        if len(expansion.routes) > 6:
            model = fig1()
            expansion = expand(model)
        function = default_function(model)
        lines = committed_places(plain(model)["classes"])
        places = [place for routes in lines for line in routes for place in line]
        for state in rng.integers(0, 5, (40, expansion.size)):
            for place, jobs in zip(places, state, strict=True):
                place.jobs = int(jobs)
            carrying = function.members[function.best(state)[0]]
            assert [place in dominant_places(lines, DOMINANT["weights"]) for place in places] == carrying.tolist()

    def test_user_weights_are_checked(self):
        with pytest.raises(InvalidModel, match="one column for each of 6 subservers"):
            user_function(fig1(), weights=[[1.0, 1.0]])
        with pytest.raises(InvalidModel, match="finite and >= 0"):
            user_function(fig1(), weights=[[1.0, 1.0, -1.0, 1.0, 1.0, 1.0]])
        with pytest.raises(InvalidModel, match="between 0 and 1"):
            default_function(fig1(), alpha=1.0)

    def test_large_networks_are_refused(self):
        routes = [[f"s{n}"] for n in range(20)]
        model = figure("fig1", rate=1.0, policy=JSR)
        servers = {f"s{n}": 1.0 for n in range(20)}
        model = model.replace(servers=servers, classes=(model.classes[0].replace(routes=routes),))
        with pytest.raises(InvalidModel, match="more than 20000 linear pieces"):
            default_function(model)


class TestCertificate:
    """Weights 3/4 each, by hand in the cases of one dominant route, two of different classes, and others."""

    def test_figure1(self):
        found = certificate(fig1())
        assert found.by_kind["one route"] == pytest.approx(-27 / 256, abs=1e-9)
        assert found.by_kind["routes of different classes"] == pytest.approx(-27 / 256, abs=1e-9)
        assert found.by_kind["others"] == pytest.approx(-81 / 1024, abs=1e-9)
        assert found.worst.drift == pytest.approx(-81 / 1024, abs=1e-9)
        assert found.holds
        assert found.text == "stable: drift <= -0.079102 outside a bounded set"

    def test_figure1_with_a_fast_server_3(self):
        found = certificate(fig1(mu3=1.0))
        assert found.by_kind["one route"] == pytest.approx(-(0.75**3), abs=1e-9)
        assert found.by_kind["routes of different classes"] == pytest.approx(-(0.75**4), abs=1e-9)
        assert found.by_kind["others"] == pytest.approx(-(0.75**5), abs=1e-9)
        assert found.holds

    @pytest.mark.parametrize("rate", [1.0, 1.1])
    def test_worst_regime(self, rate):
        """gamma^2 beta^2 (2 lambda - 2.25): all four routes dominate, servers 2, 3 and 4 work."""
        anchor = anchors.NETWORK_WORST_DRIFT["fig1", rate]
        model = fig1(rate=rate)
        expansion, function = expand(model), default_function(model)
        drifts = [worst_regime(model, expansion, function, i).drift for i in range(35)]
        assert max(drifts) == pytest.approx(anchor.value, abs=anchor.within)

    @pytest.mark.parametrize("weight", [0.9, 0.95])
    def test_weights_nearer_to_1_certify_more_traffic(self, weight):
        """gamma^2 beta^2 (2 lambda - 2.25) at lambda = 1.1, where 3/4 fails at the seams between pieces."""
        policy = DOMINANT | {"weights": dict.fromkeys(("alpha", "beta", "gamma"), weight)}
        found = certificate(fig1(rate=1.1, policy=policy))
        assert found.holds
        assert found.worst.drift == pytest.approx(-0.05 * weight**4, abs=1e-9)
        assert not certificate(fig1(rate=1.13, policy=policy)).holds

    def test_never_a_false_one(self):
        """None where the network is unstable: JSR with random sharing on figure 3 at 1.4, static priority at 1.05."""
        assert not certificate(figure("fig3", rate=1.4, policy=JSR)).holds
        found = certificate(fig1(rate=1.05, policy=PRIORITY))
        assert not found.holds
        assert found.text.startswith("no certificate found")

    def test_regimes_are_those_of_the_policy(self):
        """In random states the exact drift of the leading piece never exceeds the worst found for that piece."""
        for policy in (DOMINANT, JSR, {"kind": "jsr", "sharing": "longest"}, PRIORITY):
            model = fig1(policy=policy)
            expansion, function, rules = expand(model), default_function(model), control(model)
            worst = np.array([worst_regime(model, expansion, function, i).drift for i in range(35)])
            rng = np.random.default_rng(7)
            # Many zeros and ties, so that the rare regimes occur.
            states = rng.choice([0.0, 1.0, 2.0, 5.0, 40.0], size=(4000, 6), p=[0.4, 0.2, 0.15, 0.15, 0.1])
            states = states[states.sum(axis=1) > 0]
            leading = function.best(states)
            drift = (function.weights[leading] * rules.drift(states)).sum(axis=1)
            assert (drift <= worst[leading] + 1e-12).all()
            # The bound is attained for most pieces that lead at all: the search is not merely cautious.
            attained = [i for i in set(leading.tolist()) if drift[leading == i].max() > worst[i] - 1e-9]
            if policy is not JSR:
                assert len(attained) > len(set(leading.tolist())) / 2

    def test_users_weights(self):
        """One linear piece with equal weights: its drift is that of the total, 2 - 1 when only server 2 works."""
        model = fig1()
        found = certificate(model, function=user_function(model, weights=np.ones((1, 6))))
        assert found.worst.drift == pytest.approx(2.0)
        assert not found.holds

    def test_one_queue(self):
        """M/M/1: V = beta gamma x, drift beta gamma (lambda - mu)."""
        model = small(JSR).replace(servers={"a": 1.0}, classes=(small(JSR).classes[0].replace(routes=[["a"]]),))
        assert certificate(model).worst.drift == pytest.approx(0.75**2 * (0.35 - 1.0))

    @pytest.mark.parametrize("kind", ["jsq", "jsq-as", "maxweight"])
    def test_other_policies_have_none(self, kind):
        with pytest.raises(InvalidModel, match="no known test function"):
            certificate(fig1(policy={"kind": kind}))


class TestSmoothedDrift:
    def test_figure1_falls_far_out(self):
        found = smoothed_drift(fig1(), levels=(0, 40, 200), tau=4.0, beyond=200)
        assert found.worst < 0
        assert found.positive == 0
        assert found.largest_positive == 0

    def test_near_the_origin_it_rises(self):
        """In the empty network only arrivals happen."""
        found = smoothed_drift(fig1(), levels=(0, 1), tau=1.0, beyond=0)
        assert found.worst > 0
        assert found.states == 64

    def test_far_from_ties_it_is_the_drift_of_the_leading_piece(self):
        """One route of one class dominates: 1000 jobs at server 4 alone, gamma beta (0 - mu4)."""
        found = smoothed_drift(fig1(), levels=(0, 1000), tau=1.0, beyond=1000)
        assert found.states == 63
        assert found.worst == pytest.approx(-81 / 1024, abs=1e-6)

    def test_what_it_cannot_do(self):
        with pytest.raises(InvalidModel, match="no subservers"):
            smoothed_drift(fig1(policy={"kind": "jsq"}), levels=(0, 1))
        with pytest.raises(InvalidModel, match="more than 3000000 states"):
            smoothed_drift(fig1(), levels=range(13))


class TestFluidPaths:
    @pytest.mark.parametrize("key", sorted(anchors.NETWORK_JSQ_SLOPE), ids=str)
    def test_jsq_grows(self, key):
        which, rate = key
        path = fluid_path(figure(which, rate=rate, policy={"kind": "jsq"}), start={}, horizon=100.0, steps=800)
        assert path.growth() == pytest.approx(anchors.NETWORK_JSQ_SLOPE[key].value, abs=1e-6)
        server = "s3" if which == "fig1" else "s5"
        assert path.at_server(server)[-1] > 0.99 * path.totals[-1] - 0.2

    def test_jsr_drains_at_the_rate_of_the_cut(self):
        """While servers 2, 3 and 4 all work the total falls at 2.25 - 2."""
        path = fluid_path(fig1(), start={"s2": 1.0, "s3": 1.0, "s4": 1.0}, horizon=16.0, steps=1600)
        quarter = len(path.times) // 4
        assert path.totals[0] - path.totals[quarter] == pytest.approx(0.25 * 4, abs=0.02)
        assert path.totals[-1] < 0.05

    def test_priority_grows_between_its_threshold_and_theta(self):
        assert (
            fluid_path(fig1(rate=1.05, policy=PRIORITY), start={"s3": 1.0}, horizon=300.0, steps=1500).growth() > 0.02
        )
        path = fluid_path(fig1(rate=0.95, policy=PRIORITY), start={"s3": 1.0}, horizon=300.0, steps=1500)
        assert path.totals[-1] < 0.5

    def test_flow_is_conserved(self):
        """Two servers in series, the second slower: 1 - 1/2 left per unit time."""
        model = small(JSR)
        line = model.classes[0].replace(rate=1.0, routes=[["a", "b"]])
        model = model.replace(servers={"a": 2.0, "b": 0.5}, classes=(line,))
        path = fluid_path(model, start={"a": 3.0}, horizon=4.0, steps=400)
        assert path.totals[-1] == pytest.approx(3.0 + 4.0 * (1.0 - 0.5), abs=0.02)
        assert path.jobs.min() >= 0

    def test_wrong_starts_are_named(self):
        with pytest.raises(InvalidModel, match="names no server"):
            fluid_path(fig1(), start={"s9": 1.0}, horizon=1.0)
        with pytest.raises(InvalidModel, match="horizon"):
            fluid_path(fig1(), start={}, horizon=0.0)
