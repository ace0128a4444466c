"""The network witness checked: decisions on states set by hand, product form, known numbers."""

from __future__ import annotations

import random

import anchors
import pytest
from calibrated import assert_agrees
from reference_network import (
    NetworkRun,
    committed_places,
    deciding_places,
    dominant_places,
    simulate_network,
    totals_at,
)
from reference_sim import over_replications

FIG1, FIG3 = anchors.NETWORK_FIG1, anchors.NETWORK_FIG3
NETWORKS = {"fig1": FIG1, "fig3": FIG3}


def network(figure, rate):
    return NETWORKS[figure] | {"classes": [klass | {"rate": rate} for klass in NETWORKS[figure]["classes"]]}


def standing(figure, policy, jobs):
    """A run whose places hold these jobs: committed ones by (class, route, position), others by (class, server)."""
    run = NetworkRun(figure["servers"], figure["classes"], policy, random.Random(1))
    for place in run.places:
        committed = (place.klass, place.route, place.position)
        place.jobs = jobs.get((place.klass, place.server) if place.route is None else committed, 0)
    return run


def where(place):
    return (place.klass, place.route, place.position)


class TestPlaces:
    def test_route_expansion(self):
        expansion = committed_places(FIG1["classes"])
        assert [[[place.server for place in line] for line in routes] for routes in expansion] == [
            [["s1", "s3"], ["s4"]],
            [["s2"], ["s3", "s5"]],
        ]

    def test_jobs_with_the_same_future_are_one(self):
        first, places = deciding_places(FIG3["classes"])
        assert sorted(place.server for place in places) == ["s1", "s2", "s3", "s4", "s5"]
        assert [place.server for place in first[0]] == ["s1", "s4"]
        assert [place.server for place in first[0][0].onward] == ["s2", "s3"]

    def test_jobs_with_different_futures_are_not(self):
        crossing = [{"name": "c", "rate": 1.0, "routes": [["a", "b", "d"], ["e", "b", "f"]]}]
        _, places = deciding_places(crossing)
        assert sorted(place.server for place in places) == ["a", "b", "b", "d", "e", "f"]


class TestDecisions:
    """What each rule does in a state set by hand."""

    def test_jsr_looks_down_its_own_route(self):
        run = standing(FIG1, {"kind": "jsr"}, {(0, 0, 0): 1, (0, 0, 1): 2, (0, 1, 0): 4, (1, 1, 0): 9})
        assert run.route(0).server == "s1"  # 1 + 2 of its own against 4; class 2's jobs at s3 do not count
        assert run.route(1).server == "s2"

    def test_jsq_looks_at_the_next_server_only(self):
        run = standing(FIG3, {"kind": "jsq"}, {(0, "s1"): 1, (0, "s4"): 2, (0, "s3"): 5, (0, "s5"): 9})
        assert run.route(0).server == "s1"
        s1 = run.here["s1"][0]
        run.move_on(s1)
        assert [run.jobs_at(server) for server in ("s1", "s2", "s3")] == [0, 1, 5]

    def test_jsq_counts_all_jobs_of_a_server(self):
        run = standing(FIG1, {"kind": "jsq"}, {(0, "s3"): 3, (1, "s2"): 2})
        assert run.route(1).server == "s2"

    def test_jsq_as_takes_the_first_place_and_holds(self):
        jobs = {(0, 0, 0): 3, (0, 1, 0): 2, (0, 1, 1): 1, (0, 1, 2): 4, (0, 2, 0): 3, (0, 2, 1): 0}
        run = standing(FIG3, {"kind": "jsq-as", "switch": True}, jobs)
        assert where(run.route(0)) == (0, 1, 0)
        held = {where(place) for place in run.places if not run.may_move(place)}
        assert held == {(0, 1, 1)}  # 4 after it, 1 in it
        run.move_on(next(place for place in run.places if where(place) == (0, 2, 0)))
        assert [place.jobs for place in run.here["s5"]] == [4, 1]
        # The successor of (0, 1, 1) is (0, 1, 2), but with a switch the emptier duplicate takes the job.
        run.move_on(next(place for place in run.places if where(place) == (0, 1, 1)))
        assert [place.jobs for place in run.here["s5"]] == [4, 2]

    def test_idle_holding_serves_what_may_move(self):
        jobs = {(0, 0, 0): 2, (0, 0, 1): 2, (0, 1, 0): 1}
        run = standing(FIG3, {"kind": "jsq-as"}, jobs)
        assert {where(run.served("s1")) for _ in range(50)} == {(0, 1, 0)}

    def test_blocking_holding_occupies_the_server(self):
        jobs = {(0, 0, 0): 2, (0, 0, 1): 2}
        run = standing(FIG3, {"kind": "jsq-as", "holding": "blocking"}, jobs)
        end_of_s1, end_of_s2 = 1 + run.names.index("s1"), 1 + run.names.index("s2")
        run.jump(end_of_s1)
        assert run.blocked.keys() == {"s1"}
        assert run.jobs_at("s1") == 2
        run.jump(end_of_s1)
        assert run.jobs_at("s1") == 2
        run.jump(end_of_s2)  # one job leaves s2, which lets the finished one follow
        assert (run.jobs_at("s1"), run.jobs_at("s2")) == (1, 2)
        assert not run.blocked

    def test_maxweight(self):
        jobs = {(0, "s3"): 3, (1, "s3"): 5, (1, "s5"): 3}
        run = standing(FIG1, {"kind": "maxweight"}, jobs)
        assert run.served("s3").klass == 0  # 3 - 0 against 5 - 3
        run = standing(FIG1, {"kind": "maxweight"}, {(1, "s3"): 3, (1, "s5"): 3})
        assert run.served("s3") is None

    @pytest.mark.parametrize(
        ("sharing", "klass"),
        [
            ({"sharing": "longest"}, 1),
            ({"sharing": "priority", "order": ["class1", "class2"]}, 0),
            ({"sharing": "priority", "order": ["class2", "class1"]}, 1),
            ({"sharing": "shortest-downstream"}, 0),
            ({"sharing": "largest-differential"}, 0),
        ],
    )
    def test_sharing(self, sharing, klass):
        run = standing(FIG1, {"kind": "jsr"} | sharing, {(0, 0, 1): 3, (1, 1, 0): 5, (1, 1, 1): 3})
        assert {run.served("s3").klass for _ in range(20)} == {klass}

    def test_random_sharing_is_in_proportion(self):
        """A share of 3/4 in 4000 draws: false alarm 1e-8 at 5.7 standard deviations, .039; .05 would be seen."""
        run = standing(FIG1, {"kind": "jsr"}, {(0, 0, 1): 1, (1, 1, 0): 3})
        share = sum(run.served("s3").klass for _ in range(4000)) / 4000
        assert abs(share - 0.75) < 0.04

    def test_dominant_places(self):
        weights = {"alpha": 0.75, "beta": 0.75, "gamma": 0.75}
        run = standing(FIG1, {"kind": "jsr"}, {(0, 0, 0): 4, (0, 0, 1): 3})
        # One route of one class: 4 alone against .75 (4 + 3) = 5.25.
        assert {where(p) for p in dominant_places(run.expansion, weights)} == {(0, 0, 0), (0, 0, 1)}
        run = standing(FIG1, {"kind": "jsr"}, {(0, 0, 0): 4, (0, 0, 1): 1, (0, 1, 0): 1})
        # .75 * 5 < 4; with the second route .75^2 (4 + 1) < .75 * 4.
        assert {where(p) for p in dominant_places(run.expansion, weights)} == {(0, 0, 0)}
        run = standing(FIG1, {"kind": "jsr"}, {(0, 1, 0): 8, (1, 0, 0): 8})
        assert {where(p) for p in dominant_places(run.expansion, weights)} == {(0, 1, 0), (1, 0, 0)}

    def test_lowest_ties(self):
        run = standing(FIG1, {"kind": "jsr", "ties": "lowest"}, {})
        assert {run.route(0).server for _ in range(20)} == {"s1"}
        run = standing(FIG1, {"kind": "jsr"}, {})
        assert {run.route(0).server for _ in range(40)} == {"s1", "s4"}

    def test_unknown_rules_are_refused(self):
        with pytest.raises(ValueError):
            standing(FIG1, {"kind": "fifo"}, {})
        run = standing(FIG1, {"kind": "jsr", "sharing": "fair"}, {(0, 0, 1): 1, (1, 1, 0): 1})
        with pytest.raises(ValueError):
            run.served("s3")
        run = standing(FIG1, {"kind": "jsq", "sharing": "dominant"}, {(0, "s3"): 1, (1, "s3"): 1})
        with pytest.raises(ValueError):
            run.served("s3")

    @pytest.mark.parametrize("split", [[[0, 1], [1, 0]], {"class1": [0, 1], "class2": [1, 0]}], ids=str)
    def test_bernoulli_split_by_order_or_name(self, split):
        run = standing(FIG1, {"kind": "bernoulli", "split": split}, {})
        assert {(run.route(0).server, run.route(1).server) for _ in range(20)} == {("s4", "s2")}


class TestSteadyState:
    """Small runs, false-alarm rate 1e-8 a comparison; `power`: relative error seen with probability .9."""

    def test_one_server(self):
        net = {"servers": {"a": 2.0}, "classes": [{"name": "c", "rate": 1.0, "routes": [["a"]]}]}
        found = simulate_network(**net, policy={"kind": "jsq"}, time=2000, warmup=50, replications=32, seed=1)
        for scope in ("all", "a", "c"):
            assert_agrees(found["mean_number", scope], 1.0, power=0.15)

    def test_bernoulli_split_is_product_form(self):
        """Figure 1 at rates .5: E[N] = rho / (1 - rho) at each server."""
        policy = {"kind": "bernoulli", "split": anchors.NETWORK_FIG1_SPLIT}
        found = simulate_network(**network("fig1", 0.5), policy=policy, time=1000, warmup=50, replications=32, seed=2)
        loads = {"s1": 0.5 / 9, "s2": 4 / 9, "s3": 4 * 2 * 0.5 / 9, "s4": 4 / 9, "s5": 0.5 / 9}
        for server, load in loads.items():
            assert_agrees(found["mean_number", server], load / (1 - load), power=0.6)

    def test_jsr_of_one_class(self):
        """Figure 1 with class 1 alone, rate 1: 6.016600 jobs in all, by server too."""
        alone = {"servers": FIG1["servers"], "classes": FIG1["classes"][:1]}
        found = simulate_network(**alone, policy={"kind": "jsr"}, time=700, warmup=150, replications=32, seed=3)
        for scope, anchor in anchors.NETWORK_CLASS1_ALONE.items():
            assert_agrees(found["mean_number", scope], anchor.value, power=0.55)
        assert found["mean_number", "s2"].value == 0

    def test_jsr_of_two_classes(self):
        """Figure 1 at rates .3, random sharing: 1.910953 jobs in all."""
        (anchor,) = (row[3] for row in anchors.NETWORK_TOTALS if row[:2] == ("fig1", 0.3))
        found = simulate_network(
            **network("fig1", 0.3), policy={"kind": "jsr"}, time=500, warmup=50, replications=32, seed=4
        )
        assert_agrees(found["mean_number", "all"], anchor.value, power=0.3)

    @pytest.mark.parametrize(
        ("figure", "rate", "server", "slope"), [("fig1", 1.0, "s3", 0.25), ("fig3", 1.3, "s5", 0.75 * 1.3 - 0.75)]
    )
    def test_jsq_lets_the_last_server_grow(self, figure, rate, server, slope):
        """Half of class 1 goes to s3 of rate 1/4; three quarters of the arrivals go to s5 of rate 3/4.

        The total of figure 1 grows faster for long: class 2 keeps s2 critical.
        """
        runs = []
        for replication in range(32):
            early, late = totals_at(
                [150, 500], **network(figure, rate), policy={"kind": "jsq"}, seed=5, replication=replication
            )
            runs.append({("slope", server): (late[server] - early[server]) / 350})
        (found,) = over_replications(runs).values()
        assert_agrees(found, slope, power=0.5)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("figure", "rate", "policy", "anchor"),
        [row for row in anchors.NETWORK_TOTALS if row[0] == "fig3" and row[1] == 1.0],
        ids=str,
    )
    def test_known_totals(self, figure, rate, policy, anchor):
        """A tie broken otherwise moves these totals by 7 % (maxweight), serving held places by 40 % (jsq-as)."""
        found = simulate_network(**network(figure, rate), policy=policy, time=8000, warmup=500, replications=48, seed=6)
        assert_agrees(found["mean_number", "all"], anchor.value, power=0.09, known_within=anchor.within)
