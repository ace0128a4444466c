"""Histograms of times with buckets of bounded relative width, indexed by the bits of the number itself.

The upper bits of a positive double, its exponent and the first bits of its mantissa, grow with the number and are
linear within an octave: bucket = bits >> (52 - PRECISION), counted from 2^LEAST.  Bucket widths are between
2^-(PRECISION + 1) and 2^-PRECISION of the value.  Bucket 0 holds what is below 2^LEAST, zero above all, and the last
one what is 2^MOST or more.  Histograms of the same jobs in parts add up to that of the whole.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper
from qsim.kernels.random import Array

PRECISION = 9
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


def edges(first: int, last: int) -> Array:
    """Lower edges of the buckets first, ..., last - 1 and the upper edge of the last."""
    bits = (np.arange(first, last + 1, dtype=np.int64) + _BASE) << _SHIFT
    lower = bits.view(np.float64).copy()
    if first == 0:
        lower[0] = 0.0
    return lower
