"""Erlang's loss and delay formulas, vectorised, for any real number of servers.

Both rest on B(c, a) = p(c; a) / Q(c + 1, a), p the Poisson probability of c and Q the regularised upper
incomplete gamma function: for a below c, Q lies between 1/2 and 1 and nothing cancels.
"""

from __future__ import annotations

import numpy as np

from qtheory._lazy import special
from qtheory.queues import _poisson
from qtheory.queues._values import FloatArray, Values, blocks, nonnegative, positive, require_stable, shaped

_DEEP = 4.2  # standard deviations below c at which the continued fraction of 1 - Q takes over
_VANISHING = 9.0  # standard deviations below c at which 1 - Q drops under the last bit of 1
_OVERLOAD = 2.0  # standard deviations above c, where the continued fraction settles sooner than Q loses digits
_LEVELS = 120
_FEW_SERVERS = 32  # up to here the recursion over whole numbers of servers is the shorter way


def erlang_b(*, offered_load: Values | float, servers: Values | float) -> Values:
    """Probability that an arrival is lost when it finds all c servers busy, no waiting room (M/G/c/c).

    1/B(c, a) = a integral_0^inf e^(-a t) (1 + t)^c dt, which for whole c is
    B = (a^c / c!) / sum_(k<=c) a^k / k!.

    Parameters
    ----------
    offered_load : a = arrival rate x mean service time, in erlangs, 0 or above.
    servers : c, above 0, not necessarily whole; arrays broadcast.

    Relative error below 1e-13 where B exceeds 1e-100, below 1e-12 down to 1e-300; c to 1e15.

    Raises `InvalidModel` for a negative, infinite or undefined argument.

    Jagers and van Doorn (1986), On the continued Erlang loss function, eq. 2.

    >>> round(erlang_b(offered_load=10.0, servers=15), 6)
    0.036497
    """
    (load,) = nonnegative(offered_load=offered_load)
    (count,) = positive(servers=servers)
    load, count = np.broadcast_arrays(load, count)
    return shaped(loss(load=load, servers=count, spare=np.asarray(count - load)), offered_load)


def erlang_c(*, offered_load: Values | float, servers: Values | float) -> Values:
    """Probability that an arrival has to wait in M/M/c, continued to real c.

    C = c B / (c - a (1 - B)), B the loss probability of `erlang_b`; sums of positive terms only, so that the
    relative error stays below 1e-13 (1e-12 where C is under 1e-100) however close the load is to c.

    Parameters
    ----------
    offered_load : a = arrival rate x mean service time, in erlangs, 0 <= a < c.
    servers : c, above 0, not necessarily whole; arrays broadcast.

    Raises `Unstable`, naming the first index, if a >= c; `InvalidModel` for a wrong argument.

    Erlang (1917); Cooper (1981), Introduction to Queueing Theory, eq. 3.4.8.

    >>> round(erlang_c(offered_load=2.0, servers=3), 12) == round(4 / 9, 12)
    True
    """
    load, count, spare = _delay_arguments(offered_load, servers)
    return shaped(delay(load=load, servers=count, spare=spare), offered_load)


def erlang_c_slope(*, offered_load: Values | float, servers: Values | float) -> Values:
    """Derivative of `erlang_c` in the offered load at fixed c, again a sum of positive terms.

    dC/da = (C^2 / B) ((1 - a/c) ((c - a)/a + B) + (1 - B)/c). Arguments and errors as for `erlang_c`, and the
    load must be above 0.

    >>> round(erlang_c_slope(offered_load=0.25, servers=1), 12)  # C = a for a single server
    1.0
    """
    positive(offered_load=offered_load)
    load, count, spare = _delay_arguments(offered_load, servers)
    lost = loss(load=load, servers=count, spare=spare)
    waits = _from_loss(lost=lost, load=load, servers=count, spare=spare)
    free = spare / count
    # C / B = 1 / (free + (1 - free) B) stays finite where B underflows; B / a needs no separate care.
    return shaped(
        waits / (free + (1.0 - free) * lost) * (free * (spare / load + lost) + (1.0 - lost) / count), offered_load
    )


def loss(*, load: FloatArray, servers: FloatArray, spare: FloatArray) -> FloatArray:
    """Erlang B on checked arrays of one shape; `spare` is c - a, which may be known better than the difference."""
    a, c, gap = load.ravel(), servers.ravel(), spare.ravel()
    out = np.empty_like(a)
    for block in blocks(a.size, width=16):
        out[block] = _loss(load=a[block], servers=c[block], spare=gap[block])
    return out.reshape(load.shape)


def delay(*, load: FloatArray, servers: FloatArray, spare: FloatArray) -> FloatArray:
    """Erlang C on checked arrays of one shape; `spare` as for `loss`, above 0."""
    lost = loss(load=load, servers=servers, spare=spare)
    return _from_loss(lost=lost, load=load, servers=servers, spare=spare)


def _from_loss(*, lost: FloatArray, load: FloatArray, servers: FloatArray, spare: FloatArray) -> FloatArray:
    return servers * lost / (spare + load * lost)


def _loss(*, load: FloatArray, servers: FloatArray, spare: FloatArray) -> FloatArray:
    if np.all(servers <= _FEW_SERVERS) and np.all(servers == np.floor(servers)):
        return _recursion(load=load, servers=servers)
    deviations = -spare / np.sqrt(servers)
    out = _poisson.pmf(order=servers, mean=load, gap=spare)
    central = (deviations > -_DEEP) & (deviations <= _OVERLOAD)
    out[central] /= special.gammaincc(servers[central] + 1.0, load[central])
    deep = (deviations <= -_DEEP) & (deviations > -_VANISHING)
    if np.any(deep):
        rest = _poisson.tail_rest(mean=load[deep], gap=spare[deep])
        out[deep] /= 1.0 - out[deep] * load[deep] / (1.0 + spare[deep] + rest)
    over = deviations > _OVERLOAD
    if np.any(over):
        out[over] = _overloaded(load=load[over], beyond=-spare[over])
    return out


def _recursion(*, load: FloatArray, servers: FloatArray) -> FloatArray:
    """1/B(k, a) = 1 + k / a / B(k - 1, a) from B(0, a) = 1, for whole numbers of servers: positive terms only."""
    inverse = np.ones_like(load)
    with np.errstate(divide="ignore", over="ignore"):
        for k in range(1, int(servers.max(initial=0.0)) + 1):
            inverse = np.where(k <= servers, 1.0 + k / load * inverse, inverse)
        return 1.0 / inverse


def _overloaded(*, load: FloatArray, beyond: FloatArray) -> FloatArray:
    """Legendre's continued fraction of the incomplete gamma function, for loads well above c.

    a B = a - c + c / (a - c + 2 + 2 (c - 1) / (a - c + 4 + 3 (c - 2) / ...)).
    """
    servers = load - beyond
    tail = np.zeros_like(load)
    for n in range(_LEVELS, 0, -1):
        tail = n * (servers + 1.0 - n) / (beyond + 2.0 * n + tail)
    return (beyond + tail) / load


def _delay_arguments(
    offered_load: Values | float, servers: Values | float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    (load,) = nonnegative(offered_load=offered_load)
    (count,) = positive(servers=servers)
    load, count = np.broadcast_arrays(load, count)
    spare = np.asarray(count - load)
    require_stable(spare=spare, servers=count)
    return load, count, spare
