"""Networks as data: routes from edges, names, and what wrong input is told."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_cases import FIGURES

from qtheory.models import JSR, InvalidModel, Network, NetworkClass, load, parse, plain, save
from qtheory.models.network import routes_of

SERVERS = {"s1": 1.0, "s2": 1.0, "s3": 0.25, "s4": 1.0, "s5": 1.0}
CLASSES = FIGURES["fig1"]["classes"]
EDGES = [["A", "s1"], ["s1", "s3"], ["s3", "B"], ["A", "s4"], ["s4", "B"]]
ENDS = {"rate": 1.0, "origin": "A", "destination": "B"}


def data(**changes):
    return {"kind": "network", "servers": SERVERS, "policy": {"kind": "jsr"}, "classes": CLASSES} | changes


def told(**changes):
    """What the complaint names: field and rule."""
    with pytest.raises(InvalidModel) as complaint:
        parse(data(**changes))
    return complaint.value


class TestNames:
    def test_classes_without_a_name_are_numbered(self):
        model = parse(data(classes=[{"rate": 1, "routes": [["s1"]]}, {"rate": 1, "routes": [["s2"]], "name": "b"}]))
        assert [c.name for c in model.classes] == ["class1", "b"]

    @pytest.mark.parametrize(
        ("given", "rule"), [("all", "all"), ("s1", "name of a server"), ("class1", "name of another class")]
    )
    def test_names_are_distinct(self, given, rule):
        classes = [{"rate": 1, "routes": [["s1"]]}, {"rate": 1, "routes": [["s2"]], "name": given}]
        complaint = told(classes=classes)
        assert complaint.field == "classes.1.name"
        assert rule in complaint.rule

    def test_no_server_is_all(self):
        assert told(servers={"all": 1.0}).field == "servers.all"


class TestServers:
    @pytest.mark.parametrize("rate", [0, -1.0, "fast", True, None])
    def test_a_wrong_rate_is_named(self, rate):
        assert told(servers=SERVERS | {"s3": rate}).field == "servers.s3"

    @pytest.mark.parametrize("rate", [float("inf"), float("nan")])
    def test_rates_are_finite(self, rate):
        assert told(servers=SERVERS | {"s3": rate}).field == "servers.s3"

    def test_there_is_one(self):
        assert told(servers={}).field == "servers"


class TestRoutes:
    @pytest.mark.parametrize(
        ("routes", "field", "rule"),
        [
            ([["s1", "s9"]], "classes.0.routes.0.1", "no server"),
            ([["s1"], []], "classes.0.routes.1", "empty route"),
            ([], "classes.0.routes", "at least one route"),
            ([["s1", "s3", "s1"]], "classes.0.routes.0", "cycle s1 -> s3 -> s1"),
            ([["s1"], ["s1"]], "classes.0.routes.1", "twice"),
        ],
    )
    def test_wrong_routes_are_named(self, routes, field, rule):
        complaint = told(classes=[{"rate": 1.0, "routes": routes}])
        assert complaint.field == field
        assert rule in complaint.rule

    def test_classes_may_not_form_a_cycle_together(self):
        classes = [{"rate": 1.0, "routes": [["s1", "s2"]]}, {"rate": 1.0, "routes": [["s2", "s1"]]}]
        complaint = told(classes=classes)
        assert "s1 -> s2 -> s1" in complaint.rule or "s2 -> s1 -> s2" in complaint.rule

    @pytest.mark.parametrize("rate", [0, -1, "x"])
    def test_rates_of_classes(self, rate):
        assert told(classes=[{"rate": rate, "routes": [["s1"]]}]).field == "classes.0.rate"

    def test_origins_go_with_edges(self):
        assert told(classes=[ENDS | {"routes": [["s1"]]}]).field == "classes.0.origin"


class TestEdges:
    def test_routes_are_the_paths(self):
        model = parse(data(edges=EDGES, classes=[ENDS]))
        assert routes_of(model) == ((("s1", "s3"), ("s4",)),)
        assert model.classes[0].routes == ()  # what was given is kept

    def test_blind_alleys_do_not_count(self):
        model = parse(data(edges=[*EDGES, ["s1", "s5"]], classes=[ENDS]))
        assert routes_of(model) == ((("s1", "s3"), ("s4",)),)

    def test_figure3_by_edges(self):
        edges = [["O", "1"], ["O", "4"], ["1", "2"], ["1", "3"], ["3", "5"], ["4", "5"], ["2", "D"], ["5", "D"]]
        model = parse(
            data(
                servers=dict.fromkeys("12345", 0.75),
                edges=edges,
                classes=[{"rate": 1, "origin": "O", "destination": "D"}],
            )
        )
        assert routes_of(model) == ((("1", "2"), ("1", "3", "5"), ("4", "5")),)

    @pytest.mark.parametrize(
        ("edges", "field", "rule"),
        [
            ([*EDGES, ["s3", "s1"]], "edges", "cycle"),
            ([*EDGES, ["s3", "s9"]], "edges.5.1", "server or the destination"),
            ([*EDGES, ["s9", "s3"]], "edges.5.0", "server or the origin"),
            ([*EDGES, ["A", "B"]], "edges.5", "without a server"),
            ([*EDGES, EDGES[0]], "edges.5", "twice"),
            ([["A", "s1"]], "classes.0.destination", "cannot be reached from A"),
        ],
    )
    def test_wrong_edges_are_named(self, edges, field, rule):
        # The destination must be known for the rest to be read.
        complaint = told(edges=edges, classes=[ENDS])
        assert complaint.field == field
        assert rule in complaint.rule

    def test_routes_go_without_edges(self):
        assert told(edges=EDGES).field == "classes.0.routes"

    @pytest.mark.parametrize("missing", ["origin", "destination"])
    def test_ends_are_required(self, missing):
        jobs = {key: value for key, value in ENDS.items() if key != missing}
        assert told(edges=EDGES, classes=[jobs]).field == f"classes.0.{missing}"

    def test_too_many_paths_are_refused(self):
        """Fourteen stages of two servers: 2^14 paths."""
        stages = [[f"{n}{side}" for side in "ab"] for n in range(14)]
        edges = [["A", first] for first in stages[0]] + [[last, "B"] for last in stages[-1]]
        edges += [[x, y] for one, two in itertools.pairwise(stages) for x in one for y in two]
        servers = {name: 1.0 for stage in stages for name in stage}
        assert "more than 10000 routes" in told(servers=servers, edges=edges, classes=[ENDS]).rule


class TestPolicies:
    @pytest.mark.parametrize(
        ("policy", "field"),
        [
            ({"kind": "bernoulli", "split": [[1, 0]]}, "policy.split"),
            ({"kind": "bernoulli", "split": [[0.5, 0.6], [1, 0]]}, "policy.split.0"),
            ({"kind": "bernoulli", "split": [[1], [1, 0]]}, "policy.split.0"),
            ({"kind": "bernoulli", "split": [[1.1, -0.1], [1, 0]]}, "policy.split.0.0"),
            ({"kind": "bernoulli", "split": {"class1": [1, 0]}}, "policy.split"),
            ({"kind": "bernoulli", "split": {"class1": [1, 0], "other": [1, 0]}}, "policy.split.other"),
            ({"kind": "jsr", "sharing": "priority"}, "policy.order"),
            ({"kind": "jsr", "sharing": "priority", "order": ["class1"]}, "policy.order"),
            ({"kind": "jsr", "order": ["class1", "class2"]}, "policy.order"),
            ({"kind": "jsr", "sharing": "dominant", "weights": {"alpha": 0.5}}, "policy.weights"),
            (
                {"kind": "jsr", "sharing": "dominant", "weights": {"alpha": 1.0, "beta": 0.5, "gamma": 0.5}},
                "policy.weights.alpha",
            ),
            ({"kind": "jsq", "sharing": "dominant"}, "policy.sharing"),
            ({"kind": "maxweight", "sharing": "random"}, "policy.sharing"),
            ({"kind": "jsq-as", "holding": "forever"}, "policy.holding"),
            ({"kind": "fifo"}, "policy.kind"),
        ],
    )
    def test_wrong_policies_are_named(self, policy, field):
        assert told(policy=policy).field == field

    def test_a_class_of_one_route_needs_no_split(self):
        classes = [CLASSES[0], {"name": "class2", "rate": 1.0, "routes": [["s2"]]}]
        model = parse(data(policy={"kind": "bernoulli", "split": {"class1": [0.5, 0.5]}}, classes=classes))
        assert model.policy.split == {"class1": (0.5, 0.5)}


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"edges": EDGES, "classes": [ENDS]},
        {"policy": {"kind": "bernoulli", "split": {"class1": [0.25, 0.75], "class2": [1.0, 0.0]}}},
        {"policy": {"kind": "jsr", "sharing": "priority", "order": ["class2", "class1"]}},
        {"policy": {"kind": "jsr", "sharing": "dominant", "weights": {"alpha": 0.5, "beta": 0.5, "gamma": 0.5}}},
        {"policy": {"kind": "jsq-as", "switch": False, "holding": "blocking", "ties": "lowest"}},
    ],
)
def test_files_hold_what_was_given(changes, suffix, tmp_path):
    model = parse(data(**changes))
    path = tmp_path / f"network.{suffix}"
    save(model, path)
    again = load(path)
    assert again == model
    assert hash(again) == hash(model)
    assert plain(again) == plain(model)
    for key, value in changes.items():
        if key == "policy":
            assert {name: plain(again)["policy"][name] for name in value} == value


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.data())
def test_paths_are_all_and_only_the_paths(count, draw):
    """Against the powers of the adjacency matrix: the number of paths, and each of them a path."""
    names = [f"s{n}" for n in range(count)]
    arcs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if draw.draw(st.booleans())]
    first = [name for name in names if draw.draw(st.booleans())] or names[:1]
    last = [name for name in names if draw.draw(st.booleans())] or names[-1:]
    edges = [*(("A", name) for name in first), *arcs, *((name, "B") for name in last)]

    def count_paths(name):
        return (name in last) + sum(count_paths(b) for a, b in arcs if a == name)

    expected = sum(count_paths(name) for name in first)
    jobs = NetworkClass(rate=1.0, origin="A", destination="B")
    fields = {"servers": dict.fromkeys(names, 1.0), "classes": [jobs], "edges": edges, "policy": JSR()}
    if expected == 0:
        with pytest.raises(InvalidModel, match="cannot be reached"):
            Network(**fields)
        return
    (routes,) = routes_of(Network(**fields))
    assert len(routes) == len(set(routes)) == expected
    for route in routes:
        assert route[0] in first
        assert route[-1] in last
        assert all(arc in arcs for arc in itertools.pairwise(route))
