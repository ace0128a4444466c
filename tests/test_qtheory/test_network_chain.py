"""The truncated chain against closed forms, known numbers, and the definitions of the policies."""

from __future__ import annotations

import math
import random

import anchors
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_cases import POLICIES, figure, name, random_network, small
from reference_network import NetworkRun

import qtheory
from qtheory.models import InvalidModel, NotConverged, plain
from qtheory.systems.network import with_static_split
from qtheory.systems.network.chain import Ranks, stationary
from qtheory.systems.network.control import control
from qtheory.systems.network.places import EXIT


def test_class_1_alone():
    """Figure 1 without class 2: 6.016600 jobs in all, by server too."""
    solution = qtheory.solve(
        figure("fig1", rate=1.0, policy={"kind": "jsr"}, classes=1), method="chain", precision=1e-6
    )
    for scope, anchor in anchors.NETWORK_CLASS1_ALONE.items():
        value = solution["mean_number", scope]
        assert abs(value.value - anchor.value) <= anchor.within + value.error
        assert value.error < 1e-5


@pytest.mark.slow
def test_two_classes_at_light_load():
    """Figure 1 at rates .3, random sharing: 1.910953 jobs in all."""
    (anchor,) = (row[3] for row in anchors.NETWORK_TOTALS if row[:2] == ("fig1", 0.3))
    model = figure("fig1", rate=0.3, policy={"kind": "jsr"})
    solution = qtheory.solve(model, method="chain", precision=2e-6)
    value = solution["mean_number", "all"]
    assert abs(value.value - anchor.value) <= anchor.within + value.error
    assert value.error < 5e-6


@pytest.mark.parametrize("precision", [1e-3, 1e-6, 1e-9])
def test_the_error_is_a_bound(precision):
    """A tandem of two servers, whose truth is known: 4 + 1 jobs."""
    fields = {"servers": {"a": 1.25, "b": 2.0}, "classes": [{"rate": 1.0, "routes": [["a", "b"]]}]}
    model = qtheory.models.parse({"kind": "network", "policy": {"kind": "jsr"}} | fields)
    solution = qtheory.solve(model, method="chain", precision=precision)
    for scope, truth in (("all", 5.0), ("a", 4.0), ("b", 1.0)):
        value = solution["mean_number", scope]
        assert abs(value.value - truth) <= value.error <= precision * 5.001


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**9))
def test_random_networks_match_the_product_form(seed):
    rng = np.random.default_rng(seed)
    model = with_static_split(random_network(rng, policy={"kind": "bernoulli"}, load=float(rng.uniform(0.05, 0.3))))
    exact = qtheory.solve(model, method="product-form")
    try:
        chain = qtheory.solve(model, method="chain", precision=1e-4, most_states=6_000)
    except NotConverged:
        return  # too many places for a quick test
    assert set(chain.measures) == set(exact.measures)
    for key, value in chain.measures.items():
        assert abs(value.value - exact[key].value) <= value.error + 1e-12, key


@pytest.mark.parametrize("policy", POLICIES, ids=name)
def test_flows_balance(policy):
    """In the stationary chain as many jobs leave each place as join it, but for those lost at the cut."""
    model = small(policy)
    rules = control(model)
    law = stationary(rules, top=16)
    change = law.weights @ rules.drift(law.states)
    arrivals = sum(c.rate for c in model.classes)
    lost = arrivals * float(law.levels[-1])
    assert np.abs(change).max() <= lost + 1e-9


@pytest.mark.parametrize("policy", POLICIES, ids=name)
def test_every_decision_is_that_of_the_definitions(policy):
    """Entry, onward and service probabilities in 40 random states against 400 draws of the plain simulation.

    What has probability 0 is never drawn, what has 1 always; shares in between to within 6 standard deviations, a
    false-alarm rate of 2e-9 each; an error of .2 would be seen.
    """
    model = small(policy)
    data = plain(model)
    rules = control(model)
    where = rules.places
    names = list(model.servers)
    run = NetworkRun(data["servers"], data["classes"], data["policy"], random.Random(5))
    rng = np.random.default_rng(4)
    key = [(p.klass, p.server, p.route, p.position) for p in run.places]
    expansion = where.expansion
    first_route = [int(expansion.of_class(c)[0]) for c in range(len(model.classes))]

    def number(place):
        if place is None:
            return EXIT
        if not where.committed:
            (k,) = np.flatnonzero((where.klass == place.klass) & (where.server == names.index(place.server)))
            return int(k)
        route = first_route[place.klass] + place.route
        (k,) = np.flatnonzero((expansion.route == route) & (expansion.position == place.position))
        return int(k)

    assert len({number(p) for p in run.places}) == where.size == len(key)
    for _ in range(40):
        state = rng.integers(0, 4, where.size).astype(float)
        for place in run.places:
            place.jobs = int(state[number(place)])
        for c in range(len(model.classes)):
            chances = dict(zip(where.entry[c].tolist(), rules.entry(state[None], c=c)[0], strict=True))
            compare(chances, [number(run.route(c)) for _ in range(400)])
        shares = rules.service(state[None])[0] / where.rates
        for n, server in enumerate(names):
            chances = {int(k): shares[k] for k in where.at(n)}
            chances[EXIT] = 1 - sum(chances.values())
            compare(chances, [number(run.served(server)) for _ in range(400)])


def compare(chances, drawn):
    counts = {k: drawn.count(k) for k in {*chances, *drawn}}
    for k, count in counts.items():
        p = chances.get(k, 0.0)
        slack = 6 * math.sqrt(max(p * (1 - p), 0.0) / len(drawn)) + 1e-9
        assert abs(count / len(drawn) - p) <= slack, (k, p, count)


class TestRanks:
    def test_states_come_in_the_order_of_their_ranks(self):
        where = control(figure("fig3", rate=0.5, policy={"kind": "jsq-as"})).places
        ranks = Ranks(where, top=5)
        states = ranks.states()
        assert len(states) == math.comb(5 + where.size, where.size)
        assert (ranks(states) == np.arange(len(states))).all()
        assert (np.diff(states.sum(axis=1)) >= 0).all()

    def test_moving_on_lowers_the_rank(self):
        where = control(figure("fig3", rate=0.5, policy={"kind": "jsq-as"})).places
        ranks = Ranks(where, top=5)
        states = ranks.states()
        for k, options in enumerate(where.onward):
            moving = states[states[:, k] > 0]
            for target in options:
                moved = moving.copy()
                moved[:, k] -= 1
                if target != EXIT:
                    moved[:, target] += 1
                assert (ranks(moved) < ranks(moving)).all()


def test_blocking_is_no_function_of_the_jobs():
    model = figure("fig3", rate=0.5, policy={"kind": "jsq-as", "holding": "blocking"})
    with pytest.raises(InvalidModel, match=r"policy\.holding"):
        qtheory.solve(model, method="chain")


def test_unstable_policies_never_get_a_number():
    """One class, theta* = 1.25, under a split that overloads: no truncation level suffices."""
    servers = {"a": 1.0, "b": 0.25}
    classes = [{"rate": 1.0, "routes": [["a"], ["b"]]}]
    policy = {"kind": "bernoulli", "split": [[0.5, 0.5]]}
    model = qtheory.models.parse({"kind": "network", "servers": servers, "classes": classes, "policy": policy})
    with pytest.raises(NotConverged, match="may not keep the network stable"):
        qtheory.solve(model, method="chain", most_states=5000)


@pytest.mark.parametrize("rate", [1e-4, 1e-8, 1e-12])
def test_light_traffic(rate):
    """Figure 1: jobs hardly meet; a class takes either way alike, of mean 1 + 4 or 1, apart from O(rate) terms."""
    solution = qtheory.solve(figure("fig1", rate=rate, policy={"kind": "jsr"}))
    assert solution.method == "chain"
    response = solution["mean_response", "all"]
    assert abs(response.value - 3.0) <= 10 * rate + response.error
    assert response.error <= 1e-4
