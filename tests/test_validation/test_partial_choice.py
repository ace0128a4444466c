"""The study of partial choice: its checks of shape, its power, its words, and the bundled cases."""

from __future__ import annotations

import json

import numpy as np
import pytest

import qtheory
from qtheory.models import Flexible, load
from validation import library
from validation.partial_choice import SMALL, exact_shape, figure, simulated_shape, study

# Share of the benefit at p = .1, d = 2, by load: computed elsewhere from the fixed point and an exact chain.
KNOWN = {"infinite": {0.5: 0.17, 0.9: 0.40, 0.99: 0.80}, 2: {0.5: 0.21, 0.9: 0.54, 0.99: 0.92}}


@pytest.fixture(scope="module")
def result():
    return study(
        loads=(0.5, 0.9, 0.99),
        points=11,
        simulated_loads=(0.7,),
        simulated_queues=(2,),
        simulated_points=3,
        jobs=200_000,
        replications=16,
    )


def test_shares_are_the_known_ones(result):
    for queues, shares in KNOWN.items():
        got = result.shares(queues=queues, fraction=SMALL)
        assert {load: round(share, 2) for load, share in got.items()} == shares


def test_claims_hold_where_exact_and_are_not_refuted_where_simulated(result):
    assert all((c.shape.decreasing, c.shape.convex) == ("holds", "holds") for c in result.analytic)
    assert all((c.shape.decreasing, c.shape.convex) == ("not refuted",) * 2 for c in result.simulated)
    assert result.refuted == ()
    assert all(c.shape.unseen_rise > 0 and c.shape.unseen_bend > 0 for c in result.simulated)


def test_both_roads_agree(result):
    """Each simulated wait within 6 standard errors of the analytic curve (false alarms below 1e-4 with 15 degrees)."""
    for curve in result.simulated:
        exact = Flexible(queues=2, load=curve.load, flexible_fraction=0.0, choices=2)
        for p, wait, se in zip(curve.fractions, curve.waits, curve.errors, strict=True):
            truth = qtheory.solve(exact.replace(flexible_fraction=p))["mean_wait", "all"].value
            assert abs(wait - truth) <= 6 * se


def test_words_carry_the_numbers(result):
    text = " ".join(result.sentences())
    assert "17 % at load 0.5" in text
    assert "92 % at load 0.99" in text
    assert "depends on the load" in text
    json.dumps(result.to_dict(), allow_nan=False)


def test_figure_draws_every_curve(result):
    drawing = figure(result)
    assert len(drawing.axes) == 2
    assert sum(len(panel.lines) for panel in drawing.axes) == 2 * (3 + 1)


def test_exact_shape_tells_the_three_verdicts():
    p = np.linspace(0, 1, 5)
    falling = (1 - p) ** 2
    assert exact_shape(p, falling, np.zeros(5)).convex == "holds"
    assert exact_shape(p, 1 - p**2, np.zeros(5)).convex == "fails"
    assert exact_shape(p, falling, np.full(5, 0.1)).convex == "undecided"
    assert exact_shape(p, np.abs(p - 0.4), np.zeros(5)).decreasing == "fails"


@pytest.mark.parametrize("size", [0.0, 2.0])
def test_simulated_shape_sees_what_it_says(size):
    """200 experiments of 16 replications with a rise of `size` times what is said to be seen with probability .9: none
    is called without one at critical value 12 (false alarms 1e-8 each), nearly all at twice the size."""
    rng = np.random.default_rng(1)
    p = np.linspace(0, 1, 3)
    noise = 0.01
    said = simulated_shape(p, np.array([1.0, 0.5, 0.4]) + noise * rng.standard_normal((16, 3)), critical=12.0)
    rise = size * said.unseen_rise * 0.6
    calls = 0
    for _ in range(200):
        waits = np.array([1.0, 0.4 - (0.0 if size else -0.1), 0.4 + rise]) + noise * rng.standard_normal((16, 3))
        calls += simulated_shape(p, waits, critical=12.0).decreasing == "fails"
    assert calls == 0 if size == 0 else calls > 190


def test_cases_are_models():
    names = [name for name in library.cases() if name.startswith("flexible-")]
    assert len(names) >= 8
    for name in names:
        assert isinstance(load(library.case_path(name)), Flexible)
        assert len(library.about(name)) > 20


@pytest.mark.parametrize("choices", [3, 12])
def test_any_number_of_choices(choices):
    """No system of the study has fewer queues than are looked at, whatever the choices."""
    found = study(
        choices=choices, loads=(0.7,), points=5, simulated_loads=(0.7,), simulated_points=3, jobs=3200, replications=8
    )
    assert {curve.queues for curve in found.simulated} == {choices, max(10, choices)}
    assert all(curve.queues == "infinite" or curve.queues >= choices for curve in found.curves)
    assert json.dumps(found.to_dict(), allow_nan=False)
