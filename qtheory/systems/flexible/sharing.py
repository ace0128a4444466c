"""Processor sharing in the mean field: what a job's class does to its response.

Under processor sharing the queue lengths of the fixed point do not depend on the service law (Bramson, Lu and Prabhakar
2012, "Asymptotic independence of queues under randomized load balancing", Queueing Syst. 71, 247-292), so neither does
the mean response of all jobs. That of a class does: it depends on the number found. For exponential service the
response r_n of a job that shares with n - 1 others satisfies, with arrivals at rate lambda_n to a queue of n,

    (1 + lambda_n) r_n = 1 + lambda_n r_(n+1) + ((n - 1) / n) r_(n-1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

from qtheory.systems.flexible import fixed_point

Array = NDArray[np.float64]


def arrival_rates(tails: Array, *, load: float, fraction: float, choices: int) -> Array:
    """lambda_n = rho [(1 - p) + p (s_n^d - s_(n+1)^d) / (s_n - s_(n+1))], n = 0, 1, ..., len(tails) - 2."""
    x, y = tails[:-1], tails[1:]
    # The quotient of differences without a difference.
    quotient = sum(x ** (choices - 1 - i) * y**i for i in range(choices))
    return np.asarray(load * ((1.0 - fraction) + fraction * quotient))


def sharing_means(*, load: float, fraction: float, choices: int) -> fixed_point.Means:
    """Mean responses under processor sharing with exponential service of mean 1.

    >>> m = sharing_means(load=0.5, fraction=0.5, choices=2)
    >>> abs(m.all - fixed_point.means(load=0.5, fraction=0.5, choices=2).all) < 1e-12
    True
    """
    s = fixed_point.tails(load=load, fraction=fraction, choices=choices, least=1e-22)
    s = np.append(s, [0.0, 0.0])
    rates = arrival_rates(s, load=load, fraction=fraction, choices=choices)
    # Lengths 1 .. n; beyond the last one nobody arrives.
    n = np.arange(1, len(rates) + 1)
    up = np.append(rates[1:], 0.0)
    banded = np.zeros((3, len(n)))
    banded[0, 1:] = -up[:-1]
    banded[1] = 1.0 + up
    banded[2, :-1] = -n[:-1] / n[1:]
    response = solve_banded((1, 1), banded, np.ones(len(n)))
    dedicated = float((s[:-1] - s[1:]) @ response)
    flexible = float((s[:-1] ** choices - s[1:] ** choices) @ response)
    return fixed_point.Means(
        all=(1.0 - fraction) * dedicated + fraction * flexible, flexible=flexible, dedicated=dedicated
    )
