"""Student's quantiles against scipy's."""

from __future__ import annotations

import pytest
from scipy import stats

from qsim.student_law import two_sided_quantile


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 8, 15, 31, 64, 255, 999, 1000, 1001, 20_000])
def test_quantiles(degrees) -> None:
    """The tail is 1 - confidence: what that difference loses of its digits, the quantile loses too."""
    for confidence in (0.01, 0.3, 0.5, 0.8, 0.95, 0.99, 0.999, 1 - 1e-6, 1 - 1e-9):
        exact = stats.t.isf((1 - confidence) / 2, degrees)
        allowed = max(1e-11, 1e-15 / (1 - confidence))
        assert two_sided_quantile(confidence=confidence, degrees=degrees) == pytest.approx(exact, rel=allowed)


def test_the_middle_of_the_law() -> None:
    """Where the density is flat, t = confidence / (2 density at 0); with 4 degrees of freedom that is 3/8."""
    assert two_sided_quantile(confidence=1e-9, degrees=4) == pytest.approx(1e-9 / 0.75, rel=1e-12)


def test_one_degree_of_freedom_is_cauchy() -> None:
    assert two_sided_quantile(confidence=0.5, degrees=1) == pytest.approx(1.0, rel=1e-14)
