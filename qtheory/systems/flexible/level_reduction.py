"""Stationary law of a chain that goes down one level at a time and whose levels repeat with a period.

G_T, the phases at the first visit of level T - 1 from level T, follows downwards from G of the levels above,

    G_T = K_T^-1 D_T,    K_T = diag(out) - sum over k >= 1 of U_(T,k) G_(T+k) ... G_(T+1),

and the stationary vectors upwards: pi_T K_T = sum over sources S < T of pi_S U_(S,k) G_(S+k) ... G_(T+1)
(Neuts 1989, Structured Stochastic Matrices of M/G/1 Type; Ramaswami 1988, Stochastic Models 4, 183-188; here with
levels that differ). Level 0 is a single state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg, sparse

from qtheory.models.errors import NotConverged
from qtheory.queues.linear import Array, Factors, factor
from qtheory.queues.qbd import reduce
from qtheory.systems.flexible.sorted_queues import Level, SortedQueues

_WHERE = "exact solution"
_SETTLED = 1e-3
_ROUND_OFF = 1e-15
_LAPS = 4000
_SLOW = 100
_FLAT = 0.999
_NOTHING = 1e-17
_FLUSH = 1e-30


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """One level with everything above folded in."""

    level: Level
    kernel: Factors

    def passage(self) -> Array:
        """G of this level."""
        result = self.kernel.solve(self.level.down.toarray())
        # Left alone, tiny entries multiply to denormal numbers, on which the processor is ten times slower.
        result[result < _FLUSH] = 0.0
        return result

    def pushed(self, vector: Array) -> Array:
        """vector G, without forming G."""
        return np.asarray(self.kernel.solve_left(vector) @ self.level.down)


def fold(level: Level, *, above: list[Array]) -> Step:
    """K of a level from G of the levels above it, `above[k]` that of T + 1 + k."""
    # Few states jump more than one level: only their rows are carried down.
    jumps = [sparse.coo_array(up).coords[0] for up in level.ups[1:]]
    jumpers = np.unique(np.concatenate(jumps)) if jumps else np.empty(0, np.int64)
    folded = level.ups[0] @ above[0]
    if len(jumpers):
        carried = np.zeros((len(jumpers), above[len(level.ups) - 1].shape[0]))
        for k in range(len(level.ups), 1, -1):
            carried = (carried + level.ups[k - 1][jumpers].toarray()) @ above[k - 1]
        folded[jumpers] += carried @ above[0]
    return Step(level=level, kernel=factor(np.diag(level.out) - folded, where=_WHERE))


def repeating_passages(chain: SortedQueues, *, load: float) -> list[Array]:
    """G of the repeating levels of a chain that goes up one level at a time: G of T = 1, 2, ..., N modulo N.

    The levels T = 0 modulo N alone form a QBD, which cyclic reduction solves; the others follow.
    """
    period, base = chain.queues, _base(chain)
    levels = [chain.level(base + r) for r in range(period)]
    sizes = [len(level.out) for level in levels]
    inner = sum(sizes[1:])
    starts = np.concatenate([[0], np.cumsum(sizes[1:])])
    system = np.zeros((inner, inner))
    exits = np.zeros((inner, 2 * sizes[0]))
    for r in range(1, period):
        here = slice(starts[r - 1], starts[r])
        system[here, here] = np.diag(levels[r].out)
        if r > 1:
            system[here, starts[r - 2] : starts[r - 1]] -= levels[r].down.toarray()
        else:
            exits[here, : sizes[0]] = levels[r].down.toarray()
        if r < period - 1:
            system[here, starts[r] : starts[r + 1]] -= levels[r].ups[0].toarray()
        else:
            exits[here, sizes[0] :] = levels[r].ups[0].toarray()
    solved = linalg.solve(system, exits, overwrite_a=True, overwrite_b=True, check_finite=False)
    below, above = solved[:, : sizes[0]], solved[:, sizes[0] :]
    low, high = slice(0, starts[1]), slice(starts[-2], inner)
    core = reduce(
        up=levels[0].ups[0] @ above[low],
        local=levels[0].ups[0] @ below[low] + levels[0].down @ above[high] - np.diag(levels[0].out),
        down=levels[0].down @ below[high],
        where=_WHERE,
        load=load,
    )
    # One more lap from the top gives every level its own G.
    passage = below[low] + above[low] @ core.passage
    passages = [passage]
    for r in range(period - 1, 0, -1):
        passage = fold(levels[(r + 1) % period], above=[passage]).passage()
        passages.append(passage)
    return [passages[0], *reversed(passages[1:])]


def settled_passages(chain: SortedQueues, *, guess: list[Array], weights: list[Array]) -> list[Array]:
    """G of the repeating levels of a chain that may jump up, T = 1 .. N modulo N, by laps from a first guess.

    `guess` is G of the other model of the same system and `weights` its probabilities of the states of the repeating
    levels. The laps end when what is left to change, in mean over these states, is below 1e-3 of what has changed since
    the guess: the difference between the two models then has three digits.
    """
    period, base = chain.queues, _base(chain)
    levels = [chain.level(base + r) for r in range(1, period + 1)]
    passages = list(guess)
    last = np.inf
    for _ in range(_LAPS):
        before = list(passages)
        for r in range(period, 0, -1):
            above = passages[r:] + passages[:r]
            passages[r - 1] = fold(levels[r - 1], above=above).passage()
        change, moved = (
            sum(
                float(weight @ np.abs(new - old).sum(axis=1))
                for weight, new, old in zip(weights, passages, others, strict=True)
            )
            for others in (before, guess)
        )
        ratio = change / last if last > 0.0 else 0.0
        last = change
        if change <= _ROUND_OFF or (ratio < 1.0 and change * ratio / (1.0 - ratio) <= _SETTLED * moved):
            return passages
    raise NotConverged(
        where=_WHERE,
        residual=last,
        iterations=_LAPS,
        advice="the load is too near to 1: lower it, or ask for fewer states",
    )


def _base(chain: SortedQueues) -> int:
    """A multiple of N from which on levels repeat, and whose lower neighbour is complete too."""
    return -(-(chain.first_full + 1) // chain.queues) * chain.queues


@dataclass(frozen=True, eq=False, kw_only=True)
class LengthLaw:
    """`mean_number` present, and `tails[i, k]` = P(the i-th shortest queue holds at least k jobs).

    `repeating[r - 1]` are the probabilities of the states of the first repeating level with T = r modulo N.
    """

    mean_number: float
    tails: Array
    repeating: list[Array]


def stationary_lengths(chain: SortedQueues, *, passages: list[Array]) -> LengthLaw:
    """The law of the sorted queue lengths, levels summed until they hold less than 1e-17 of the whole.

    A model of a system next to saturation may have no steady state of its own: its mean is then infinite.
    """
    period, base = chain.queues, _base(chain)
    steps: dict[int, Step] = {}
    above = list(passages)
    for number in range(base, 0, -1):
        # `above[k]` is G of number + 1 + k.
        steps[number] = fold(chain.level(number), above=above)
        above = [steps[number].passage(), *above[: period - 1]]
    repeating = [fold(chain.level(base + r), above=passages[r:] + passages[:r]) for r in range(1, period + 1)]

    def step(number: int) -> Step:
        return steps[number] if number <= base else repeating[(number - base - 1) % period]

    full = [chain.lengths(base + r) for r in range(period)]
    counts = np.zeros((period, 2 * (base // period + chain.spread)))
    repeated: list[Array] = []
    total = weighted = before = 0.0
    for number, vector in _vectors(chain, step):
        mass = float(vector.sum())
        total += mass
        if base < number <= base + period:
            repeated.append(vector)
        weighted += number * mass
        lap, r = divmod(number - base, period)
        lengths = chain.lengths(number) if number < base else full[r] + lap
        longest = int(lengths.max())
        if longest >= counts.shape[1]:
            counts = np.pad(counts, ((0, 0), (0, longest)))
        for i in range(period):
            counts[i, : longest + 1] += np.bincount(lengths[:, i], weights=vector, minlength=longest + 1)
        if number > base + period and mass * number <= _NOTHING * weighted:
            break
        if number > base and r == 0:
            fall = mass / before if before > 0.0 else 0.0
            before = mass
            if lap > _SLOW and fall >= _FLAT:
                return LengthLaw(mean_number=math.inf, tails=np.ones((period, 1)), repeating=[])
    tails = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1] / total
    return LengthLaw(
        mean_number=weighted / total,
        tails=np.asarray(tails),
        repeating=[vector / total for vector in repeated],
    )


def _vectors(chain: SortedQueues, step: Callable[[int], Step]) -> Iterator[tuple[int, Array]]:
    """(T, pi_T) upwards from T = 0, relative to pi_0 = 1, without end."""
    waiting: list[Array] = []
    number, vector = 0, np.ones(1)
    while True:
        yield number, vector
        level = chain.level(0) if number == 0 else step(number).level
        arriving = np.zeros(0)
        for k in range(len(level.ups), 0, -1):
            share = vector @ level.ups[k - 1]
            arriving = share + step(number + k + 1).pushed(arriving) if len(arriving) else share
            if k > len(waiting):
                waiting += [np.zeros(0)] * (k - len(waiting))
            waiting[k - 1] = waiting[k - 1] + arriving if len(waiting[k - 1]) else arriving
        number += 1
        vector = step(number).kernel.solve_left(waiting.pop(0))
