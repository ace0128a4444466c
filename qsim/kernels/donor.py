"""Two queues, two servers, the second of which helps: as a jump chain and by events.

Both kernels keep the jobs themselves, so that responses and waits are those of jobs.  A queue is a ring of jobs that
nobody has begun, behind those that somebody has: of type 1 on server 1, on the donor, or held (begun, then left by
its server; it is older than all in the ring, and there is one at most); of type 2 the one the donor works on or has
left.  A job stays on its server while that one serves its queue, and a server without a job takes the oldest one that
is not in service: the held one if there is one.

Jobs are counted by arrival index and followed to their departure; time averages are integrals over the window from
the last arrival of the warm-up to the last counted arrival.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper, jit
from qsim.kernels.donor_policy import HELPS, HOME, Thresholds, wish
from qsim.kernels.histogram import Counts, add
from qsim.kernels.random import Array, State, exponential, uniform
from qsim.kernels.sampling import Rows, draw

#: Places of begun jobs, and what is known of one: index, arrival, time waited, since when it waits, work left.
ONE, DONOR, HELD, SECOND = range(4)
INDEX, ARRIVAL, WAITED, SINCE, WORK = range(5)
_NOBODY = -1.0

#: Columns of the tally of counted jobs, one type a row.
COUNT, RESPONSE, WAIT, WAITS = range(4)
#: Integrals over the window and counts in it.
WINDOW, PRESENT1, PRESENT2, ONE_BUSY, HELPED, AT_HOME, CHANGING, LEFT1, LEFT2, CHANGES, UNFINISHED = range(11)

#: A law's rows, its parameters and the stream it draws from.
Source = tuple[Rows, Array, State]
#: Tallies of jobs, times of interest, their tails, histograms of responses and waits, one number of scratch.
Books = tuple[Array, Array, Array, Counts, Counts, Array]
Ints = NDArray[np.int64]

_RING = 1024


def empty_state() -> tuple[Array, Array, Ints, Array]:
    """An empty system: rings of both queues (index, arrival, work in columns), their places, begun jobs."""
    return np.empty((_RING, 3)), np.empty((_RING, 3)), np.zeros((2, 2), np.int64), np.full((4, 5), _NOBODY)


@helper
def join(ring: Array, place: Ints, index: float, arrival: float, work: float) -> Array:
    """Put a job at the end of a ring, whose first entry and size are in `place`; a full ring is doubled."""
    size = ring.shape[0]
    if place[1] == size:
        larger = np.empty((2 * size, 3))
        for i in range(size):
            at = (place[0] + i) & (size - 1)
            larger[i, 0], larger[i, 1], larger[i, 2] = ring[at, 0], ring[at, 1], ring[at, 2]
        ring, place[0], size = larger, 0, 2 * size
    at = (place[0] + place[1]) & (size - 1)
    ring[at, 0], ring[at, 1], ring[at, 2] = index, arrival, work
    place[1] += 1
    return ring


@helper
def begin(ring: Array, place: Ints, jobs: Array, where: int, now: float) -> None:
    """Begin the oldest job of a ring at a place."""
    at = place[0]
    jobs[where, INDEX], jobs[where, ARRIVAL], jobs[where, WORK] = ring[at, 0], ring[at, 1], ring[at, 2]
    jobs[where, WAITED] = now - ring[at, 1]
    place[0] = (at + 1) & (ring.shape[0] - 1)
    place[1] -= 1


@helper
def move(jobs: Array, here: int, there: int) -> None:
    """Carry a job from one place to another, which is empty."""
    for column in range(5):
        jobs[there, column] = jobs[here, column]
    jobs[here, INDEX] = _NOBODY


@helper
def hold(jobs: Array, where: int, now: float) -> None:
    """The job at a place is left by its server."""
    move(jobs, where, HELD)
    jobs[HELD, SINCE] = now


@helper
def take(ring: Array, place: Ints, jobs: Array, where: int, now: float) -> None:
    """A server of queue 1 takes the oldest job that is not in service."""
    if jobs[HELD, INDEX] == _NOBODY:
        begin(ring, place, jobs, where, now)
        return
    move(jobs, HELD, where)
    jobs[where, WAITED] += now - jobs[where, SINCE]


@helper
def assign(
    ring1: Array, ring2: Array, places: Ints, jobs: Array, one: bool, task: int, before: int, now: float
) -> None:
    """Put jobs on the servers: server 1 works iff `one`, the donor on queue `task`, after having been on `before`."""
    if not one and jobs[ONE, INDEX] != _NOBODY:
        hold(jobs, ONE, now)
    if task != HELPS and jobs[DONOR, INDEX] != _NOBODY:
        hold(jobs, DONOR, now)
    if one and jobs[ONE, INDEX] == _NOBODY:
        take(ring1, places[0], jobs, ONE, now)
    if task == HELPS and jobs[DONOR, INDEX] == _NOBODY:
        take(ring1, places[0], jobs, DONOR, now)
    if task == HOME:
        if jobs[SECOND, INDEX] == _NOBODY:
            begin(ring2, places[1], jobs, SECOND, now)
        elif before != HOME:
            jobs[SECOND, WAITED] += now - jobs[SECOND, SINCE]
    elif before == HOME and jobs[SECOND, INDEX] != _NOBODY:
        jobs[SECOND, SINCE] = now


@helper
def leave(jobs: Array, where: int, now: float, warmup: int, end: int, books: Books) -> int:
    """The job at a place departs; 1 if it is a counted one, which is entered, else 0."""
    index = jobs[where, INDEX]
    jobs[where, INDEX] = _NOBODY
    if index < warmup or index >= end:
        return 0
    tally, at, tails, responses, waits, scratch = books
    kind = 1 if where == SECOND else 0
    response, waited = now - jobs[where, ARRIVAL], jobs[where, WAITED]
    tally[kind, COUNT] += 1.0
    tally[kind, RESPONSE] += response
    tally[kind, WAIT] += waited
    if waited > 0.0:
        tally[kind, WAITS] += 1.0
    for k in range(at.size):
        if response > at[k]:
            tails[kind, k] += 1.0
    if responses.shape[1] > 0:
        scratch[0] = response
        add(scratch, responses[kind])
        scratch[0] = waited
        add(scratch, waits[kind])
    return 1


@helper
def pass_time(times: Array, dt: float, n1: int, n2: int, one: bool, task: int, changing: bool) -> None:
    """Add a stretch of the window to its integrals."""
    times[WINDOW] += dt
    times[PRESENT1] += n1 * dt
    times[PRESENT2] += n2 * dt
    if one:
        times[ONE_BUSY] += dt
    if task == HELPS:
        times[HELPED] += dt
    elif task == HOME:
        times[AT_HOME] += dt
    if changing:
        times[CHANGING] += dt


@jit
def run_chain(
    state: State,
    lambda1: float,
    lambda2: float,
    mu1: float,
    mu12: float,
    mu2: float,
    thresholds: Thresholds,
    warmup: int,
    counted: int,
    patience: int,
    empty: tuple[Array, Array, Ints, Array],
    books: Books,
    times: Array,
) -> None:
    """The exponential system as a jump chain: one exponential holding time and one choice of event a step.

    `patience` is how many arrivals after the last counted one to wait for the counted jobs to depart; those that do
    not are `UNFINISHED`. `empty` is `empty_state()`, which is used up.
    """
    ring1, ring2, places, jobs = empty
    n1, n2, task, queue, one, now = 0, 0, 0, HOME, False, 0.0
    arrived, end, left = 0, warmup + counted, counted
    faster = mu12 > mu1
    while left > 0 and arrived < end + patience:
        rate1 = mu1 if one else 0.0
        rate2 = mu12 if task == HELPS else (mu2 if task == HOME else 0.0)
        total = lambda1 + lambda2 + rate1 + rate2
        dt = exponential(state) / total
        now += dt
        inside = warmup <= arrived < end
        if inside:
            pass_time(times, dt, n1, n2, one, task, False)
        u = uniform(state) * total
        if u < lambda1:
            ring1 = join(ring1, places[0], arrived, now, 0.0)
            n1, arrived = n1 + 1, arrived + 1
        elif u < lambda1 + lambda2:
            ring2 = join(ring2, places[1], arrived, now, 0.0)
            n2, arrived = n2 + 1, arrived + 1
        else:
            if u < lambda1 + lambda2 + rate1:
                where = ONE
            else:
                where = DONOR if task == HELPS else SECOND
            left -= leave(jobs, where, now, warmup, end, books)
            if where == SECOND:
                n2 -= 1
            else:
                n1 -= 1
            if inside:
                times[LEFT2 if where == SECOND else LEFT1] += 1.0
        before = task
        one, task = wish(thresholds, faster, n1, n2)
        if task > 0 and task != queue:
            queue = task
            if inside:
                times[CHANGES] += 1.0
        assign(ring1, ring2, places, jobs, one, task, before, now)
    times[UNFINISHED] = left


@jit
def run_events(
    arrivals: State,
    kinds: State,
    work1: Source,
    work2: Source,
    lambda1: float,
    lambda2: float,
    mu1: float,
    mu12: float,
    mu2: float,
    change: float,
    thresholds: Thresholds,
    warmup: int,
    counted: int,
    patience: int,
    empty: tuple[Array, Array, Ints, Array],
    books: Books,
    times: Array,
) -> None:
    """The system with any laws of work, by events; `change` is the time the donor needs to change queues.

    Each job brings its work with it, so that the same seed gives the same jobs under every policy and rate of
    service. `empty` is `empty_state()`. Services that end at one instant all end before the policy is asked again.
    """
    ring1, ring2, places, jobs = empty
    n1, n2, task, queue, one, now = 0, 0, 0, HOME, False, 0.0
    arrived, end, left = 0, warmup + counted, counted
    faster, rate = mu12 > mu1, lambda1 + lambda2
    share = lambda1 / rate
    changed, aim = math.inf, HOME
    arrival = exponential(arrivals) / rate
    while left > 0 and arrived < end + patience:
        place2 = DONOR if task == HELPS else SECOND
        speed2 = mu12 if task == HELPS else mu2
        end1 = now + jobs[ONE, WORK] / mu1 if one else math.inf
        end2 = now + jobs[place2, WORK] / speed2 if task > 0 and speed2 > 0.0 else math.inf
        then = min(min(end1, end2), min(arrival, changed))
        dt = then - now
        inside = warmup <= arrived < end
        if inside:
            pass_time(times, dt, n1, n2, one, task, changed < math.inf)
        if one:
            jobs[ONE, WORK] = max(0.0, jobs[ONE, WORK] - dt * mu1)
        if task > 0:
            jobs[place2, WORK] = max(0.0, jobs[place2, WORK] - dt * speed2)
        now = then
        if end1 == now or end2 == now:
            for second in range(2):
                if (end2 if second else end1) != now:
                    continue
                where = place2 if second else ONE
                left -= leave(jobs, where, now, warmup, end, books)
                if where == SECOND:
                    n2 -= 1
                else:
                    n1 -= 1
                if inside:
                    times[LEFT2 if where == SECOND else LEFT1] += 1.0
        elif changed == now:
            queue, changed = aim, math.inf
        else:
            if uniform(kinds) < share:
                ring1 = join(ring1, places[0], arrived, now, draw(work1[0], work1[1], work1[2]))
                n1 += 1
            else:
                ring2 = join(ring2, places[1], arrived, now, draw(work2[0], work2[1], work2[2]))
                n2 += 1
            arrived += 1
            arrival = now + exponential(arrivals) / rate
        before = task
        one, task = wish(thresholds, faster, n1, n2)
        if changed < math.inf:
            one, task = n1 > 0, 0
        elif task > 0 and task != queue:
            if inside:
                times[CHANGES] += 1.0
            if change > 0.0:
                aim, changed = task, now + change
                one, task = n1 > 0, 0
            else:
                queue = task
        assign(ring1, ring2, places, jobs, one, task, before, now)
    times[UNFINISHED] = left
