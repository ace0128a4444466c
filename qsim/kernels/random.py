"""Random numbers inside kernels: xoshiro256++ on a state array of four 64-bit words, and the laws built on it.

The generator is that of Blackman and Vigna (ACM Trans. Math. Softw. 47, 2021, art. 36); exponential and normal
variates come from 256-layer ziggurats (Marsaglia and Tsang, J. Stat. Softw. 5(8), 2000), gamma variates from the
squeeze of Marsaglia and Tsang (ACM Trans. Math. Softw. 26, 2000, 363-372).  Every function advances `state` in
place; states come from `qsim.streams`.  The `fill_*` functions give the same numbers as as many scalar calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper, jit

State = NDArray[np.uint64]
Array = NDArray[np.float64]

_11, _17, _19, _23, _32, _41, _45 = (np.uint64(k) for k in (11, 17, 19, 23, 32, 41, 45))
_LAYER = np.uint64(0xFF)
_SIGN = np.uint64(0x100)
_LOW = np.uint64(0xFFFFFFFF)
_UNIT = 2.0**-53
_TAIL = 256
_EXPONENTIAL_EDGE = 7.69711747013104972
_NORMAL_EDGE = 3.6541528853610088


def _layers(
    *, edge: float, area: float, density: Callable[[float], float], inverse: Callable[[float], float]
) -> tuple[Array, Array]:
    """Right edges x[0..256] of layers of equal `area` under a falling density with density(0) = 1, and density(x).

    Layer 256 is the base strip with the tail beyond `edge`; its x is the width of a rectangle of the same area.
    """
    x = [0.0] * 257
    x[256], x[255] = area / density(edge), edge
    for i in range(254, 0, -1):
        x[i] = inverse(area / x[i + 1] + density(x[i + 1]))
    return np.array(x), np.array([density(value) for value in x])


_EX, _EY = _layers(
    edge=_EXPONENTIAL_EDGE,
    area=0.0039496598225815571993,
    density=lambda x: math.exp(-x),
    inverse=lambda y: -math.log(y),
)
_NX, _NY = _layers(
    edge=_NORMAL_EDGE,
    area=0.00492867323399,
    density=lambda x: math.exp(-0.5 * x * x),
    inverse=lambda y: math.sqrt(-2.0 * math.log(y)),
)


@helper
def _step(
    s0: np.uint64, s1: np.uint64, s2: np.uint64, s3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]:
    """One step on words held in registers: (output, new words)."""
    mixed = s0 + s3
    bits = ((mixed << _23) | (mixed >> _41)) + s0
    shifted = s1 << _17
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << _45) | (s3 >> _19)
    return bits, s0, s1, s2, s3


@jit
def next64(state: State) -> np.uint64:
    """The next 64 random bits."""
    bits, state[0], state[1], state[2], state[3] = _step(state[0], state[1], state[2], state[3])
    return bits


@helper
def _unit(bits: np.uint64) -> float:
    """A multiple of 2^-53 in [0, 1) from the upper 53 bits."""
    return float(np.int64(bits >> _11)) * _UNIT


@jit
def uniform(state: State) -> float:
    """Uniform on [0, 1), a multiple of 2^-53."""
    return _unit(next64(state))


@jit
def uniform_positive(state: State) -> float:
    """Uniform on (0, 1], a multiple of 2^-53: safe to take the logarithm of."""
    return _unit(next64(state)) + _UNIT


@jit
def below(state: State, n: int) -> np.int64:
    """Uniform on 0, ..., n - 1 without bias, for 1 <= n < 2^32 (Lemire, ACM Trans. Model. Comput. Simul. 29, 2019)."""
    bound = np.uint64(n)
    product = (next64(state) >> _32) * bound
    if (product & _LOW) < bound:
        least = ((_LOW - bound) + np.uint64(1)) % bound
        while (product & _LOW) < least:
            product = (next64(state) >> _32) * bound
    return np.int64(product >> _32)


@helper
def _exponential_edge(state: State, layer: np.int64, z: float) -> float:
    """What the fast path of the exponential ziggurat leaves over: a value, or -1 to draw again."""
    if layer == _TAIL:
        return _EXPONENTIAL_EDGE - math.log(uniform_positive(state))
    if _EY[layer] + uniform(state) * (_EY[layer - 1] - _EY[layer]) < math.exp(-z):
        return z
    return -1.0


@jit
def exponential(state: State) -> float:
    """Exponential of mean 1."""
    while True:
        bits = next64(state)
        layer = np.int64(bits & _LAYER) + 1
        z: float = _unit(bits) * _EX[layer]
        if z < _EX[layer - 1]:
            return z
        z = _exponential_edge(state, layer, z)
        if z >= 0.0:
            return z


@jit
def normal(state: State) -> float:
    """Normal of mean 0 and variance 1."""
    while True:
        bits = next64(state)
        layer = np.int64(bits & _LAYER) + 1
        z: float = _unit(bits) * _NX[layer]
        sign = -1.0 if bits & _SIGN else 1.0
        if z < _NX[layer - 1]:
            return sign * z
        if layer == _TAIL:
            # Marsaglia's tail: beyond the edge by x with P(accept) = exp(-x^2 / 2).
            while True:
                x = -math.log(uniform_positive(state)) / _NORMAL_EDGE
                y = -math.log(uniform_positive(state))
                if 2.0 * y >= x * x:
                    return sign * (_NORMAL_EDGE + x)
        if _NY[layer] + uniform(state) * (_NY[layer - 1] - _NY[layer]) < math.exp(-0.5 * z * z):
            return sign * z


@jit
def gamma(state: State, shape: float) -> float:
    """Gamma of the given shape and scale 1; a shape below 1 by gamma(shape + 1) U^(1 / shape)."""
    boost = 1.0
    if shape < 1.0:
        boost = uniform_positive(state) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = 1.0 + c * x
        if v > 0.0:
            v = v * v * v
            u = uniform_positive(state)
            if u < 1.0 - 0.0331 * x * x * x * x or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return boost * d * v


@jit
def fill_uniform(state: State, out: Array) -> None:
    """Fill `out` with `uniform` draws."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    for i in range(out.size):
        bits, s0, s1, s2, s3 = _step(s0, s1, s2, s3)
        out[i] = _unit(bits)
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3


@jit
def fill_exponential(state: State, mean: float, out: Array) -> None:
    """Fill `out` with `exponential` draws times `mean`."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    i = 0
    while i < out.size:
        bits, s0, s1, s2, s3 = _step(s0, s1, s2, s3)
        layer = np.int64(bits & _LAYER) + 1
        z: float = _unit(bits) * _EX[layer]
        if z >= _EX[layer - 1]:
            state[0], state[1], state[2], state[3] = s0, s1, s2, s3
            z = _exponential_edge(state, layer, z)
            s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
            if z < 0.0:
                continue
        out[i] = z * mean
        i += 1
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
