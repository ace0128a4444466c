"""Exact draws of the stationary workloads of M/G/c, first come first served: dominated coupling from the past.

Connor and Kendall, Perfect simulation of M/G/c queues, Adv. Appl. Probab. 47 (2015) 1039-1063.  If every arrival
goes to a server at random and waits there (RA), each server is an M/G/1 queue of its own, and when services are handed
out in the order in which they begin, the n-th service of FCFS begins no later than the n-th of RA.  RA is run
backwards in time from its stationary state: as processor sharing, M/G/1 is reversible, its departures being the
arrivals of the reversed queue.  From an instant -t on, FCFS is run twice on the arrivals and services found: from no
work at all, and from RA's state with its waiting jobs in one line.  The truth lies between the two; when they have
met by instant 0 it is known, else t is doubled.

Arrays have one row a server.  The past of a server is stored backwards: the latest job first, instants counted from 0
into the past.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper, jit
from qsim.kernels.random import Array, State, exponential, uniform, uniform_positive
from qsim.kernels.sampling import Rows, draw

Ints = NDArray[np.int64]

#: A law and the law of the service in progress at an arbitrary instant (total, not yet thinned), with the limit at
#: which services are cut and the bound by which the second is thinned (0: it needs none but at the limit).
Service = tuple[Rows, Array, Rows, Array, float, float]


@helper
def service_time(law: Service, state: State) -> float:
    """A service."""
    time = draw(law[0], law[1], state)
    return time if time < law[4] else law[4]


@helper
def in_progress(law: Service, state: State) -> float:
    """The whole of a service in progress at an arbitrary instant: P(dx) in proportion to x P(service in dx)."""
    limit, bound = law[4], law[5]
    while True:
        time = draw(law[2], law[3], state)
        if bound > 0.0:
            time = time if time < limit else limit
            if uniform(state) * bound < time:
                return time
        elif time <= limit:
            return time
        elif uniform(state) * time < limit:
            return limit


@helper
def wider(values: Array, wanted: int) -> Array:
    """The same rows with room for `wanted` columns, doubled if the room must grow."""
    if wanted <= values.shape[1]:
        return values
    grown = np.empty((values.shape[0], 2 * wanted))
    for row in range(values.shape[0]):
        for k in range(values.shape[1]):
            grown[row, k] = values[row, k]
    return grown


@helper
def further_back(
    server: int,
    until: float,
    rate: float,
    law: Service,
    clock: Array,
    shared: Array,
    number: Ints,
    ends: Array,
    totals: Array,
    count: Ints,
    times: Array,
    sizes: Array,
    state: State,
) -> tuple[Array, Array, Array, Array]:
    """Run one server's reversed queue until it is empty, no earlier than `until`; returns the arrays that may grow.

    `shared` is the service that each job present has had so far since the clock began, `ends` at how much of it jobs
    leave, `totals` what they bring in all.
    """
    present = number[server]
    while present > 0 or clock[server] < until:
        arrival = exponential(state) / rate
        first = 0
        for k in range(1, present):
            if ends[server, k] < ends[server, first]:
                first = k
        departure = (ends[server, first] - shared[server]) * present if present > 0 else math.inf
        if arrival < departure:
            clock[server] += arrival
            shared[server] += arrival / present if present > 0 else 0.0
            ends, totals = wider(ends, present + 1), wider(totals, present + 1)
            totals[server, present] = service_time(law, state)
            ends[server, present] = shared[server] + totals[server, present]
            present += 1
        else:
            clock[server] += departure
            shared[server] = ends[server, first]
            times, sizes = wider(times, count[server] + 1), wider(sizes, count[server] + 1)
            times[server, count[server]] = clock[server]
            sizes[server, count[server]] = totals[server, first]
            count[server] += 1
            present -= 1
            ends[server, first], totals[server, first] = ends[server, present], totals[server, present]
    number[server] = present
    return ends, totals, times, sizes


@helper
def hold(free: Array, end: float) -> None:
    """The server that is free first is taken until `end`; `free` are the instants at which servers are, in order."""
    k = 0
    while k + 1 < free.size and free[k + 1] < end:
        free[k] = free[k + 1]
        k += 1
    free[k] = end


@helper
def serve_in_line(free: Array, join: float, service: float) -> None:
    """One job of M/G/c."""
    hold(free, (join if join > free[0] else free[0]) + service)


@helper
def next_service(
    following: Ints,
    starts: Array,
    sizes: Array,
    ahead: Ints,
    ahead_count: Ints,
    ahead_starts: Array,
    ahead_sizes: Array,
) -> float:
    """The next service in the order in which RA begins them."""
    best, chosen = math.inf, 0
    for q in range(following.size):
        start = math.inf
        if following[q] >= 0:
            start = starts[q, following[q]]
        elif ahead[q] < ahead_count[q]:
            start = ahead_starts[q, ahead[q]]
        if start < best:
            best, chosen = start, q
    if following[chosen] >= 0:
        following[chosen] -= 1
        return float(sizes[chosen, following[chosen] + 1])
    ahead[chosen] += 1
    return float(ahead_sizes[chosen, ahead[chosen] - 1])


@helper
def met(
    horizon: float,
    count: Ints,
    times: Array,
    sizes: Array,
    starts: Array,
    ahead_count: Ints,
    ahead_starts: Array,
    ahead_sizes: Array,
    least: Array,
    most: Array,
    out: Array,
) -> bool:
    """Whether FCFS from instant -horizon on is known at instant 0; then its workloads, in order, are in `out`."""
    servers = count.size
    # The first jobs of each server of RA that begin, and that arrive, after -horizon.
    following, arriving, ahead = np.empty(servers, np.int64), np.empty(servers, np.int64), np.zeros(servers, np.int64)
    for q in range(servers):
        least[q], most[q] = -horizon, -horizon
    waiting = 0
    for q in range(servers):
        k = count[q] - 1
        while k >= 0 and starts[q, k] <= -horizon:
            k -= 1
        following[q] = k
        if k + 1 < count[q] and starts[q, k + 1] + sizes[q, k + 1] > -horizon:
            hold(most, starts[q, k + 1] + sizes[q, k + 1])
        while k >= 0 and -times[q, k] <= -horizon:
            k -= 1
            waiting += 1
        arriving[q] = k
    for _ in range(waiting):
        size = next_service(following, starts, sizes, ahead, ahead_count, ahead_starts, ahead_sizes)
        serve_in_line(most, -horizon, size)
    while True:
        join, chosen = math.inf, 0
        for q in range(servers):
            if arriving[q] >= 0 and -times[q, arriving[q]] < join:
                join, chosen = -times[q, arriving[q]], q
        if join == math.inf:
            break
        arriving[chosen] -= 1
        size = next_service(following, starts, sizes, ahead, ahead_count, ahead_starts, ahead_sizes)
        serve_in_line(most, join, size)
        serve_in_line(least, join, size)
    for k in range(servers):
        out[k] = most[k] if most[k] > 0.0 else 0.0
        if out[k] != (least[k] if least[k] > 0.0 else 0.0):
            return False
    return True


@jit
def sample_workloads(
    law: Service, rate: float, load: float, horizon: float, patience: int, state: State, out: Array, horizons: Array
) -> int:
    """Fill the rows of `out` with workloads in increasing order, `horizons` with how far back each had to be traced.

    `rate` of arrivals and `load` are those of one server of RA; `horizon` is tried first.  Gives up at a draw that
    meets more than `patience` jobs at a server; returns how many draws are done.
    """
    servers = out.shape[1]
    clock, shared, number = np.empty(servers), np.empty(servers), np.empty(servers, np.int64)
    count, ahead_count = np.empty(servers, np.int64), np.empty(servers, np.int64)
    ends, totals = np.empty((servers, 8)), np.empty((servers, 8))
    times, sizes, starts = np.empty((servers, 64)), np.empty((servers, 64)), np.empty((servers, 64))
    ahead_starts, ahead_sizes = np.empty((servers, 8)), np.empty((servers, 8))
    least, most, free = np.empty(servers), np.empty(servers), np.empty(servers)
    for sample in range(len(out)):
        for q in range(servers):
            clock[q], shared[q], number[q], count[q], ahead_count[q] = 0.0, 0.0, 0, 0, 0
            # The number present under processor sharing is geometric, and what is left of each service uniform.
            while uniform(state) < load:
                present = number[q]
                ends, totals = wider(ends, present + 1), wider(totals, present + 1)
                totals[q, present] = in_progress(law, state)
                ends[q, present] = totals[q, present] * uniform_positive(state)
                number[q] += 1
        horizons[sample] = horizon
        looked_ahead = False
        while True:
            for q in range(servers):
                ends, totals, times, sizes = further_back(
                    q, horizons[sample], rate, law, clock, shared, number, ends, totals, count, times, sizes, state
                )
                if count[q] > patience:
                    return sample
                starts = wider(starts, count[q])
                free[q] = -math.inf
                for k in range(count[q] - 1, -1, -1):
                    starts[q, k] = -times[q, k] if -times[q, k] > free[q] else free[q]
                    free[q] = starts[q, k] + sizes[q, k]
            if not looked_ahead:
                # Services that RA begins after instant 0: jobs that come later may begin before jobs that wait.
                last = 0.0
                for q in range(servers):
                    if count[q] > 0 and starts[q, 0] > last:
                        last = starts[q, 0]
                for q in range(servers):
                    join = exponential(state) / rate
                    start = join if join > free[q] else free[q]
                    while start <= last:
                        ahead_starts = wider(ahead_starts, ahead_count[q] + 1)
                        ahead_sizes = wider(ahead_sizes, ahead_count[q] + 1)
                        ahead_starts[q, ahead_count[q]] = start
                        ahead_sizes[q, ahead_count[q]] = service_time(law, state)
                        free[q] = start + ahead_sizes[q, ahead_count[q]]
                        ahead_count[q] += 1
                        join += exponential(state) / rate
                        start = join if join > free[q] else free[q]
                looked_ahead = True
            found = met(
                horizons[sample],
                count,
                times,
                sizes,
                starts,
                ahead_count,
                ahead_starts,
                ahead_sizes,
                least,
                most,
                out[sample],
            )
            if found:
                break
            horizons[sample] *= 2.0
    return len(out)
