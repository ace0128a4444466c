"""Moments of the least of c residual service times: what a customer who must wait sees first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from qtheory.models.errors import NotConverged
from qtheory.queues._values import FloatArray, Values, nonnegative, positive, require_stable, shaped

_FINE, _COARSE = 16, 10  # points of the rule and of the one that checks it
_FINE_NODES, _FINE_WEIGHTS = np.polynomial.legendre.leggauss(_FINE)
_COARSE_NODES, _COARSE_WEIGHTS = np.polynomial.legendre.leggauss(_COARSE)
_NODES = 1.0 + np.concatenate([_FINE_NODES, _COARSE_NODES])
_FIRST, _BATCH = 8.0, 4  # panels up to 8 means are evaluated in one call, then four by four
_BELOW, _ABOVE = 8, 200  # panels double in width from mean / (2^8 c), at most to 2^200 means
_TOLERANCE = 1e-8
_SETTLED = 1e-13


def least_residual(
    *,
    residual_survival: Callable[[FloatArray], FloatArray],
    mean_service: float,
    servers: Values | float,
    order: int = 1,
    breakpoints: Sequence[float] = (),
) -> Values:
    """E[min(Y_1, ..., Y_c)^r], r = 1 or 2: r integral_0^inf t^(r-1) P(Y > t)^c dt, Y residual service times.

    Parameters
    ----------
    residual_survival : P(Y > t) = (1/m) integral_t^inf P(S > u) du, on arrays.
    mean_service : m, only sets the scale of the grid.
    servers : c >= 1, one or many at the price of one.
    breakpoints : times where the survival function of S jumps or starts or ends.

    Relative error below 1e-8, checked by a second rule.

    Raises `NotConverged` if the check fails (a breakpoint was left out) or the tail is too heavy to see its end
    within 2^200 means (the moment is then infinite or next to it); `InvalidModel` for an argument out of range.

    >>> import numpy as np
    >>> round(least_residual(residual_survival=lambda t: np.exp(-t), mean_service=1.0, servers=4), 9)
    0.25
    """
    (mean,) = positive(mean_service=mean_service)
    (count,) = positive(servers=servers)
    (power,) = positive(order=order)
    flat = count.ravel()[:, None]
    total, coarse = np.zeros(flat.size), np.zeros(flat.size)
    below = _BELOW + np.ceil(np.log2(np.max(flat, initial=1.0)))
    edges = np.concatenate([[0.0], float(mean) * 2.0 ** np.arange(-below, _ABOVE + 1.0)])
    edges = np.unique(np.concatenate([edges, [b for b in breakpoints if 0.0 < b < edges[-1]]]))
    for low, half, times, survival in _panels(edges, residual_survival=residual_survival, mean=float(mean)):
        with np.errstate(under="ignore"):
            values = order * half * times ** (power - 1.0) * survival**flat
        added = values[:, :_FINE] @ _FINE_WEIGHTS
        coarse += values[:, _FINE:] @ _COARSE_WEIGHTS
        total += added
        if low > mean and np.all(added <= _SETTLED * total):
            break
    else:
        raise NotConverged(
            where="least residual service time",
            residual=float(np.max(added / total)),
            iterations=edges.size - 1,
            advice="the tail is too heavy: treat the moment as infinite or cut the tail",
        )
    miss = float(np.max(np.abs(coarse - total) / total))
    if miss > _TOLERANCE:
        raise NotConverged(
            where="least residual service time",
            residual=miss,
            iterations=edges.size - 1,
            advice="give every time at which the service law jumps, starts or ends as a breakpoint",
        )
    return shaped(total.reshape(count.shape), servers)


def _panels(
    edges: FloatArray, *, residual_survival: Callable[[FloatArray], FloatArray], mean: float
) -> Iterator[tuple[float, float, FloatArray, FloatArray]]:
    """Lower end and half width of each panel, and the survival function at the nodes of both rules."""
    start = 0
    while start < edges.size - 1:
        stop = max(int(np.searchsorted(edges, _FIRST * mean)), 1) if start == 0 else start + _BATCH
        batch = edges[start : stop + 1]
        half = 0.5 * np.diff(batch)
        times = batch[:-1, None] + half[:, None] * _NODES
        values = np.asarray(residual_survival(times.ravel())).reshape(times.shape)
        yield from zip(batch[:-1].tolist(), half.tolist(), times, values, strict=True)
        start = stop


def conditional_scv(
    *,
    load: Values | float,
    servers: Values | float,
    mean_service: Values | float,
    service_second_moment: Values | float,
    service_third_moment: Values | float,
    least_residual: Values | float,
    least_residual_square: Values | float,
) -> Values:
    """Squared coefficient of variation of the wait given a wait in M/G/c.

    The wait of those who wait is taken as the least of c residual service times plus a geometric number (mean
    rho / (1 - rho)) of residual service times divided by c: exact for M/M/c and M/G/1.

    Parameters
    ----------
    load : rho = lambda m / c, 0 <= rho < 1, the load per server.
    least_residual, least_residual_square : first and second moment (order 1 and 2) from `least_residual`.
    service_second_moment, service_third_moment : finite; arrays broadcast.

    Raises `Unstable` if rho >= 1, `InvalidModel` for an argument out of range.

    Tijms, van Hoorn and Federgruen (1981), Approximations for the steady-state probabilities in the M/G/c queue.

    >>> round(conditional_scv(  # M/M/2
    ...     load=0.6, servers=2, mean_service=1.0, service_second_moment=2.0, service_third_moment=6.0,
    ...     least_residual=0.5, least_residual_square=0.5), 12)
    1.0
    """
    (rho,) = nonnegative(load=load)
    require_stable(spare=np.asarray(1.0 - rho), servers=np.ones_like(rho))
    count, mean, second, third, least, square = positive(
        servers=servers,
        mean_service=mean_service,
        service_second_moment=service_second_moment,
        service_third_moment=service_third_moment,
        least_residual=least_residual,
        least_residual_square=least_residual_square,
    )
    step = second / (2.0 * mean * count)
    step_square = third / (3.0 * mean * count**2)
    number = rho / (1.0 - rho)
    total = least + number * step
    variance = (square - least**2) + number * (step_square - step**2) + number / (1.0 - rho) * step**2
    return shaped(variance / total**2, load)
