"""Plain loops over columns of jobs: the passes of which the dispatcher's kernels are made."""

from __future__ import annotations

import math

import numpy as np

from qsim.kernels._jit import helper, jit
from qsim.kernels.random import Array
from qsim.kernels.servers import Places, serve


@helper
def total(values: Array) -> float:
    """Sum in four interleaved parts."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = values.size - values.size % 4
    for i in range(0, whole, 4):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
    for i in range(whole, values.size):
        a += values[i]
    return (a + b) + (c + d)


@helper
def above(values: Array, bound: float) -> int:
    """How many values exceed the bound."""
    count = 0
    for i in range(values.size):
        count += 1 if values[i] > bound else 0
    return count


@helper
def shift(values: Array, by: float) -> None:
    """Set instants back."""
    for i in range(values.size):
        values[i] -= by


@helper
def close_up(values: Array, first: int, end: int) -> None:
    """Move the entries first, ..., end - 1 to the front."""
    for i in range(first, end):
        values[i - first] = values[i]


@helper
def longer(values: Array, used: int, wanted: int) -> Array:
    """The same values with room for `wanted`, doubled if the room must grow."""
    if wanted <= values.size:
        return values
    grown = np.empty(2 * wanted)
    for i in range(used):
        grown[i] = values[i]
    return grown


@helper
def instants(gaps: Array, now: float, joins: Array) -> float:
    """Arrival instants where all jobs go to one group; returns the last."""
    for i in range(gaps.size):
        now += gaps[i]
        joins[i] = now
    return now


@helper
def divide(
    gaps: Array, classes: Array, short_fraction: float, now: float, joins0: Array, joins1: Array
) -> tuple[int, float]:
    """Arrival instants by group: how many go to Group 0, and the last instant."""
    short, long = 0, 0
    for i in range(gaps.size):
        now += gaps[i]
        joins0[short] = now
        joins1[long] = now
        is_short = 1 if classes[i] < short_fraction else 0
        short += is_short
        long += 1 - is_short
    return short, now


@jit
def part(
    joins: Array,
    sizes: Array,
    starts: Array,
    limit: float,
    waits: Array,
    responses: Array,
    kills: Array,
    kill_sizes: Array,
    kill_waits: Array,
) -> int:
    """Waits and responses of the jobs completed in Group 0; kill instants, sizes and waits of the others.

    Returns how many were completed.  Every column has one entry to spare.
    """
    done, killed = 0, 0
    for k in range(joins.size):
        start, size = starts[k], sizes[k]
        wait = start - joins[k]
        waits[done] = wait
        responses[done] = wait + size
        kills[killed] = start + limit
        kill_sizes[killed] = size
        kill_waits[killed] = wait
        outruns = 1 if size > limit else 0
        done += 1 - outruns
        killed += outruns
    return done


@jit
def serve_both(
    free: Array,
    places: Places,
    kills: Array,
    kill_sizes: Array,
    kill_starts: Array,
    joins: Array,
    sizes: Array,
    starts: Array,
) -> None:
    """Starts in Group 1 of killed and of submitted jobs, in runs of either; a kill goes before a simultaneous join."""
    i, j = 0, 0
    while i < joins.size or j < kills.size:
        first = j
        while j < kills.size and (i == joins.size or kills[j] <= joins[i]):
            j += 1
        serve(free, places, kills[first:j], kill_sizes[first:j], math.inf, kill_starts[first:j])
        first = i
        while i < joins.size and (j == kills.size or not kills[j] <= joins[i]):
            i += 1
        serve(free, places, joins[first:i], sizes[first:i], math.inf, starts[first:i])
