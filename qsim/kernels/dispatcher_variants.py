"""The dispatcher with other rules for killed jobs, event by event.

Killed jobs may keep a share of their work, wait ahead of or behind all others in Queue 1, have limits of their own,
or be given time to save their state.  Kills then come in no particular order and Queue 1 is not served in the order
of joining, so that the recursions of `qsim.kernels.dispatcher` do not hold: kills wait in a heap, and servers of
Group 1 take jobs when they become free.

At one instant: servers free themselves, each freed server takes the head of its own queue, killed jobs join (several:
by original arrival), an idle server takes them at once; then jobs arrive.  Jobs are counted as in the plain kernel.
"""

from __future__ import annotations

import math

import numpy as np

from qsim.kernels._jit import helper, jit
from qsim.kernels.census import JOINED, PRESENT, QUEUED, SERVED, STAY_LEFT, WAIT_LEFT, census, forget
from qsim.kernels.dispatcher import (
    KILLED,
    KILLED0,
    KILLED1,
    LONG,
    LONG1,
    SHORT,
    SHORT0,
    WAIT0,
    WAIT1,
    WAITED0,
    WAITED1,
    WAITS0,
    WAITS1,
    Source,
    count_jobs,
)
from qsim.kernels.histogram import Counts, add
from qsim.kernels.passes import above, longer, shift, total
from qsim.kernels.perfect import hold
from qsim.kernels.random import Array, State, fill_uniform
from qsim.kernels.sampling import fill
from qsim.kernels.variant_jobs import (
    AHEAD,
    BACK,
    CLASS,
    COUNTED,
    COUNTERS,
    IN_WINDOW,
    INDEX,
    JOB_COLUMNS,
    JOIN,
    KILL,
    KILLS,
    LINE,
    LOW_PRIORITY,
    MARKS,
    NOTED,
    OPEN,
    SPARE,
    SPENT,
    WAITED_BEFORE,
    WAITING,
    WORK,
    Ints,
    append_job,
    new_row,
    next_job,
    pop_kill,
    push_kill,
)

#: Place in Queue 1 as number, share of the work kept, time between limit and kill, whether it may complete the job.
Rules = tuple[int, float, float, bool]

#: Instants: the last one reached, begin and end of the window.
NOW, BEGIN, END, CLOCKS = range(4)
#: Marks of jobs waiting at the begin and at the end of the window.
AT_BEGIN, AT_END = 1, 2

BLOCK = 1024
_CLOCK = 256

#: Jobs, links of lines, heap of kills, counters, instants, visits that last.
Tables = tuple[Array, Ints, Ints, Ints, Array, Array]
#: Times of tails, tally, visits, tails, both histograms; finished jobs by class and column, and how many there are.
Books = tuple[Array, Array, Array, Array, Counts, Counts, Array, Ints]


@helper
def _flush(kind: int, books: Books) -> None:
    """Enter the jobs of a class that have finished into the tallies."""
    at, tally, _, tails, response_counts, wait_counts, finished, filled = books
    count = filled[kind]
    waits, responses = finished[kind, 0, :count], finished[kind, 1, :count]
    count_jobs(waits, responses, at, tally[kind], tails[kind], response_counts[kind], wait_counts[kind])
    if kind == KILLED:
        tally[kind, WAIT0] += total(finished[kind, 2, :count])
        tally[kind, WAITED0] += above(finished[kind, 2, :count], 0.0)
        tally[kind, WAIT1] += total(finished[kind, 3, :count])
        tally[kind, WAITED1] += above(finished[kind, 3, :count], 0.0)
        if response_counts.shape[1] > 0:
            add(finished[kind, 2, :count], wait_counts[WAITS0])
            add(finished[kind, 3, :count], wait_counts[WAITS1])
    filled[kind] = 0


@helper
def _finish(kind: int, wait0: float, wait1: float, served: float, books: Books) -> None:
    finished, filled = books[6], books[7]
    place = filled[kind]
    finished[kind, 0, place], finished[kind, 1, place] = wait0 + wait1, wait0 + wait1 + served
    finished[kind, 2, place], finished[kind, 3, place] = wait0, wait1
    filled[kind] += 1
    if filled[kind] == finished.shape[2]:
        _flush(kind, books)


@helper
def _visit(visits: Array, kind: int, wait: float, served: float) -> None:
    visits[kind, JOINED] += 1.0
    visits[kind, QUEUED] += wait
    visits[kind, SERVED] += served


@helper
def _left(visits: Array, kind: int, sign: float, wait: float, stay: float) -> None:
    visits[kind, PRESENT] += sign
    visits[kind, WAIT_LEFT] += sign * wait
    visits[kind, STAY_LEFT] += sign * stay


@helper
def _note(present: Array, counters: Ints, clocks: Array, kind: int, start: float, end: float) -> None:
    if end > clocks[NOW]:
        place = 3 * counters[NOTED]
        present[place], present[place + 1], present[place + 2] = kind, start, end
        counters[NOTED] += 1


@helper
def _begin(start: float, rule: int, free1: Array, tables: Tables, books: Books, paths: Array) -> None:
    """A server of Group 1 takes the next job at instant `start`."""
    jobs, links, _, counters, clocks, present = tables
    row = next_job(links, counters, rule)
    wait, work = start - jobs[row, JOIN], jobs[row, WORK]
    end = start + work
    hold(free1, end)
    killed = jobs[row, CLASS] == KILLED
    kind = KILLED1 if killed else LONG1
    index = int(jobs[row, INDEX])
    if index < len(paths):
        paths[index, 2] = start
    if jobs[row, COUNTED] > 0.0:
        _finish(KILLED if killed else LONG, jobs[row, WAITED_BEFORE], wait, jobs[row, SPENT] + work, books)
        counters[OPEN] -= 1
    if jobs[row, IN_WINDOW] > 0.0:
        _visit(books[2], kind, wait, work)
    marks = int(jobs[row, MARKS])
    if marks & AT_BEGIN:
        _left(books[2], kind, 1.0, start - clocks[BEGIN], end - clocks[BEGIN])
        counters[OPEN] -= 1
    if marks & AT_END:
        _left(books[2], kind, -1.0, start - clocks[END], end - clocks[END])
        counters[OPEN] -= 1
    _note(present, counters, clocks, kind, start, end)
    links[row] = counters[SPARE]
    counters[SPARE] = row


@helper
def _advance(
    until: float, rules: Rules, free1: Array, in_window: bool, tables: Tables, books: Books, paths: Array
) -> None:
    """Everything that happens in Group 1 up to and at instant `until`, before jobs arrive then."""
    jobs, links, heap, counters, _, _ = tables
    rule = rules[0]
    while counters[KILLS] > 0 and jobs[heap[0], KILL] <= until:
        instant = jobs[heap[0], KILL]
        while counters[WAITING] > 0 and free1[0] < instant:
            _begin(free1[0], rule, free1, tables, books, paths)
        freed = 0
        while freed < free1.size and free1[freed] <= instant:
            freed += 1
        while freed > 0 and counters[WAITING] > 0:
            _begin(instant, rule, free1, tables, books, paths)
            freed -= 1
        last = -1
        while counters[KILLS] > 0 and jobs[heap[0], KILL] == instant:
            row = pop_kill(jobs, heap, counters)
            jobs[row, IN_WINDOW] = 1.0 if in_window else 0.0
            if rule == BACK:
                append_job(links, counters, LINE, row)
            elif rule == LOW_PRIORITY:
                append_job(links, counters, AHEAD, row)
            else:
                # Ahead of all that wait, behind those killed at this instant that arrived before.
                counters[WAITING] += 1
                if last < 0:
                    links[row], counters[AHEAD] = counters[AHEAD], row
                else:
                    links[row], links[last] = links[last], row
                last = row
        while counters[WAITING] > 0 and free1[0] <= instant:
            _begin(instant, rule, free1, tables, books, paths)
    while counters[WAITING] > 0 and free1[0] <= until:
        _begin(free1[0], rule, free1, tables, books, paths)


@helper
def _mark(mark: float, sign: float, tables: Tables, visits: Array) -> None:
    """Take the census of visits at an end of the window; jobs waiting in Queue 1 are marked until they begin."""
    jobs, links, _, counters, clocks, present = tables
    census(present, counters[NOTED], clocks[NOW], sign, visits)
    for k in range(2):
        row = counters[LINE if k == 0 else AHEAD]
        while row >= 0:
            jobs[row, MARKS] += mark
            counters[OPEN] += 1
            row = links[row]


@helper
def _set_back(by: float, free0: Array, free1: Array, tables: Tables) -> None:
    jobs, clocks, present = tables[0], tables[4], tables[5]
    shift(free0, by)
    shift(free1, by)
    shift(clocks, by)
    for row in range(len(jobs)):
        jobs[row, KILL] -= by
        jobs[row, JOIN] -= by
    for k in range(tables[3][NOTED]):
        present[3 * k + 1] -= by
        present[3 * k + 2] -= by


@helper
def _roomier(tables: Tables, rows: int, visits: int) -> Tables:
    """The same tables with room for so many jobs and visits more."""
    jobs, links, heap, counters, clocks, present = tables
    unused, row = 0, int(counters[SPARE])
    while row >= 0 and unused < rows:
        unused += 1
        row = int(links[row])
    if unused < rows:
        old = len(jobs)
        more_jobs, more_links = np.zeros((2 * old + rows, JOB_COLUMNS)), np.empty(2 * old + rows, np.int64)
        more_heap = np.empty(2 * old + rows, np.int64)
        for k in range(old):
            more_links[k], more_heap[k] = links[k], heap[k]
            for column in range(JOB_COLUMNS):
                more_jobs[k, column] = jobs[k, column]
        for k in range(old, len(more_jobs)):
            more_links[k] = counters[SPARE]
            counters[SPARE] = k
        jobs, links, heap = more_jobs, more_links, more_heap
    present = longer(present, 3 * counters[NOTED], 3 * (counters[NOTED] + visits))
    return jobs, links, heap, counters, clocks, present


@jit
def simulate(
    gap: Source,
    classes: State,
    size0: Source,
    size1: Source,
    limit: Source,
    short_fraction: float,
    rules: Rules,
    free0: Array,
    free1: Array,
    warmup: int,
    jobs: int,
    at: Array,
    tally: Array,
    visits: Array,
    tails: Array,
    response_counts: Counts,
    wait_counts: Counts,
    paths: Array,
) -> float:
    """One replication; fills the tallies as `qsim.kernels.dispatcher.simulate`, all visits included.

    `limit` is the law of the limits of jobs submitted to Group 0, with its stream.  `free0` and `free1` are the
    instants at which servers become free, in order.  `paths` takes start in Group 0, kill, and start in Group 1 of the
    first jobs by arrival; nan where there is none.
    """
    rule, share, grace, completes = rules
    gaps, uniforms, sizes0, sizes1 = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    limits = np.empty(BLOCK)
    counters, clocks = np.zeros(COUNTERS, np.int64), np.zeros(CLOCKS)
    counters[SPARE], counters[LINE], counters[AHEAD] = -1, -1, -1
    empty = np.empty(0, np.int64)
    tables = (np.zeros((0, JOB_COLUMNS)), empty, empty, counters, clocks, np.empty(0))
    finished, filled = np.empty((3, 4, BLOCK)), np.zeros(3, np.int64)
    books = (at, tally, visits, tails, response_counts, wait_counts, finished, filled)
    last = warmup + jobs
    drawn, block, window = 0, 0, 0.0
    while drawn < last or counters[OPEN] > 0:
        # Each arrival makes one row at most, and a visit to either group; all that wait may begin.
        tables = _roomier(tables, BLOCK, 2 * BLOCK + counters[KILLS] + counters[WAITING])
        table, present = tables[0], tables[5]
        fill(gap[0], gap[1], gap[2], gaps)
        fill_uniform(classes, uniforms)
        count0 = 0
        for k in range(BLOCK):
            count0 += 1 if uniforms[k] < short_fraction else 0
        fill(size0[0], size0[1], size0[2], sizes0[:count0])
        fill(limit[0], limit[1], limit[2], limits[:count0])
        fill(size1[0], size1[1], size1[2], sizes1[: BLOCK - count0])
        next0, next1 = 0, 0
        for k in range(BLOCK):
            index = drawn + k
            counted = warmup <= index < last
            clocks[NOW] += gaps[k]
            now = clocks[NOW]
            if not now < math.inf:
                return math.inf
            _advance(now, rules, free1, counted, tables, books, paths)
            short = uniforms[k] < short_fraction
            if short:
                size, bound = sizes0[next0], limits[next0]
                next0 += 1
                start = now if now > free0[0] else free0[0]
                outruns = size > bound + (grace if completes else 0.0)
                served = bound + grace if outruns else size
                hold(free0, start + served)
                if index < len(paths):
                    paths[index, 0] = start
                if counted:
                    _visit(visits, KILLED0 if outruns else SHORT0, start - now, served)
                _note(present, counters, clocks, KILLED0 if outruns else SHORT0, start, start + served)
                if outruns:
                    row = new_row(tables[1], counters)
                    table[row, INDEX], table[row, COUNTED] = index, 1.0 if counted else 0.0
                    table[row, CLASS], table[row, SPENT] = KILLED, served
                    table[row, WORK] = size - share * (bound + (grace if completes else 0.0))
                    table[row, WAITED_BEFORE], table[row, MARKS] = start - now, 0.0
                    table[row, KILL], table[row, JOIN] = start + served, start + served
                    counters[OPEN] += 1 if counted else 0
                    if index < len(paths):
                        paths[index, 1] = start + served
                    push_kill(table, tables[2], row, counters)
                elif counted:
                    _finish(SHORT, start - now, 0.0, size, books)
            else:
                row = new_row(tables[1], counters)
                table[row, INDEX], table[row, COUNTED] = index, 1.0 if counted else 0.0
                table[row, CLASS], table[row, SPENT], table[row, WORK] = LONG, 0.0, sizes1[next1]
                table[row, WAITED_BEFORE], table[row, MARKS], table[row, JOIN] = 0.0, 0.0, now
                table[row, IN_WINDOW] = 1.0 if counted else 0.0
                next1 += 1
                counters[OPEN] += 1 if counted else 0
                append_job(tables[1], counters, LINE, row)
                if free1[0] <= now:
                    _begin(now, rule, free1, tables, books, paths)
            if index == warmup - 1:
                clocks[BEGIN] = now
                _mark(AT_BEGIN, 1.0, tables, visits)
            if index == last - 1:
                clocks[END] = now
                window = now - clocks[BEGIN]
                _mark(AT_END, -1.0, tables, visits)
        drawn += BLOCK
        counters[NOTED] = forget(present, counters[NOTED], clocks[NOW])
        block += 1
        if block % _CLOCK == 0:
            _set_back(clocks[NOW], free0, free1, tables)
    for kind in range(3):
        _flush(kind, books)
    return window
