"""What a Student test over replications rejects, and which shift it would have seen."""

from __future__ import annotations

from scipy.optimize import brentq
from scipy.special import nctdtr, stdtrit


def critical_value(*, false_alarm: float, degrees: int) -> float:
    """Two-sided Student critical value.

    >>> round(critical_value(false_alarm=0.05, degrees=10), 4)
    2.2281
    """
    return float(-stdtrit(degrees, false_alarm / 2))


def detectable_shift(*, critical: float, degrees: int, power: float) -> float:
    """The shift, in true standard errors, that |T| > critical finds with probability `power`.

    T is noncentral Student with `degrees` degrees of freedom; the far tail on the other side is negligible.

    >>> round(detectable_shift(critical=1.959964, degrees=10**6, power=0.9), 3)
    3.242
    """

    def missed(shift: float) -> float:
        return float(nctdtr(degrees, shift, critical)) - (1 - power)

    high = critical + 10.0
    while missed(high) > 0:
        high *= 2
    return float(brentq(missed, 0.0, high, xtol=1e-9))
