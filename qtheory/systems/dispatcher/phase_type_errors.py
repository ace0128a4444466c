"""How far the `phase-type` method is off: errors that cover the truth 19 times in 20."""

from __future__ import annotations

from qtheory.systems.dispatcher.delay import Delay
from qtheory.systems.dispatcher.group_queues import Wait
from qtheory.systems.dispatcher.killed_queue import KilledQueue
from qtheory.systems.dispatcher.loads import Traffic

_SHAPE = 0.03
#: Relative error where nothing else is left: rounding in the solvers.
_FLOOR = 1e-7


def group0(traffic: Traffic, *, servers: int, wait: Wait) -> float:
    """Relative error of the mean wait of Group 0."""
    if servers == 1 and traffic.poisson:
        return _FLOOR
    idle = 1.0 - wait.probability
    return 0.0005 + 0.003 * idle + (0.0 if traffic.poisson else 0.01)


def long_only(traffic: Traffic, *, servers: int, wait: Wait) -> float:
    """Relative error of the mean wait of Group 1 without kills."""
    if servers == 1 and traffic.poisson:
        return _FLOOR
    return 0.0005 + 0.01 * (1.0 - wait.probability) + (0.0 if traffic.poisson else 0.01)


def with_kills(traffic: Traffic, *, servers: tuple[int, int], found: KilledQueue) -> float:
    """Relative error of the mean waits of Group 1."""
    return (
        0.002
        + found.spread
        + 0.3 * found.correction
        + 0.02 * abs(1.0 - found.ratio)
        + (0.0 if traffic.poisson else 0.01)
    )


def dispersed(traffic: Traffic, *, servers: tuple[int, int], ratio: float) -> float:
    """Relative error of the Poisson queue times the work-dispersion ratio."""
    return 0.03 + 0.6 * abs(1.0 - ratio)


def delay(wait: Wait, *, relative: float) -> Delay:
    """The wait with its errors."""
    return Delay(
        mean=wait.mean,
        probability=wait.probability,
        scv=max(wait.scv, 0.05),
        error=relative * wait.mean,
        probability_error=(relative + 0.01) * wait.probability,
        shape_error=_SHAPE,
        moments=wait.moments,
    )
