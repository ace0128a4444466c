"""Arrival processes against closed forms and against counts computed by another road."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg, stats

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.map import (
    ArrivalProcess,
    markovian,
    mmpp,
    poisson,
    rational_arrivals,
    renewal,
    superposition,
)
from qtheory.queues.phase_type import erlang, exponential, hyperexponential, phase_type

SWITCH = mmpp(generator=[[-0.4, 0.4], [0.1, -0.1]], rates=[5.0, 0.5])
TIMES = np.array([0.01, 0.5, 2.0, 10.0, 300.0])


def counts_by_generating_function(process: ArrivalProcess, t: float) -> tuple[float, float]:
    """Mean and variance of N(t) from E z^N = pi e^((D0 + z D1) t) e, differentiated on a circle (Cauchy)."""
    points = 32
    z = 1 + 0.05 * np.exp(2j * np.pi * np.arange(points) / points)
    values = np.array(
        [process.phases @ linalg.expm((process.hidden + p * process.arrivals) * t) @ np.ones(process.order) for p in z]
    )
    coefficients = np.fft.fft(values) / points / 0.05 ** np.arange(points)
    first, second = coefficients[1].real, 2 * coefficients[2].real
    return first, second + first - first**2


def test_poisson() -> None:
    process = poisson(rate=2.5)
    assert process.rate == 2.5
    np.testing.assert_allclose(process.dispersion(TIMES), 1.0, rtol=1e-12)
    assert process.interval.scv == pytest.approx(1.0, rel=1e-13)
    assert process.autocorrelation(3) == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize(
    "process",
    [
        SWITCH,
        renewal(erlang(shape=3, mean=0.7)),
        renewal(hyperexponential(probabilities=[0.2, 0.8], means=[3.0, 0.3])),
        superposition(SWITCH, renewal(erlang(shape=2, mean=1.0))).merged(),
    ],
)
@pytest.mark.parametrize("t", [0.1, 1.0, 4.0])
def test_counts(process: ArrivalProcess, t: float) -> None:
    mean, variance = counts_by_generating_function(process, t)
    assert process.rate * t == pytest.approx(mean, rel=1e-10)
    assert process.dispersion(t) == pytest.approx(variance / mean, rel=1e-8)


def test_erlang_counts_from_the_poisson_process_of_its_phases() -> None:
    """N(t) = floor((M + B) / 2), M Poisson, B = 0 or 1 at random: the stationary E2 renewal process."""
    process = renewal(erlang(shape=2, mean=1.0))
    m = np.arange(400)
    for t in (0.2, 1.5, 20.0):
        weights = stats.poisson.pmf(m, 2 * t)
        first = sum(weights @ ((m + b) // 2) for b in (0, 1)) / 2
        second = sum(weights @ ((m + b) // 2) ** 2 for b in (0, 1)) / 2
        assert process.dispersion(t) == pytest.approx((second - first**2) / first, rel=1e-11)


def test_renewal_limit_is_the_scv_of_the_interval() -> None:
    for law in (erlang(shape=4, mean=2.0), hyperexponential(probabilities=[0.1, 0.9], means=[9.0, 1.0])):
        process = renewal(law)
        assert process.dispersion() == pytest.approx(law.scv, rel=1e-12)
        assert process.dispersion(1e-7) == pytest.approx(1.0, abs=1e-6)
        assert process.dispersion(1e7) == pytest.approx(law.scv, rel=1e-6)
        assert process.rate == pytest.approx(1 / law.mean, rel=1e-13)
        assert process.autocorrelation(1) == pytest.approx(0.0, abs=1e-13)


def test_switched_poisson_closed_forms() -> None:
    """MMPP(2), rates a, b, switching r (from a), s: limit 1 + 2 r s (a - b)^2 / ((r + s)^2 (a s + b r))."""
    a, b, r, s = 5.0, 0.5, 0.4, 0.1
    excess = 2 * r * s * (a - b) ** 2 / ((r + s) ** 2 * (a * s + b * r))
    assert SWITCH.rate == pytest.approx((a * s + b * r) / (r + s), rel=1e-13)
    assert SWITCH.dispersion() == pytest.approx(1 + excess, rel=1e-12)
    decay = 1 - (1 - np.exp(-(r + s) * TIMES)) / ((r + s) * TIMES)
    np.testing.assert_allclose(SWITCH.dispersion(TIMES), 1 + excess * decay, rtol=1e-10)


def test_autocorrelation_gives_the_limit_of_dispersion() -> None:
    """I(infinity) = scv (1 + 2 sum of autocorrelations)."""
    total = sum(SWITCH.autocorrelation(lag) for lag in range(1, 400))
    assert SWITCH.interval.scv * (1 + 2 * total) == pytest.approx(SWITCH.dispersion(), rel=1e-9)


def test_splitting_thinning_and_marks() -> None:
    parts = SWITCH.split(probabilities=[0.3, 0.7])
    np.testing.assert_allclose(parts.rates, SWITCH.rate * np.array([0.3, 0.7]), rtol=1e-13)
    thin = SWITCH.thinned(keep=0.3)
    np.testing.assert_allclose(parts.only(0).dispersion(TIMES), thin.dispersion(TIMES), rtol=1e-12)
    np.testing.assert_allclose(parts.dispersion(TIMES, first=0), thin.dispersion(TIMES), rtol=1e-12)
    # Independent thinning: I - 1 shrinks by the share kept.
    np.testing.assert_allclose(thin.dispersion(TIMES) - 1, 0.3 * (SWITCH.dispersion(TIMES) - 1), rtol=1e-9)
    # Variances and covariances of the types add up to that of the whole.
    weights = np.sqrt(np.outer([0.3, 0.7], [0.3, 0.7]))
    whole = sum(weights[i, j] * parts.dispersion(TIMES, first=i, second=j) for i in (0, 1) for j in (0, 1))
    np.testing.assert_allclose(whole, SWITCH.dispersion(TIMES), rtol=1e-11)
    assert parts.merged().marks[0] == pytest.approx(SWITCH.arrivals)
    lost = SWITCH.split(probabilities=[0.3])
    assert lost.rate == pytest.approx(thin.rate, rel=1e-13)


def test_split_poisson_types_are_independent() -> None:
    parts = poisson(rate=4.0).split(probabilities=[0.5, 0.5])
    np.testing.assert_allclose(parts.dispersion(TIMES, first=0, second=1), 0.0, atol=1e-12)


def test_superposition_adds_variances() -> None:
    other = renewal(erlang(shape=2, mean=1.0))
    both = superposition(SWITCH, other)
    assert both.rates == pytest.approx([SWITCH.rate, 1.0])
    expected = (SWITCH.rate * SWITCH.dispersion(TIMES) + other.dispersion(TIMES)) / (SWITCH.rate + 1.0)
    np.testing.assert_allclose(both.merged().dispersion(TIMES), expected, rtol=1e-10)
    np.testing.assert_allclose(both.dispersion(TIMES, first=0, second=1), 0.0, atol=1e-9)


def test_reversal() -> None:
    """Counts do not see the direction of time, intervals come in reverse order: same law, same correlations."""
    process = markovian([[-3.0, 1.0, 0.0], [0.0, -2.0, 0.5], [0.2, 0.0, -1.0]], [[2, 0, 0], [0, 0, 1.5], [0.8, 0, 0]])
    back = process.reversed()
    np.testing.assert_allclose(back.dispersion(TIMES), process.dispersion(TIMES), rtol=1e-11)
    assert back.autocorrelation(2) == pytest.approx(process.autocorrelation(2), rel=1e-11)
    assert back.interval.moment(3) == pytest.approx(process.interval.moment(3), rel=1e-11)
    assert back.proper
    # The phase just before an arrival becomes the phase just after it.
    before = process.phases * process.arrivals.sum(axis=1)
    np.testing.assert_allclose(back.embedded, before / before.sum(), rtol=1e-12)


def test_scaling() -> None:
    fast = SWITCH.scaled(rate=10.0)
    assert fast.rate == pytest.approx(10.0, rel=1e-13)
    np.testing.assert_allclose(fast.dispersion(TIMES * SWITCH.rate / 10.0), SWITCH.dispersion(TIMES), rtol=1e-11)


def test_signed_processes() -> None:
    """A change of basis loses the signs and nothing else."""
    basis = np.array([[1.3, -0.3], [-0.4, 1.4]])
    back = np.linalg.inv(basis)
    process = rational_arrivals(basis @ SWITCH.hidden @ back, basis @ SWITCH.arrivals @ back)
    assert not process.proper
    assert SWITCH.proper
    assert process.rate == pytest.approx(SWITCH.rate, rel=1e-12)
    np.testing.assert_allclose(process.dispersion(TIMES), SWITCH.dispersion(TIMES), rtol=1e-11)
    with pytest.raises(NotConverged, match="lower order"):
        rational_arrivals([[1.0, -2.0], [0.0, -1.0]], [[1.0, 0.0], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("hidden", "arrivals", "match"),
    [
        ([[-1.0, 0.0], [0.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]], "one closed class"),
        ([[-1.0, 0.5], [0.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]], "sum to 0"),
        ([[-1.0, 2.0], [0.0, -1.0]], [[-1.0, 0.0], [0.5, 0.5]], "at least 0"),
        ([[-1.0, -0.5], [0.5, -1.0]], [[1.5, 0.0], [0.0, 0.5]], "at least 0"),
        ([[-1.0, 1.0], [1.0, -1.0]], [[0.0, 0.0], [0.0, 0.0]], "positive rate"),
        ([[-1.0]], [[1.0, 0.0], [0.0, 1.0]], "order of D0"),
        ([[-1.0, np.nan], [0.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]], "finite"),
    ],
)
def test_wrong_processes(hidden: list[list[float]], arrivals: list[list[float]], match: str) -> None:
    with pytest.raises(InvalidModel, match=match):
        markovian(hidden, arrivals)


def test_wrong_arguments() -> None:
    for rate in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InvalidModel):
            poisson(rate=rate)
    with pytest.raises(InvalidModel, match="atom"):
        renewal(phase_type(alpha=[0.5], generator=[[-1.0]]))
    with pytest.raises(InvalidModel):
        SWITCH.thinned(keep=0.0)
    with pytest.raises(InvalidModel):
        SWITCH.split(probabilities=[0.7, 0.7])
    with pytest.raises(InvalidModel):
        SWITCH.dispersion(0.0)
    with pytest.raises(InvalidModel):
        SWITCH.autocorrelation(0)
    assert renewal(exponential(mean=2.0)).rate == pytest.approx(0.5)
