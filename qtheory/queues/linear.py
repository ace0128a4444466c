"""Arrays and LU factors, with little overhead on the small blocks that queues are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from qtheory.models.errors import NotConverged

Array: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = Any
"""A dense float array or a scipy sparse array."""


def dense(matrix: Matrix) -> Array:
    """`matrix` as a dense array of floats, sparse or not."""
    plain = matrix if isinstance(matrix, np.ndarray | list) else matrix.toarray()
    return np.asarray(plain, dtype=np.float64)


def kron(a: Array, b: Array) -> Array:
    """The Kronecker product of two matrices; numpy's own spends most of its time on shapes where they are small.

    >>> kron(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])).tolist()
    [[3.0, 6.0], [4.0, 8.0]]
    """
    rows, columns = a.shape[0] * b.shape[0], a.shape[1] * b.shape[1]
    return np.asarray((a[:, None, :, None] * b[None, :, None, :]).reshape(rows, columns), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Factors:
    """LU factors of a square matrix A."""

    lu: Array
    pivots: NDArray[np.int32]

    def solve(self, right: Array) -> Array:
        """x with A x = right."""
        return np.asarray(lapack.dgetrs(self.lu, self.pivots, right)[0])

    def solve_left(self, left: Array) -> Array:
        """x with x A = left."""
        if left.ndim == 1:
            return np.asarray(lapack.dgetrs(self.lu, self.pivots, left, trans=1)[0])
        return np.ascontiguousarray(lapack.dgetrs(self.lu, self.pivots, left.T, trans=1)[0].T)


def factor(matrix: Array, *, where: str) -> Factors:
    """LU factors of `matrix`; raises `NotConverged` naming `where` if it is singular or not finite.

    >>> factor(np.array([[2.0, 0.0], [0.0, 4.0]]), where="example").solve(np.array([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    lu, pivots, status = lapack.dgetrf(matrix)
    if status != 0 or not np.isfinite(lu[-1, -1]):
        raise NotConverged(
            where=where,
            residual=float("inf"),
            iterations=0,
            advice="a singular block arose: check that the process is a true one and has one steady state",
        )
    return Factors(lu, pivots)
