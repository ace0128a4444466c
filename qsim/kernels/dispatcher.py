"""The dispatcher with killed jobs as two recursions and a merge, block by block in constant memory.

Group 0 never depends on Group 1.  Its starts come out in order and the limit is fixed, so the kill instants
start + limit come out in order too: they wait in a line until the block reaches them, are merged with the jobs
submitted to Group 1 (a kill goes before an arrival at the same instant) and served there.  No event list, and exact.

Jobs are counted by arrival index and followed to their departure; time averages are integrals over the window from
the last arrival of the warm-up to the last counted arrival.  The counted jobs may be cut into batches of equal size,
each with tallies and a window of its own.
"""

from __future__ import annotations

import math

import numpy as np

from qsim.kernels._jit import helper, jit
from qsim.kernels.census import JOINED, QUEUED, SERVED, census, forget, note
from qsim.kernels.histogram import Counts, add
from qsim.kernels.passes import above, close_up, divide, instants, longer, part, serve_both, shift, total
from qsim.kernels.pooled import FREE, pool, pool_both
from qsim.kernels.random import Array, State, fill_uniform
from qsim.kernels.sampling import Rows, fill
from qsim.kernels.servers import Places, serve

#: A law's rows, its parameters and the stream it draws from.
Source = tuple[Rows, Array, State]

#: Jobs a block: large enough to forget the calls, small enough for the second-level cache.
BLOCK = 1024
#: Blocks after which the clock is set back, so that instants keep their digits in the longest run.
_CLOCK = 256
_NEVER = 2**62

SHORT, LONG, KILLED = range(3)
#: Kinds of visits to a group: completed in Group 0, killed there, submitted to Group 1, restarted there.
SHORT0, KILLED0, LONG1, KILLED1 = range(4)

#: Columns of the tally of counted jobs, one class a row; the last four are for killed jobs alone.
COUNT, RESPONSE, WAIT, WAITED, WAIT0, WAITED0, WAIT1, WAITED1 = range(8)
#: Rows of the histograms of waits beyond those of the three classes: killed jobs in each group alone.
WAITS0, WAITS1 = 3, 4


@helper
def count_jobs(
    waits: Array, responses: Array, at: Array, row: Array, tails: Array, response_counts: Counts, wait_counts: Counts
) -> None:
    """Enter jobs of one class into its row of the tally and, where wanted, into its histograms."""
    row[COUNT] += waits.size
    row[RESPONSE] += total(responses)
    row[WAIT] += total(waits)
    row[WAITED] += above(waits, 0.0)
    for k in range(at.size):
        tails[k] += above(responses, at[k])
    if response_counts.size > 0:
        add(responses, response_counts)
        add(waits, wait_counts)


@helper
def count_killed(
    kills: Array,
    sizes: Array,
    waits0: Array,
    starts: Array,
    limit: float,
    at: Array,
    row: Array,
    tails: Array,
    response_counts: Counts,
    wait_counts: tuple[Counts, Counts, Counts],
) -> None:
    """Enter counted killed jobs; histograms of waits: both groups together, Group 0, Group 1."""
    count = starts.size
    waits1, waits, responses = np.empty(count), np.empty(count), np.empty(count)
    for i in range(count):
        waits1[i] = starts[i] - kills[i]
        waits[i] = waits0[i] + waits1[i]
        responses[i] = waits[i] + limit + sizes[i]
    count_jobs(waits, responses, at, row, tails, response_counts, wait_counts[0])
    row[WAIT0] += total(waits0)
    row[WAITED0] += above(waits0, 0.0)
    row[WAIT1] += total(waits1)
    row[WAITED1] += above(waits1, 0.0)
    if response_counts.size > 0:
        add(waits0, wait_counts[1])
        add(waits1, wait_counts[2])


@jit
def simulate(
    gap: Source,
    classes: State,
    size0: Source,
    size1: Source,
    short_fraction: float,
    limit: float,
    free0: Array,
    places0: Places,
    free1: Array,
    places1: Places,
    warmup: int,
    jobs: int,
    at: Array,
    windows: Array,
    tally: Array,
    visits: Array,
    tails: Array,
    response_counts: Counts,
    wait_counts: Counts,
    pooled: Array,
    shares: Array,
) -> float:
    """One replication of as many batches of `jobs` jobs as there are `windows`; fills the tallies (zero before).

    All tallies have a batch an entry of their first axis.  `gap`, `size0`, `size1` are laws with their streams,
    `classes` the stream of submissions.  The histograms have one row a class (waits: two more), or no column where
    none are wanted; `pooled` has one row a group, or none, and `shares` is one over the servers of each group.
    Arrivals go on after the last counted job until the last counted killed job has started in Group 1.  Returns the
    length of all windows together, inf if a time was beyond the largest number.
    """
    # A typed zero: numba would compile the helpers once more for a literal one.
    nothing = int(np.int64(0))
    # One entry to spare in each column: the passes write before they know whether the entry stays.
    gaps, uniforms = np.empty(BLOCK), np.empty(BLOCK)
    joins0, sizes0, starts0 = np.empty(BLOCK + 1), np.empty(BLOCK), np.empty(BLOCK)
    joins1, sizes1 = np.empty(BLOCK + 1), np.empty(BLOCK + 1)
    waits, responses = np.empty(BLOCK + 1), np.empty(BLOCK + 1)
    kills, kill_sizes, kill_waits = np.empty(4 * BLOCK), np.empty(4 * BLOCK), np.empty(4 * BLOCK)
    starts1, kill_starts = np.empty(BLOCK), np.empty(BLOCK)
    present, noted, after_forgetting = np.empty(12 * BLOCK), nothing, nothing
    batches = windows.size
    last = warmup + batches * jobs
    # Of killed jobs, counted as they come: the first one of each batch, and the end.
    bounds = np.full(batches + 1, _NEVER)
    if warmup == 0:
        bounds[0] = 0
    batch, settled, boundary = nothing, nothing, (warmup if warmup > 0 else warmup + jobs)
    head, tail, ahead, taken, drawn, block = nothing, nothing, nothing, nothing, nothing, nothing
    now, begin, window = 0.0, 0.0, 0.0
    while drawn < last or taken < bounds[batches]:
        counted = warmup <= drawn < last
        in_window = drawn < last
        count = min(BLOCK, boundary - drawn) if in_window else BLOCK
        drawn += count

        fill(gap[0], gap[1], gap[2], gaps[:count])
        if 0.0 < short_fraction < 1.0:
            fill_uniform(classes, uniforms[:count])
            n0, now = divide(gaps[:count], uniforms[:count], short_fraction, now, joins0, joins1)
        else:
            n0 = count if short_fraction > 0.0 else 0
            now = instants(gaps[:count], now, joins0 if n0 > 0 else joins1)
        if not now < math.inf:
            return math.inf
        n1 = count - n0
        fill(size0[0], size0[1], size0[2], sizes0[:n0])
        fill(size1[0], size1[1], size1[2], sizes1[:n1])

        serve(free0, places0, joins0[:n0], sizes0[:n0], limit, starts0[:n0])
        if 2 * head > kills.size:
            close_up(kills, head, tail)
            close_up(kill_sizes, head, tail)
            close_up(kill_waits, head, tail)
            head, tail, ahead = 0, tail - head, ahead - head
        kills = longer(kills, tail, tail + n0 + 1)
        kill_sizes = longer(kill_sizes, tail, tail + n0 + 1)
        kill_waits = longer(kill_waits, tail, tail + n0 + 1)
        done = part(
            joins0[:n0],
            sizes0[:n0],
            starts0[:n0],
            limit,
            waits,
            responses,
            kills[tail:],
            kill_sizes[tail:],
            kill_waits[tail:],
        )
        end = tail + n0 - done
        if counted:
            count_jobs(
                waits[:done],
                responses[:done],
                at,
                tally[batch, SHORT],
                tails[batch, SHORT],
                response_counts[batch, SHORT],
                wait_counts[batch, SHORT],
            )
            visits[batch, KILLED0, JOINED] += end - tail
            visits[batch, KILLED0, QUEUED] += total(kill_waits[tail:end])
        tail = end

        if pooled.size > 0 and in_window:
            pool(pooled[batch, 0], joins0[:n0], sizes0[:n0], limit, shares[0], counted)
            ahead = pool_both(
                pooled[batch, 1],
                kills,
                kill_sizes,
                kill_waits,
                ahead,
                tail,
                joins1[:n1],
                sizes1[:n1],
                now,
                shares[1],
                counted,
            )

        stop = head
        while stop < tail and kills[stop] <= now:
            stop += 1
        killed = stop - head
        kill_starts = longer(kill_starts, 0, killed)
        serve_both(
            free1,
            places1,
            kills[head:stop],
            kill_sizes[head:stop],
            kill_starts,
            joins1[:n1],
            sizes1[:n1],
            starts1,
        )
        if counted:
            for j in range(n1):
                waits[j] = starts1[j] - joins1[j]
                responses[j] = waits[j] + sizes1[j]
            count_jobs(
                waits[:n1],
                responses[:n1],
                at,
                tally[batch, LONG],
                tails[batch, LONG],
                response_counts[batch, LONG],
                wait_counts[batch, LONG],
            )
            visits[batch, KILLED1, JOINED] += killed
            visits[batch, KILLED1, QUEUED] += total(kill_starts[:killed]) - total(kills[head:stop])
            visits[batch, KILLED1, SERVED] += total(kill_sizes[head:stop])
        while settled < batches and bounds[settled + 1] <= taken:
            settled += 1
        of = settled
        while of < batches and bounds[of] < taken + killed:
            low, high = max(bounds[of] - taken, 0), min(bounds[of + 1] - taken, killed)
            if low < high:
                count_killed(
                    kills[head + low : head + high],
                    kill_sizes[head + low : head + high],
                    kill_waits[head + low : head + high],
                    kill_starts[low:high],
                    limit,
                    at,
                    tally[of, KILLED],
                    tails[of, KILLED],
                    response_counts[of, KILLED],
                    (wait_counts[of, KILLED], wait_counts[of, WAITS0], wait_counts[of, WAITS1]),
                )
            of += 1

        if in_window:
            present = longer(present, 3 * noted, 3 * (noted + count + killed))
            noted = note(1.0 * SHORT0, 1.0 * KILLED0, starts0[:n0], sizes0[:n0], limit, now, present, noted)
            noted = note(1.0 * LONG1, 1.0 * LONG1, starts1[:n1], sizes1[:n1], math.inf, now, present, noted)
            noted = note(
                1.0 * KILLED1, 1.0 * KILLED1, kill_starts[:killed], kill_sizes[head:stop], math.inf, now, present, noted
            )
            if noted > 2 * after_forgetting + BLOCK:
                noted = forget(present, noted, now)
                after_forgetting = noted
        head = stop
        taken += killed
        if in_window and drawn == boundary:
            if drawn > warmup:
                windows[batch] = now - begin
                window += windows[batch]
                bounds[batch + 1] = taken + tail - head
                census(present, noted, now, -1.0, visits[batch])
                if drawn < last:
                    for k in range(pooled.shape[1]):
                        pooled[batch + 1, k, FREE] = pooled[batch, k, FREE]
                    batch += 1
            else:
                bounds[0] = taken + tail - head
            if drawn < last:
                census(present, noted, now, 1.0, visits[batch])
            begin = now
            boundary += jobs

        block += 1
        if block % _CLOCK == 0:
            shift(free0, now)
            shift(free1, now)
            for k in range(pooled.shape[1]):
                pooled[batch, k, FREE] -= now
            shift(kills[head:tail], now)
            for k in range(noted):
                present[3 * k + 1] -= now
                present[3 * k + 2] -= now
            begin -= now
            now = 0.0
    return window
