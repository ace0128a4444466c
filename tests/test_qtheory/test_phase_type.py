"""Phase-type algebra against scipy's laws, closed forms and numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, linalg, stats

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.phase_algebra import convolution, geometric_sum, maximum, minimum, mixture
from qtheory.queues.phase_type import (
    PhaseType,
    erlang,
    exponential,
    hyperexponential,
    matrix_exponential,
    phase_type,
)
from qtheory.queues.transient import crossing_times, propagate

H2 = hyperexponential(probabilities=[0.8, 0.2], means=[0.5, 3.0])
E3 = erlang(shape=3, mean=2.0)
ATOMIC = phase_type(alpha=[0.5, 0.2], generator=[[-2.0, 1.0], [0.5, -1.0]])
LAWS = {"H2": H2, "E3": E3, "atomic": ATOMIC}
TIMES = np.linspace(0.0, 25.0, 41)


@pytest.mark.parametrize("shape", [1, 4, 30])
def test_erlang_is_scipys_gamma(shape: int) -> None:
    law = erlang(shape=shape, mean=2.5)
    other = stats.gamma(shape, scale=2.5 / shape)
    np.testing.assert_allclose(law.survival(TIMES), other.sf(TIMES), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(law.density(TIMES), other.pdf(TIMES), rtol=1e-11, atol=1e-16)
    shares = np.array([0.01, 0.1, 0.5, 0.95, 0.9999])
    np.testing.assert_allclose(law.quantile(shares), other.ppf(shares), rtol=1e-12)
    np.testing.assert_allclose([law.moment(k) for k in range(6)], [other.moment(k) for k in range(6)], rtol=1e-12)
    assert law.kind == "phase-type"


def test_propagation_is_the_matrix_exponential() -> None:
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(5, 5)) - 4.0 * np.eye(5)
    start = rng.normal(size=5)
    times = np.array([0.0, 1e-9, 0.3, 1.0, 7.7])
    expected = [start @ linalg.expm(matrix * t) for t in times]
    np.testing.assert_allclose(propagate(start=start, generator=matrix, times=times), expected, rtol=1e-11, atol=1e-15)
    assert propagate(start=start, generator=matrix, times=np.zeros(0)).shape == (0, 5)


@pytest.mark.parametrize("name", LAWS)
def test_moments_transform_density_and_quantile_agree(name: str) -> None:
    law = LAWS[name]
    grid = np.linspace(0.0, 120.0, 48001)
    for k in range(1, 4):
        raw = k * integrate.simpson(grid ** (k - 1) * law.survival(grid), x=grid)
        assert law.moment(k) == pytest.approx(raw, rel=1e-7)
    s = np.array([0.3, 2.0, 0.5 + 1.5j])
    values = [law.atom + integrate.simpson(np.exp(-z * grid) * law.density(grid), x=grid) for z in s]
    np.testing.assert_allclose(law.transform(s), values, rtol=1e-7)
    assert law.transform(0.0) == pytest.approx(1.0, abs=1e-14)
    shares = np.array([0.31, 0.5, 0.9, 0.999])
    np.testing.assert_allclose(law.cdf(law.quantile(shares)), shares, rtol=1e-13)
    assert law.variance == pytest.approx(law.scv * law.mean**2, rel=1e-12)


def test_edges_of_the_distribution() -> None:
    assert ATOMIC.atom == pytest.approx(0.3)
    assert ATOMIC.survival(-1.0) == 1.0
    assert ATOMIC.survival(0.0) == pytest.approx(0.7)
    assert ATOMIC.density(-1.0) == 0.0
    assert ATOMIC.quantile(0.2) == 0.0
    assert ATOMIC.quantile(1.0) == np.inf
    assert ATOMIC.survival(np.inf) == 0.0
    assert isinstance(float(ATOMIC.survival(1.0)), float)
    assert ATOMIC.survival(np.ones((2, 3))).shape == (2, 3)
    with pytest.raises(InvalidModel):
        ATOMIC.quantile(1.5)
    with pytest.raises(InvalidModel):
        ATOMIC.survival(np.nan)
    with pytest.raises(InvalidModel):
        ATOMIC.moment(6)
    with pytest.raises(NotConverged):
        crossing_times(start=np.ones(1), generator=np.zeros((1, 1)), levels=np.array([0.5]))


@pytest.mark.parametrize("first", LAWS)
@pytest.mark.parametrize("second", LAWS)
def test_algebra(first: str, second: str) -> None:
    x, y = LAWS[first], LAWS[second]
    s = np.array([0.1, 1.0, 3.0])
    np.testing.assert_allclose(convolution(x, y).transform(s), x.transform(s) * y.transform(s), rtol=1e-12)
    np.testing.assert_allclose(minimum(x, y).survival(TIMES), x.survival(TIMES) * y.survival(TIMES), atol=1e-12)
    np.testing.assert_allclose(maximum(x, y).cdf(TIMES), x.cdf(TIMES) * y.cdf(TIMES), atol=1e-12)
    mixed = mixture(weights=[0.3, 0.7], laws=[x, y])
    np.testing.assert_allclose(mixed.survival(TIMES), 0.3 * x.survival(TIMES) + 0.7 * y.survival(TIMES), atol=1e-12)


def test_equilibrium_scaling_and_positive_part() -> None:
    residual = E3.equilibrium()
    np.testing.assert_allclose(residual.density(TIMES), E3.survival(TIMES) / E3.mean, atol=1e-13)
    assert residual.mean == pytest.approx(E3.moment(2) / (2 * E3.mean), rel=1e-13)
    np.testing.assert_allclose(H2.scaled(factor=3.0).survival(TIMES), H2.survival(TIMES / 3.0), atol=1e-13)
    assert ATOMIC.positive().mean == pytest.approx(ATOMIC.mean / 0.7, rel=1e-13)
    np.testing.assert_allclose(ATOMIC.equilibrium().transform(0.5), (1 - ATOMIC.transform(0.5)) / (0.5 * ATOMIC.mean))
    with pytest.raises(InvalidModel):
        H2.scaled(factor=0.0)
    with pytest.raises(InvalidModel):
        PhaseType(alpha=np.zeros(1), generator=-np.eye(1)).positive()


def test_geometric_sum_of_exponentials_is_exponential() -> None:
    total = geometric_sum(exponential(mean=2.0), go_on=0.75)
    np.testing.assert_allclose(total.survival(TIMES), np.exp(-TIMES / 8.0), rtol=1e-12)
    with pytest.raises(InvalidModel):
        geometric_sum(ATOMIC, go_on=0.5)
    with pytest.raises(InvalidModel):
        geometric_sum(H2, go_on=1.0)


def test_stiff_law_of_scv_ten_thousand() -> None:
    """Against the two exponentials written out, over nine decades of time."""
    share = (1 + np.sqrt((1e4 - 1) / (1e4 + 1))) / 2
    law = hyperexponential(probabilities=[share, 1 - share], means=[1 / (2 * share), 1 / (2 * (1 - share))])
    times = np.geomspace(1e-3, 1e6, 40)
    exact = share * np.exp(-2 * share * times) + (1 - share) * np.exp(-2 * (1 - share) * times)
    np.testing.assert_allclose(law.survival(times), exact, rtol=1e-9, atol=1e-300)
    assert law.scv == pytest.approx(1e4, rel=1e-10)


def test_matrix_exponential_law_without_phases() -> None:
    """Density proportional to e^-t (1 - cos t), which touches 0 at 2 pi: no phase-type form of any order."""
    # Its transform is 2 / ((s + 1) ((s + 1)^2 + 1)): a companion matrix, its phases rescaled so that exits are -T e.
    matrix = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-2.0, -4.0, -3.0]])
    weights = np.linalg.solve(-matrix, [0.0, 0.0, 2.0])
    turn = np.eye(3)
    turn[:, 0] += (1.0 - weights) / weights[0]
    back = np.linalg.inv(turn)
    law = matrix_exponential(alpha=back[0], generator=turn @ matrix @ back)
    assert law.kind == "matrix-exponential"
    np.testing.assert_allclose(law.density(TIMES), 2 * np.exp(-TIMES) * (1 - np.cos(TIMES)), atol=1e-13)
    assert law.mean == pytest.approx(2.0, rel=1e-12)  # 2 (1 - Re 1/(1+i)^2) = 2
    assert law.cdf(law.quantile(0.9)) == pytest.approx(0.9, rel=1e-12)
    with pytest.raises(InvalidModel, match="density"):
        matrix_exponential(alpha=[1.0, 0.0], generator=[[-1.0, 2.0], [-2.0, -1.0]])
    with pytest.raises(InvalidModel, match="negative real parts"):
        matrix_exponential(alpha=[1.0, 0.0], generator=[[-1.0, 2.0], [2.0, -1.0]])


@pytest.mark.parametrize(
    ("alpha", "generator", "match"),
    [
        ([0.5, 0.6], [[-1.0, 0.0], [0.0, -1.0]], "at most 1"),
        ([-0.1, 0.6], [[-1.0, 0.0], [0.0, -1.0]], "probabilities"),
        ([1.0], [[-1.0, 0.0], [0.0, -1.0]], "order of alpha"),
        ([1.0, 0.0], [[-1.0, 2.0], [0.0, -1.0]], "more than 0"),
        ([1.0, 0.0], [[-1.0, 1.0], [0.0, 0.0]], "reach the end"),
        ([1.0, 0.0], [[-1.0, np.inf], [0.0, -1.0]], "finite"),
    ],
)
def test_wrong_laws(alpha: list[float], generator: list[list[float]], match: str) -> None:
    with pytest.raises(InvalidModel, match=match):
        phase_type(alpha=alpha, generator=generator)


def test_wrong_parameters() -> None:
    with pytest.raises(InvalidModel):
        erlang(shape=0, mean=1.0)
    with pytest.raises(InvalidModel):
        exponential(mean=0.0)
    with pytest.raises(InvalidModel):
        mixture(weights=[0.5, 0.6], laws=[H2, E3])
