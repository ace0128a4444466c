"""Numbers and arrays in, the same out: broadcasting, range checks and the stability test the queues share."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from qtheory.models.errors import InvalidModel, Unstable

FloatArray = NDArray[np.float64]

Values = TypeVar("Values", float, NDArray[Any])
"""A number when every argument is a number, an array as soon as one of them is an array."""

_EPSILON = float(np.finfo(np.float64).eps)
_SPLITTER = 134217729.0  # 2**27 + 1 cuts a double into two halves of 26 bits (Dekker 1971)


def positive(*, infinite: bool = False, **named: Any) -> list[FloatArray]:
    """The arguments as arrays of floats, each element above zero (finite unless `infinite`)."""
    return [_inside(name, value, 0.0, open_low=True, infinite=infinite) for name, value in named.items()]


def nonnegative(*, infinite: bool = False, **named: Any) -> list[FloatArray]:
    """The arguments as arrays of floats, each element zero or above (finite unless `infinite`)."""
    return [_inside(name, value, 0.0, open_low=False, infinite=infinite) for name, value in named.items()]


def whole_servers(servers: Any) -> FloatArray:
    """`servers` as an array of whole numbers, 1 or more."""
    count = _inside("servers", servers, 1.0, open_low=False, infinite=False)
    if not np.all(count == np.floor(count)):
        raise InvalidModel(field="servers", rule="must be whole", value=_first(count, count == np.floor(count)))
    return count


def levels(level: Any) -> FloatArray:
    """Probability levels of quantiles, as an array: zero or above, below one."""
    array = np.asarray(level, dtype=np.float64)
    inside = (array >= 0.0) & (array < 1.0)
    if not np.all(inside):
        raise InvalidModel(field="level", rule="must be at least 0 and below 1", value=_first(array, inside))
    return array


def probabilities(name: str, value: Any) -> FloatArray:
    """`value` as an array of probabilities."""
    array = np.asarray(value, dtype=np.float64)
    inside = (array >= 0.0) & (array <= 1.0)
    if not np.all(inside):
        raise InvalidModel(field=name, rule="must lie between 0 and 1", value=_first(array, inside))
    return array


def spare_servers(*, arrival_rate: FloatArray, mean_service: FloatArray, servers: FloatArray) -> FloatArray:
    """c - lambda m without cancellation, to the last bit.

    Near saturation the rounding of the product lambda m would be all that is left of the difference;
    Dekker's exact product keeps it.
    """
    rate, rate_exponent = np.frexp(arrival_rate)
    mean, mean_exponent = np.frexp(mean_service)
    high_rate, high_mean = _upper_half(rate), _upper_half(mean)
    low_rate, low_mean = rate - high_rate, mean - high_mean
    product = rate * mean
    lost = ((high_rate * high_mean - product) + high_rate * low_mean + low_rate * high_mean) + low_rate * low_mean
    exponent = rate_exponent + mean_exponent
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite load is left for the stability test
        load = np.ldexp(product, exponent)
        spare: FloatArray = np.where(np.isinf(load), -np.inf, (servers - load) - np.ldexp(lost, exponent))
    return spare


def require_stable(*, spare: FloatArray, servers: FloatArray, where: str = "queue") -> None:
    """Raises `Unstable`, with the index of the first culprit, unless every queue has spare capacity.

    A load of 1 to within the rounding of the input counts as 1: nobody means the wait of 1e16 that it would give.
    """
    stable = spare > _EPSILON * servers
    if np.all(stable):
        return
    index = tuple(int(i) for i in np.argwhere(~stable)[0])
    spare, servers = np.broadcast_arrays(spare, servers)
    place = f"{where} {list(index)}" if index else where
    raise Unstable(where=place, load=max(1.0, float(1.0 - spare[index] / servers[index])))


def shaped(out: FloatArray, like: Values | float) -> Values:
    """`out` as a plain float when it has no axes; `like` is an argument it came from, for its type alone."""
    return cast("Values", float(out) if np.ndim(out) == 0 else out)


def blocks(size: int, width: int) -> list[slice]:
    """Slices that cut `size` rows of `width` numbers into pieces that stay in cache."""
    rows = max(1, 300_000 // width)
    return [slice(start, min(start + rows, size)) for start in range(0, size, rows)]


def _upper_half(x: FloatArray) -> FloatArray:
    scaled = _SPLITTER * x
    return scaled - (scaled - x)


def _inside(name: str, value: Any, low: float, *, open_low: bool, infinite: bool) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    inside = array > low if open_low else array >= low
    if not infinite:
        inside = inside & (array < np.inf)
    if not np.all(inside):
        rule = f"must be {'above' if open_low else 'at least'} {low:g}" + ("" if infinite else " and finite")
        raise InvalidModel(field=name, rule=rule, value=_first(array, inside))
    return array


def _first(array: FloatArray, inside: NDArray[np.bool_]) -> float:
    return float(array[~inside].item(0))
