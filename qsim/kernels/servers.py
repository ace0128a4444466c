"""First come, first served on c identical servers: the Kiefer-Wolfowitz recursion.

A job that joins at instant t starts at max(t, m), where m is the least of the c instants at which servers become
free, and replaces m by the end of its service (Kiefer and Wolfowitz, Trans. Amer. Math. Soc. 78, 1955, 1-18).  Up to
eight servers the instants stay sorted in registers and each job costs a row of minima and maxima without a branch;
beyond, they stand in a tournament tree of losers, where replacing the winner costs log2(c) comparisons.

Servers that do not exist are free at infinity, so that few kernels serve every number of servers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper, jit
from qsim.kernels.random import Array

Places = NDArray[np.int64]


def idle_servers(count: int) -> tuple[Array, Places]:
    """The state of `count` servers that have always been idle, as `serve` takes it: instants and tree places."""
    return free_servers(np.full(count, -math.inf))


def free_servers(instants: Array) -> tuple[Array, Places]:
    """The state of servers that become free at these instants, given in increasing order."""
    count = instants.size
    size = 4 if count <= 4 else 1 << (count - 1).bit_length()
    free = np.full(size, math.inf)
    free[:count] = instants
    if size <= 8:
        return free, np.zeros(1, np.int64)
    losers, places = np.empty(size), np.empty(size, np.int64)
    keys, leaves = free, np.arange(size)
    while size > 1:
        size //= 2
        left = keys[0::2] <= keys[1::2]
        losers[size : 2 * size] = np.where(left, keys[1::2], keys[0::2])
        places[size : 2 * size] = np.where(left, leaves[1::2], leaves[0::2])
        keys, leaves = np.where(left, keys[0::2], keys[1::2]), np.where(left, leaves[0::2], leaves[1::2])
    losers[0], places[0] = keys[0], leaves[0]
    return losers, places


@helper
def _serve_four(free: Array, joins: Array, services: Array, limit: float, starts: Array) -> None:
    a, b, c, d = free[0], free[1], free[2], free[3]
    for k in range(joins.size):
        join, service = joins[k], services[k]
        start = join if join > a else a
        starts[k] = start
        end = start + (service if service < limit else limit)
        a = b if b < end else end
        low = c if c < end else end
        b = b if b > low else low
        low = d if d < end else end
        c = c if c > low else low
        d = d if d > end else end
    free[0], free[1], free[2], free[3] = a, b, c, d


@helper
def _serve_eight(free: Array, joins: Array, services: Array, limit: float, starts: Array) -> None:
    a, b, c, d = free[0], free[1], free[2], free[3]
    e, f, g, h = free[4], free[5], free[6], free[7]
    for k in range(joins.size):
        join, service = joins[k], services[k]
        start = join if join > a else a
        starts[k] = start
        end = start + (service if service < limit else limit)
        a = b if b < end else end
        low = c if c < end else end
        b = b if b > low else low
        low = d if d < end else end
        c = c if c > low else low
        low = e if e < end else end
        d = d if d > low else low
        low = f if f < end else end
        e = e if e > low else low
        low = g if g < end else end
        f = f if f > low else low
        low = h if h < end else end
        g = g if g > low else low
        h = h if h > end else end
    free[0], free[1], free[2], free[3] = a, b, c, d
    free[4], free[5], free[6], free[7] = e, f, g, h


@helper
def _serve_tree(free: Array, places: Places, joins: Array, services: Array, limit: float, starts: Array) -> None:
    size = free.size
    key, leaf = free[0], places[0]
    for k in range(joins.size):
        join, service = joins[k], services[k]
        start = join if join > key else key
        starts[k] = start
        key = start + (service if service < limit else limit)
        node = (leaf + size) >> 1
        while node > 0:
            rival, place = free[node], places[node]
            beaten = rival < key
            free[node] = key if beaten else rival
            places[node] = leaf if beaten else place
            key = rival if beaten else key
            leaf = place if beaten else leaf
            node >>= 1
    free[0], places[0] = key, leaf


@jit
def serve(free: Array, places: Places, joins: Array, services: Array, limit: float, starts: Array) -> None:
    """Starts of jobs that join in this order and hold their server for min(service, limit); the state moves on."""
    if free.size == 4:
        _serve_four(free, joins, services, limit, starts)
    elif free.size == 8:
        _serve_eight(free, joins, services, limit, starts)
    else:
        _serve_tree(free, places, joins, services, limit, starts)
