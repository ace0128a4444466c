"""Verdicts follow from the figures beside them; a planted error is found, a right answer is not accused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import qtheory
import validation
from qtheory.measures import Table
from qtheory.models import Dispatcher, Exponential, InvalidModel, Unstable
from qtheory.solution import Solution, Value
from validation import _compare
from validation.power import critical_value, detectable_shift

MM3 = Dispatcher(
    servers=(1, 3),
    time_limit=1.0,
    short_fraction=0.0,
    interarrival=Exponential(mean=0.5),
    service0=Exponential(mean=1.0),
    service1=Exponential(mean=1.0),
)


def biased(factor: float, error: float = 0.0):
    """`qtheory.solve` with every mean response off by a factor."""
    honest = qtheory.solve

    def solve(model, **options) -> Solution:
        solution = honest(model, **options)
        rows = {
            key: Value(value=row.value * factor, error=error) if key[0] == "mean_response" else row
            for key, row in solution.measures.items()
        }
        return replace(solution, measures=Table(rows))

    return solve


def test_exact_queue_agrees() -> None:
    """M/M/3 by Erlang C: closed forms against 4 M jobs; every measure within the 1e-6 of the call."""
    found = validation.compare(MM3, jobs=4_000_000, seed=3)
    assert found.verdict != "disagree"
    pair = found["mean_response", "all"]
    # Erlang C(3, 2) = 4/9, so E[R] = 1 + 4/9.
    assert pair.analytic == pytest.approx(13 / 9, rel=1e-9)
    assert pair.verdict == "agree"
    assert abs(pair.z) < 6


def test_planted_bias_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qtheory, "solve", biased(1.03))
    found = validation.compare(MM3, jobs=4_000_000, seed=3)
    assert found["mean_response", "all"].verdict == "disagree"
    assert found["mean_response", "all"].z > 0
    assert found.verdict == "disagree"


def test_stated_error_excuses_the_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qtheory, "solve", biased(1.03, error=0.06))
    found = validation.compare(MM3, jobs=4_000_000, seed=3)
    assert found["mean_response", "all"].verdict == "agree"
    assert found["mean_response", "all"].z == 0


def test_short_run_is_inconclusive() -> None:
    found = validation.compare(MM3, jobs=20_000, seed=3)
    assert found.verdict == "inconclusive"
    assert found["mean_response", "all"].verdict == "inconclusive"


def test_two_zeros_agree() -> None:
    """M/M/3 at load 2/3: a job waits with probability 4/9, so the median wait is 0 in theory and in every run."""
    pair = validation.compare(MM3, jobs=400_000, seed=3)["p50_wait", "all"]
    assert (pair.analytic, pair.error, pair.simulated) == (0, 0, 0)
    assert (pair.detectable, pair.verdict) == (0, "agree")


def test_what_a_run_cannot_have_seen_is_no_disagreement() -> None:
    """M/M/5 at load .02, Erlang C(5, .1) = 7.7e-8: none of 200 000 jobs waits, and no positive chance is denied."""
    model = MM3.replace(servers=(1, 5), interarrival=Exponential(mean=10.0))
    found = validation.compare(model, jobs=200_000, seed=3, at=(40.0,))
    assert found.verdict != "disagree"
    assert [key for key, pair in found.measures.items() if pair.simulated == 0 and pair.analytic != 0] == []


@pytest.mark.parametrize("load", [0.999, 0.9999, 1 - 1e-9])
def test_a_run_that_remembers_its_start_judges_nothing(load: float) -> None:
    """M/M/1 at such a load takes a million jobs and more to settle: runs of 3 000 see a queue that is hardly begun."""
    model = MM3.replace(servers=(1, 1), interarrival=Exponential(mean=1 / load))
    found = validation.compare(model, jobs=200_000, seed=3)
    assert (found.verdict, dict(found.measures)) == ("inconclusive", {})
    assert found.needed is not None
    assert found.needed > 1_000_000
    assert "forgotten" in found.to_dict()["note"]


def test_a_run_of_some_relaxation_times_judges() -> None:
    """M/M/1 at load .9 has a relaxation time 2 rho / (1 - rho)^2 of 180 jobs or so; replications have 3 125."""
    model = MM3.replace(servers=(1, 1), interarrival=Exponential(mean=1 / 0.9))
    found = validation.compare(model, jobs=200_000, seed=3)
    assert found.needed is None
    assert "note" not in found.to_dict()
    assert found["mean_response", "all"].verdict in ("agree", "inconclusive")


def test_every_verdict_follows_from_its_row() -> None:
    found = validation.compare(MM3.replace(short_fraction=0.3, servers=(2, 3)), jobs=2_000_000, seed=5)
    for pair in found.measures.values():
        excess = max(0.0, abs(pair.difference) - pair.error)
        assert pair.difference == pair.analytic - pair.simulated
        assert (pair.z == 0) == (excess == 0)
        assert pair.z * pair.difference >= 0
        judged = pair.detectable <= max(2 * pair.error, 0.02 * abs(pair.simulated))
        if pair.verdict != "disagree":
            assert (pair.verdict == "agree") == judged


def test_several_models_share_the_false_alarm_rate() -> None:
    alone = _compare.compare_all([MM3], jobs=200_000)[0]
    beside = _compare.compare_all([MM3, MM3.replace(servers=(1, 4))], jobs=200_000)[0]
    key = ("mean_response", "all")
    assert beside[key].analytic == alone[key].analytic
    assert beside[key].detectable > alone[key].detectable


def test_unstable_and_wrong_input_raise() -> None:
    with pytest.raises(Unstable, match="group1"):
        validation.compare(MM3.replace(servers=(1, 2)))
    with pytest.raises(InvalidModel, match="replications"):
        validation.compare(MM3, replications=1)


@pytest.mark.parametrize("degrees", [9, 31, 63])
def test_power_by_simulation(degrees: int) -> None:
    """The detectable shift is found with probability .9: 200,000 Student draws, standard error .0007, 6 sigma."""
    critical = critical_value(false_alarm=1e-3, degrees=degrees)
    assert critical == pytest.approx(stats.t.ppf(1 - 5e-4, degrees), rel=1e-9)
    shift = detectable_shift(critical=critical, degrees=degrees, power=0.9)
    rng = np.random.default_rng(7)
    draws = (rng.standard_normal(200_000) + shift) / np.sqrt(rng.chisquare(degrees, 200_000) / degrees)
    assert float(np.mean(np.abs(draws) > critical)) == pytest.approx(0.9, abs=6 * math.sqrt(0.09 / 200_000))
