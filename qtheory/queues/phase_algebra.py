"""Sums, mixtures, minima and maxima of independent phase-type or matrix-exponential laws (atoms included)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag

from qtheory.models.errors import InvalidModel
from qtheory.queues.linear import Array
from qtheory.queues.phase_type import PhaseType


def kronecker_sum(first: Array, second: Array) -> Array:
    """A (x) I + I (x) B: two chains side by side."""
    return np.kron(first, np.eye(len(second))) + np.kron(np.eye(len(first)), second)


def convolution(first: PhaseType, second: PhaseType) -> PhaseType:
    """The law of X + Y, of order m + n.

    >>> from qtheory.queues.phase_type import exponential
    >>> convolution(exponential(mean=1.0), exponential(mean=2.0)).mean
    3.0
    """
    m = first.order
    matrix = block_diag(first.generator, second.generator)
    matrix[:m, m:] = np.outer(first.exits, second.alpha)
    return PhaseType(alpha=np.concatenate([first.alpha, first.atom * second.alpha]), generator=matrix)


def mixture(*, weights: ArrayLike, laws: Sequence[PhaseType]) -> PhaseType:
    """The law that is `laws[i]` with probability `weights[i]`."""
    shares = np.asarray(weights, dtype=np.float64)
    if shares.shape != (len(laws),) or not (shares >= 0.0).all() or abs(shares.sum() - 1.0) > 1e-9:
        raise InvalidModel(
            field="weights", rule="must be probabilities that sum to 1, one for each law", value=shares.tolist()
        )
    starts = [np.asarray(share * law.alpha) for share, law in zip(shares, laws, strict=True)]
    return PhaseType(
        alpha=np.concatenate(starts, dtype=np.float64),
        generator=block_diag(*[law.generator for law in laws]),
    )


def minimum(first: PhaseType, second: PhaseType) -> PhaseType:
    """The law of min(X, Y), of order m n."""
    alpha = np.kron(first.alpha, second.alpha).astype(np.float64)
    return PhaseType(alpha=alpha, generator=kronecker_sum(first.generator, second.generator))


def maximum(first: PhaseType, second: PhaseType) -> PhaseType:
    """The law of max(X, Y), of order m n + m + n: both alive, then one of them."""
    m, n = first.order, second.order
    matrix = block_diag(kronecker_sum(first.generator, second.generator), first.generator, second.generator)
    matrix[: m * n, m * n : m * n + m] = np.kron(np.eye(m), second.exits[:, None])
    matrix[: m * n, m * n + m :] = np.kron(first.exits[:, None], np.eye(n))
    alpha = [np.kron(first.alpha, second.alpha), second.atom * first.alpha, first.atom * second.alpha]
    return PhaseType(alpha=np.concatenate(alpha), generator=matrix)


def geometric_sum(law: PhaseType, *, go_on: float) -> PhaseType:
    """The law of X_1 + ... + X_N, P(N = n) = (1 - g) g^(n-1), n >= 1, for a law without an atom."""
    if not 0.0 <= go_on < 1.0:
        raise InvalidModel(field="go_on", rule="must be at least 0 and below 1", value=go_on)
    if law.atom:
        raise InvalidModel(field="law", rule="must have no atom at 0", value=law.atom)
    return PhaseType(alpha=law.alpha, generator=law.generator + go_on * np.outer(law.exits, law.alpha))
