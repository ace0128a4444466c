"""Draws from lowered laws.

A law is a program of rows (operation, offset of its parameters, count, target) over one parameter array, made by
`qsim.sampling.program`.  A draw is a product: each leaf multiplies it by a draw of its own, a branch jumps to one
of its alternatives, `END` returns.  Products and mixtures of anything need no more than that, and no stack.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper, jit
from qsim.kernels.random import (
    Array,
    State,
    below,
    exponential,
    fill_exponential,
    fill_uniform,
    gamma,
    normal,
    uniform,
)

Rows = NDArray[np.int64]

#: Operations; parameters as listed, from the row's offset on.
END = 0
JUMP = 1  # to row `target`
BRANCH = 2  # alias table of `count` branches, then their first rows
CONSTANT = 3  # value
UNIFORM = 4  # low, high - low
EXPONENTIAL = 5  # mean
ERLANG = 6  # mean of a stage; `count` stages
HYPEREXPONENTIAL = 7  # alias table of `count` branches, then their means
GAMMA = 8  # shape, scale
WEIBULL = 9  # 1 / shape, scale
LOGNORMAL = 10  # mean and standard deviation of the logarithm
PARETO = 11  # 1 / shape, minimum
BOUNDED_PARETO = 12  # 1 / shape, minimum, maximum, P(Pareto <= maximum)
PHASE_TYPE = 13  # alias tables of start and of each phase over `count` phases and the exit, then mean sojourns
EMPIRICAL = 14  # `count` values
TABLE = 15  # piecewise inverse: `count` cells: knots, then coefficients

#: Polynomial degree of a cell of `TABLE`.
DEGREE = 7


@helper
def choose(params: Array, offset: int, count: int, state: State) -> int:
    """An index with given probabilities in constant time: Walker's alias table (thresholds, then aliases)."""
    scaled = uniform(state) * count
    column = int(scaled)
    if scaled - column < params[offset + column]:
        return column
    return int(params[offset + count + column])


@helper
def _phase_type(params: Array, offset: int, phases: int, state: State) -> float:
    width = phases + 1
    sojourns = offset + 2 * width * width
    total = 0.0
    phase = choose(params, offset, width, state)
    while phase < phases:
        total += exponential(state) * params[sojourns + phase]
        phase = choose(params, offset + 2 * width * (phase + 1), width, state)
    return total


@helper
def _table(params: Array, offset: int, cells: int, state: State) -> float:
    """Inverse of -log P(X > x) at an exponential draw: the cell by bisection, its polynomial by Horner's rule."""
    z = exponential(state)
    low, high = 0, cells
    while high - low > 1:
        middle = (low + high) // 2
        if params[offset + middle] <= z:
            low = middle
        else:
            high = middle
    place = (z - params[offset + low]) / (params[offset + low + 1] - params[offset + low])
    place = 2.0 * (place if place < 1.0 else 1.0) - 1.0
    first = offset + cells + 1 + low * (DEGREE + 1)
    value: float = params[first + DEGREE]
    for power in range(DEGREE - 1, -1, -1):
        value = value * place + params[first + power]
    return value if value > 0.0 else 0.0


@jit
def draw(ops: Rows, params: Array, state: State) -> float:
    """One draw of the law."""
    value = 1.0
    row = 0
    while True:
        op, at, count = ops[row, 0], ops[row, 1], ops[row, 2]
        row += 1
        if op == END:
            return value
        if op == EXPONENTIAL:
            value *= exponential(state) * params[at]
        elif op == CONSTANT:
            value *= params[at]
        elif op == UNIFORM:
            value *= params[at] + uniform(state) * params[at + 1]
        elif op == ERLANG:
            total = exponential(state)
            for _ in range(count - 1):
                total += exponential(state)
            value *= total * params[at]
        elif op == HYPEREXPONENTIAL:
            branch = choose(params, at, count, state)
            value *= exponential(state) * params[at + 2 * count + branch]
        elif op == GAMMA:
            value *= gamma(state, params[at]) * params[at + 1]
        elif op == WEIBULL:
            value *= exponential(state) ** params[at] * params[at + 1]
        elif op == LOGNORMAL:
            value *= math.exp(params[at] + params[at + 1] * normal(state))
        elif op == PARETO:
            value *= math.exp(exponential(state) * params[at]) * params[at + 1]
        elif op == BOUNDED_PARETO:
            stretch = math.exp(-math.log1p(-uniform(state) * params[at + 3]) * params[at])
            stretch *= params[at + 1]
            value *= stretch if stretch < params[at + 2] else params[at + 2]
        elif op == EMPIRICAL:
            value *= params[at + below(state, count)]
        elif op == PHASE_TYPE:
            value *= _phase_type(params, at, count, state)
        elif op == TABLE:
            value *= _table(params, at, count, state)
        elif op == BRANCH:
            branch = choose(params, at, count, state)
            row = int(params[at + 2 * count + branch])
        else:  # JUMP
            row = ops[row - 1, 3]


@jit
def fill(ops: Rows, params: Array, state: State, out: Array) -> None:
    """Fill `out` with what as many calls of `draw` would give."""
    op, at = ops[0, 0], ops[0, 1]
    if ops[1, 0] != END:
        op = END
    if op == EXPONENTIAL:
        fill_exponential(state, params[at], out)
    elif op == CONSTANT:
        for i in range(out.size):
            out[i] = params[at]
    elif op == UNIFORM:
        fill_uniform(state, out)
        for i in range(out.size):
            out[i] = params[at] + out[i] * params[at + 1]
    else:
        for i in range(out.size):
            out[i] = draw(ops, params, state)
