"""Networks in the library and at the command: cases, figures, studies, sweeps and verdicts."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import networkx
import pytest
from network_cases import FIGURES, PRIORITY, figure

import qtheory
from qtheory.models import InvalidModel, Network, NotConverged, load, parse, save
from validation import cli, library
from validation.figures import svg
from validation.network_figures import expanded_graph, throughput, to_networkx
from validation.network_study import throughput_study

JSR = {"kind": "jsr"}
CASES = [name for name in library.cases() if name.startswith("network-")]


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_a_network_and_stabilizable(case):
    model = load(library.case_path(case))
    assert isinstance(model, Network)
    assert library.about(case)
    solution = qtheory.solve(model)
    assert solution.details["theta_star"] > 1


def test_the_cases_are_the_two_figures():
    servers = {json.dumps(dict(load(library.case_path(case)).servers), sort_keys=True) for case in CASES}
    assert servers == {json.dumps(drawn["servers"], sort_keys=True) for drawn in FIGURES.values()}
    kinds = {load(library.case_path(case)).policy.kind() for case in CASES}
    assert kinds == {"jsq", "jsr", "jsq-as", "maxweight", "bernoulli"}


class TestGraph:
    def test_figure_2(self):
        graph = to_networkx(figure("fig1", rate=1.0, policy=JSR))
        actual = {(a, b) for a, b, kind in graph.edges(data="kind") if kind == "actual"}
        imaginary = {(a, b) for a, b, kind in graph.edges(data="kind") if kind == "imaginary"}
        one, two = ("origin", "class1"), ("destination", "class1")
        assert {(a, b) for a, b in actual if {one, two} & {a, b}} == {
            (one, "s1"),
            ("s3a", two),
            (one, "s4"),
            ("s4", two),
        }
        assert ("s1", "s3a") in actual
        assert imaginary == {("s3a", "s3b"), ("s3b", "s3a")}
        assert graph.nodes["s3b"]["rate"] == 0.25

    def test_routes_are_the_simple_paths(self):
        graph = to_networkx(figure("fig3", rate=1.0, policy=JSR))
        solid = networkx.DiGraph((a, b) for a, b, kind in graph.edges(data="kind") if kind == "actual")
        paths = networkx.all_simple_paths(solid, ("origin", "class1"), ("destination", "class1"))
        servers = sorted([graph.nodes[name]["server"] for name in path[1:-1]] for path in paths)
        assert servers == sorted(FIGURES["fig3"]["classes"][0]["routes"])

    @pytest.mark.parametrize("which", ["fig1", "fig3"])
    def test_drawn(self, which):
        text = svg(expanded_graph(figure(which, rate=1.0, policy=JSR)))
        ElementTree.fromstring(text)
        for name in ("S1", "T1", "s4", "s3a" if which == "fig1" else "s5b"):
            assert f">{name}<" in text


class TestStudy:
    def test_static_priority_gives_up_early(self):
        study = throughput_study(figure("fig1", rate=1.0, policy=PRIORITY), factors=[1.2, 0.6, 1.1], jobs=320_000)
        assert [row.factor for row in study.rows] == [0.6, 1.1, 1.2]
        assert study.theta_star == pytest.approx(1.125)
        assert study.rows[-1].theta_star == pytest.approx(1.125 / 1.2)
        assert study.bracket == (0.6, 1.1)
        assert study.rows[0].number > 0
        assert study.rows[1].number is None
        ElementTree.fromstring(svg(throughput({"priority": study})))
        json.dumps(study.to_dict(), allow_nan=False)

    def test_theory_stands_beside_simulation(self):
        study = throughput_study(figure("fig1", rate=1.0, policy={"kind": "bernoulli"}), factors=[0.5], jobs=160_000)
        (row,) = study.rows
        assert row.analytic == pytest.approx(3 * (4 / 9) / (5 / 9) + 2 * (0.5 / 9) / (1 - 0.5 / 9))
        assert abs(row.number - row.analytic) < 5 * row.half_width

    def test_there_must_be_a_load(self):
        with pytest.raises(InvalidModel, match="at least one load"):
            throughput_study(figure("fig1", rate=1.0, policy=JSR), factors=[])


def command(capsys, *words):
    status = cli.run([*map(str, words), "--json"])
    out = capsys.readouterr().out
    return status, json.loads(out) if out else None


class TestCommand:
    def test_no_steady_state(self, tmp_path, capsys):
        path = library.case_path("network-fig1-jsr")
        heavy = tmp_path / "heavy.toml"
        heavy.write_text(path.read_text("utf-8").replace("rate = 1.0", "rate = 1.2"), "utf-8")
        status, answer = command(capsys, "solve", heavy)
        assert (status, answer["status"], answer["where"]) == (3, "unstable", "all")
        assert answer["load"] == pytest.approx(1.2 / 1.125)
        status, answer = command(capsys, "simulate", heavy, "--allow-unstable", "--jobs", "320000")
        assert (status, answer["stability"], answer["measures"]) == (0, "unstable", [])

    def test_an_unstable_policy_is_no_error(self, capsys):
        status, answer = command(capsys, "simulate", library.case_path("network-fig1-jsq"), "--jobs", "320000")
        assert status == 0
        assert answer["stability"] == "unstable"
        assert answer["measures"] == []
        assert answer["slope"] == pytest.approx(0.25, abs=0.05)
        assert answer["exponent"] > 0.75

    def test_sweep_over_the_load(self, capsys):
        case = library.case_path("network-fig1-bernoulli")
        status, answer = command(capsys, "sweep", case, "--vary", "load=1:3:3")
        assert status == 0
        assert [row["theta_star"] for row in answer["rows"]] == pytest.approx([1.125 / 0.4 / f for f in (1, 2, 3)])
        assert answer["rows"][-1]["status"] == "unstable"

    def test_an_open_split_is_filled_in(self, capsys):
        case = library.case_path("network-fig1-bernoulli")
        status, answer = command(capsys, "simulate", case, "--jobs", "32000")
        assert status == 0
        assert answer["model"]["policy"]["split"][0] == pytest.approx([1 / 9, 8 / 9])


def test_a_chain_too_large_says_what_to_do():
    with pytest.raises(NotConverged, match="raise most_states, or simulate"):
        qtheory.solve(figure("fig1", rate=1.0, policy=JSR), method="chain", most_states=10_000)


class TestReport:
    def test_a_comparison_shows_the_route_expansion(self, tmp_path, capsys):
        case = tmp_path / "tandem.toml"
        fields = {"servers": {"a": 1.0, "b": 1.0}, "classes": [{"rate": 0.3, "routes": [["a", "b"]]}], "policy": JSR}
        save(parse({"kind": "network"} | fields), case)
        status, answer = command(capsys, "validate", case, "--jobs", "32000", "--out", tmp_path)
        assert status == 0
        assert "Route expansion" in Path(answer["report"]).read_text("utf-8")

    def test_a_sweep_over_the_load_shows_where_stability_ends(self, tmp_path, capsys):
        case = library.case_path("network-fig1-jsq")
        vary = ("--vary", "load=0.3,1", "--simulate", "--jobs", "320000")
        status, answer = command(capsys, "sweep", case, *vary, "--out", tmp_path)
        assert status == 0
        assert [row["stability"] for row in answer["rows"]] == ["stable", "unstable"]
        text = (tmp_path / "report.md").read_text("utf-8")
        assert "theta* 1.125; last load found stable 0.3, first not 1." in text
        assert "Where the policy stops being stable" in Path(answer["report"]).read_text("utf-8")
