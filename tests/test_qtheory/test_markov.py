"""Stationary vectors against detailed balance, the null space, and cycles solved by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg, sparse

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.markov import (
    check_generator,
    check_subgenerator,
    closed_classes,
    stationary,
    stationary_signed,
)


def random_generator(n: int, seed: int, density: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    q = rng.random((n, n)) * (rng.random((n, n)) < density)
    q += np.roll(np.eye(n), 1, axis=1)  # a cycle makes it irreducible
    np.fill_diagonal(q, 0.0)
    np.fill_diagonal(q, -q.sum(axis=1))
    return q


@pytest.mark.parametrize("n", [2, 5, 47, 48, 49, 50, 97, 130])
def test_stationary_spans_the_null_space(n: int) -> None:
    q = random_generator(n, seed=n)
    kernel = linalg.null_space(q.T)[:, 0]
    np.testing.assert_allclose(stationary(q), kernel / kernel.sum(), rtol=1e-11)
    np.testing.assert_allclose(stationary(sparse.csr_array(q)), kernel / kernel.sum(), rtol=1e-11)
    np.testing.assert_allclose(stationary_signed(q), kernel / kernel.sum(), rtol=1e-10)


def test_birth_death_keeps_every_digit_of_the_smallest_probability() -> None:
    """Detailed balance: x_n = r^n x_0 down to 1e-180, with no loss."""
    n, r = 60, 1e-3
    q = np.diag(np.full(n - 1, r), 1) + np.diag(np.ones(n - 1), -1)
    np.fill_diagonal(q, -q.sum(axis=1))
    expected = r ** np.arange(n) * (1 - r) / (1 - r**n)
    np.testing.assert_allclose(stationary(q), expected, rtol=1e-13)


def test_nearly_uncoupled_chain() -> None:
    """Two pairs linked by rates 1e-14 and 3e-14: the pairs weigh 3 to 1, which ordinary elimination loses."""
    q = np.zeros((4, 4))
    q[0, 1] = q[1, 0] = q[2, 3] = q[3, 2] = 1.0
    q[1, 2], q[2, 1] = 1e-14, 3e-14
    np.fill_diagonal(q, -q.sum(axis=1))
    x = stationary(q)
    assert x[:2].sum() / x[2:].sum() == pytest.approx(3.0, rel=1e-12)


def test_transient_states_get_zero_and_two_classes_are_refused() -> None:
    q = np.array([[-2.0, 1.0, 1.0], [0.0, -1.0, 1.0], [0.0, 3.0, -3.0]])
    for chain in (q, sparse.csr_array(q)):
        np.testing.assert_allclose(stationary(chain), [0.0, 0.75, 0.25], rtol=1e-14)
    split = np.array([[-1.0, 1.0, 0, 0], [1.0, -1.0, 0, 0], [0, 0, -1.0, 1.0], [0, 0, 2.0, -2.0]])
    assert [states.tolist() for states in closed_classes(split)] == [[0, 1], [2, 3]]
    for chain in (split, sparse.csr_array(split)):
        with pytest.raises(InvalidModel, match="one closed class"):
            stationary(chain)
    absorbing = np.array([[-1.0, 1.0], [0.0, 0.0]])
    assert stationary(absorbing).tolist() == [0.0, 1.0]
    assert stationary(sparse.csr_array(absorbing)).tolist() == [0.0, 1.0]


def test_signed_matrices() -> None:
    """A similarity transform of a true generator keeps the simple eigenvalue 0 though signs are lost."""
    q = random_generator(4, seed=3)
    basis = np.eye(4) + 0.7 * np.diag(np.ones(3), 1)
    basis /= basis.sum(axis=1, keepdims=True)  # keeps row sums 0
    signed = basis @ q @ np.linalg.inv(basis)
    x = stationary_signed(signed)
    np.testing.assert_allclose(x @ basis, stationary(q), rtol=1e-12)
    with pytest.raises(NotConverged):
        stationary_signed(np.zeros((3, 3)))


@pytest.mark.parametrize(
    ("matrix", "match"),
    [
        ([[-1.0, 1.0]], "square"),
        ([[-1.0, 1.0], [-0.5, 0.5]], "at least 0, got -0.5"),
        ([[-1.0, 1.0], [1.0, -1.1]], "generator.1: row must sum to 0"),
        ([[-1.0, np.nan], [1.0, -1.0]], "finite"),
    ],
)
def test_wrong_generators(matrix: list[list[float]], match: str) -> None:
    with pytest.raises(InvalidModel, match=match):
        check_generator(matrix)


@pytest.mark.parametrize(
    ("matrix", "match"),
    [
        ([[-1.0, 1.0], [1.0, -0.9]], "not sum to more than 0"),
        ([[-1.0, 1.0], [1.0, -1.0]], "reach the end"),
        ([[-1.0, 0.0], [0.0, 0.0]], "generator.1: every phase must be able to reach the end"),
        ([[-1.0, -0.1], [0.0, -1.0]], "at least 0"),
    ],
)
def test_wrong_subgenerators(matrix: list[list[float]], match: str) -> None:
    with pytest.raises(InvalidModel, match=match):
        check_subgenerator(matrix)


def test_right_subgenerator_passes() -> None:
    assert check_subgenerator([[-1.0, 1.0], [0.0, -2.0]]).shape == (2, 2)
    assert check_subgenerator([[-1e6, 0.0], [1e-6, -1e-6 - 1e-7]]).shape == (2, 2)  # twelve orders apart
