"""The normal distribution where few values are wanted, without loading `scipy.special`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from qtheory._lazy import special

Array = NDArray[np.float64]
_FEW = 1000
_HALF_ROOT = math.sqrt(0.5)


def tail(x: Array) -> Array:
    """P(Z > x), Z standard normal."""
    if x.size > _FEW:
        return np.asarray(special.ndtr(-x))
    values = [0.5 * math.erfc(_HALF_ROOT * value) for value in x.ravel().tolist()]
    return np.array(values).reshape(x.shape)
