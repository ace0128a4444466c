"""Parallel first-come-first-served queues, job by job.

A queue never overtakes, so a job's departure is known when it joins: max(arrival, when the queue empties) + service.
Each queue keeps the jobs that have not been seen to leave; those that have left by now are dropped when the queue is
looked at, which is all that counting its jobs takes.  No event list, and exact.

Randomness comes in as columns of a block of jobs, so that `serve` is a function of its arguments.  Jobs are counted by
arrival index; time averages are integrals over the window from the last arrival of the warm-up to the last counted
arrival: of the stays of all that joined in it, less what the ends of the window cut off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper, jit
from qsim.kernels.histogram import Counts, add
from qsim.kernels.passes import above, total
from qsim.kernels.random import Array, State, below, fill_uniform
from qsim.kernels.sampling import Rows, fill
from qsim.kernels.shortest import Index, Ints, play

Picks = NDArray[np.int32]
Links = NDArray[np.int32]
Kinds = NDArray[np.int8]
#: A law's rows, its parameters and the stream it draws from.
Source = tuple[Rows, Array, State]
#: Jobs held: start and end of service, the next in the queue (or in the list of free entries), class.
Held = tuple[Array, Array, Links, Kinds]
#: Queues: when it empties, jobs held, first and last of them.
Queues = tuple[Array, Links, Links, Links]

DEDICATED, FLEXIBLE = range(2)
#: Columns of the tally of counted jobs, one class a row.
COUNT, RESPONSE, WAIT, WAITED = range(4)
#: Columns of what happened in the window, one class a row: integrals of jobs present and waiting, departures.
PRESENT, WAITING, LEFT = range(3)
#: The window's length, integral of busy servers, counted jobs that never left.
WINDOW, BUSY, UNFINISHED = range(3)

NUMBER, WORKLOAD, LEAST_WORKLOAD = range(3)

BLOCK = 1024
_NOBODY = np.int32(-1)
_CLOCK = 2.0**20
_MANY = 8
_ROOM = 1 << 20


def empty_queues(count: int) -> Queues:
    """Queues that have always been empty."""
    nobody = np.full(count, _NOBODY)
    return np.full(count, -np.inf), np.zeros(count, np.int32), nobody, nobody.copy()


def empty_held(size: int) -> tuple[Held, Ints]:
    """Room for jobs, all free, and where the list of free entries begins."""
    links = np.arange(1, size + 1, dtype=np.int32)
    links[-1] = _NOBODY
    return (np.zeros(size), np.zeros(size), links, np.zeros(size, np.int8)), np.zeros(1, np.int64)


@helper
def wider(held: Held, spare: Ints) -> Held:
    """Twice the room, when none is left."""
    old = held[0].size
    size = 2 * old
    starts, ends = np.empty(size), np.empty(size)
    links, kinds = np.empty(size, np.int32), np.empty(size, np.int8)
    for i in range(old):
        starts[i], ends[i], links[i], kinds[i] = held[0][i], held[1][i], held[2][i], held[3][i]
    for i in range(old, size):
        links[i] = i + 1
    links[size - 1] = _NOBODY
    spare[0] = old
    return starts, ends, links, kinds


@helper
def look(queues: Queues, held: Held, spare: Ints, queue: Index, now: float) -> Index:
    """Drop the jobs that have left a queue by now; the number that it holds."""
    size, first = queues[1], queues[2]
    ends, links = held[1], held[2]
    job = first[queue]
    while job >= 0 and ends[job] <= now:
        following = links[job]
        links[job] = spare[0]
        spare[0] = job
        size[queue] -= 1
        job = following
        first[queue] = job
    return np.int64(size[queue])


@helper
def tied_pick(picks: Picks, keys: Array, count: int, least: float, tie: float) -> int:
    """Of the different queues looked at that are shortest, the one numbered floor(tie * how many) from below."""
    different = 0
    for i in range(count):
        new = keys[i] == least
        for k in range(i):
            new = new and picks[k] != picks[i]
        different += 1 if new else 0
    rank = int(tie * different)
    last = -1
    while True:
        best = -1
        for i in range(count):
            if keys[i] == least and picks[i] > last and (best < 0 or picks[i] < best):
                best = picks[i]
        if rank == 0:
            return best
        rank -= 1
        last = best


@jit
def serve(
    rule: int,
    arrivals: Array,
    sizes: Array,
    kinds: Kinds,
    picks: Picks,
    ties: Array,
    queues: Queues,
    held: Held,
    spare: Ints,
    keys: Array,
    winners: Ints,
    seen: Counts,
    starts: Array,
    joined: Picks,
) -> Held:
    """Starts of service and queues joined of jobs in order of arrival; returns the jobs held, with perhaps more room.

    A dedicated job (kind 0) joins its first pick, a flexible one the shortest of its picks by `rule`: `NUMBER` of jobs,
    `WORKLOAD`, or `LEAST_WORKLOAD`, the least of all queues whatever its picks (then `keys` and `winners` are a
    tournament of the instants at which queues empty).  `seen[k]` counts the jobs whose first pick held k.
    """
    frees, numbers, heads, tails = queues
    choices = picks.shape[1]
    lengths = np.empty(choices)
    for i in range(arrivals.size):
        now = arrivals[i]
        queue = np.int64(picks[i, 0])
        length = look(queues, held, spare, queue, now)
        seen[length if length < seen.size else seen.size - 1] += 1
        if kinds[i] == FLEXIBLE:
            if rule == LEAST_WORKLOAD:
                queue = winners[1]
            elif choices == 2:
                other = np.int64(picks[i, 1])
                if rule == NUMBER:
                    mine, theirs = float(length), float(look(queues, held, spare, other, now))
                else:
                    mine, theirs = max(frees[queue] - now, 0.0), max(frees[other] - now, 0.0)
                if theirs < mine or (theirs == mine and ((ties[i] < 0.5) == (other < queue))):
                    queue = other
            else:
                least = np.inf
                for k in range(choices):
                    pick = np.int64(picks[i, k])
                    if rule == NUMBER:
                        lengths[k] = look(queues, held, spare, pick, now)
                    else:
                        lengths[k] = max(frees[pick] - now, 0.0)
                    least = min(least, lengths[k])
                queue = np.int64(tied_pick(picks[i], lengths, choices, least, ties[i]))
        free = frees[queue]
        start = now if now > free else free
        end = start + sizes[i]
        frees[queue] = end
        if rule == LEAST_WORKLOAD:
            play(keys, winners, queue, end)
        if spare[0] < 0:
            held = wider(held, spare)
        job = np.int32(spare[0])
        spare[0] = held[2][job]
        held[0][job], held[1][job], held[2][job], held[3][job] = start, end, _NOBODY, kinds[i]
        if heads[queue] < 0:
            heads[queue] = job
        else:
            held[2][tails[queue]] = job
        tails[queue] = job
        numbers[queue] += 1
        starts[i], joined[i] = start, queue
    return held


@helper
def ends_of_window(queues: Queues, held: Held, spare: Ints, now: float, sign: float, times: Array) -> None:
    """Add (or take away) what the jobs present at an end of the window still wait and stay, and how many they are."""
    for queue in range(queues[0].size):
        look(queues, held, spare, queue, now)
        job = queues[2][queue]
        while job >= 0:
            row = times[held[3][job]]
            row[PRESENT] += sign * (held[1][job] - now)
            row[WAITING] += sign * max(held[0][job] - now, 0.0)
            row[LEFT] += sign
            job = held[2][job]


@helper
def set_back(queues: Queues, held: Held, keys: Array, winners: Ints, now: float) -> None:
    """Count time from now, so that instants keep their digits in the longest run."""
    for queue in range(queues[0].size):
        queues[0][queue] -= now
    for job in range(held[0].size):
        held[0][job] -= now
        held[1][job] -= now
    # Keys beyond the queues stay infinite.
    for leaf in range(keys.size):
        keys[leaf] -= now


@helper
def draw_picks(routing: State, queues: int, distinct: bool, picks: Picks) -> None:
    """Queues looked at, as many for every job, whatever its class."""
    choices = picks.shape[1]
    if choices == 2:
        others = queues - 1 if distinct else queues
        for i in range(picks.shape[0]):
            one, two = below(routing, queues), below(routing, others)
            picks[i, 0] = one
            picks[i, 1] = two + 1 if distinct and two >= one else two
        return
    if distinct and choices > _MANY:
        # The first places of a shuffle; the next job's shuffle starts from this one's.
        shuffled = np.arange(queues)
        for i in range(picks.shape[0]):
            for k in range(choices):
                other = k + below(routing, queues - k)
                shuffled[k], shuffled[other] = shuffled[other], shuffled[k]
                picks[i, k] = shuffled[k]
        return
    for i in range(picks.shape[0]):
        for k in range(choices):
            fresh = False
            while not fresh:
                pick = below(routing, queues)
                fresh = True
                if distinct:
                    for earlier in range(k):
                        fresh = fresh and picks[i, earlier] != pick
            picks[i, k] = pick


@helper
def draw_kinds(classes: State, fraction: float, uniforms: Array, kinds: Kinds) -> None:
    """Classes of a block of jobs."""
    if fraction <= 0.0 or fraction >= 1.0:
        kinds[:] = FLEXIBLE if fraction > 0.0 else DEDICATED
        return
    fill_uniform(classes, uniforms)
    for i in range(kinds.size):
        kinds[i] = FLEXIBLE if uniforms[i] < fraction else DEDICATED


@helper
def enter(
    waits: Array, responses: Array, at: Array, row: Array, tails: Array, response_counts: Counts, wait_counts: Counts
) -> None:
    """Enter counted jobs of one class into the tallies."""
    row[COUNT] += waits.size
    row[RESPONSE] += total(responses)
    row[WAIT] += total(waits)
    row[WAITED] += above(waits, 0.0)
    for k in range(at.size):
        tails[k] += above(responses, at[k])
    if response_counts.size > 0:
        add(responses, response_counts)
        add(waits, wait_counts)


@jit
def simulate(
    gap: Source,
    classes: State,
    service: Source,
    routing: State,
    breaking: State,
    lowest: bool,
    fraction: float,
    rule: int,
    distinct: bool,
    choices: int,
    queues: Queues,
    room: Held,
    spare: Ints,
    keys: Array,
    winners: Ints,
    warmup: int,
    jobs: int,
    at: Array,
    tally: Array,
    times: Array,
    window: Array,
    seen: Counts,
    tails: Array,
    response_counts: Counts,
    wait_counts: Counts,
) -> None:
    """One replication; fills the tally arrays (zero before)."""
    held = room
    count = queues[0].size
    gaps, sizes, uniforms, ties = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.zeros(BLOCK)
    starts, waits, responses = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    kinds, joined = np.zeros(BLOCK, np.int8), np.empty(BLOCK, np.int32)
    rows = max(1, min(BLOCK, _ROOM // choices))
    picks = np.empty((rows, choices), np.int32)
    unseen = np.zeros_like(seen)
    now, begin, drawn, last = 0.0, 0.0, 0, warmup + jobs
    while drawn < last:
        if drawn == warmup:
            ends_of_window(queues, held, spare, now, 1.0, times)
            begin = now
        size = min(rows, (warmup if drawn < warmup else last) - drawn)
        fill(gap[0], gap[1], gap[2], gaps[:size])
        for i in range(size):
            now += gaps[i]
            gaps[i] = now
        fill(service[0], service[1], service[2], sizes[:size])
        draw_kinds(classes, fraction, uniforms[:size], kinds[:size])
        draw_picks(routing, count, distinct, picks[:size])
        if not lowest:
            fill_uniform(breaking, ties[:size])
        held = serve(
            rule,
            gaps[:size],
            sizes[:size],
            kinds[:size],
            picks[:size],
            ties[:size],
            queues,
            held,
            spare,
            keys,
            winners,
            seen if drawn >= warmup else unseen,
            starts[:size],
            joined[:size],
        )
        if drawn >= warmup:
            for kind in range(2):
                if fraction == 1.0 - kind:
                    continue
                kept = 0
                for i in range(size):
                    waits[kept] = starts[i] - gaps[i]
                    responses[kept] = waits[kept] + sizes[i]
                    kept += 1 if kinds[i] == kind else 0
                row = tally[kind]
                before = row[RESPONSE], row[WAIT]
                enter(waits[:kept], responses[:kept], at, row, tails[kind], response_counts[kind], wait_counts[kind])
                times[kind, PRESENT] += row[RESPONSE] - before[0]
                times[kind, WAITING] += row[WAIT] - before[1]
                times[kind, LEFT] += kept
        drawn += size
        if now > _CLOCK and drawn < last:
            set_back(queues, held, keys, winners, now)
            begin -= now
            now = 0.0
    ends_of_window(queues, held, spare, now, -1.0, times)
    window[WINDOW] = now - begin
    for kind in range(2):
        window[BUSY] += times[kind, PRESENT] - times[kind, WAITING]
