"""Markov chains in continuous time: checks of generators and stationary vectors.

The dense road is the elimination of Grassmann, Taksar and Heyman (1985), free of subtractions and so accurate
to the last digits in every entry; it works in panels, so that large chains run at matrix-product speed. The
sparse road is an LU factorisation with iterative refinement.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as sparse_linalg

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.linear import Array, Matrix, factor

TOLERANCE = 1e-9
"""Slack allowed in row sums and signs, relative to the largest rate."""

_PANEL = 48


def check_square(matrix: ArrayLike, *, field: str) -> Array:
    """`matrix` as a square array of finite floats, or `InvalidModel` naming `field`."""
    array = np.asarray(matrix, dtype=float)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.size == 0:
        raise InvalidModel(field=field, rule="must be a square matrix", value=array.shape)
    if not np.isfinite(array).all():
        raise InvalidModel(field=field, rule="must have finite entries only")
    return array


def check_generator(generator: ArrayLike, *, field: str = "generator") -> Array:
    """The generator of a Markov chain: off-diagonal entries >= 0, row sums 0.

    Returns the matrix as floats; raises `InvalidModel` naming the first row that breaks a rule.

    >>> check_generator([[-1.0, 1.0], [2.0, -2.0]]).shape
    (2, 2)
    """
    q = check_square(generator, field=field)
    slack = TOLERANCE * np.abs(q).max()
    _check_signs(q, slack, field)
    sums = q.sum(axis=1)
    row = int(np.abs(sums).argmax())
    if abs(sums[row]) > slack:
        raise InvalidModel(field=f"{field}.{row}", rule="row must sum to 0", value=float(sums[row]))
    return q


def check_subgenerator(generator: ArrayLike, *, field: str = "generator") -> Array:
    """The generator of a chain that ends: off-diagonal entries >= 0, row sums <= 0, every state can reach the end.

    Returns the matrix as floats; raises `InvalidModel` naming the first row that breaks a rule.
    """
    q = check_square(generator, field=field)
    slack = TOLERANCE * np.abs(q).max()
    _check_signs(q, slack, field)
    sums = q.sum(axis=1)
    row = int(sums.argmax())
    if sums[row] > slack:
        raise InvalidModel(field=f"{field}.{row}", rule="row must not sum to more than 0", value=float(sums[row]))
    # What counts as a way out is seen row by row: rates of stiff chains are many orders apart.
    own = TOLERANCE * np.abs(q).max(axis=1)
    ends, moves = sums < -own, q > own[:, None]
    count, label = csgraph.connected_components(sparse.csr_array(moves), connection="strong")
    for part in range(count):
        inside = label == part
        if not ends[inside].any() and not moves[inside][:, ~inside].any():
            state = int(np.flatnonzero(inside)[0])
            raise InvalidModel(field=f"{field}.{state}", rule="every phase must be able to reach the end")
    return q


def _check_signs(q: Array, slack: float, field: str) -> None:
    off = q - np.diag(np.diag(q))
    row, column = np.unravel_index(int(off.argmin()), off.shape)
    if off[row, column] < -slack:
        raise InvalidModel(
            field=f"{field}.{row}.{column}",
            rule="off-diagonal entries must be at least 0",
            value=float(off[row, column]),
        )


def closed_classes(generator: Matrix) -> list[NDArray[np.intp]]:
    """The closed communicating classes of a chain, each as an array of states; the other states are transient."""
    graph: Any = sparse.coo_array(generator)
    start, end = graph.coords
    moves = (start != end) & (graph.data != 0.0)
    start, end = start[moves], end[moves]
    graph = sparse.coo_array((np.ones(len(start)), (start, end)), shape=graph.shape)
    count, label = csgraph.connected_components(graph, connection="strong")
    leaves = np.zeros(count, dtype=bool)
    leaves[label[start[label[start] != label[end]]]] = True
    return [np.flatnonzero(label == part) for part in range(count) if not leaves[part]]


def stationary(generator: Matrix, *, field: str = "generator") -> Array:
    """Stationary vector x of a chain: x Q = 0, x >= 0, sum x = 1.

    Dense: GTH elimination (Grassmann, Taksar, Heyman 1985, "Regenerative analysis and steady state
    distributions for Markov chains", Oper. Res. 33), every entry to about 1e-15 relative. Sparse: LU without
    the state of largest holding time, refined; raises `NotConverged` above a relative residual of 1e-10.
    Transient states get 0. More than one closed class raises `InvalidModel`, for x is then not unique.

    >>> stationary(np.array([[-1.0, 1.0], [3.0, -3.0]])).tolist()
    [0.75, 0.25]
    """
    if not isinstance(generator, np.ndarray):
        return _sparse_stationary(sparse.csr_array(generator), field)
    q = np.asarray(generator, dtype=np.float64)
    x = _eliminate(q)
    if x is not None:
        return x
    states = _only_class(q, field)
    x = np.zeros(len(q))
    part = _eliminate(q[np.ix_(states, states)])
    assert part is not None  # a closed communicating class is irreducible
    x[states] = part
    return x


def stationary_signed(generator: Array, *, where: str = "chain") -> Array:
    """The vector x with x Q = 0 and sum x = 1 of a matrix whose rows sum to 0 but whose entries may be negative.

    Such matrices arise from matrix-exponential service times and rational arrival processes, whose "phases"
    carry signed weights. Solved by LU; raises `NotConverged` when 0 is not a simple eigenvalue to working
    accuracy.
    """
    n = len(generator)
    system = np.concatenate([generator[:, :-1], np.ones((n, 1))], axis=1)
    right = np.zeros(n)
    right[-1] = 1.0
    scale = float(np.abs(generator).max()) or 1.0
    system[:, :-1] /= scale
    x = factor(system, where=where).solve_left(right)
    residual = float(np.abs(x @ generator).max()) / scale
    if not residual <= 1e-9 * max(1.0, float(np.abs(x).max())):
        raise NotConverged(where=where, residual=residual, iterations=1, advice="the matrix has no simple eigenvalue 0")
    return x


def _eliminate(q: Array) -> Array | None:
    """GTH elimination by panels; None if the chain is reducible."""
    a = q.copy()
    n = len(a)
    top = n
    while top > 1:
        low = max(top - _PANEL, 1)
        for k in range(top - 1, low - 1, -1):
            a[k, :k] += a[k, k + 1 : top] @ a[k + 1 : top, :k]
            a[:k, k] += a[:k, k + 1 : top] @ a[k + 1 : top, k]
            out = a[k, :k].sum()
            if not out > 0.0:
                return None
            a[:k, k] /= out
        a[:low, :low] += a[:low, low:top] @ a[low:top, :low]
        top = low
    x = np.empty(n)
    x[0] = 1.0
    for k in range(1, n):
        x[k] = x[:k] @ a[:k, k]
    return np.asarray(x / x.sum())


def _only_class(q: Matrix, field: str) -> NDArray[np.intp]:
    classes = closed_classes(q)
    if len(classes) != 1:
        raise InvalidModel(
            field=field,
            rule="the chain must have one closed class of states (it is reducible: split it)",
            value=f"{len(classes)} closed classes",
        )
    return classes[0]


def _sparse_stationary(q: Matrix, field: str) -> Array:
    states = _only_class(q, field)
    inner: Any = sparse.csr_array(q[states][:, states])
    x = np.zeros(q.shape[0])
    if len(states) == 1:
        x[states] = 1.0
        return x
    # Fixing the weight of a state that is held long keeps the factors far from singular.
    fixed = int(inner.diagonal().argmax())
    rest = np.flatnonzero(np.arange(len(states)) != fixed)
    matrix: Any = sparse.csc_array(inner[rest][:, rest].T)
    right = -inner[[fixed]][:, rest].toarray().ravel()
    factors = sparse_linalg.splu(
        matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )
    y = factors.solve(right)
    y += factors.solve(right - matrix @ y)
    part = np.empty(len(states))
    part[fixed], part[rest] = 1.0, y
    part /= part.sum()
    residual = float(np.abs(part @ inner).max() / np.abs(inner.diagonal()).max())
    if not residual <= 1e-10:
        raise NotConverged(
            where=field, residual=residual, iterations=2, advice="use a dense matrix, which is solved by GTH"
        )
    x[states] = part
    return x
