"""First return of a Markov-modulated fluid: a nonsymmetric algebraic Riccati equation."""

from __future__ import annotations

import numpy as np

from qtheory.models.errors import NotConverged
from qtheory.queues.linear import Array, factor

_LIMIT = 60
_ADVICE = "check that the fluid drifts down; with signed blocks, that the process behind them is a true one"


def first_return(*, up: Array, up_to_down: Array, down_to_up: Array, down: Array, where: str = "fluid") -> Array:
    """Psi, the phase law at the first return to a level: row, the up state at the start; column, the down state.

    Solves B + A Psi + Psi D + Psi C Psi = 0, where A (`up`), B, C and D (`down`) are the rates within and between
    the states in which the level rises and falls, at unit speed, for a level that comes back with probability 1
    (the caller sees to it): Psi e = e. Structure-preserving doubling (Guo, Lin, Xu 2006, Numer. Math. 103) with
    one shift for both halves, which keeps the split of the spectrum right for signed blocks too; the eigenvalue
    0 is moved away first (Guo, Iannazzo, Meini 2007, SIAM J. Matrix Anal. Appl. 29), so that speed and accuracy
    do not fade near load 1.

    Raises `NotConverged` above a relative residual of 1e-9 or where rows of Psi do not sum to 1.

    >>> one = np.ones((1, 1))
    >>> first_return(up=-one, up_to_down=one, down_to_up=0.5 * one, down=-0.5 * one).item()
    1.0
    """
    gamma = float(max(np.abs(np.diag(up)).max(), np.abs(np.diag(down)).max()))
    n = len(down)
    moved = gamma / n
    b, c = up_to_down + moved, down_to_up
    # One Cayley step turns exponential into geometric decay; then squaring.
    a, d = gamma * np.eye(len(up)) - up, gamma * np.eye(n) - down + moved
    a_factors, d_factors = factor(a, where=where), factor(d, where=where)
    w = factor(a - b @ d_factors.solve(c), where=where)
    v = factor(d - c @ a_factors.solve(b), where=where)
    e = np.eye(n) - 2.0 * gamma * v.solve(np.eye(n))
    f = np.eye(len(up)) - 2.0 * gamma * w.solve(np.eye(len(up)))
    g = 2.0 * gamma * w.solve_left(d_factors.solve(c))
    psi = 2.0 * gamma * d_factors.solve_left(w.solve(b))
    change, steps = np.inf, 0
    with np.errstate(over="ignore", invalid="ignore"):  # a runaway is caught by the residual
        while steps < _LIMIT and change > 1e-15 * float(np.abs(psi).max()):
            steps += 1
            left = factor(np.eye(n) - g @ psi, where=where).solve_left(e)
            right = factor(np.eye(len(up)) - psi @ g, where=where).solve_left(f)
            increment = right @ psi @ e
            g = g + left @ g @ f
            psi = psi + increment
            e, f = left @ e, right @ f
            for power in (e, f):
                power[np.abs(power) < 1e-150] = 0.0
            change = float(np.abs(increment).max())
    residual = up_to_down + up @ psi + psi @ down + psi @ down_to_up @ psi
    size = float(np.abs(residual).max()) / gamma
    sums = psi.sum(axis=1)
    gap = float(np.abs(sums - 1.0).max())
    if not size <= 1e-9 or not gap <= 1e-6:
        raise NotConverged(where=where, residual=max(size, gap, change), iterations=steps, advice=_ADVICE)
    return np.asarray(psi / sums[:, None])
