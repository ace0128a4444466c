"""The search finds known optima, lists what it cannot separate and refuses what has no answer."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from shared_data import SHARED, needs_shared

import qsim
import validation
from qsim.estimate import Sample
from qtheory.models import Dispatcher, Exponential, InvalidModel, Unstable, parse
from validation import _search, selection
from validation.traces import Trace

E = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=2.0),
)


def test_seven_servers() -> None:
    """Only n0 = 3 and 4 are stable (loads by hand); their mean responses are 2.294 and 4.876."""
    found = validation.search(E, total=7)
    assert found.best == {"servers": (3, 4)}
    assert found.ties == ()
    assert [row.stable for row in found.table] == [False, False, True, True, False, False]
    three, four = found.table[2], found.table[3]
    assert three.simulated == pytest.approx(2.294, abs=3 * (three.half_width or 0) + 0.001)
    assert four.simulated == pytest.approx(4.876, abs=3 * (four.half_width or 0) + 0.001)
    assert found.guarantee["reached"]
    assert found.to_dict()["best"] == {"servers": [3, 4]}


def test_controls_tell_designs_apart_sooner() -> None:
    """The difference of example E's two designs is hundreds of times less variable; ten times is sure."""
    found = validation.search(E, total=7, jobs=5_000)
    plain = validation.search(E, total=7, jobs=5_000, controls=False)
    assert found.best == plain.best == {"servers": (3, 4)}
    assert found.guarantee["variance_factor"] > 10
    assert plain.guarantee["variance_factor"] == 1
    for row, other in zip(found.table[2:4], plain.table[2:4], strict=True):
        assert row.variance_factor is not None
        assert row.variance_factor > 4
        assert other.variance_factor == 1
        assert row.half_width < other.half_width / 2
    assert found.table[2].simulated == pytest.approx(2.294, abs=0.02)


def test_equal_designs_are_ties() -> None:
    """Without short jobs killed or long, a symmetric system serves (n0, n1) and (n1, n0) alike in law."""
    even = E.replace(time_limit=math.inf, short_fraction=0.5, service1=Exponential(mean=1.2), servers=(3, 3))
    found = validation.search(even, total=7, indifference=0.02)
    winners = {found.best["servers"], *(tie["servers"] for tie in found.ties)}
    assert winners == {(3, 4), (4, 3)}


def test_no_stable_split_names_the_least_loaded() -> None:
    with pytest.raises(Unstable) as error:
        validation.search(E, total=4)
    assert error.value.where in ("group0", "group1")
    assert error.value.load > 1


def test_wrong_objectives() -> None:
    with pytest.raises(InvalidModel, match="total"):
        validation.search(E, total=1)
    with pytest.raises(InvalidModel, match="objective"):
        validation.search(E, total=7, objective={"tall": 1.0})
    with pytest.raises(InvalidModel, match="objective"):
        validation.search(E, total=7, objective=[1.0])
    for option in ({"total": None}, {"total": 7.5}, {"seed": -1}, {"jobs": 1.5}):
        with pytest.raises(InvalidModel, match=next(iter(option))):
            validation.search(E, **({"total": 7} | option))
    with pytest.raises(InvalidModel, match="no job is killed"):
        validation.search(E.replace(time_limit=math.inf), total=8, objective={"killed": 1.0})


def test_combined_objective_has_the_ratio_estimate_as_mean() -> None:
    values, weights = np.array([1.0, 3.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0, 4.0])
    samples = {("mean_response", "short"): Sample(values=values, weights=weights)}
    total = selection.combined(samples, {("mean_response", "short"): 2.0})
    assert total.mean() == pytest.approx(2 * np.average(values, weights=weights))


def test_log_is_searched_exactly() -> None:
    jobs = qsim.draw_jobs(E, time_end=500.0, seed=4)
    trace = Trace(source="x", arrival=jobs.arrival, service=jobs.service, group=jobs.group, used=int(jobs.arrival.size))
    found = _search.search_trace(E, total=7, trace=trace, objective={"short": 1.0, "long": 0.5})
    for row in found.table:
        replayed = qsim.replay(
            E.replace(servers=row.servers), arrival=trace.arrival, service=trace.service, group=trace.group
        )
        value = replayed["mean_response", "short"].value + 0.5 * replayed["mean_response", "long"].value
        assert row.simulated == pytest.approx(value, rel=1e-12)
    assert found.best["servers"] == min(found.table, key=lambda row: row.simulated or 0.0).servers


@needs_shared
@pytest.mark.slow
def test_known_searches() -> None:
    """Three searches with simulated optima; a design within .1 % of the best counts as found."""
    assert SHARED is not None
    for case in json.loads((SHARED / "anchors/dispatcher_search.json").read_text()):
        model = parse(case["model"])
        assert isinstance(model, Dispatcher)
        found = validation.search(model, total=case["total"], objective=case["objective"])
        assert found.best["servers"][0] in case["near"], case["name"]
        known = {row["n0"]: row["objective"][0] for row in case["table"]}
        for row in found.table:
            if row.simulated is not None and row.servers[0] in known and row.load is not None and max(row.load) < 0.9:
                assert row.simulated == pytest.approx(known[row.servers[0]], rel=0.01)
