"""First passages of N1 where the donor helps below the switch: most of G in closed recursion.

Where the level is N1 and it is so high that the donor helps iff N2 < K, queue 2 only grows while N2 < K: N1 runs
as an M/M/1 queue with service rate mu1 + mu12, and N2 gains a Poisson number during the passage from one level to
the one below. With phases in the order of N2 the matrix G is

    G = [ U  V ]     U upper triangular Toeplitz: d_m = P(m arrivals of type 2 during a busy period),
        [ 0  G2 ]    G2 the passages from N2 = K - 1 on and the excursion, a small process of its own,

and the rows of V follow from its last one upwards. Cyclic reduction is left with G2, some thirty phases, instead
of K + thirty.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qtheory.queues.linear import factor
from qtheory.queues.qbd import Reduction, reduce

Array = NDArray[np.float64]


def arrivals_in_busy_period(*, arrival: float, service: float, other: float, count: int) -> Array:
    """d_0 .. d_(count-1): P(m Poisson arrivals of rate `other` during a busy period of M/M/1).

    The generating function d(z) solves arrival d^2 - (arrival + service + other (1 - z)) d + service = 0; its
    coefficients follow from one another without subtractions, also where the busy period may last for ever.

    >>> d = arrivals_in_busy_period(arrival=0.5, service=1.0, other=0.1, count=200)
    >>> round(float(d.sum()), 12), round(float(d @ range(200)), 12)  # 1 and other / (service - arrival)
    (1.0, 0.2)
    """
    total = arrival + service + other
    d = np.zeros(count)
    root = np.sqrt((service - arrival + other) ** 2 + 4 * arrival * other)
    d[0] = 2 * service / (total + root)
    for m in range(1, count):
        d[m] = (other * d[m - 1] + arrival * float(d[1:m] @ d[m - 1 : 0 : -1])) / root
    return d


def helped_passages(
    *, local: Array, down: Array, helped: int, level_rate: float, phase_rate: float, service: float, load: float
) -> Reduction:
    """G and R of the levels where the donor helps in the first `helped` phases, by the triangular structure.

    `local` and `down` are the blocks (up is `level_rate` I), `service` is mu1 + mu12, `load` that of the level
    process.
    """
    order, above = len(local), helped - 1
    small = reduce(
        up=np.diag(np.full(order - above, level_rate)),
        local=local[above:, above:],
        down=down[above:, above:],
        where="queue1",
        load=load,
    )
    passage = np.zeros((order, order))
    passage[above:, above:] = small.passage
    if above:
        d = arrivals_in_busy_period(arrival=level_rate, service=service, other=phase_rate, count=above)
        gap = level_rate + phase_rate + service - level_rate * d[0]
        block = factor(gap * np.eye(order - above) - level_rate * small.passage, where="queue1")
        rows = np.zeros((above + 1, order - above))  # rows[k] starts k phases before the last one that is helped
        rows[0] = small.passage[0]
        for k in range(1, above + 1):
            right = phase_rate * rows[k - 1] + level_rate * (d[1:k] @ rows[k - 1 : 0 : -1])
            rows[k] = block.solve_left(right)
        passage[:above, above:] = rows[above:0:-1]
        offsets = np.arange(above)[None, :] - np.arange(above)[:, None]
        passage[:above, :above] = np.where(offsets >= 0, d[np.maximum(offsets, 0)], 0.0)
    kernel = factor(-(local + level_rate * passage), where="queue1")
    # One more step of G = (-(local + up G))^-1 down takes rounding errors along the way out.
    residual = float(np.abs(down + (local + level_rate * passage) @ passage).sum(axis=1).max())
    falling = down.sum(axis=1)
    return Reduction(
        passage=passage,
        rate=level_rate * kernel.solve(np.eye(order)),
        load=load,
        falling=falling,
        deficit=falling - level_rate,
        residual=residual / float(np.abs(local).max()),
        iterations=small.iterations,
    )
