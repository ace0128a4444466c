"""Histograms: buckets, quantiles, merging, and the intervals of quantiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import qsim
from qsim.distribution import Distribution, merged, packed, quantile_samples, unpacked
from qsim.kernels.histogram import BUCKETS, LEAST, MOST, PRECISION, bucket_of, edges
from qtheory.models import Dispatcher, Exponential


def histogram(values) -> Distribution:
    bits = np.asarray(values, np.float64).view(np.int64)
    places = (bits >> (52 - PRECISION)) - ((1023 + LEAST) << PRECISION) + 1
    row = np.bincount(np.clip(places, 0, BUCKETS - 1), minlength=BUCKETS)
    return next(unpacked(np.concatenate(list(packed(row[None, :])))))


def test_buckets_have_bounded_relative_width() -> None:
    before = edges(0)[1]
    assert edges(0) == (0.0, 0.0)
    for bucket in range(1, BUCKETS - 1):
        low, high = edges(bucket)
        assert bucket_of(low) == bucket
        assert bucket_of(math.nextafter(high, 0)) == bucket
        assert 2.0 ** -(PRECISION + 1) <= (high - low) / high <= 2.0**-PRECISION
        assert bucket == 1 or low == before
        before = high
    assert bucket_of(0.0) == bucket_of(2.0 ** (LEAST - 1)) == 0
    assert bucket_of(2.0**MOST) == bucket_of(math.inf) == BUCKETS - 1
    assert edges(BUCKETS - 1) == (2.0**MOST, math.inf)


def test_quantiles_within_the_width_of_a_bucket() -> None:
    values = np.sort(np.random.default_rng(1).lognormal(size=20_001))
    found = histogram(values)
    assert found.total == values.size
    for level in (0.001, 0.1, 0.5, 0.95, 0.999):
        assert found.quantile(level) == pytest.approx(np.quantile(values, level), rel=2.0**-PRECISION)
        assert found.reached(found.quantile(level)) == pytest.approx(level * values.size, abs=1e-6 * values.size)


def test_interpolation_is_far_finer_than_a_bucket() -> None:
    """Where there is a density: 4 million exact quantiles of an exponential, known to 1e-7."""
    values = stats.expon.ppf((np.arange(4_000_000) + 0.5) / 4_000_000)
    found = histogram(values)
    for level in (0.5, 0.9, 0.95, 0.99):
        assert found.quantile(level) == pytest.approx(stats.expon.ppf(level), rel=2e-5)
        assert found.resolution(found.quantile(level)) == 0.0
    x, tail = found.survival()
    assert np.abs(tail - np.exp(-x)).max() < 1e-6


def test_zero_is_exact_and_atoms_are_owned_up_to() -> None:
    found = histogram([0.0] * 600 + [1.3] * 4000 + list(np.random.default_rng(1).exponential(size=400)))
    assert found.quantile(0.1) == 0.0
    assert found.resolution(0.0) == 0.0
    assert found.quantile(0.5) == pytest.approx(1.3, rel=2.0**-PRECISION)
    low, high = edges(bucket_of(1.3))
    assert found.resolution(found.quantile(0.5)) == high - low
    sample = quantile_samples([found, found], levels=(0.5,))[0.5]
    assert sample.figure(confidence=0.95).se >= 0.999 * (high - low) / math.sqrt(12)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("atom", [2.0, math.nextafter(2.0, 0.0), 1.3])
def test_intervals_hold_an_atom_that_is_all_there_is(atom: float, level: float) -> None:
    """Wherever it lies in its bucket, at the edges too."""
    parts = [histogram([atom] * 3000) for _ in range(32)]
    figure = quantile_samples(parts, levels=(level,))[level].figure(confidence=0.95)
    assert abs(figure.value - atom) <= figure.half_width <= 2.0**-PRECISION * atom


def test_quantiles_off_the_scale_are_left_out() -> None:
    parts = [histogram([1.0] * 600 + [1e30] * 400) for _ in range(4)]
    assert set(quantile_samples(parts, levels=(0.5, 0.9))) == {0.5}


@pytest.mark.parametrize("unit", [3.6e12, 1e-13])
def test_no_quantiles_where_the_unit_of_time_is_off_the_scale(unit: float) -> None:
    """Means scale; of quantiles nothing is said rather than 0 or the end of the scale."""
    law = Exponential(mean=unit)
    model = Dispatcher(
        servers=(1, 1),
        time_limit=3.0 * unit,
        short_fraction=0.5,
        interarrival=Exponential(mean=1.25 * unit),
        service0=law,
        service1=law,
    )
    found = qsim.simulate(model, jobs=4000, replications=2, seed=1)
    assert 0.5 < found["mean_response", "all"].value / unit < 10.0
    assert not [key for key in found.measures if key[0].startswith("p")]
    assert not found.distributions


def test_parts_add_up() -> None:
    values = np.random.default_rng(1).exponential(size=3000)
    whole, parts = histogram(values), [histogram(values[k::3]) for k in range(3)]
    joint = merged([*parts, histogram([])])
    assert np.array_equal(joint.buckets, whole.buckets)
    assert np.array_equal(joint.counts, whole.counts)
    assert quantile_samples([histogram([1.0] * 30)], levels=(0.5,)) == {}


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_coverage_of_quantile_intervals(level: float) -> None:
    """300 whole procedures of 16 replications: nominal 95 % must cover 88 to 99.3 % (false alarm below 1e-5 if exact).

    Replications are of unequal length, and correlated within (exponential values in runs of ten equal ones).
    """
    rng = np.random.default_rng(int(1000 * level))
    truth, covered, procedures = stats.expon.ppf(level), 0, 300
    for _ in range(procedures):
        parts = [histogram(np.repeat(rng.exponential(size=rng.integers(40, 120)), 10)) for _ in range(16)]
        figure = quantile_samples(parts, levels=(level,))[level].figure(confidence=0.95)
        covered += abs(figure.value - truth) <= figure.half_width
    assert 0.88 <= covered / procedures <= 0.993
