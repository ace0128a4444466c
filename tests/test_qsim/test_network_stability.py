"""The verdict of stability: on single queues, where the truth is known, and on the examples."""

from __future__ import annotations

import anchors
import numpy as np
import pytest
from network_cases import DOMINANT, PRIORITY, figure, name

import qsim
from qsim.lowering.network_verdict import WINDOWS, Growth, judge
from qtheory.models import parse


def queue(load):
    classes = [{"rate": load, "routes": [["a"]]}]
    return parse({"kind": "network", "servers": {"a": 1.0}, "classes": classes, "policy": {"kind": "jsr"}})


def verdict(model, *, jobs, seed=1):
    return qsim.simulate(model, jobs=jobs, seed=seed).details


class TestSingleQueue:
    @pytest.mark.parametrize(
        ("load", "right"),
        [
            (0.5, {"stable"}),
            (0.9, {"stable"}),
            (0.98, {"stable", "undecided"}),
            (1.0, {"critical", "undecided"}),
            (1.1, {"unstable"}),
            (1.5, {"unstable"}),
        ],
    )
    def test_never_the_opposite(self, load, right):
        """Five runs each; a wrong verdict has probability below 1e-5 a run at these loads and this length."""
        found = {verdict(queue(load), jobs=320_000, seed=seed)["stability"] for seed in range(5)}
        assert found <= right

    def test_slope_and_exponent(self):
        found = verdict(queue(1.5), jobs=640_000)
        assert found["slope"] == pytest.approx(0.5, abs=0.01)
        assert found["exponent"] == pytest.approx(1.0, abs=0.05)
        found = verdict(queue(1.0), jobs=640_000)
        assert found["exponent"] == pytest.approx(0.5, abs=6 * found["exponent_error"])

    def test_short_runs_are_undecided(self):
        assert verdict(queue(0.5), jobs=32_000)["stability"] == "undecided"
        assert qsim.simulate(queue(0.5), jobs=640_000, replications=4).details["stability"] == "undecided"


class TestExamples:
    def test_jsq_on_figure_1(self):
        """Server 3 gets half of class 1, .25 more than it can serve; class 2 keeps server 2 critical meanwhile."""
        estimate = qsim.simulate(figure("fig1", rate=1.0, policy={"kind": "jsq"}), jobs=1_000_000, seed=1)
        found = estimate.details
        assert found["stability"] == "unstable"
        anchor = anchors.NETWORK_JSQ_SLOPE["fig1", 1.0]
        assert found["slope"] == pytest.approx(anchor.value, abs=6 * found["slope_error"] + 0.008)
        assert len(estimate.measures) == 0

    def test_jsq_on_figure_3(self):
        found = verdict(figure("fig3", rate=1.1, policy={"kind": "jsq"}), jobs=640_000)
        assert found["stability"] == "unstable"
        assert found["slope"] == pytest.approx(0.075, abs=6 * found["slope_error"] + 0.001)
        estimate = qsim.simulate(figure("fig3", rate=1.0, policy={"kind": "jsq"}), jobs=1_000_000)
        assert estimate.details["stability"] == "critical"
        assert len(estimate.measures) == 0
        assert verdict(figure("fig3", rate=0.9, policy={"kind": "jsq"}), jobs=640_000)["stability"] == "stable"

    @pytest.mark.parametrize(
        "order", [["class2", "class1"], pytest.param(["class1", "class2"], marks=pytest.mark.slow)], ids=str
    )
    def test_static_priority_on_figure_1(self, order):
        """Unstable far below theta* = 1.125: the threshold lies between 1.00 and 1.04."""
        policy = PRIORITY | {"order": order}
        assert verdict(figure("fig1", rate=1.05, policy=policy), jobs=1_000_000)["stability"] == "unstable"
        assert verdict(figure("fig1", rate=1.04, policy=policy), jobs=2_000_000)["stability"] == "unstable"
        assert verdict(figure("fig1", rate=1.0, policy=policy), jobs=4_000_000)["stability"] == "stable"

    @pytest.mark.parametrize("policy", [{"kind": "jsr"}, {"kind": "maxweight"}, DOMINANT], ids=name)
    def test_good_policies_are_stable(self, policy):
        assert verdict(figure("fig1", rate=1.0, policy=policy), jobs=640_000)["stability"] == "stable"

    def test_holding_back_helps_where_looking_ahead_does_not(self):
        """Figure 3 at 1.4 < 1.5: JSR random is unstable, JSQ-AS with the shortest downstream first is not."""
        assert verdict(figure("fig3", rate=1.4, policy={"kind": "jsr"}), jobs=320_000)["stability"] == "unstable"
        assert verdict(figure("fig3", rate=1.4, policy={"kind": "jsq-as"}), jobs=320_000)["stability"] == "unstable"
        policy = {"kind": "jsq-as", "sharing": "shortest-downstream"}
        assert verdict(figure("fig3", rate=1.4, policy=policy), jobs=1_000_000)["stability"] == "stable"


class TestJudge:
    """On made-up growth: exact power laws with a little scatter."""

    @pytest.mark.parametrize(
        ("power", "kept", "right"),
        [
            (0.0, 0.0, "stable"),
            (0.5, 0.4, "critical"),
            (1.0, 0.8, "unstable"),
            (0.0, 0.4, "undecided"),
            (1.0, 0.0, "undecided"),
        ],
    )
    def test_power_laws(self, power, kept, right):
        rng = np.random.default_rng(1)
        times = np.tile(1e4 * 0.75 * 0.5 ** np.arange(WINDOWS), (32, 1))
        means = times**power * rng.uniform(0.95, 1.05, times.shape)
        growth = Growth(means=means, centres=times, kept=np.full(32, kept) + rng.uniform(-0.01, 0.01, 32))
        found = judge(growth, long_enough=True)
        assert found.verdict == right
        assert found.exponent == pytest.approx(power, abs=0.02)
        assert judge(growth, long_enough=False).verdict == "undecided"

    def test_an_empty_network_is_flat(self):
        times = np.tile(1e4 * 0.5 ** np.arange(WINDOWS), (32, 1))
        found = judge(Growth(means=np.zeros_like(times), centres=times, kept=np.zeros(32)), long_enough=True)
        assert (found.verdict, found.slope) == ("stable", 0.0)
        assert abs(found.exponent) < 1e-12
