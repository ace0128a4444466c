"""Fits: the moments come back, the flags are right, and what cannot be fitted is said."""

from __future__ import annotations

from math import gamma

import numpy as np
import pytest
from scipy import stats

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.em import hyper_erlang, hyper_erlang_of
from qtheory.queues.fitting import mixed_erlang, rational, three_moments, two_moments
from qtheory.queues.heavy_tail import feldmann_whitt
from qtheory.queues.phase_type import erlang, exponential, hyperexponential
from qtheory.queues.truncated import moments_above, moments_below, moments_cut


@pytest.mark.parametrize("scv", [1 / 400, 0.01, 0.25, 0.3, 1 / 3, 0.5, 0.99, 1.0, 1.0001, 4.0, 1e4])
def test_two_moments_come_back(scv: float) -> None:
    law = two_moments(mean=2.0, scv=scv)
    assert law.mean == pytest.approx(2.0, rel=1e-12)
    assert law.moment(2) == pytest.approx(4.0 * (1 + scv), rel=1e-11)
    assert law.kind == "phase-type"


def test_balanced_means() -> None:
    law = two_moments(mean=1.0, scv=4.0)
    shares = law.alpha / -np.diag(law.generator)
    assert shares[0] == pytest.approx(shares[1], rel=1e-13)


MOMENTS = {
    "H2": [hyperexponential(probabilities=[0.9, 0.1], means=[0.4, 5.0]).moment(k) for k in range(1, 6)],
    "E2": [erlang(shape=2, mean=3.0).moment(k) for k in range(1, 6)],
    "E4": [erlang(shape=4, mean=1.0).moment(k) for k in range(1, 6)],
    "fixed": [1.7**k for k in range(1, 6)],
    "uniform": [2.0**k / (k + 1) for k in range(1, 6)],
    "weibull": [gamma(1 + k / 0.7) for k in range(1, 6)],
    "lognormal": [5.0 ** (k * (k - 1) / 2) for k in range(1, 6)],
    "scv-one": [1.0, 2.0 + 1e-6, 6.0 + 2e-5, 24.1, 121.0],
}


@pytest.mark.parametrize("name", MOMENTS)
def test_three_moments_come_back(name: str) -> None:
    m1, m2, m3 = MOMENTS[name][:3]
    law = three_moments(m1=m1, m2=m2, m3=m3)
    assert law.order == 2
    np.testing.assert_allclose([law.moment(k) for k in (1, 2, 3)], [m1, m2, m3], rtol=1e-10)


def test_kinds_of_order_two() -> None:
    kinds = {name: three_moments(m1=m[0], m2=m[1], m3=m[2]).kind for name, m in MOMENTS.items()}
    assert kinds["H2"] == kinds["weibull"] == "phase-type"
    assert kinds["E2"] == "phase-type"
    assert kinds["fixed"] == kinds["E4"] == "signed"


def test_exact_laws_are_recovered() -> None:
    for law in (hyperexponential(probabilities=[0.9, 0.1], means=[0.4, 5.0]), erlang(shape=2, mean=3.0)):
        found = three_moments(m1=law.moment(1), m2=law.moment(2), m3=law.moment(3))
        times = np.linspace(0.0, 20.0, 30)
        np.testing.assert_allclose(found.survival(times), law.survival(times), atol=1e-7)
    assert three_moments(m1=2.0, m2=8.0, m3=48.0).order == 1


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 0.0, -1e-9, -1e-4])
def test_near_equal_poles(gap: float) -> None:
    """Two phases in series with means 1 + g and 1 - g, as g passes through 0 (g^2 = gap): moments stay exact."""
    m1, m2 = 2.0, 4.0 + 2.0 * (1.0 + gap)
    m3 = 6.0 * (4.0 + 4.0 * gap)  # sum of x^i y^j over i + j = 3, with x + y = 2, x y = 1 - gap
    law = three_moments(m1=m1, m2=m2, m3=m3)
    np.testing.assert_allclose([law.moment(k) for k in (1, 2, 3)], [m1, m2, m3], rtol=1e-13)
    assert np.abs(law.generator).max() < 1.2
    reference = erlang(shape=2, mean=2.0)
    np.testing.assert_allclose(
        law.survival([0.5, 2.0, 6.0]), reference.survival([0.5, 2.0, 6.0]), atol=abs(gap) + 1e-12
    )


def test_complex_poles_in_the_corner() -> None:
    """b1 = 2 m1 makes the usual real form divide by 0; its turned twin takes over without a jump."""
    for shift in (-1e-9, 0.0, 1e-9):
        r1, r2 = 1.0, 0.9  # b1 (r2 - 1) = r3 - r2, b1 = 2: r3 = .7, b2 = 1.1: complex poles
        law = three_moments(m1=r1, m2=2 * r2, m3=6 * (0.7 + shift))
        np.testing.assert_allclose([law.moment(1), law.moment(2)], [1.0, 1.8], rtol=1e-12)
        assert law.transform(1.0) == pytest.approx((1 + 1.0) / (1 + 2 + 1.1), rel=1e-7)


@pytest.mark.parametrize("name", ["E4", "fixed", "uniform", "weibull", "lognormal"])
def test_five_moments_come_back(name: str) -> None:
    law = rational(MOMENTS[name])
    assert law.order == 3
    np.testing.assert_allclose([law.moment(k) for k in range(1, 6)], MOMENTS[name], rtol=1e-8)


def test_rational_recovers_a_law_of_its_order() -> None:
    law = hyperexponential(probabilities=[0.5, 0.3, 0.2], means=[0.2, 1.0, 4.0])
    found = rational([law.moment(k) for k in range(1, 6)])
    assert found.kind == "phase-type"
    times = np.linspace(0.0, 20.0, 30)
    np.testing.assert_allclose(found.survival(times), law.survival(times), atol=1e-9)
    two = hyperexponential(probabilities=[0.5, 0.5], means=[0.2, 1.0])
    with pytest.raises(InvalidModel, match="order below 3"):
        rational([two.moment(k) for k in range(1, 6)])


@pytest.mark.parametrize("name", [name for name in MOMENTS if name != "fixed"])
def test_mixed_erlang_is_always_phase_type(name: str) -> None:
    m1, m2, m3 = MOMENTS[name][:3]
    law = mixed_erlang(m1=m1, m2=m2, m3=m3)
    assert law.kind == "phase-type"
    np.testing.assert_allclose([law.moment(k) for k in (1, 2, 3)], [m1, m2, m3], rtol=1e-9)


def test_out_of_reach_of_order_two() -> None:
    """A lognormal law with scv .7: its third moment exceeds 1.5 m2^2 / m1."""
    moments = {"m1": 1.0, "m2": 1.7, "m3": 1.7**3}
    with pytest.raises(InvalidModel, match=r"below 1\.5 m2"):
        three_moments(**moments)
    assert mixed_erlang(**moments).moment(3) == pytest.approx(1.7**3, rel=1e-10)
    with pytest.raises(InvalidModel, match=r"above 1\.5 m2"):
        three_moments(m1=1.0, m2=3.0, m3=10.0)


@pytest.mark.parametrize(
    ("moments", "match"),
    [
        ((1.0, 2.0, np.inf), "m3: must be finite"),
        ((1.0, np.inf, np.inf), "m2: must be finite"),
        ((1.0, 0.5, 1.0), "at least m1"),
        ((1.0, 2.0, 3.0), r"at least m2\^2 / m1"),
        ((0.0, 1.0, 1.0), "m1: must be positive"),
        ((1.0, np.nan, 1.0), "m2: must be positive"),
    ],
)
def test_wrong_moments(moments: tuple[float, float, float], match: str) -> None:
    with pytest.raises(InvalidModel, match=match):
        three_moments(m1=moments[0], m2=moments[1], m3=moments[2])


def test_wrong_rules() -> None:
    for scv in (-0.1, np.nan, np.inf):
        with pytest.raises(InvalidModel):
            two_moments(mean=1.0, scv=scv)
    with pytest.raises(InvalidModel, match="treat it as a constant"):
        two_moments(mean=1.0, scv=0.0)
    with pytest.raises(InvalidModel, match="treat the time as a constant"):
        mixed_erlang(m1=1.0, m2=1.0, m3=1.0)
    with pytest.raises(InvalidModel, match="odd number"):
        rational([1.0, 2.0])


def test_heavy_tail_of_a_pareto_law() -> None:
    """P(X > t) = (1 + t)^-1.5 over seven decades within 5 %, infinite variance and all."""
    law = feldmann_whitt(survival=lambda t: (1 + t) ** -1.5, points=1e4 / 4.0 ** np.arange(9))
    times = np.geomspace(1e-3, 1e4, 200)
    np.testing.assert_allclose(law.survival(times), (1 + times) ** -1.5, rtol=0.05)
    assert law.mean == pytest.approx(2.0, rel=0.02)
    assert law.alpha.sum() == pytest.approx(1.0, rel=1e-13)
    # Twice the largest point is met up to what the later, faster terms add there.
    assert law.survival(2e4) == pytest.approx(20001.0**-1.5, rel=1e-3)


def test_heavy_tail_of_a_mixture_of_exponentials_is_found() -> None:
    """Well separated rates are recovered from points where one of them rules."""
    law = hyperexponential(probabilities=[0.9, 0.1], means=[0.1, 10.0])
    found = feldmann_whitt(survival=lambda t: float(law.survival(t)), points=[20.0, 0.1])
    np.testing.assert_allclose(sorted(found.alpha), [0.1, 0.9], rtol=1e-6)
    np.testing.assert_allclose(sorted(-1 / np.diag(found.generator)), [0.1, 10.0], rtol=1e-6)


def test_heavy_tail_refuses_a_light_one() -> None:
    with pytest.raises(InvalidModel, match="heavier than exponential"):
        feldmann_whitt(survival=lambda t: float(stats.norm.sf(t)) * 2, points=[4.0, 1.0, 0.2])
    with pytest.raises(InvalidModel, match="spaced"):
        feldmann_whitt(survival=lambda t: 1 / (1 + t), points=[2.0, 1.5])
    with pytest.raises(InvalidModel, match="positive"):
        feldmann_whitt(survival=lambda t: 1 / (1 + t), points=[0.0])


def test_em_recovers_the_branches_of_its_own_kind() -> None:
    """8000 draws from .4 E3(mean 1) + .6 E1(mean 5), seed 7. Standard errors: weights .008, means 1.7 %; the
    bounds are six of them (false alarm 1e-8)."""
    rng = np.random.default_rng(7)
    pick = rng.random(8_000) < 0.4
    data = np.where(pick, rng.gamma(3.0, 1 / 3, 8_000), rng.exponential(5.0, 8_000))
    fit = hyper_erlang(data, order=4, branches=2)
    assert fit.shapes == (3, 1)
    assert fit.weights[0] == pytest.approx(0.4, abs=0.06)
    np.testing.assert_allclose(fit.means, [1.0, 5.0], rtol=0.1)
    assert fit.law.mean == pytest.approx(data.mean(), rel=1e-9)
    density = fit.law.density(data)
    assert fit.log_likelihood == pytest.approx(float(np.log(density).mean()), abs=1e-6)


def test_em_of_an_exponential_is_the_sample_mean() -> None:
    data = np.array([0.5, 1.5, 4.0, 0.0, 0.0])
    fit = hyper_erlang(data, order=1)
    assert fit.atom == pytest.approx(0.4)
    assert fit.law.mean == pytest.approx(data.mean(), rel=1e-12)
    assert fit.means[0] == pytest.approx(2.0, rel=1e-12)
    assert fit.log_likelihood == pytest.approx(-np.log(2.0) - 1.0, rel=1e-12)


def test_em_of_a_law() -> None:
    """Exponential by its quantiles: one branch has the exact mean; a lognormal law comes within 2 % in distribution."""
    fit = hyper_erlang_of(lambda p: -np.log1p(-p), order=1)
    assert fit.law.mean == pytest.approx(1.0, rel=1e-5)
    other = stats.lognorm(s=0.6, scale=1.0)
    fit = hyper_erlang_of(other.ppf, order=8, branches=3)
    times = np.linspace(0.05, 6.0, 100)
    np.testing.assert_allclose(fit.law.cdf(times), other.cdf(times), atol=0.02)
    assert fit.law.kind == "phase-type"


def test_em_refuses() -> None:
    for values in ([], [-1.0], [np.nan], [0.0, 0.0]):
        with pytest.raises(InvalidModel):
            hyper_erlang(values)
    with pytest.raises(InvalidModel):
        hyper_erlang([1.0, 2.0], weights=[1.0])
    with pytest.raises(InvalidModel):
        hyper_erlang([1.0], order=0)
    with pytest.raises(NotConverged, match="raise the tolerance"):
        hyper_erlang([1.0, 2.0, 7.0], order=2, iterations=3)


def test_truncation_of_an_exponential() -> None:
    """S exponential with mean 1, T = ln 2: S - T given S > T is exponential again; parts add up."""
    t = np.log(2.0)
    partial = [stats.gamma.cdf(t, k + 1) * gamma(k + 1) for k in range(4)]
    raw = [gamma(k + 1) for k in range(4)]
    above = moments_above(raw, partial)
    assert above[0] == pytest.approx(1.0 + t, rel=1e-12)
    assert above[1] == pytest.approx(t**2 + 2 * t + 2, rel=1e-12)
    below = moments_below(partial)
    np.testing.assert_allclose(0.5 * np.array(below) + 0.5 * np.array(above), raw[1:], rtol=1e-12)
    cut = moments_cut(partial, limit=float(t))
    assert cut[0] == pytest.approx(0.5, rel=1e-12)  # 1 - e^-T
    law = three_moments(m1=cut[0], m2=cut[1], m3=cut[2])
    np.testing.assert_allclose([law.moment(k) for k in (1, 2, 3)], cut, rtol=1e-11)


def test_truncation_at_the_ends() -> None:
    assert moments_above([1.0, 2.0, np.inf], [0.5, 0.25, 0.2])[1] == np.inf
    assert moments_cut([1.0, 2.0, 8.0], limit=np.inf) == [2.0, 8.0]
    with pytest.raises(InvalidModel, match="smallest"):
        moments_below([0.0, 0.0])
    with pytest.raises(InvalidModel, match="largest"):
        moments_above([1.0, 2.0], [1.0, 2.0])


def test_exponential_is_its_own_fit() -> None:
    law = exponential(mean=3.0)
    assert two_moments(mean=3.0, scv=1.0).order == law.order == 1
