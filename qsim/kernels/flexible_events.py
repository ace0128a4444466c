"""Parallel queues event by event: processor sharing, and first come first served where all lengths must be known.

Each queue announces its next departure in a tournament, so an event costs the logarithm of the number of queues.  A
queue holds its jobs in a chain (first come first served) or in a pairing heap by the service that a job present from
the start would have had when the job leaves (processor sharing, where each of n jobs is served at speed 1/n).

At one instant departures come before arrivals.  Jobs are counted by arrival index and followed to their departure, for
which arrivals go on after the last counted one; time averages are integrals over the window from the last arrival of
the warm-up to the last counted arrival.
"""

from __future__ import annotations

import math

import numpy as np

from qsim.kernels._jit import helper, jit
from qsim.kernels.flexible import (
    BUSY,
    FLEXIBLE,
    LEFT,
    PRESENT,
    UNFINISHED,
    WAITING,
    WINDOW,
    Source,
    draw_kinds,
    draw_picks,
    enter,
    tied_pick,
)
from qsim.kernels.histogram import Counts
from qsim.kernels.random import Array, State, fill_uniform
from qsim.kernels.sampling import choose, fill
from qsim.kernels.shortest import Index, Ints, longer_by_one, play, shorter_by_one

#: Ways to find the shortest: among the picks, by place in the sorted order, or on top of a tournament of lengths.
LOOKED_AT, SORTED, LOWEST = range(3)
FIRST_COME, SHARING = range(2)

#: Columns of a job: index, arrival, size, begin of service or the goal of shared service.
INDEX, ARRIVAL, SIZE, GOAL = range(4)
#: Links of a job: the next of its queue, or its first child and next sibling in the heap; class.
NEXT, CHILD, KIND = range(3)

Jobs = tuple[Array, Ints]
#: Numbers held, first and last jobs (or top of the heap), service attained by a job always present, since when.
Lines = tuple[Ints, Ints, Ints, Array, Array]

_NOBODY = -1
_BLOCK = 1024


def empty_lines(count: int) -> Lines:
    """Queues that hold nobody."""
    nobody = np.full(count, _NOBODY, np.int64)
    return np.zeros(count, np.int64), nobody, nobody.copy(), np.zeros(count), np.zeros(count)


def empty_jobs(size: int) -> tuple[Jobs, Ints]:
    """Room for jobs, all free, and where the list of free entries begins."""
    links = np.zeros((size, 3), np.int64)
    links[:, NEXT] = np.arange(1, size + 1)
    links[-1, NEXT] = _NOBODY
    return (np.zeros((size, 4)), links), np.zeros(1, np.int64)


@helper
def _wider(jobs: Jobs, spare: Ints) -> Jobs:
    old = jobs[0].shape[0]
    facts, links = np.zeros((2 * old, 4)), np.zeros((2 * old, 3), np.int64)
    for i in range(old):
        for column in range(4):
            facts[i, column] = jobs[0][i, column]
        for column in range(3):
            links[i, column] = jobs[1][i, column]
    for i in range(old, 2 * old):
        links[i, NEXT] = i + 1
    links[2 * old - 1, NEXT] = _NOBODY
    spare[0] = old
    return facts, links


@helper
def _meld(jobs: Jobs, one: int, two: int) -> int:
    """Two heaps made one: the top with the larger goal (then index) becomes a child of the other."""
    facts, links = jobs
    if one < 0:
        return two
    if two < 0:
        return one
    a, b = facts[one, GOAL], facts[two, GOAL]
    if b < a or (b == a and facts[two, INDEX] < facts[one, INDEX]):
        one, two = two, one
    links[two, NEXT] = links[one, CHILD]
    links[one, CHILD] = two
    return one


@helper
def _without_top(jobs: Jobs, top: int) -> int:
    """The heap without its top: its children melded in pairs, the pairs from the last."""
    links = jobs[1]
    child, pairs = links[top, CHILD], _NOBODY
    while child >= 0:
        partner = links[child, NEXT]
        following = links[partner, NEXT] if partner >= 0 else _NOBODY
        links[child, NEXT] = _NOBODY
        if partner >= 0:
            links[partner, NEXT] = _NOBODY
        pair = _meld(jobs, child, partner)
        links[pair, NEXT] = pairs
        pairs = pair
        child = following
    heap = _NOBODY
    while pairs >= 0:
        following = links[pairs, NEXT]
        links[pairs, NEXT] = _NOBODY
        heap = _meld(jobs, heap, pairs)
        pairs = following
    return heap


@helper
def _attain(lines: Lines, queue: Index, now: float) -> None:
    """Bring shared service up to date; an empty queue begins anew."""
    numbers, attained, since = lines[0], lines[3], lines[4]
    if numbers[queue] > 0:
        attained[queue] += (now - since[queue]) / numbers[queue]
    else:
        attained[queue] = 0.0
    since[queue] = now


@helper
def _announce(discipline: int, lines: Lines, jobs: Jobs, queue: Index) -> float:
    """The instant of the next departure if nobody joins."""
    numbers, heads, _, attained, since = lines
    head = heads[queue]
    if head < 0:
        return math.inf
    if discipline == FIRST_COME:
        return float(jobs[0][head, GOAL] + jobs[0][head, SIZE])
    return float(since[queue] + max(0.0, jobs[0][head, GOAL] - attained[queue]) * numbers[queue])


@helper
def _join(discipline: int, lines: Lines, jobs: Jobs, queue: Index, job: int, now: float) -> bool:
    """A job joins a queue; whether it has to wait for its turn."""
    numbers, heads, tails, attained, _ = lines
    facts, links = jobs
    links[job, NEXT], links[job, CHILD] = _NOBODY, _NOBODY
    if discipline == SHARING:
        _attain(lines, queue, now)
        facts[job, GOAL] = attained[queue] + facts[job, SIZE]
        heads[queue] = _meld(jobs, heads[queue], job)
        numbers[queue] += 1
        return False
    waits = heads[queue] >= 0
    if waits:
        # Its begin of service is set when the job before it leaves.
        links[tails[queue], NEXT] = job
    else:
        heads[queue] = job
        facts[job, GOAL] = now
    tails[queue] = job
    numbers[queue] += 1
    return bool(waits)


@helper
def _leave(discipline: int, lines: Lines, jobs: Jobs, queue: Index, now: float) -> int:
    """The job that leaves a queue now."""
    numbers, heads, _, attained, _ = lines
    facts, links = jobs
    job = heads[queue]
    if discipline == SHARING:
        _attain(lines, queue, now)
        attained[queue] = max(attained[queue], facts[job, GOAL])
        heads[queue] = _without_top(jobs, job)
    else:
        heads[queue] = links[job, NEXT]
        if heads[queue] >= 0:
            facts[heads[queue], GOAL] = now
    numbers[queue] -= 1
    return int(job)


@jit
def run(
    gap: Source,
    classes: State,
    service: Source,
    routing: State,
    breaking: State,
    lowest: bool,
    fraction: float,
    way: int,
    discipline: int,
    distinct: bool,
    choices: int,
    positions: Array,
    lines: Lines,
    room: Jobs,
    spare: Ints,
    clock: tuple[Array, Ints],
    order: tuple[Ints, Ints, Ints],
    lengths: tuple[Array, Ints],
    warmup: int,
    jobs: int,
    patience: int,
    at: Array,
    tally: Array,
    times: Array,
    window: Array,
    seen: Counts,
    tails: Array,
    response_counts: Counts,
    wait_counts: Counts,
) -> None:
    """One replication; fills the tally arrays (zero before).

    `clock` is a tournament of next departures; `order` (for `SORTED`) the queues sorted by length, `positions` the
    alias table of the place that a flexible job takes in it (empty: the first); `lengths` (for `LOWEST`) a tournament
    of lengths.  At most `patience` jobs arrive after the last counted one.
    """
    held = room
    numbers = lines[0]
    count = numbers.size
    departures, winners = clock
    sorted_queues, place, first = order
    gaps, sizes, uniforms, ties = np.empty(_BLOCK), np.empty(_BLOCK), np.empty(_BLOCK), np.zeros(_BLOCK)
    kinds = np.zeros(_BLOCK, np.int8)
    picks = np.empty((_BLOCK, choices), np.int32)
    keys = np.empty(choices)
    waits, responses = np.empty((2, _BLOCK)), np.empty((2, _BLOCK))
    filled = np.zeros(2, np.int64)
    inside, waiting = np.zeros(2, np.int64), np.zeros(2, np.int64)
    busy, counted, drawn, last = 0, 0, 0, warmup + jobs
    now, next_arrival, block, ahead = 0.0, 0.0, 0, 0
    while (counted < jobs or drawn < last) and drawn < last + patience:
        if ahead == block:
            # A block of jobs to come.
            block, ahead = _BLOCK, 0
            fill(gap[0], gap[1], gap[2], gaps)
            fill(service[0], service[1], service[2], sizes)
            draw_kinds(classes, fraction, uniforms, kinds)
            draw_picks(routing, count, distinct, picks)
            if not lowest:
                fill_uniform(breaking, ties)
            next_arrival = now_arrival(gaps, next_arrival)
        leaving = winners[1]
        departs = departures[leaving] <= gaps[ahead]
        instant = departures[leaving] if departs else gaps[ahead]
        if warmup <= drawn < last:
            step = instant - now
            window[WINDOW] += step
            window[BUSY] += busy * step
            for kind in range(2):
                times[kind, PRESENT] += inside[kind] * step
                times[kind, WAITING] += waiting[kind] * step
        now = instant
        if departs:
            queue = leaving
            length = numbers[queue]
            job = _leave(discipline, lines, held, queue, now)
            kind = held[1][job, KIND]
            inside[kind] -= 1
            if discipline == FIRST_COME and lines[1][queue] >= 0:
                waiting[held[1][lines[1][queue], KIND]] -= 1
            if length == 1:
                busy -= 1
            if way == SORTED:
                shorter_by_one(sorted_queues, place, first, queue, length)
            elif way == LOWEST:
                play(lengths[0], lengths[1], queue, float(length - 1))
            if warmup <= drawn < last:
                times[kind, LEFT] += 1.0
            if warmup <= held[0][job, INDEX] < last:
                counted += 1
                response = now - held[0][job, ARRIVAL]
                size = held[0][job, SIZE]
                wait = response - size if discipline == SHARING else held[0][job, GOAL] - held[0][job, ARRIVAL]
                waits[kind, filled[kind]], responses[kind, filled[kind]] = max(wait, 0.0), response
                filled[kind] += 1
                if filled[kind] == _BLOCK:
                    enter(
                        waits[kind],
                        responses[kind],
                        at,
                        tally[kind],
                        tails[kind],
                        response_counts[kind],
                        wait_counts[kind],
                    )
                    filled[kind] = 0
            held[1][job, NEXT] = spare[0]
            spare[0] = job
        else:
            kind = int(kinds[ahead])
            queue = np.int64(picks[ahead, 0])
            if warmup <= drawn < last:
                seen[min(numbers[queue], seen.size - 1)] += 1
            if kind == FLEXIBLE:
                if way == SORTED:
                    spot = choose(positions, 0, positions.size // 2, routing) if positions.size > 0 else 0
                    length = numbers[sorted_queues[spot]]
                    queue = sorted_queues[first[length] + int(ties[ahead] * (first[length + 1] - first[length]))]
                elif way == LOWEST:
                    queue = lengths[1][1]
                else:
                    least = math.inf
                    for k in range(choices):
                        keys[k] = float(numbers[picks[ahead, k]])
                        least = min(least, keys[k])
                    queue = np.int64(tied_pick(picks[ahead], keys, choices, least, ties[ahead]))
            length = numbers[queue]
            if spare[0] < 0:
                held = _wider(held, spare)
            job = spare[0]
            spare[0] = held[1][job, NEXT]
            held[0][job, INDEX], held[0][job, ARRIVAL], held[0][job, SIZE] = float(drawn), now, sizes[ahead]
            held[1][job, KIND] = kind
            if _join(discipline, lines, held, queue, job, now):
                waiting[kind] += 1
            inside[kind] += 1
            if length == 0:
                busy += 1
            if way == SORTED:
                first = longer_by_one(sorted_queues, place, first, queue, length)
            elif way == LOWEST:
                play(lengths[0], lengths[1], queue, float(length + 1))
            drawn += 1
            ahead += 1
        play(departures, winners, queue, _announce(discipline, lines, held, queue))
    for kind in range(2):
        n = filled[kind]
        enter(
            waits[kind, :n], responses[kind, :n], at, tally[kind], tails[kind], response_counts[kind], wait_counts[kind]
        )
    window[UNFINISHED] = jobs - counted


@helper
def now_arrival(gaps: Array, before: float) -> float:
    """Turn gaps into instants of arrival; the last one."""
    for i in range(gaps.size):
        before += gaps[i]
        gaps[i] = before
    return before
