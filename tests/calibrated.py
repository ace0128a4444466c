"""Statistical assertions that state what they would miss: false-alarm rate and smallest detectable error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from scipy.stats import t as student

FALSE_ALARM = 1e-8  # of one comparison; a suite of a hundred stays at 1e-6


class HasStandardError(Protocol):
    value: float
    standard_error: float
    replications: int


def critical_value(replications: int, false_alarm: float = FALSE_ALARM) -> float:
    """Two-sided Student quantile for a mean of independent replications."""
    return float(student.isf(false_alarm / 2, replications - 1))


def detectable(estimate: HasStandardError, known_within: float = 0.0) -> float:
    """Smallest true error that `assert_agrees` reports with probability about .9."""
    margin = critical_value(estimate.replications) + float(student.isf(0.1, estimate.replications - 1))
    return margin * estimate.standard_error + known_within


def assert_agrees(
    estimate: HasStandardError, truth: float, *, power: float, known_within: float = 0.0, scale: float | None = None
) -> None:
    """The estimate is compatible with the truth, and an error of `power` (relative to it) would have been seen.

    `known_within` widens the test by what is unknown of the truth itself; `power` is relative to `scale` where that
    is given, for truths near 0.
    """
    excess = abs(estimate.value - truth) - known_within
    limit = critical_value(estimate.replications) * estimate.standard_error
    assert excess <= limit, f"{estimate} against {truth}: off by {excess / estimate.standard_error:.1f} errors"
    seen = detectable(estimate, known_within) / (scale or abs(truth))
    assert seen <= power, f"this run would only have seen a relative error of {seen:.3g}, not of {power}"


@dataclass(frozen=True)
class Compared:
    """A figure of one of the package's own estimates."""

    value: float
    standard_error: float
    replications: int


def assert_figure_agrees(
    estimate: Any,
    key: tuple[Any, ...],
    truth: float,
    *,
    power: float,
    known_within: float = 0.0,
    scale: float | None = None,
) -> None:
    """`assert_agrees` for one figure of a `qsim.Estimate`."""
    figure = estimate[key]
    compared = Compared(figure.value, figure.se, estimate.replications)
    assert_agrees(compared, truth, power=power, known_within=known_within, scale=scale)
