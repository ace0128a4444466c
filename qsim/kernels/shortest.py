"""Two structures that know the shortest queue: queues sorted by length, and a tournament of keys.

Sorted by length, queues of one length stand in one stretch of `order`; a change by one job swaps a queue with the end
of its stretch and moves a boundary, in constant time.  The tournament has the least of many keys on top and costs
log2 of their number for each change; of equal keys the one of lowest index wins.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper
from qsim.kernels.random import Array

Ints = NDArray[np.int64]
Index = int | np.int64

_STRETCHES = 64


def empty_order(queues: int) -> tuple[Ints, Ints, Ints]:
    """All queues empty: `order`, the place of each queue in it, and where the stretch of each length begins."""
    first = np.full(_STRETCHES, queues, np.int64)
    first[0] = 0
    return np.arange(queues), np.arange(queues), first


def boundaries(lengths: NDArray[np.int32]) -> Ints:
    """Where the stretch of each length begins in the order of these lengths, with room for more."""
    room = max(_STRETCHES, 2 * int(lengths.max()))
    return np.searchsorted(np.sort(lengths), np.arange(room)).astype(np.int64)


@helper
def swap(order: Ints, place: Ints, queue: Index, there: Index) -> None:
    """Bring a queue to a place in the order; who stood there takes its place."""
    here, other = place[queue], order[there]
    order[here], order[there] = other, queue
    place[other], place[queue] = here, there


@helper
def longer_by_one(order: Ints, place: Ints, first: Ints, queue: Index, length: Index) -> Ints:
    """A queue of this length gets one job more; returns the boundaries, with room for the next length."""
    if length + 2 >= first.size:
        grown = np.full(2 * first.size, order.size)
        for k in range(first.size):
            grown[k] = first[k]
        first = grown
    first[length + 1] -= 1
    swap(order, place, queue, first[length + 1])
    return first


@helper
def shorter_by_one(order: Ints, place: Ints, first: Ints, queue: Index, length: Index) -> None:
    """A queue of this length, which is not empty, loses a job."""
    swap(order, place, queue, first[length])
    first[length] += 1


def empty_tournament(count: int, key: float = math.inf) -> tuple[Array, Ints]:
    """`count` equal keys and the winners of all matches, node k playing 2k against 2k + 1; leaves beyond lose."""
    size = 1 << max((count - 1).bit_length(), 1)
    keys = np.full(size, math.inf)
    keys[:count] = key
    winners = np.empty(size, np.int64)
    for node in range(size - 1, 0, -1):
        left, right = (
            (2 * node - size, 2 * node + 1 - size) if 2 * node >= size else (winners[2 * node], winners[2 * node + 1])
        )
        winners[node] = left if keys[left] <= keys[right] else right
    return keys, winners


@helper
def play(keys: Array, winners: Ints, leaf: Index, key: float) -> None:
    """Change a key and replay its matches."""
    keys[leaf] = key
    size = keys.size
    node = (leaf + size) >> 1
    left, right = leaf & ~1, leaf | 1
    while True:
        winner = left if keys[left] <= keys[right] else right
        winners[node] = winner
        if node == 1:
            break
        if node & 1:
            left, right = winners[node - 1], winner
        else:
            left, right = winner, winners[node + 1]
        node >>= 1
