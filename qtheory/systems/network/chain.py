"""Small networks exactly: the Markov chain of jobs by place, cut off at a total number of jobs.

States with n jobs form level n; an arrival goes up one level, a departure down one, a move on stays. At the highest
level arrivals are lost, so the cut takes away the states beyond and little else: the answer's error is the weight of
the missing levels, continued geometrically from the last two, times their size.

The stationary vector comes from Gauss-Seidel sweeps in the direction of service, each followed by an exact solution for
the levels as a whole (iterative aggregation and disaggregation, Koury, McAllister and Stewart, SIAM J. Alg. Disc.
Meth. 5, 1984, 164-186): single sweeps settle the few jobs that move, the aggregation the slow drift of the total.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from qtheory.models.base import require
from qtheory.models.errors import NotConverged
from qtheory.models.network import Network
from qtheory.solution import Solution
from qtheory.systems.network.answer import check_times, measures
from qtheory.systems.network.control import Control, control
from qtheory.systems.network.expansion import Array, Indices
from qtheory.systems.network.places import EXIT, Places
from qtheory.systems.network.stability import check_stable
from qtheory.systems.network.stabilizability import with_static_split

#: States beyond which `solve` does not go unless told to: about a minute of work.
MOST_STATES = 1_000_000
PRECISION = 1e-7
_LOWEST_TOP = 8
_SWEEPS = 5_000
#: Changes below this, relative to the weight of the states that change, are round-off and fall no more.
_ROUNDING = 1e-14
#: Share of the wanted error that the sweeps may leave over.
_LEFT = 0.05


@dataclass(frozen=True, kw_only=True)
class Stationary:
    """Stationary law of the truncated chain.

    Attributes
    ----------
    states, weights : one state a row, and its weight.
    levels : weight of each total number of jobs.
    unsettled : bound on what further sweeps would change in a mean number of jobs.
    residual, sweeps : largest rate in sum |x Q| over the largest rate of Q, and sweeps taken.
    """

    states: Array
    weights: Array
    levels: Array
    unsettled: float
    residual: float
    sweeps: int

    @property
    def mean_total(self) -> float:
        """Mean number of jobs in the truncated chain."""
        return float(self.levels @ np.arange(len(self.levels)))

    @property
    def ratio(self) -> float:
        """By how much the highest level is rarer than the one below it."""
        return float(self.levels[-1] / self.levels[-2]) if self.levels[-2] > 0 else 0.0

    def error(self) -> float:
        """What the missing levels n > N hold, three times the sum of n p_n continued geometrically, and `unsettled`."""
        if self.ratio >= 1:
            return math.inf
        spare = 1 - self.ratio
        missing = float(self.levels[-1]) * self.ratio / spare
        return 3 * missing * (len(self.levels) + 1 / spare) + self.unsettled


def solve(
    model: Network,
    *,
    at: Sequence[float] = (),
    precision: float = PRECISION,
    most_states: int = MOST_STATES,
) -> Solution:
    """Numerically exact answer for a small network under any policy that is a function of the jobs by place.

    The highest level is raised until the truncation error of the mean number of jobs is below `precision` times it.

    Raises
    ------
    Unstable : theta* <= 1.
    NotConverged : more than `most_states` states would be needed; under a policy that does not keep the network
        stable no number suffices.
    InvalidModel : blocking (`holding`), `precision` below 1e-12, or `at` is given.
    """
    check_times(at)
    require(precision >= 1e-12, field="precision", rule="must be at least 1e-12", value=precision)
    programme = check_stable(model)
    model = with_static_split(model)
    policy = control(model)
    size = policy.places.size
    top, error, sweeps = _LOWEST_TOP, math.inf, 0
    law: Stationary | None = None
    while True:
        if math.comb(top + size, size) > most_states:
            advice = f"{size} places need more than {most_states} states; raise most_states, or simulate"
            if error > 1:
                advice += " (the policy may not keep the network stable)"
            raise NotConverged(where="chain", residual=error, iterations=sweeps, advice=advice)
        law = stationary(policy, top=top, precision=precision, smaller=law)
        sweeps += law.sweeps
        error = law.error()
        if error <= precision * law.mean_total:
            break
        top += _step(law, wanted=precision * law.mean_total)
    number = law.weights @ law.states
    departures = law.weights @ policy.service(law.states)
    return Solution(
        model=model,
        method="chain",
        measures=measures(model, policy.places, number=number, departures=departures, error=error),
        residual=law.residual,
        iterations=sweeps,
        details=programme.details() | {"states": len(law.weights), "highest_level": top},
    )


def _step(law: Stationary, *, wanted: float) -> int:
    """How many levels more should bring the error below `wanted`, at most as many again as there are."""
    error, ratio = law.error(), law.ratio
    if not (math.isfinite(error) and 0 < ratio < 1):
        return len(law.levels)
    return min(2 + math.ceil(1.1 * math.log(error / wanted) / -math.log(ratio)), len(law.levels))


def stationary(
    policy: Control, *, top: int, precision: float = PRECISION, smaller: Stationary | None = None
) -> Stationary:
    """Stationary law with at most `top` jobs in all, mean numbers settled to `precision` / 20 of the total.

    `smaller`: the law of the same chain cut off lower, to start from. Raises `NotConverged` after 5000 sweeps.
    """
    size = policy.places.size
    ranks = Ranks(policy.places, top=top)
    states = ranks.states()
    up, down = _generator(policy, states, ranks)
    climbing = np.asarray(up.sum(axis=1), dtype=float).ravel()
    rates = climbing + np.asarray(down.sum(axis=1)).ravel()
    diagonal = sparse.diags_array(rates)
    # x (D - down) = x_old up: `down` leads to earlier states only, so that the factor is triangular.
    matrix = sparse.csc_array((diagonal - down).T)
    factor = splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"Equil": False})
    back = sparse.csr_array(up.T)
    bounds = np.cumsum([0] + [math.comb(n + size - 1, size - 1) for n in range(top + 1)])
    leaving = _leaving(policy, states)
    totals = np.arange(top + 1)
    x = np.full(len(states), 1.0 / len(states))
    if smaller is not None:
        x[: len(smaller.weights)] = smaller.weights
    changes: list[float] = []
    for sweep in range(1, _SWEEPS + 1):
        old = x
        x = _by_levels(x, climbing=climbing, leaving=leaving, bounds=bounds)
        x = np.maximum(factor.solve(back @ x), 0.0)
        x /= x.sum()
        # The empty state makes up for all others: counted twice, they also say when round-off is reached.
        changes.append(2.0 * float(np.abs(x - old)[1:].sum()))
        unsettled = top * _still_to_come(changes, round_off=_ROUNDING * float(x[1:].sum()))
        levels = np.add.reduceat(x, bounds[:-1])
        if unsettled <= _LEFT * precision * float(levels @ totals):
            residual = float(np.abs((up + down - diagonal).T @ x).sum() / rates.max())
            return Stationary(
                states=states, weights=x, levels=levels, unsettled=unsettled, residual=residual, sweeps=sweep
            )
    raise NotConverged(where="chain", residual=changes[-1], iterations=_SWEEPS, advice="lower the traffic, or simulate")


def _still_to_come(changes: list[float], *, round_off: float) -> float:
    """What the changes to come add up to: they fall by a constant factor in the end, a geometric series."""
    if len(changes) < 8:
        return math.inf
    if changes[-1] < round_off:
        return 100 * round_off
    factor = max(later / sooner if sooner > 0 else 0.0 for sooner, later in pairwise(changes[-6:]))
    return changes[-1] * factor / (1 - factor) if factor < 1 else math.inf


def _by_levels(x: Array, *, climbing: Array, leaving: Array, bounds: Indices) -> Array:
    """`x` with the weights of its levels replaced by those of the birth and death process they form."""
    mass = np.add.reduceat(x, bounds[:-1])
    ups = np.add.reduceat(x * climbing, bounds[:-1]) / mass
    downs = np.add.reduceat(x * leaving, bounds[:-1]) / mass
    with np.errstate(divide="ignore"):
        logs = np.concatenate([[0.0], np.cumsum(np.log(ups[:-1]) - np.log(downs[1:]))])
    wanted = np.exp(logs - logs.max())
    return np.asarray(x * np.repeat(wanted / wanted.sum() / mass, np.diff(bounds)))


def _leaving(policy: Control, states: Array) -> Array:
    """Rate of departures from the network in each state."""
    service = policy.service(states)
    total = np.zeros(len(states))
    for k, options in enumerate(policy.places.onward):
        exits = options == EXIT
        if exits.any():
            total += service[:, k] * policy.onward(states, k=k)[:, exits].sum(axis=1)
    return total


def _generator(policy: Control, states: Array, ranks: Ranks) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Rates of arrivals (to later states) and of services (to earlier states)."""
    where = policy.places
    here = np.arange(len(states))
    room = states.sum(axis=1) < ranks.top
    ups: list[tuple[Indices, Indices, Array]] = []
    downs: list[tuple[Indices, Indices, Array]] = []
    for c, rate in enumerate(where.expansion.arrival_rates):
        chosen = policy.entry(states, c=c)
        for o, k in enumerate(where.entry[c]):
            moving = room & (chosen[:, o] > 0)
            ups.append((here[moving], ranks(_moved(states[moving], to=int(k))), rate * chosen[moving, o]))
    service = policy.service(states)
    for k in range(where.size):
        chosen = policy.onward(states, k=k)
        for o, target in enumerate(where.onward[k]):
            flow = service[:, k] * chosen[:, o]
            moving = flow > 0
            downs.append((here[moving], ranks(_moved(states[moving], start=k, to=int(target))), flow[moving]))
    return _matrix(ups, size=len(states)), _matrix(downs, size=len(states))


def _moved(states: Array, *, start: int = EXIT, to: int) -> Array:
    moved = states.copy()
    if start != EXIT:
        moved[:, start] -= 1
    if to != EXIT:
        moved[:, to] += 1
    return moved


def _matrix(parts: list[tuple[Indices, Indices, Array]], *, size: int) -> sparse.csr_array:
    rows, columns, values = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return sparse.csr_array((values, (rows, columns)), shape=(size, size))


class Ranks:
    """The place of a state among all states with at most `top` jobs, ordered by total, then by the last place, ...

    Places are taken along the arcs of the network. With s_j the sum of the first j entries a state has rank
    sum_j C(s_j + j - 1, j) (the combinatorial number system): a job that moves on or leaves lowers it.
    """

    def __init__(self, where: Places, *, top: int) -> None:
        self.top = top
        self.order = along_arcs(where)
        table = [[math.comb(s + j - 1, j) for s in range(top + 1)] for j in range(1, where.size + 1)]
        self.table = np.array(table, dtype=np.intp)

    def __call__(self, states: Array) -> Indices:
        sums = np.cumsum(states[:, self.order].astype(np.intp), axis=1)
        rank = np.zeros(len(states), dtype=np.intp)
        for j, row in enumerate(self.table):
            rank += row[sums[:, j]]
        return rank

    def states(self) -> Array:
        """All states by rank."""
        listed = level_states(len(self.order), top=self.top)
        states = np.empty_like(listed)
        states[:, self.order] = listed
        return states


def along_arcs(where: Places) -> Indices:
    """The places in an order in which jobs move on to later ones only."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for k, options in enumerate(where.onward):
        sorter.add(k)
        for target in options:
            if target != EXIT:
                sorter.add(int(target), k)
    return np.fromiter(sorter.static_order(), dtype=np.intp)


def level_states(size: int, *, top: int) -> Array:
    """All states of `size` places with at most `top` jobs, by total, then by the last place, the first last.

    >>> level_states(2, top=1).tolist()
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    # Partial sums s_1 <= ... <= s_size, the last slowest.
    sums = np.arange(top + 1)[:, None]
    for _ in range(size - 1):
        counts = sums[:, 0] + 1
        first = np.concatenate([np.arange(count) for count in counts])
        sums = np.column_stack([first, np.repeat(sums, counts, axis=0)])
    return np.diff(sums, axis=1, prepend=0).astype(float)
