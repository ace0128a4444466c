"""Three to eight queues, exactly: between the two models of `sorted_queues`, the spread raised until they agree."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.linear import Array
from qtheory.systems.flexible.fixed_point import check
from qtheory.systems.flexible.level_reduction import (
    LengthLaw,
    repeating_passages,
    settled_passages,
    stationary_lengths,
)
from qtheory.systems.flexible.sorted_queues import SortedQueues

#: States of one level, about 1/N of the phases; 450 are a few seconds of work.
STATES = 450
_FIRST, _LEAST = 4.6, 5


@dataclass(frozen=True, eq=False, kw_only=True)
class Bracket:
    """Two laws between which the truth lies (in mean number present), and the spread at which both were cut."""

    lower: LengthLaw
    upper: LengthLaw
    spread: int


def bracket(*, load: float, fraction: float, weights: Array, tolerance: float = 1e-9, states: int = STATES) -> Bracket:
    """Lower and upper law of the sorted queue lengths, service rate 1.

    Parameters
    ----------
    weights : P(a flexible job joins the i-th shortest queue), as `sorted_queues.position_weights` gives them.
    tolerance : wanted width of the bracket of the mean response, in mean services.
    states : the spread is raised until the bracket is that narrow or the levels have this many states.

    >>> from qtheory.systems.flexible.sorted_queues import position_weights
    >>> found = bracket(
    ...     load=0.5, fraction=1.0, weights=position_weights(queues=3, choices=2, sampling="distinct")
    ... )
    >>> round(found.lower.mean_number / 1.5, 9), round(found.upper.mean_number / 1.5, 9)
    (1.352003472, 1.352003472)

    Raises `NotConverged` where the load is too near to 1 for the levels to be told apart.
    """
    check(load=load, fraction=fraction, choices=2)
    if not tolerance > 0.0:
        raise InvalidModel(field="tolerance", rule="must be positive", value=tolerance)
    if states < 1:
        raise InvalidModel(field="states", rule="must be at least 1", value=states)
    queues = len(weights)
    arrivals = tuple(float(load * (1.0 - fraction + queues * fraction * weight)) for weight in weights)
    largest = _largest_spread(queues, states)
    # How fast a spread becomes rare, were two queues alone: what the longest gains on the shortest and loses.
    fall = math.log((1.0 + arrivals[0]) / (1.0 + arrivals[-1]))
    spread = min(max(math.ceil(_FIRST / max(fall, _FIRST / largest)), _LEAST), largest)
    before: tuple[int, float] | None = None
    while True:
        found = _solve(arrivals, load=load, spread=spread)
        gap = (found.upper.mean_number - found.lower.mean_number) / (queues * load)
        if gap <= tolerance or spread >= largest:
            return found
        if math.isinf(gap):
            spread = min(2 * spread, largest)
            continue
        if before is not None and gap < before[1]:
            fall = math.log(before[1] / gap) / (spread - before[0])
        before = spread, gap
        spread = min(spread + math.ceil(math.log(gap / tolerance) / fall) + 1, largest)


def _solve(arrivals: tuple[float, ...], *, load: float, spread: int) -> Bracket:
    below = SortedQueues(arrivals=arrivals, spread=spread, variant="jockeying")
    passages = repeating_passages(below, load=load)
    above = SortedQueues(arrivals=arrivals, spread=spread, variant="blocking")
    lower = stationary_lengths(below, passages=passages)
    if math.isinf(lower.mean_number):
        raise NotConverged(
            where="lower bound of the exact method",
            residual=lower.mean_number,
            iterations=spread,
            advice="the load is too near to 1: take method='refined'",
        )
    settled = settled_passages(above, guess=passages, weights=lower.repeating)
    return Bracket(lower=lower, upper=stationary_lengths(above, passages=settled), spread=spread)


def _largest_spread(queues: int, states: int) -> int:
    spread = 1
    while math.comb(spread + queues, queues - 1) <= states * queues:
        spread += 1
    return spread
