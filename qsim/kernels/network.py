"""Networks of exponential servers as a uniformised jump chain.

Every class and every server ticks at its constant rate, whatever the state; a tick of a server that works on nothing
changes nothing. Ticks are drawn by the alias method in constant time and choices look at the places they concern only,
so that the cost of an event does not grow with the network. Time is counted in ticks: the mean of a function of the
state over ticks is its time average, with the exponential gaps between ticks replaced by their mean.

Jobs are counted by place. `counts` holds the jobs of each place, a 0 for the exit (place number `places`), then jobs by
server and by route: whatever a rule compares is one of its slots. All state lives in arrays, so that a run can be
continued.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper, jit
from qsim.kernels.network_dominance import Weights, dominant
from qsim.kernels.random import Array, State, below, uniform

Ints = NDArray[np.int64]

#: How an arrival chooses its first place.
LEAST, FIXED = range(2)
#: Which of its places a server works on.
RANDOM, LONGEST, PRIORITY, DOMINANT, SHORTEST_DOWNSTREAM, LARGEST_DIFFERENTIAL, BACKPRESSURE = range(7)
#: What happens to a job that may not move on.
FREE, IDLE, BLOCKING = range(3)

#: Columns of the table of places: slots of its server and its route, the slot that routing compares, class, rank by
#: priority, position on the route, and where its onward places and the places that count as downstream are listed.
SERVER_SLOT, ROUTE_SLOT, SIZE, CLASS, RANK, POSITION, ONWARD, ONWARD_END, AFTER, AFTER_END = range(10)
#: Columns of the tally of places: sum of jobs over ticks up to tick `SINCE`, jobs that left.
AREA, SINCE, MOVES = range(3)
#: Columns of the tally of servers: ticks, services that ended, and the place of a finished job that occupies it.
TICKED, ENDED, OCCUPANT = range(3)
#: Columns of the tally of classes.
CAME, LEFT = range(2)
#: Entries of the clock: ticks, jobs present, their sum over ticks, arrivals, occupied servers.
TICKS, PRESENT, TOTAL_AREA, ARRIVALS, OCCUPIED = range(5)

NOBODY = -1
_LOWEST = -(2**62)


class Rules(NamedTuple):
    """Codes for entry, sharing and holding; 1 where the first of equals is taken, at entry and onward; the exit."""

    entry: int
    sharing: int
    holding: int
    first_at_entry: int
    first_onward: int
    exit: int


class Plan(NamedTuple):
    """A network lowered.

    share, other : the alias table of ticks, classes first, then servers.
    places : one row a place and one for the exit, columns as above.
    lists : numbers of places, list by list.
    entry, here : by class and by server, start and end of their places in `lists`.
    chances : cumulative probabilities beside the entries of `lists`, where arrivals choose by chance.
    """

    share: Array
    other: Ints
    places: Ints
    lists: Ints
    entry: Ints
    here: Ints
    chances: Array


class Record(NamedTuple):
    """State and tallies: jobs by slot, the clock, tallies of places, servers and classes, the occupied servers in
    order, and which places carry the test function."""

    counts: Ints
    clock: Ints
    at_places: Ints
    at_servers: Ints
    of_classes: Ints
    occupied: Ints
    carrying: Ints


@helper
def _change(counts: Ints, places: Ints, at_places: Ints, k: int, by: int, tick: int) -> None:
    """Add jobs to place `k` (or take them away) at the end of `tick`."""
    at_places[k, AREA] += counts[k] * (tick - at_places[k, SINCE])
    at_places[k, SINCE] = tick
    counts[k] += by
    counts[places[k, SERVER_SLOT]] += by
    counts[places[k, ROUTE_SLOT]] += by


@helper
def _least(counts: Ints, places: Ints, lists: Ints, start: int, end: int, first: int, choices: State) -> int:
    """The listed place whose size is least, ties at random or to the first."""
    chosen: int = lists[start]
    best = counts[places[chosen, SIZE]]
    tied = 1
    for o in range(start + 1, end):
        k = lists[o]
        jobs = counts[places[k, SIZE]]
        if jobs < best:
            chosen, best, tied = k, jobs, 1
        elif jobs == best and first == 0:
            tied += 1
            if below(choices, tied) == 0:
                chosen = k
    return chosen


@helper
def _by_chance(lists: Ints, chances: Array, start: int, end: int, choices: State) -> int:
    """A listed place with its fixed probability."""
    u = uniform(choices)
    o = start
    while o < end - 1 and u >= chances[o]:
        o += 1
    k: int = lists[o]
    return k


@helper
def _downstream(counts: Ints, places: Ints, lists: Ints, k: int) -> int:
    """Jobs in the emptiest place after `k`, 0 if jobs may leave from it."""
    least: int = counts[lists[places[k, AFTER]]]
    for o in range(places[k, AFTER] + 1, places[k, AFTER_END]):
        least = min(least, counts[lists[o]])
    return least


@helper
def _may_move(rules: Rules, counts: Ints, places: Ints, lists: Ints, k: int) -> bool:
    """Whether place `k` lets a finished job go: always, or if the place after it is the exit or holds fewer jobs."""
    if rules.holding == FREE:
        return True
    after = lists[places[k, AFTER]]
    free: bool = after == rules.exit or counts[after] < counts[k]
    return free


@helper
def _ready(rules: Rules, counts: Ints, places: Ints, lists: Ints, k: int) -> bool:
    """Whether a server may work on place `k`."""
    if counts[k] == 0:
        return False
    return rules.holding != IDLE or _may_move(rules, counts, places, lists, k)


@helper
def _drawn(rules: Rules, counts: Ints, places: Ints, lists: Ints, start: int, end: int, choices: State) -> int:
    """A ready place with probability proportional to its jobs, or nobody."""
    jobs, last, ready = 0, NOBODY, 0
    for o in range(start, end):
        k: int = lists[o]
        if _ready(rules, counts, places, lists, k):
            jobs += counts[k]
            last = k
            ready += 1
    if ready <= 1:
        return last
    u = below(choices, jobs)
    for o in range(start, end):
        k = lists[o]
        if _ready(rules, counts, places, lists, k):
            u -= counts[k]
            if u < 0:
                return k
    return last


@helper
def _contended(rules: Rules, counts: Ints, places: Ints, lists: Ints, start: int, end: int) -> bool:
    """Whether more than one of a server's places is ready."""
    ready = 0
    for o in range(start, end):
        k = lists[o]
        if _ready(rules, counts, places, lists, k):
            ready += 1
    return ready > 1


@helper
def _merit(rules: Rules, counts: Ints, places: Ints, lists: Ints, carrying: Ints, k: int) -> int:
    """By how much a server prefers place `k`."""
    merit: int = counts[k]
    if rules.sharing == PRIORITY:
        merit = -places[k, RANK]
    elif rules.sharing == DOMINANT:
        merit = -places[k, POSITION] if carrying[k] else _LOWEST + 1
    elif rules.sharing == SHORTEST_DOWNSTREAM:
        merit = -_downstream(counts, places, lists, k)
    elif rules.sharing != LONGEST:
        merit -= _downstream(counts, places, lists, k)
    return merit


@helper
def _preferred(
    rules: Rules, counts: Ints, places: Ints, lists: Ints, carrying: Ints, start: int, end: int, choices: State
) -> int:
    """The ready place of largest merit, or nobody; ties at random, under backpressure to the first."""
    chosen, best, tied = NOBODY, _LOWEST, 0
    for o in range(start, end):
        k = lists[o]
        if not _ready(rules, counts, places, lists, k):
            continue
        merit = _merit(rules, counts, places, lists, carrying, k)
        if rules.sharing == BACKPRESSURE and merit <= 0:
            continue
        if merit > best:
            chosen, best, tied = k, merit, 1
        elif merit == best and rules.sharing != BACKPRESSURE:
            tied += 1
            if below(choices, tied) == 0:
                chosen = k
    return chosen


@helper
def _move_on(
    rules: Rules,
    counts: Ints,
    places: Ints,
    lists: Ints,
    at_places: Ints,
    of_classes: Ints,
    clock: Ints,
    k: int,
    tick: int,
    choices: State,
) -> None:
    """A finished job of place `k` goes to its next place or leaves."""
    start, end = places[k, ONWARD], places[k, ONWARD_END]
    to = lists[start]
    if end - start > 1:
        to = _least(counts, places, lists, start, end, rules.first_onward, choices)
    _change(counts, places, at_places, k, -1, tick)
    at_places[k, MOVES] += 1
    if to == rules.exit:
        of_classes[places[k, CLASS], LEFT] += 1
        clock[PRESENT] -= 1
    else:
        _change(counts, places, at_places, to, 1, tick)


@helper
def _release(
    rules: Rules,
    counts: Ints,
    places: Ints,
    lists: Ints,
    at_places: Ints,
    at_servers: Ints,
    of_classes: Ints,
    occupied: Ints,
    clock: Ints,
    tick: int,
    choices: State,
) -> None:
    """Finished jobs that may move on by now do, until none may."""
    moved = True
    while moved:
        moved = False
        kept = 0
        for i in range(clock[OCCUPIED]):
            n = occupied[i]
            k = at_servers[n, OCCUPANT]
            if _may_move(rules, counts, places, lists, k):
                at_servers[n, OCCUPANT] = NOBODY
                _move_on(rules, counts, places, lists, at_places, of_classes, clock, k, tick, choices)
                moved = True
            else:
                occupied[kept] = n
                kept += 1
        clock[OCCUPIED] = kept


@jit
def advance(
    plan: Plan, rules: Rules, weights: Weights, record: Record, events: State, choices: State, arrivals: int
) -> None:
    """Run until `arrivals` have come in all since the clock was set."""
    # The arrays by name: handing the tuples themselves on would count references at every call.
    share, other, places, lists = plan.share, plan.other, plan.places, plan.lists
    entry, here, chances = plan.entry, plan.here, plan.chances
    counts, clock, at_places, at_servers = record.counts, record.clock, record.at_places, record.at_servers
    of_classes, occupied, carrying = record.of_classes, record.occupied, record.carrying
    tick, area, come = clock[TICKS], clock[TOTAL_AREA], clock[ARRIVALS]
    kinds, classes = other.size, of_classes.shape[0]
    while come < arrivals:
        tick += 1
        area += clock[PRESENT]
        kind = below(events, kinds)
        if uniform(events) >= share[kind]:
            kind = other[kind]
        if kind < classes:
            come += 1
            of_classes[kind, CAME] += 1
            start, end = entry[kind], entry[kind + 1]
            k = lists[start]
            if end - start > 1:
                if rules.entry == LEAST:
                    k = _least(counts, places, lists, start, end, rules.first_at_entry, choices)
                else:
                    k = _by_chance(lists, chances, start, end, choices)
            _change(counts, places, at_places, k, 1, tick)
            clock[PRESENT] += 1
        else:
            n = kind - classes
            at_servers[n, TICKED] += 1
            if counts[rules.exit + 1 + n] == 0 or at_servers[n, OCCUPANT] != NOBODY:
                continue
            start, end = here[n], here[n + 1]
            if rules.sharing == RANDOM:
                k = _drawn(rules, counts, places, lists, start, end, choices)
            else:
                if rules.sharing == DOMINANT and _contended(rules, counts, places, lists, start, end):
                    dominant(weights, counts, carrying)
                k = _preferred(rules, counts, places, lists, carrying, start, end, choices)
            if k == NOBODY:
                continue
            at_servers[n, ENDED] += 1
            if _may_move(rules, counts, places, lists, k):
                _move_on(rules, counts, places, lists, at_places, of_classes, clock, k, tick, choices)
            else:
                at_servers[n, OCCUPANT] = k
                occupied[clock[OCCUPIED]] = n
                clock[OCCUPIED] += 1
        if clock[OCCUPIED] > 0:
            _release(rules, counts, places, lists, at_places, at_servers, of_classes, occupied, clock, tick, choices)
    clock[TICKS], clock[TOTAL_AREA], clock[ARRIVALS] = tick, area, come
    for k in range(at_places.shape[0]):
        at_places[k, AREA] += counts[k] * (tick - at_places[k, SINCE])
        at_places[k, SINCE] = tick
