"""Phase-type laws that are stiff, defective or nearly so, against 60-digit matrix exponentials and closed forms."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import stats

from qtheory.laws import distribution
from qtheory.models import Erlang, PhaseType


def law(alpha, generator):
    return distribution(
        PhaseType(alpha=tuple(map(float, alpha)), generator=tuple(map(tuple, np.array(generator) * 1.0)))
    )


def random_law(order, seed):
    rng = np.random.default_rng(seed)
    rates = rng.random((order, order)) * 3.0
    np.fill_diagonal(rates, 0.0)
    return rng.dirichlet(np.ones(order)), rates - np.diag(rates.sum(axis=1) + rng.random(order))


def ring():
    """Ten phases in a circle, left at one of them by one job in twenty: complex eigenvalues all around."""
    rates = 10.0 * (np.roll(np.eye(10), 1, axis=1) - np.eye(10))
    rates[9, 0] = 9.5
    return np.eye(10)[0], rates


NEAR = 1e-9
CASES = {
    "random-3": random_law(3, 1),
    "random-10": random_law(10, 2),
    "erlang-6": ([1, 0, 0, 0, 0, 0], 6.0 * (np.eye(6, k=1) - np.eye(6))),
    "near-equal": ([1, 0, 0], [[-1, 1, 0], [0, -1 - NEAR, 1 + NEAR], [0, 0, -1 + NEAR]]),
    "stiff": ([0.999, 0.0009, 0.0001], np.diag([-1e6, -1.0, -1e-6])),
    "stiff-chain": ([0.5, 0.25, 0.25], [[-1e-6, 1e-6, 0], [1e6, -1e6 - 1.0, 1.0], [0, 1e-6, -2e-6]]),
    "ring": ring(),
    "atom": ([0.2, 0.3], [[-1.0, 0.5], [0.0, -2.0]]),
}


@pytest.mark.parametrize("name", CASES)
def test_against_many_digits(name):
    """Survival, distribution function, density, excess and partial mean from 1e-6 to 40 means: relative 1e-9."""
    alpha, generator = CASES[name]
    known = law(alpha, generator)
    with mpmath.workdps(60):
        start = mpmath.matrix([list(map(float, alpha))])
        start /= 1 if known.atoms[0].size else mpmath.fsum(start)
        a, e = mpmath.matrix(np.array(generator, dtype=float).tolist()), mpmath.ones(len(alpha), 1)
        left = mpmath.inverse(-a) * e
        mean = (start * left)[0]
        assert known.mean == pytest.approx(float(mean), rel=1e-9)
        for t in known.mean * np.array([1e-6, 0.01, 0.3, 1.0, 3.0, 40.0]):
            state = start * _exponential(a * mpmath.mpf(float(t)))
            alive = (state * e)[0]
            if alive < 1e-290:
                continue
            expected = {
                "survival": alive,
                "cdf": 1 - alive,
                "density": -(state * a * e)[0],
                "excess": (state * left)[0],
            }
            for function, value in expected.items():
                assert getattr(known, function)(t) == pytest.approx(float(value), rel=1e-9), (function, t)
            partial = mean - (state * left)[0] - mpmath.mpf(float(t)) * alive
            assert known.partial_moment(1.0, t) == pytest.approx(float(partial), rel=1e-8)


def _exponential(matrix):
    """By squaring: 120 digits and Taylor series cope with norms of 1e12 and with any Jordan form."""
    with mpmath.workdps(120):
        halvings = max(int(mpmath.ceil(mpmath.log(mpmath.mnorm(matrix, mpmath.inf) + 1, 2))) + 8, 0)
        small, size = matrix / mpmath.mpf(2) ** halvings, matrix.rows
        total = term = mpmath.eye(size)
        for k in range(1, 60):
            term = term * small / k
            total += term
        for _ in range(halvings):
            total = total * total
        return total


@pytest.mark.parametrize("name", CASES)
def test_quantiles_undo_the_distribution_function(name):
    known = law(*CASES[name])
    levels = (
        np.array([0.55, 0.9, 0.99, 1 - 1e-9]) if known.atoms[0].size else np.array([1e-9, 0.01, 0.5, 0.99, 1 - 1e-9])
    )
    times = known.quantile(levels)
    np.testing.assert_allclose(known.cdf(times), levels, rtol=1e-9)
    np.testing.assert_allclose(known.survival(times), 1.0 - levels, rtol=1e-6)  # 1 - 1e-9 has seven digits


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_erlang_as_phases(scale):
    """Order 12 of equal rates against incomplete gamma functions, far into both tails."""
    phases = law(np.eye(12)[0], 12.0 / scale * (np.eye(12, k=1) - np.eye(12)))
    twin = stats.gamma(12, scale=scale / 12.0)
    times = scale * np.array([0.0, 1e-9, 1e-3, 0.1, 1.0, 2.0, 10.0, 50.0])
    np.testing.assert_allclose(phases.cdf(times), twin.cdf(times), rtol=1e-10)
    np.testing.assert_allclose(phases.survival(times), twin.sf(times), rtol=1e-10)
    np.testing.assert_allclose(phases.density(times[1:]), twin.pdf(times[1:]), rtol=1e-9)
    ours = distribution(Erlang(shape=12, mean=scale))
    for order in (1.0, 2.0, 3.0, 4.0):
        assert phases.moment(order) == pytest.approx(ours.moment(order), rel=1e-12)
        np.testing.assert_allclose(
            phases.partial_moment(order, times), ours.partial_moment(order, times), rtol=1e-9, atol=0.0
        )
        np.testing.assert_allclose(phases.tail_moment(order, times), ours.tail_moment(order, times), rtol=1e-9)


def test_times_of_any_size():
    known = law([0.4], [[-3.0]])
    times = np.array([0.0, 5e-324, 1e-300, 1e300, 1.7e308])
    np.testing.assert_allclose(known.cdf(times), [0.6, 0.6, 0.6, 1.0, 1.0])
    np.testing.assert_allclose(known.survival(times), [0.4, 0.4, 0.4, 0.0, 0.0])
    assert known.quantile(0.5) == 0.0
    assert known.partial_moment(1.0, 1e300) == pytest.approx(0.4 / 3.0)
