"""Functions of a time that are smooth in its logarithm, by polynomials piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from qtheory.laws._distribution import FloatArray

_DEGREE = 15
_NODES = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
#: From values at the nodes to Chebyshev coefficients.
_TRANSFORM = np.cos(np.outer(np.arange(_DEGREE + 1), np.arccos(_NODES))) * 2.0 / (_DEGREE + 1)
_TRANSFORM[0] /= 2.0
#: Coefficients of the highest degrees, relative to 1 + the largest, at which a piece is good enough.
_ENOUGH = 1e-13
#: Halvings of an octave.
_MOST_HALVINGS = 6


class Interpolated:
    """Several functions on [2^low, 2^high], each by Chebyshev polynomials of degree 15 in log t over equal pieces.

    Pieces are octaves at first, halved until the last coefficients of every function are below 1e-13.
    `settled` says whether they are.
    """

    def __init__(self, functions: Callable[[FloatArray], Sequence[FloatArray]], *, low: int, high: int) -> None:
        self._low, self._pieces = low, high - low
        for halvings in range(_MOST_HALVINGS + 1):
            self._parts = 2**halvings
            starts = low + np.arange((high - low) * self._parts) / self._parts
            logs = starts[:, None] + (_NODES + 1.0) / (2.0 * self._parts)
            self._coefficients = [_TRANSFORM @ np.asarray(values).T for values in functions(2.0**logs)]
            last = [np.abs(c[-2:]).max(axis=0) / (1.0 + np.abs(c).max(axis=0)) for c in self._coefficients]
            self.settled = all(float(part.max()) <= _ENOUGH for part in last)
            if self.settled:
                break

    def covered(self, t: FloatArray) -> NDArray[np.bool_]:
        """Which times lie within the pieces."""
        return np.asarray((t >= 2.0**self._low) & (t < 2.0 ** (self._low + self._pieces)))

    def at(self, t: FloatArray, *, which: int) -> FloatArray:
        """The function number `which` at the times; without meaning where they are not covered."""
        inside = np.clip(t.ravel(), 2.0**self._low, 2.0 ** (self._low + self._pieces))
        place = (np.log2(inside) - self._low) * self._parts
        piece = np.clip(place.astype(np.int64), 0, self._pieces * self._parts - 1)
        x = 2.0 * (place - piece) - 1.0
        basis = np.empty((_DEGREE + 1, x.size))
        basis[0], basis[1] = 1.0, x
        double = 2.0 * x
        for k in range(2, _DEGREE + 1):
            np.multiply(double, basis[k - 1], out=basis[k])
            basis[k] -= basis[k - 2]
        return np.asarray((basis * self._coefficients[which][:, piece]).sum(axis=0)).reshape(t.shape)
