"""Which method the dispatcher takes by itself, and the curve over all splits by `phase-type`."""

from __future__ import annotations

import math

import anchors
import pytest

import qtheory
from qtheory.models import InvalidModel, NotConverged, Unstable, parse
from qtheory.systems.dispatcher import auto, mgc, phase_type
from qtheory.systems.dispatcher.loads import traffic

E = parse(anchors.EXAMPLE_E_MODEL)


def test_nothing_said_is_the_quick_method():
    found = qtheory.solve(E)
    assert found.method == "mgc"
    assert "choice" not in found.details
    assert found.measures == qtheory.solve(E, method="mgc").measures


def test_a_budget_that_fits_takes_the_better_method_and_says_so():
    expected = auto.expected_seconds(traffic(E), servers=E.servers)
    assert 0.1 < expected < 1.0
    better, quick = qtheory.solve(E, budget=1.01 * expected), qtheory.solve(E, budget=0.99 * expected)
    assert (better.method, quick.method) == ("phase-type", "mgc")
    assert better.details["choice"].startswith("phase-type: fits")
    assert "would take about" in quick.details["choice"]
    assert better.measures == qtheory.solve(E, method="phase-type").measures


def test_where_the_quick_method_is_exact_no_budget_changes_it():
    found = qtheory.solve(E.replace(time_limit=math.inf), budget=math.inf)
    assert found.method == "mgc"
    assert found.details["choice"] == "mgc: exact here"
    assert found["mean_response", "all"].error <= 1e-6 * found["mean_response", "all"].value


def test_what_does_not_converge_is_told(monkeypatch):
    def fails(model, **_):
        raise NotConverged(where="group1", residual=1.0, iterations=3, advice="none")

    monkeypatch.setattr(phase_type, "solve", fails)
    found = qtheory.solve(E, budget=10.0)
    assert found.method == "mgc"
    assert "did not converge" in found.details["choice"]


@pytest.mark.parametrize("budget", [-1.0, math.nan])
def test_wrong_budgets(budget):
    with pytest.raises(InvalidModel, match="budget"):
        qtheory.solve(E, budget=budget)


@pytest.mark.parametrize("method", ["mmc", "mgc", "phase-type"])
def test_without_quantiles_the_rest_is_the_same(method):
    whole, part = qtheory.solve(E, method=method), qtheory.solve(E, method=method, quantiles=False)
    for key, value in whole.measures.items():
        assert (key in part.measures) != (key[0].startswith("p")), key
        if key in part.measures:
            assert part[key] == value


def test_curve_is_the_single_answers():
    total = sum(E.servers)
    curve = phase_type.curve(E, total=total)
    assert curve.servers.tolist() == mgc.curve(E, total=total).servers.tolist() == [[3, 4], [4, 3]]
    for place, servers in enumerate(curve.servers.tolist()):
        single = qtheory.solve(E.replace(servers=tuple(servers)), method="phase-type")
        for scope in ("all", "short", "long", "killed"):
            assert curve.mean_response[scope][place] == single["mean_response", scope].value
            assert curve.error[scope][place] == single["mean_response", scope].error
    # The other split is too heavily loaded for the printed simulation to be a match.
    truth = anchors.EXAMPLE_E_RESPONSE[3, 4]
    assert abs(curve.mean_response["all"][0] - truth.value) <= curve.error["all"][0] + truth.within


def test_curve_without_a_stable_split_names_the_least_loaded():
    with pytest.raises(Unstable) as raised:
        phase_type.curve(E, total=4)
    with pytest.raises(Unstable) as quick:
        mgc.curve(E, total=4)
    assert (raised.value.where, raised.value.load) == (quick.value.where, quick.value.load)
    with pytest.raises(InvalidModel, match="total"):
        phase_type.curve(E, total=1)
