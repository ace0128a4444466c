"""When the mean wait of GI/G/c is finite although the service time has no second moment."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qtheory.models.errors import InvalidModel
from qtheory.queues._values import (
    FloatArray,
    Values,
    nonnegative,
    positive,
    require_stable,
    shaped,
    whole_servers,
)


def required_moment(*, offered_load: Values | float, servers: Values | float, order: Values | float = 1.0) -> Values:
    """The order p such that E[W^r] is finite if and only if E[S^p] is: p = (k + r) / k, k = c - floor(a).

    k long jobs must come together before the remaining servers are overloaded: the more servers are spare, the
    heavier the tail the wait can bear. Under FCFS, for c servers at offered load a and service times whose law is
    regular enough (all laws of qtwin are; in general Scheller-Wolf and Vesilo's class L-infinity).

    For whole a > 0 the theorem is silent and the value returned is the sufficient one (the necessary one has k + 1).

    Parameters: offered_load 0 <= a < c, servers c whole, order r > 0; arrays broadcast.
    Raises `Unstable` if a >= c, `InvalidModel` for an argument out of range.

    Scheller-Wolf and Vesilo (2006), Structural interpretation and derivation of necessary and sufficient
    conditions for delay moments in FIFO multiserver queues, Queueing Systems 54.

    >>> required_moment(offered_load=1.5, servers=4)  # three servers spare
    1.3333333333333333
    """
    load, spare = _spare(offered_load, servers)
    (wanted,) = positive(order=order)
    return shaped((spare + wanted) / spare + 0.0 * load, offered_load)


def wait_is_finite(
    *,
    offered_load: Values | float,
    servers: Values | float,
    tail_index: Values | float,
    order: Values | float = 1.0,
) -> bool | NDArray[np.bool_]:
    """Whether E[W^r] is finite for service times with E[S^p] finite if and only if p < tail_index.

    The tail index is the shape of a Pareto law, and `inf` for laws with all moments. Arguments and errors as for
    `required_moment`; for a whole offered load `InvalidModel` is raised where the theorem does not decide.

    >>> wait_is_finite(offered_load=1.5, servers=2, tail_index=1.8)  # one server spare: needs E[S^2]
    False
    >>> wait_is_finite(offered_load=1.5, servers=4, tail_index=1.8)
    True
    """
    load, spare = _spare(offered_load, servers)
    wanted, tail = positive(infinite=True, order=order, tail_index=tail_index)
    enough = (spare + wanted) / spare < tail
    too_heavy = (spare + 1.0 + wanted) / (spare + 1.0) >= tail
    undecided = (load > 0.0) & (load == np.floor(load)) & ~enough & ~too_heavy
    if np.any(undecided):
        where = np.broadcast_to(tail, undecided.shape)[undecided]
        rule = "decides nothing at a whole offered load between the necessary and the sufficient moment: vary the load"
        raise InvalidModel(field="tail_index", rule=rule, value=float(where.item(0)))
    return bool(enough) if enough.ndim == 0 else enough


def _spare(offered_load: Values | float, servers: Values | float) -> tuple[FloatArray, FloatArray]:
    """a and k = c - floor(a)."""
    (load,) = nonnegative(offered_load=offered_load)
    count = whole_servers(servers)
    require_stable(spare=np.asarray(count - load), servers=count)
    return load, np.asarray(count - np.floor(load))
