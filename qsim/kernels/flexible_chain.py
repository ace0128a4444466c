"""Parallel exponential queues as a uniformised jump chain of their lengths.

Steps come at rate N (1 + load): each takes one queue uniformly and is, with probability load / (1 + load), an arrival
there (a flexible one looks at more queues and joins the shortest), else a departure if the queue holds a job.  Which of
equally short queues a job joins is the same to the lengths, so the first one found is taken.

The steps are a time average: the total number present is summed over them.  What a queue holds is also noted where it
is looked at, one row for potential departures (a queue seen at a random time), one for each class of arrivals (what the
queue joined holds).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper, jit
from qsim.kernels.histogram import Counts
from qsim.kernels.random import Array, State, _step
from qsim.kernels.sampling import choose
from qsim.kernels.shortest import Index, Ints, longer_by_one, shorter_by_one

Lengths = NDArray[np.int32]
Words = NDArray[np.uint64]

#: Ways to choose: two queues looked at, several, or by place in the sorted order.
TWO, SEVERAL, SORTED = range(3)
#: Columns of the tally.
STEPS, AREA, ARRIVED, LEFT = range(4)
#: Rows of what was found: potential departures, dedicated and flexible arrivals.
IDLE, DEDICATED, FLEXIBLE = range(3)

_32 = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE, _ZERO = np.uint64(1), np.uint64(0)


@helper
def _place(bits: np.uint64, count: np.uint64) -> tuple[Index, np.uint64]:
    """A uniform index below `count` < 2^32 and the 64 bits of the fraction left over; biased by count / 2^64."""
    low = (bits & _LOW) * count
    high = (bits >> _32) * count + (low >> _32)
    return np.int64(high >> _32), (high << _32) | (low & _LOW)


@jit
def run_two(
    state: State,
    lengths: Lengths,
    distinct: bool,
    dedicated: np.uint64,
    arrival: np.uint64,
    jobs: int,
    found: Counts,
    sums: Ints,
    tally: Ints,
) -> None:
    """Steps until `jobs` arrivals, flexible ones looking at two queues.

    `dedicated` and `arrival` are probabilities times 2^64: of a dedicated arrival, and of any arrival.  No branch
    depends on the kind of step: both queues are looked at always.
    """
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    count = np.uint64(lengths.size)
    others = count - _ONE if distinct else count
    present = np.int64(0)
    for q in range(lengths.size):
        present += lengths[q]
    room = found.shape[1] - 1
    steps, area, arrived, left = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    while arrived < jobs:
        bits, s0, s1, s2, s3 = _step(s0, s1, s2, s3)
        one, fraction = _place(bits, count)
        bits, s0, s1, s2, s3 = _step(s0, s1, s2, s3)
        two, _ = _place(bits, others)
        two += 1 if distinct and two >= one else 0
        comes = np.int64(1) if fraction < arrival else np.int64(0)
        kind = np.int64(0) if fraction >= arrival else (np.int64(1) if fraction < dedicated else np.int64(2))
        length, other = np.int64(lengths[one]), np.int64(lengths[two])
        further = kind == 2 and other < length
        queue = two if further else one
        length = other if further else length
        goes = np.int64(1) if comes == 0 and length > 0 else np.int64(0)
        lengths[queue] = length + comes - goes
        found[kind, length if length < room else room] += 1
        sums[kind] += length
        present += comes - goes
        area += present
        arrived += comes
        left += goes
        steps += 1
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    tally[STEPS] += steps
    tally[AREA] += area
    tally[ARRIVED] += arrived
    tally[LEFT] += left


@jit
def run_several(
    state: State,
    lengths: Lengths,
    distinct: bool,
    choices: int,
    dedicated: np.uint64,
    arrival: np.uint64,
    jobs: int,
    found: Counts,
    sums: Ints,
    tally: Ints,
) -> None:
    """As `run_two`, flexible jobs looking at a few queues."""
    count = np.uint64(lengths.size)
    picks = np.empty(choices, np.int64)
    present = np.int64(0)
    for q in range(lengths.size):
        present += lengths[q]
    room = found.shape[1] - 1
    arrived = np.int64(0)
    while arrived < jobs:
        bits, state[0], state[1], state[2], state[3] = _step(state[0], state[1], state[2], state[3])
        queue, fraction = _place(bits, count)
        kind = 0
        if fraction < arrival:
            kind = 1 if fraction < dedicated else 2
        if kind == 2:
            picks[0] = queue
            for i in range(1, choices):
                fresh = False
                while not fresh:
                    bits, state[0], state[1], state[2], state[3] = _step(state[0], state[1], state[2], state[3])
                    picks[i], _ = _place(bits, count)
                    fresh = True
                    if distinct:
                        for k in range(i):
                            fresh = fresh and picks[k] != picks[i]
                if lengths[picks[i]] < lengths[queue]:
                    queue = picks[i]
        length = np.int64(lengths[queue])
        found[kind, length if length < room else room] += 1
        sums[kind] += length
        if kind > 0:
            lengths[queue] = length + 1
            present += 1
            arrived += 1
        elif length > 0:
            lengths[queue] = length - 1
            present -= 1
            tally[LEFT] += 1
        tally[AREA] += present
        tally[STEPS] += 1
    tally[ARRIVED] += arrived


@jit
def run_sorted(
    state: State,
    lengths: Lengths,
    order: Ints,
    place: Ints,
    first: Ints,
    positions: Array,
    dedicated: np.uint64,
    arrival: np.uint64,
    jobs: int,
    found: Counts,
    sums: Ints,
    tally: Ints,
) -> None:
    """As `run_two`, flexible jobs joining the queue at a random place in the sorted order.

    `positions` is the alias table of the law of the least of the places looked at (empty: always the first).  The
    boundaries of the order may outgrow `first`; the lengths say where they are in the end (`boundaries`).
    """
    count = np.uint64(lengths.size)
    present = np.int64(0)
    for q in range(lengths.size):
        present += lengths[q]
    room = found.shape[1] - 1
    arrived = np.int64(0)
    while arrived < jobs:
        bits, state[0], state[1], state[2], state[3] = _step(state[0], state[1], state[2], state[3])
        queue, fraction = _place(bits, count)
        kind = 0
        if fraction < arrival:
            kind = 1 if fraction < dedicated else 2
        if kind == 2:
            queue = order[choose(positions, 0, positions.size // 2, state) if positions.size > 0 else 0]
        length = np.int64(lengths[queue])
        found[kind, length if length < room else room] += 1
        sums[kind] += length
        if kind > 0:
            first = longer_by_one(order, place, first, queue, length)
            lengths[queue] = length + 1
            present += 1
            arrived += 1
        elif length > 0:
            shorter_by_one(order, place, first, queue, length)
            lengths[queue] = length - 1
            present -= 1
            tally[LEFT] += 1
        tally[AREA] += present
        tally[STEPS] += 1
    tally[ARRIVED] += arrived
