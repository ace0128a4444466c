"""Histograms of times with buckets of bounded relative width, indexed by the bits of the number itself.

The upper bits of a positive double, its exponent and the first bits of its mantissa, grow with the number and are
linear within an octave: bucket = bits >> (52 - PRECISION), counted from 2^LEAST.  Bucket widths are between
2^-(PRECISION + 1) and 2^-PRECISION of the value.  Bucket 0 holds what is below 2^LEAST, zero above all, and the last
one what is 2^MOST or more.  Histograms of the same jobs in parts add up to that of the whole.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper, jit
from qsim.kernels.random import Array

PRECISION = 8
LEAST, MOST = -34, 40
BUCKETS = ((MOST - LEAST) << PRECISION) + 2

_SHIFT = 52 - PRECISION
_BASE = ((1023 + LEAST) << PRECISION) - 1

Counts = NDArray[np.int64]


@helper
def add(values: Array, counts: Counts) -> None:
    """Count non-negative `values`."""
    bits = values.view(np.int64)
    for i in range(values.size):
        bucket = (bits[i] >> _SHIFT) - _BASE
        bucket = bucket if bucket > 0 else 0
        bucket = bucket if bucket < BUCKETS - 1 else BUCKETS - 1
        counts[bucket] += 1


@jit
def gather(counts: Counts, out: Array) -> int:
    """Write (bucket, count) of the buckets that hold something, one pair after the other; how many there are."""
    found = 0
    for bucket in range(counts.size):
        if counts[bucket] > 0:
            out[2 * found] = bucket
            out[2 * found + 1] = counts[bucket]
            found += 1
    return found


def bucket_of(time: float) -> int:
    """The bucket in which `time` is counted."""
    bits = int(np.float64(time).view(np.int64))
    return min(max((bits >> _SHIFT) - _BASE, 0), BUCKETS - 1)


def edges(bucket: int) -> tuple[float, float]:
    """Lower and upper edge of a bucket; bucket 0 is read as zero, the last one has no upper edge."""
    if bucket == 0:
        return 0.0, 0.0
    low, high = (
        math.ldexp(1 + place % (1 << PRECISION) / (1 << PRECISION), LEAST + (place >> PRECISION))
        for place in (bucket - 1, bucket)
    )
    return low, high if bucket < BUCKETS - 1 else math.inf
