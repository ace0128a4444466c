"""Random numbers of the kernels: known words of the generator, and laws by Kolmogorov-Smirnov.

Each KS test has a false-alarm rate of 1e-7 and 400,000 draws: a distribution function that is off by more than
0.0092 anywhere is found with probability above .9, and most smaller errors of shape long before that.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from qsim.kernels import random as kernel
from qsim.streams import NAMES, stream, streams

DRAWS = 400_000
FALSE_ALARM = 1e-7


def state(seed: int) -> np.ndarray:
    return stream(seed=seed, replication=0, name="service")


def assert_follows(draws: np.ndarray, law) -> None:
    assert stats.kstest(draws, law.cdf, method="asymp").pvalue > FALSE_ALARM


def test_known_words() -> None:
    """The first words from state (1, 2, 3, 4), as printed with other implementations of xoshiro256++ (rand_xoshiro)."""
    words = np.array([1, 2, 3, 4], np.uint64)
    known = [
        41943041,
        58720359,
        3588806011781223,
        3591011842654386,
        9228616714210784205,
        9973669472204895162,
        14011001112246962877,
        12406186145184390807,
        15849039046786891736,
        10450023813501588000,
    ]
    assert [int(kernel.next64(words)) for _ in known] == known


def test_streams_are_apart_and_repeatable() -> None:
    rows = [streams(seed=s, replication=r, names=NAMES) for s in range(3) for r in range(3)]
    words = np.concatenate(rows)
    assert len({tuple(row) for row in words}) == len(words)
    assert np.array_equal(rows[4], streams(seed=1, replication=1, names=NAMES))


@pytest.mark.parametrize("seed", [1, 2])
def test_uniform(seed: int) -> None:
    draws = np.empty(DRAWS)
    kernel.fill_uniform(state(seed), draws)
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    assert_follows(draws, stats.uniform)


def test_fill_gives_what_single_draws_give() -> None:
    one, two = state(3), state(3)
    filled = np.empty(5000)
    kernel.fill_exponential(one, 2.0, filled)
    assert filled.tolist() == [2.0 * kernel.exponential(two) for _ in range(filled.size)]
    kernel.fill_uniform(one, filled)
    assert filled.tolist() == [kernel.uniform(two) for _ in range(filled.size)]
    assert np.array_equal(one, two)


def test_exponential() -> None:
    draws = np.empty(DRAWS)
    kernel.fill_exponential(state(4), 1.0, draws)
    assert_follows(draws, stats.expon)
    # Beyond the last layer of the ziggurat the law starts anew: about 181 of these draws.
    edge = 7.69711747013104972
    tail = draws[draws > edge] - edge
    assert stats.binomtest(tail.size, DRAWS, math.exp(-edge)).pvalue > FALSE_ALARM
    assert_follows(tail, stats.expon)


def test_normal() -> None:
    words = state(5)
    draws = np.array([kernel.normal(words) for _ in range(DRAWS)])
    assert_follows(draws, stats.norm)
    assert_follows(draws**2, stats.chi2(1))


@pytest.mark.parametrize("shape", [0.05, 0.5, 1.0, 2.5, 80.0])
def test_gamma(shape: float) -> None:
    words = state(6)
    draws = np.array([kernel.gamma(words, shape) for _ in range(DRAWS // 4)])
    assert_follows(draws, stats.gamma(shape))


@pytest.mark.parametrize("n", [1, 2, 7, 1000])
def test_below(n: int) -> None:
    words = state(7)
    counts = np.bincount([kernel.below(words, n) for _ in range(50_000)], minlength=n)
    assert counts.size == n
    if n > 1:
        assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_below_has_no_bias_where_words_do_not_divide() -> None:
    """Of 3 * 2^30 numbers, 32-bit words without rejection would hit every third one twice as often."""
    words = state(8)
    draws = np.array([kernel.below(words, 3 * 2**30) for _ in range(50_000)])
    counts = np.bincount(draws % 3, minlength=3)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("x", "density", "tail"),
    [
        (kernel._EX, lambda t: math.exp(-t), lambda t: math.exp(-t)),
        (kernel._NX, lambda t: math.exp(-t * t / 2), lambda t: math.sqrt(math.pi / 2) * math.erfc(t / math.sqrt(2))),
    ],
)
def test_layers_have_one_area(x, density, tail) -> None:
    areas = [x[i] * (density(x[i - 1]) - density(x[i])) for i in range(1, 256)]
    base = x[255] * density(x[255]) + tail(x[255])
    assert areas == pytest.approx([base] * 255, rel=1e-9)
