"""Estimates over replications: ratio estimator, intervals, plain data."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from qsim.estimate import Estimate, Figure, Sample, figures, student
from qtheory.models import Dispatcher, Exponential


def test_unweighted_mean_is_students() -> None:
    values = np.array([1.0, 2.0, 4.0, 7.0])
    figure = Sample(values=values).figure(confidence=0.9)
    low, high = stats.t.interval(0.9, 3, values.mean(), stats.sem(values))
    assert (figure.value - figure.half_width, figure.value + figure.half_width) == pytest.approx((low, high))
    assert student(confidence=0.95, degrees=9) == pytest.approx(2.2621571628)


def test_weights_make_a_ratio_estimator() -> None:
    """Sums of waits over counts: the joint mean, with the linearised error of a ratio (Cochran 1977, eq. 6.13)."""
    sums, counts = np.array([3.0, 8.0, 1.0, 9.0]), np.array([2.0, 4.0, 1.0, 3.0])
    figure = Sample(values=sums / counts, weights=counts).figure(confidence=0.95)
    ratio = sums.sum() / counts.sum()
    variance = np.sum((sums - ratio * counts) ** 2) / 3 / 4 / counts.mean() ** 2
    assert figure.value == pytest.approx(ratio)
    assert figure.se == pytest.approx(math.sqrt(variance))


def test_replications_that_saw_nothing_do_not_count() -> None:
    figure = Sample(values=np.array([0.0, 2.0, 3.0]), weights=np.array([0.0, 1.0, 1.0])).figure(confidence=0.95)
    same = Sample(values=np.array([2.0, 3.0])).figure(confidence=0.95)
    assert figure == same
    nothing = Sample(values=np.zeros(3), weights=np.zeros(3))
    assert figures({("mean_wait", "killed"): nothing}, confidence=0.95).to_list() == []


def test_the_longer_side_of_a_bent_interval_counts() -> None:
    """Values about 2 that stand for exp(d) - 1 beyond it: the upper side is longer, and the value follows a shift."""
    values = np.array([1.0, 2.0, 3.0])
    straight = Sample(values=values).figure(confidence=0.95)
    bent = Sample(values=values, curve=lambda d: 1.0 + math.exp(d)).figure(confidence=0.95)
    assert (bent.value, bent.se) == (2.0, straight.se)
    assert bent.half_width == pytest.approx(math.exp(straight.half_width) - 1)
    moved = Sample(values=values, curve=lambda d: 1.0 + math.exp(d)).placed(mean=2.0, shift=-1.0, se=0.1, reach=0.2)
    assert moved.value == pytest.approx(1 + math.exp(-1))
    assert moved.half_width == 0.2  # never less than the straight one
    assert Sample(values=values[:1], curve=math.exp).figure(confidence=0.95).value == 1.0


def test_plain_data_is_json_without_nan() -> None:
    law = Exponential(mean=1.0)
    model = Dispatcher(
        servers=(1, 1), time_limit=math.inf, short_fraction=0.5, interarrival=law, service0=law, service1=law
    )
    sample = Sample(values=np.array([1.0]))
    estimate = Estimate(
        model=model,
        measures=figures({("mean_response", "all"): sample}, confidence=0.95),
        samples={("mean_response", "all"): sample},
        confidence=0.95,
        jobs=1,
        replications=1,
        seed=1,
        warmup=0,
    )
    assert isinstance(estimate["mean_response", "all"], Figure)
    data = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
    assert data["measures"] == [{"measure": "mean_response", "scope": "all", "value": 1.0, "half_width": None}]
    assert "mean_response/all" in repr(estimate)
