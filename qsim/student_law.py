"""Quantiles of Student's law for intervals, without the special functions of scipy.

Loading those takes longer than a small simulation.  For whole degrees of freedom the distribution function is a
finite sum (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4), which Newton's method
inverts; scipy serves the many degrees of freedom of long runs.
"""

from __future__ import annotations

import math
from functools import lru_cache

_MOST_TERMS = 1000


@lru_cache(maxsize=256)
def two_sided_quantile(*, confidence: float, degrees: int) -> float:
    """The t with P(|T| <= t) = confidence, for 0 < confidence < 1 and degrees >= 1.

    To a relative accuracy of 1e-12, or of 1e-15 / (1 - confidence) if that is more.

    >>> round(two_sided_quantile(confidence=0.95, degrees=31), 6)
    2.039513
    """
    if degrees > _MOST_TERMS:
        from scipy.special import stdtrit

        return float(stdtrit(degrees, 0.5 + confidence / 2))
    slope = 2 / math.sqrt(math.pi) * math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2))
    # With t = sqrt(degrees) tan(angle), the probability is concave in the angle: from the left no step overshoots.
    angle = confidence / slope
    for _ in range(200):
        step = (confidence - _probability(angle, degrees)) / (slope * math.cos(angle) ** (degrees - 1))
        angle += step
        if abs(step) <= 1e-15 * angle:
            break
    return math.sqrt(degrees) * math.tan(angle)


def _probability(angle: float, degrees: int) -> float:
    """P(|T| <= sqrt(degrees) tan(angle))."""
    square = math.cos(angle) ** 2
    even = degrees % 2 == 0
    term, terms = (1.0 if even else math.cos(angle)), []
    for k in range(2 if even else 3, degrees + 1, 2):
        terms.append(term)
        term *= square * (k - 1) / k
    inside = math.sin(angle) * math.fsum(terms)
    return inside if even else 2 / math.pi * (angle + inside)
