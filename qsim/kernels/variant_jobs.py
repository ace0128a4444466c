"""Jobs on their way to Queue 1 and in it, where killed jobs follow other rules: rows, a heap of kills, two lines.

A job has a row from its arrival, or from the start that will end in its kill, until a server of Group 1 takes it.
Rows that are free are linked, and so are the jobs of either line, of which the second is that of killed jobs where
these go ahead of or behind all others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper
from qsim.kernels.random import Array

Ints = NDArray[np.int64]

#: Where killed jobs join Queue 1.
BACK, HEAD, LOW_PRIORITY = range(3)

#: Columns of jobs on their way to or waiting in Queue 1.
INDEX, COUNTED, CLASS, WORK, SPENT, WAITED_BEFORE, KILL, JOIN, IN_WINDOW, MARKS, JOB_COLUMNS = range(11)
#: Counters: kills to come, first free row, first and last of both lines, jobs waiting, visits noted, jobs unfinished.
KILLS, SPARE, LINE, LINE_END, AHEAD, AHEAD_END, WAITING, NOTED, OPEN, COUNTERS = range(10)


@helper
def earlier(jobs: Array, one: int, other: int) -> bool:
    """Whether one kill comes before another; at one instant, that of the job that arrived first."""
    if jobs[one, KILL] != jobs[other, KILL]:
        return bool(jobs[one, KILL] < jobs[other, KILL])
    return bool(jobs[one, INDEX] < jobs[other, INDEX])


@helper
def push_kill(jobs: Array, heap: Ints, row: int, counters: Ints) -> None:
    """Enter a kill to come."""
    place = counters[KILLS]
    counters[KILLS] += 1
    while place > 0 and earlier(jobs, row, heap[(place - 1) // 2]):
        heap[place] = heap[(place - 1) // 2]
        place = (place - 1) // 2
    heap[place] = row


@helper
def pop_kill(jobs: Array, heap: Ints, counters: Ints) -> int:
    """Take the next kill."""
    first = heap[0]
    counters[KILLS] -= 1
    size, row, place = counters[KILLS], heap[counters[KILLS]], 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and earlier(jobs, heap[child + 1], heap[child]):
            child += 1
        if not earlier(jobs, heap[child], row):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = row
    return int(first)


@helper
def append_job(links: Ints, counters: Ints, first: int, row: int) -> None:
    """Put a job at the end of the line whose first job is in counter `first`, whose last in the next one."""
    links[row] = -1
    if counters[first] < 0:
        counters[first] = row
    else:
        links[counters[first + 1]] = row
    counters[first + 1] = row
    counters[WAITING] += 1


@helper
def next_job(links: Ints, counters: Ints, rule: int) -> int:
    """Take the job that is served next."""
    line = AHEAD if counters[AHEAD] >= 0 and (rule == HEAD or counters[LINE] < 0) else LINE
    row = counters[line]
    counters[line] = links[row]
    counters[WAITING] -= 1
    return int(row)


@helper
def new_row(links: Ints, counters: Ints) -> int:
    """Take a free row."""
    row = counters[SPARE]
    counters[SPARE] = links[row]
    return int(row)
