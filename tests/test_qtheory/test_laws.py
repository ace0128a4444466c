"""Laws against scipy.stats, high-precision integrals, each other, and closed forms worked by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from qtheory import laws
from qtheory.laws import distribution
from qtheory.laws._distribution import Distribution
from qtheory.models import (
    BoundedPareto,
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    Mixture,
    NotConverged,
    Pareto,
    PhaseType,
    Product,
    Scipy,
    Uniform,
    Weibull,
)
from qtheory.models.laws import LAWS

SIGMA = math.sqrt(math.log(3.0))
#: Our law, the same one in scipy's words.
TWINS = [
    (Exponential(mean=2.0), stats.expon(scale=2.0)),
    (Uniform(low=0.85, high=1.21), stats.uniform(0.85, 0.36)),
    (Erlang(shape=4, mean=2.0), stats.gamma(4, scale=0.5)),
    (Gamma(shape=0.4, scale=3.0), stats.gamma(0.4, scale=3.0)),
    (Weibull(shape=0.2, scale=1.5), stats.weibull_min(0.2, scale=1.5)),
    (Weibull(shape=3.0, scale=1.5), stats.weibull_min(3.0, scale=1.5)),
    (LogNormal(mean=2.0, scv=2.0), stats.lognorm(SIGMA, scale=2.0 / math.sqrt(3.0))),
    (Pareto(shape=4.5, minimum=2.7), stats.pareto(4.5, scale=2.7)),
    (BoundedPareto(shape=1.9, minimum=0.5, maximum=5.7), stats.truncpareto(1.9, 5.7 / 0.5, scale=0.5)),
]
#: Laws that scipy does not have.
OTHERS = [
    Deterministic(value=1.5),
    Hyperexponential(probabilities=[0.3, 0.7], means=[1.0, 4.0]),
    PhaseType(alpha=[0.5, 0.3], generator=[[-1.0, 0.5], [0.0, -2.0]]),
    Mixture(weights=[0.2, 0.8], laws=[Deterministic(value=1.0), Gamma(shape=2.0, scale=1.0)]),
    Product(factors=[Exponential(mean=2.0), Uniform(low=0.5, high=1.5)]),
    Product(factors=[Empirical(values=[1.0, 2.0, 3.0]), LogNormal(mean=1.0, scv=1.0)]),
    Empirical(values=[1.0, 1.0, 2.0, 5.0, 0.0]),
    Scipy(name="lomax", parameters={"c": 3.5}),
    Scipy(name="beta", parameters={"a": 2.0, "b": 3.0, "scale": 4.0}),
]
ALL = [law for law, _ in TWINS] + OTHERS
NAMES = [f"{law.kind()}-{i}" for i, law in enumerate(ALL)]


def test_every_law_is_known():
    assert {law.kind() for law in ALL} == set(LAWS)


@pytest.mark.parametrize(("law", "twin"), TWINS, ids=[f"{law.kind()}-{i}" for i, (law, _) in enumerate(TWINS)])
class TestAgainstScipy:
    def test_moments(self, law, twin):
        assert laws.mean(law) == pytest.approx(twin.mean(), rel=1e-12)
        assert laws.scv(law) == pytest.approx(twin.var() / twin.mean() ** 2, rel=1e-9)
        assert laws.moment(law, order=3) == pytest.approx(twin.moment(3), rel=1e-9)

    def test_distribution_function_and_its_like(self, law, twin):
        t = np.concatenate([twin.ppf([1e-9, 0.001, 0.2, 0.5, 0.9, 0.999]), twin.isf([1e-9]), [0.0, 1e9]])
        np.testing.assert_allclose(laws.cdf(law, t=t), twin.cdf(t), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(laws.survival(law, t=t), twin.sf(t), rtol=1e-8, atol=1e-15)
        inner = t[1:6]
        np.testing.assert_allclose(laws.density(law, t=inner), twin.pdf(inner), rtol=1e-9)

    def test_quantiles(self, law, twin):
        p = np.array([1e-9, 0.01, 0.5, 0.95, 1 - 1e-9])
        np.testing.assert_allclose(laws.quantile(law, p=p), twin.ppf(p), rtol=1e-6)
        assert laws.quantile(law, p=0.5) == pytest.approx(twin.ppf(0.5), rel=1e-12)
        assert (laws.quantile(law, p=0.0), laws.quantile(law, p=1.0)) == laws.support(law)


class TestPartialMoments:
    """Closed forms against integrals in 30 digits, where double precision would cancel."""

    @staticmethod
    def integral(density, low, high):
        with mpmath.workdps(30):
            return float(mpmath.quad(density, [low, mpmath.sqrt(low * high) if low else high / 1000, high]))

    @pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 2.0])
    @pytest.mark.parametrize("limit", [1e-6, 0.03, 5.0])
    def test_weibull_of_small_shape(self, order, limit):
        law = Weibull(shape=0.2, scale=1.0)
        # x = u^5, u^5's law is exponential in u = x^0.2
        expected = self.integral(lambda u: u ** (5 * order) * mpmath.exp(-u), 0, mpmath.mpf(limit) ** 0.2)
        assert laws.partial_moment(law, order=order, limit=limit) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("shape", [1.0, 2.0, 2.0 + 1e-12, 2.0 - 1e-7, 2.5])
    def test_pareto_through_order_equal_to_shape(self, shape):
        law = Pareto(shape=shape, minimum=2.0)

        def density(x):
            return shape * mpmath.mpf(2) ** shape * x ** (2 - shape - 1)

        for limit in (2.0 + 1e-9, 3.0, 1e6):
            expected = self.integral(density, mpmath.mpf(2), mpmath.mpf(limit))
            # The limit itself is known to half a unit in the last place of 2.
            assert laws.partial_moment(law, order=2, limit=limit) == pytest.approx(
                expected, rel=3e-7 if limit < 3 else 1e-12
            )

    @pytest.mark.parametrize("shape", [0.01, 1.0, 2.0, 2.0 + 1e-10, 3.3])
    def test_bounded_pareto_through_order_equal_to_shape(self, shape):
        low, high = 0.5, 5000.0
        law = BoundedPareto(shape=shape, minimum=low, maximum=high)
        with mpmath.workdps(30):
            factor = shape * mpmath.mpf(low) ** shape / (1 - mpmath.mpf(low / high) ** shape)
        for left, right in ((low, 3.0), (3.0, high)):
            expected = self.integral(lambda x: factor * x ** (1 - shape), mpmath.mpf(left), mpmath.mpf(right))
            ours = (laws.partial_moment if left == low else laws.tail_moment)(law, order=2, limit=3.0)
            assert ours == pytest.approx(expected, rel=1e-12)

    def test_lognormal_far_out(self):
        law, far = LogNormal(mean=1.0, scv=4.0), 1e6
        sigma2 = math.log(5.0)
        z = (math.log(far) + sigma2 / 2) / math.sqrt(sigma2) - 2 * math.sqrt(sigma2)
        with mpmath.workdps(30):
            expected = float(5 * mpmath.ncdf(-mpmath.mpf(z)))
        assert laws.tail_moment(law, order=2, limit=far) == pytest.approx(expected, rel=1e-9)
        assert laws.partial_moment(law, order=2, limit=1e-9) > 0

    def test_gamma_far_out(self):
        tail = laws.tail_moment(Gamma(shape=2.5, scale=1.0), order=1, limit=200.0)
        with mpmath.workdps(30):
            expected = float(mpmath.gammainc(3.5, 200) / mpmath.gamma(2.5))
        assert tail == pytest.approx(expected, rel=1e-12)

    def test_uniform_thin_slices(self):
        law = Uniform(low=0.0, high=1.0)
        assert laws.partial_moment(law, order=2, limit=1e-120) == pytest.approx(1e-360 / 3, abs=1e-300)
        assert laws.tail_moment(law, order=2, limit=1 - 2**-40) == pytest.approx(2**-40, rel=1e-11)
        assert laws.partial_moment(law, order=1.5, limit=0.25) == pytest.approx(0.25**2.5 / 2.5, rel=1e-14)

    def test_erlang_of_large_shape(self):
        law = Erlang(shape=10_000, mean=1.0)
        assert laws.capped_moment(law, order=1, limit=1.0) == pytest.approx(1 - 0.01 / math.sqrt(2 * math.pi), abs=1e-6)
        assert laws.scv(law) == 1e-4


@pytest.mark.parametrize("law", ALL, ids=NAMES)
class TestEveryLaw:
    """What holds for each law, whatever its form; the base class's quadrature is the second road."""

    def test_parts_make_up_the_whole(self, law):
        known = distribution(law)
        limits = np.array([0.0, 1.0, 5.0])
        for order in (0.0, 1.0, 1.5, 2.0):
            lower, upper = known.partial_moment(order, limits), known.tail_moment(order, limits)
            np.testing.assert_allclose(lower + upper, known.moment(order), rtol=1e-8)
            assert np.all(np.diff(lower) >= -1e-12)

    def test_parts_against_quadrature_over_the_density(self, law):
        known = distribution(law)
        for order in (1.0, 1.5):
            t = np.array([0.9, 2.0])
            with np.errstate(all="ignore"):
                lower, upper = Distribution._lower(known, order, t), Distribution._upper(known, order, t)
            np.testing.assert_allclose(known.partial_moment(order, t), lower, rtol=1e-7)
            np.testing.assert_allclose(known.tail_moment(order, t), upper, rtol=1e-7, atol=1e-12)

    def test_quantiles_invert_the_distribution_function(self, law):
        known = distribution(law)
        p = np.array([0.001, 0.2, 0.5, 0.8, 0.99, 0.9999])
        q = known.quantile(p)
        assert np.all(known.cdf(q) >= p - 1e-12)
        assert np.all(known.cdf(np.nextafter(q, -1) * (1 - 1e-9)) <= p + 1e-9)

    def test_transform(self, law):
        known = distribution(law)
        assert known.laplace(0.0) == pytest.approx(1.0, rel=1e-9)
        slope = (1.0 - known.laplace(1e-4 / known.mean)) / 1e-4
        assert slope == pytest.approx(1.0, abs=1e-4 * (1.0 + known.scv))
        s = np.array([0.1, 1.0, 10.0]) / known.mean
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(known.laplace(s), Distribution._laplace(known, s), rtol=1e-7)
        assert known.laplace(math.inf) == pytest.approx(known.cdf(0.0))

    def test_excess_and_caps(self, law):
        known = distribution(law)
        for t in (0.0, 0.4, 3.0):
            assert known.excess(t) == pytest.approx(known.mean - known.capped_moment(1.0, t), rel=1e-7, abs=1e-9)
            assert known.excess(t) == pytest.approx(
                known.tail_moment(1.0, t) - t * known.survival(t), rel=1e-6, abs=1e-9
            )
        assert known.equilibrium_survival(0.0) == pytest.approx(1.0)
        assert known.equilibrium_moment(1.0) == pytest.approx((1 + known.scv) * known.mean / 2, rel=1e-8)

    def test_outside_the_support(self, law):
        known = distribution(law)
        low, high = known.support
        assert known.cdf(-1.0) == known.survival(math.inf) == known.partial_moment(1.0, -1.0) == 0.0
        assert known.survival(-1.0) == known.cdf(math.inf) == 1.0
        assert known.partial_moment(1.0, math.inf) == known.mean
        if high < math.inf:
            assert known.survival(high) == pytest.approx(0.0, abs=1e-15)
        if low > 0:
            assert known.cdf(low * (1 - 1e-9)) == pytest.approx(0.0, abs=1e-15)

    def test_numbers_give_numbers_and_arrays_arrays(self, law):
        assert type(laws.cdf(law, t=1.0)) is float
        assert laws.survival(law, t=np.ones((2, 3))).shape == (2, 3)
        assert type(laws.quantile(law, p=0.3)) is float
        assert laws.partial_moment(law, order=1, limit=np.array([1.0])).shape == (1,)

    def test_conditional_laws(self, law):
        known = distribution(law)
        limit = 1.2
        if 0.0 < known.survival(limit) < 1.0:
            upto, above = laws.Upto(known, limit=limit), laws.Above(known, limit=limit)
            q = known.survival(limit)
            for k in (1.0, 2.0):
                assert (1 - q) * upto.moment(k) + q * above.moment(k) == pytest.approx(known.moment(k), rel=1e-8)
            t = np.array([0.5, 1.0, limit, 2.0])
            whole = (1 - q) * upto.survival(t) + q * above.survival(t)
            np.testing.assert_allclose(whole, known.survival(t), rtol=1e-8, atol=1e-12)
            assert laws.conditional_moment_above(law, order=1, limit=limit) == pytest.approx(above.mean)
            assert laws.conditional_moment_upto(law, order=1, limit=limit) == pytest.approx(upto.mean)
            assert known.mean_residual(limit) == pytest.approx(above.mean - limit, rel=1e-7)
            for part in (upto, above):
                p = np.array([0.1, 0.6, 0.97])
                assert np.all(part.cdf(part.quantile(p)) >= p - 1e-9)
        capped = laws.Capped(known, limit=limit)
        assert capped.mean == pytest.approx(known.capped_moment(1.0, limit))
        assert capped.moment(2.0) == pytest.approx(known.capped_moment(2.0, limit))
        assert capped.survival(limit) == 0.0
        assert capped.excess(0.7) == pytest.approx(known.excess(0.7) - known.excess(limit), abs=1e-9)


class TestClosedForms:
    def test_phase_type_is_the_erlang_it_describes(self):
        ph = PhaseType(alpha=[1.0, 0.0, 0.0], generator=[[-2.0, 2.0, 0.0], [0.0, -2.0, 2.0], [0.0, 0.0, -2.0]])
        erlang, t = Erlang(shape=3, mean=1.5), np.array([1e-4, 0.5, 2.0, 40.0])
        np.testing.assert_allclose(laws.cdf(ph, t=t), laws.cdf(erlang, t=t), rtol=1e-9)
        np.testing.assert_allclose(laws.survival(ph, t=t), laws.survival(erlang, t=t), rtol=1e-9)
        for order in (1.0, 2.5, 3.0):
            assert laws.moment(ph, order=order) == pytest.approx(laws.moment(erlang, order=order), rel=1e-10)
            for part in (laws.partial_moment, laws.tail_moment):
                np.testing.assert_allclose(
                    part(ph, order=order, limit=t[:3]), part(erlang, order=order, limit=t[:3]), rtol=1e-7
                )

    def test_phase_type_with_an_atom_at_zero(self):
        law = PhaseType(alpha=[0.75], generator=[[-1.0]])
        assert laws.atoms(law) == ((0.0, 0.25),)
        assert laws.cdf(law, t=0.0) == 0.25
        assert laws.quantile(law, p=0.25) == 0.0
        assert laws.quantile(law, p=0.5) == pytest.approx(math.log(1.5), rel=1e-12)
        assert laws.laplace(law, s=1.0) == pytest.approx(0.25 + 0.75 / 2)

    def test_product_of_lognormals_is_lognormal(self):
        two = Product(factors=[LogNormal(mean=2.0, scv=1.0), LogNormal(mean=0.5, scv=2.0)])
        one = LogNormal(mean=1.0, scv=5.0)
        t = np.array([0.01, 0.3, 1.0, 30.0])
        assert laws.scv(two) == pytest.approx(5.0)
        np.testing.assert_allclose(laws.cdf(two, t=t), laws.cdf(one, t=t), rtol=1e-8)
        np.testing.assert_allclose(laws.density(two, t=t), laws.density(one, t=t), rtol=1e-7)
        np.testing.assert_allclose(
            laws.tail_moment(two, order=2, limit=t), laws.tail_moment(one, order=2, limit=t), rtol=1e-8
        )

    def test_product_of_standard_uniforms(self):
        """P(UV > t) = 1 - t + t log t; density -log t."""
        law, t = Product(factors=[Uniform(low=0.0, high=1.0)] * 2), np.array([0.01, 0.3, 0.9])
        np.testing.assert_allclose(laws.survival(law, t=t), 1 - t + t * np.log(t), rtol=1e-8)
        np.testing.assert_allclose(laws.density(law, t=t), -np.log(t), rtol=1e-8)

    def test_product_of_exponential_and_uniform(self):
        """P(XU > t) = E exp(-t/U) = (b e^(-t/b) - t E1(t/b) - same at a) / (b - a) on [a, b]."""
        a, b = 0.5, 1.5
        law, t = Product(factors=[Exponential(mean=1.0), Uniform(low=a, high=b)]), np.array([0.1, 1.0, 6.0])
        whole = [x * np.exp(-t / x) - t * special.exp1(t / x) for x in (b, a)]
        np.testing.assert_allclose(laws.survival(law, t=t), (whole[0] - whole[1]) / (b - a), rtol=1e-8)
        table = distribution(law).tabulated()
        np.testing.assert_allclose(table.survival(t), laws.survival(law, t=t), rtol=1e-7)

    def test_constants_only_scale_a_product(self):
        law = Product(factors=[Deterministic(value=2.0), Exponential(mean=1.5), Deterministic(value=3.0)])
        assert laws.cdf(law, t=4.0) == pytest.approx(-math.expm1(-4.0 / 9.0), rel=1e-14)
        assert laws.quantile(law, p=0.5) == pytest.approx(9 * math.log(2))
        assert laws.atoms(Product(factors=[Deterministic(value=2.0), Deterministic(value=3.0)])) == ((6.0, 1.0),)
        assert laws.mean(Product(factors=[Deterministic(value=0.0), Exponential(mean=1.0)])) == 0.0

    def test_product_of_recorded_values_is_enumerated(self):
        law = Product(factors=[Empirical(values=[0.0, 1.0, 2.0]), Empirical(values=[1.0, 2.0])])
        assert np.array(laws.atoms(law)) == pytest.approx(
            np.array([(0.0, 1 / 3), (1.0, 1 / 6), (2.0, 1 / 3), (4.0, 1 / 6)])
        )
        assert laws.cdf(law, t=2.0) == pytest.approx(5 / 6)
        assert laws.quantile(law, p=0.6) == 2.0

    def test_product_with_a_zero_of_positive_probability(self):
        law = Product(factors=[Mixture(weights=[0.5, 0.5], laws=[Deterministic(value=0.0), Deterministic(value=2.0)]),
                               Exponential(mean=1.0)])  # fmt: skip
        assert laws.cdf(law, t=0.0) == 0.5
        assert laws.survival(law, t=2.0) == pytest.approx(0.5 * math.exp(-1))
        assert laws.atoms(law) == ((0.0, 0.5),)

    def test_empirical_counts(self):
        law = Empirical(values=[3.0, 1.0, 1.0, 7.0])
        assert laws.atoms(law) == ((1.0, 0.5), (3.0, 0.25), (7.0, 0.25))
        assert [laws.quantile(law, p=p) for p in (0.5, 0.500001, 0.75, 0.76)] == [1.0, 3.0, 3.0, 7.0]
        assert laws.partial_moment(law, order=2, limit=3.0) == 11 / 4
        assert laws.tail_moment(law, order=2, limit=3.0) == 49 / 4

    def test_mixture_quantile_stands_on_its_atom(self):
        law = Mixture(weights=[0.5, 0.5], laws=[Deterministic(value=1.0), Exponential(mean=1.0)])
        before = 0.5 * -math.expm1(-1.0)
        assert laws.quantile(law, p=before + 1e-6) == laws.quantile(law, p=before + 0.4999) == 1.0
        assert laws.quantile(law, p=before / 2) == pytest.approx(-math.log1p(-before), rel=1e-12)

    def test_sum_of_exponentials(self):
        """P(X + Y > t) = (a e^(-t/a) - b e^(-t/b)) / (a - b)."""
        total = laws.Sum(wait=distribution(Exponential(mean=2.0)), service=distribution(Exponential(mean=1.0)))
        t = np.array([0.1, 1.0, 20.0])
        np.testing.assert_allclose(total.survival(t), 2 * np.exp(-t / 2) - np.exp(-t), rtol=1e-9)
        assert total.mean == 3.0

    @pytest.mark.parametrize(
        "service", [Deterministic(value=1.0), Gamma(shape=0.3, scale=1.0), Weibull(shape=0.3, scale=0.2)]
    )
    def test_sum_by_another_quadrature(self, service):
        wait, known = distribution(Exponential(mean=1.3)), distribution(service)
        total = laws.Sum(wait=wait, service=known)
        for t in (0.4, 1.7, 6.0):
            beyond = known.expect(lambda s, t=t: wait.survival(t - s), upto=t, breaks=(t,))
            assert total.survival(t) == pytest.approx(known.survival(t) + beyond, rel=1e-7)
        assert total.cdf(total.quantile(0.9)) == pytest.approx(0.9, rel=1e-8)

    def test_sum_with_many_recorded_values(self):
        values = np.random.default_rng(5).exponential(size=20_000)
        known = distribution(Empirical(values=values))
        wait = distribution(Exponential(mean=1.0))
        exact = known.survival(2.0) + np.mean(np.where(values <= 2.0, np.exp(-(2.0 - np.minimum(values, 2.0))), 0.0))
        assert laws.Sum(wait=wait, service=known).survival(2.0) == pytest.approx(exact, rel=1e-6)

    def test_shifted(self):
        law = laws.Shifted(distribution(Gamma(shape=2.0, scale=1.0)), by=3.0)
        assert law.moment(2.0) == pytest.approx(6 + 2 * 3 * 2 + 9)
        assert law.scv == pytest.approx(2 / 25)
        assert law.survival(4.0) == pytest.approx(laws.survival(Gamma(shape=2.0, scale=1.0), t=1.0))
        assert law.quantile(0.5) == pytest.approx(3 + laws.quantile(Gamma(shape=2.0, scale=1.0), p=0.5))


class TestInfiniteMoments:
    def test_pareto(self):
        law = Pareto(shape=1.5, minimum=1.0)
        assert laws.mean(law) == 3.0
        assert laws.moment(law, order=1.5) == laws.scv(law) == laws.moment(law, order=2) == math.inf
        assert laws.tail_moment(law, order=2, limit=10.0) == math.inf
        assert laws.partial_moment(law, order=2, limit=4.0) == pytest.approx(1.5 / 0.5 * (4**0.5 - 1))
        assert laws.tail_index(law) == 1.5
        assert laws.conditional_moment_above(law, order=2, limit=3.0) == math.inf

    def test_no_mean(self):
        law = Pareto(shape=0.5, minimum=1.0)
        assert laws.mean(law) == math.inf
        assert distribution(law).excess(3.0) == math.inf
        assert laws.capped_moment(law, order=1, limit=4.0) == pytest.approx(1 + 2 * (2 - 1))

    def test_mixtures_and_products_take_the_heaviest(self):
        heavy, light = Pareto(shape=2.2, minimum=1.0), Exponential(mean=1.0)
        for law in (
            Mixture(weights=[0.01, 0.99], laws=[heavy, light]),
            Product(factors=[heavy, light]),
            Product(factors=[heavy, Deterministic(value=2.0)]),
        ):
            assert laws.tail_index(law) == 2.2
            assert math.isfinite(laws.moment(law, order=2))
            assert laws.moment(law, order=2.2) == laws.moment(law, order=3) == math.inf
        assert laws.tail_index(Mixture(weights=[0.0, 1.0], laws=[heavy, light])) == math.inf

    @pytest.mark.parametrize(
        ("name", "parameters", "index"),
        [
            ("lomax", {"c": 2.5}, 2.5),
            ("fisk", {"c": 1.7}, 1.7),
            ("burr12", {"c": 2.0, "d": 1.5}, 3.0),
            ("invgamma", {"a": 2.3}, 2.3),
            ("halfcauchy", {}, 1.0),
            ("betaprime", {"a": 2.0, "b": 3.0}, 3.0),
            ("genpareto", {"c": 0.5}, 2.0),
            ("lognorm", {"s": 1.5}, math.inf),
            ("weibull_min", {"c": 0.3}, math.inf),
            ("gamma", {"a": 2.0}, math.inf),
            ("uniform", {}, math.inf),
            ("invgauss", {"mu": 1.0}, math.inf),
        ],
    )
    def test_tails_of_scipy_laws(self, name, parameters, index):
        law = Scipy(name=name, parameters=parameters)
        assert laws.tail_index(law) == pytest.approx(index, rel=1e-5)
        if math.isfinite(index):
            assert laws.moment(law, order=math.ceil(index)) == math.inf
        else:
            assert laws.moment(law, order=2) == pytest.approx(getattr(stats, name)(**parameters).moment(2), rel=1e-7)


class TestScipyLaws:
    @pytest.mark.parametrize(
        ("law", "known"),
        [
            (Scipy(name="gamma", parameters={"a": 2.0, "scale": 0.6}), Gamma(shape=2.0, scale=0.6)),
            (Scipy(name="gamma", parameters={"a": 0.05, "scale": 20.0}), Gamma(shape=0.05, scale=20.0)),
            (Scipy(name="gamma", parameters={"a": 1000.0, "scale": 0.0012}), Gamma(shape=1000.0, scale=0.0012)),
            (Scipy(name="pareto", parameters={"b": 2.5, "scale": 0.7}), Pareto(shape=2.5, minimum=0.7)),
            (Scipy(name="uniform", parameters={"loc": 0.5, "scale": 2.0}), Uniform(low=0.5, high=2.5)),
        ],
    )
    def test_many_excesses_at_once_are_those_of_the_closed_form(self, law, known):
        times = np.concatenate([[0.0, 1e-30], np.logspace(-9.0, 3.0, 100)])
        ours, exact = distribution(law).excess(times), distribution(known).excess(times)
        seen = exact > 1e-14 * exact[0]
        assert ours[seen] == pytest.approx(exact[seen], rel=1e-8)

    @pytest.mark.parametrize(
        ("name", "parameters"), [("lomax", {"c": 3.5}), ("fisk", {"c": 4.0}), ("invgauss", {"mu": 0.5, "scale": 2.0})]
    )
    def test_moments_by_quadrature(self, name, parameters):
        twin, law = getattr(stats, name)(**parameters), Scipy(name=name, parameters=parameters)
        assert laws.mean(law) == pytest.approx(twin.mean(), rel=1e-8)
        assert laws.scv(law) == pytest.approx(twin.var() / twin.mean() ** 2, rel=1e-7)

    @pytest.mark.parametrize(
        ("law", "field", "words"),
        [
            (Scipy(name="nothing"), "name", "name of a continuous law"),
            (Scipy(name="poisson", parameters={"mu": 1.0}), "name", "continuous"),
            (Scipy(name="stats"), "name", "name of a continuous law"),
            (Scipy(name="norm"), "name", "support of norm begins at -inf"),
            (Scipy(name="uniform", parameters={"loc": -0.5}), "parameters.loc", "begins at -0.5"),
            (Scipy(name="gamma"), "parameters.a", "required"),
            (Scipy(name="gamma", parameters={"a": 2.0, "shape": 1.0}), "parameters.shape", "unknown"),
            (Scipy(name="gamma", parameters={"a": -2.0}), "parameters", "range"),
            (Scipy(name="gamma", parameters={"a": 2.0, "scale": 0.0}), "parameters.scale", "above 0"),
        ],
    )
    def test_refusals(self, law, field, words):
        with pytest.raises(InvalidModel, match=words) as caught:
            distribution(law)
        assert caught.value.field == field

    def test_field_inside_another_law(self):
        bad = Scipy(name="norm")
        with pytest.raises(InvalidModel) as caught:
            distribution(Mixture(weights=[0.5, 0.5], laws=[Exponential(mean=1.0), bad]))
        assert caught.value.field == "laws.1.name"
        with pytest.raises(InvalidModel) as caught:
            distribution(Product(factors=[bad]))
        assert caught.value.field == "factors.0.name"


class TestRefusals:
    @pytest.mark.parametrize(
        ("ask", "field"),
        [
            (lambda law: laws.moment(law, order=-1), "order"),
            (lambda law: laws.moment(law, order=math.inf), "order"),
            (lambda law: laws.quantile(law, p=1.5), "p"),
            (lambda law: laws.laplace(law, s=-1.0), "s"),
            (lambda law: laws.cdf(law, t=math.nan), "t"),
            (lambda law: laws.Upto(distribution(law), limit=0.0), "limit"),
        ],
    )
    def test_arguments_out_of_range(self, ask, field):
        with pytest.raises(InvalidModel) as caught:
            ask(Exponential(mean=1.0))
        assert caught.value.field == field

    def test_quadrature_says_when_it_fails(self):
        with pytest.raises(NotConverged, match="quadrature over exponential"):
            distribution(Exponential(mean=1.0)).expect(lambda x: np.sin(1e7 * x**3))

    def test_product_of_two_long_logs(self):
        log = Empirical(values=np.arange(1.0, 3000.0))
        with pytest.raises(InvalidModel, match="pairs"):
            _ = distribution(Product(factors=[log, log])).atoms


times = st.floats(0.01, 50.0)
shapes = st.floats(0.3, 6.0)
simple = st.one_of(
    st.builds(Exponential, mean=times),
    st.builds(Gamma, shape=shapes, scale=times),
    st.builds(Weibull, shape=shapes, scale=times),
    st.builds(LogNormal, mean=times, scv=st.floats(0.05, 20.0)),
    st.builds(Pareto, shape=st.floats(1.1, 6.0), minimum=times),
    st.builds(lambda a, m, r: BoundedPareto(shape=a, minimum=m, maximum=m * r), shapes, times, st.floats(1.1, 1e4)),
    st.builds(lambda low, width: Uniform(low=low, high=low + width), times, times),
    st.builds(Deterministic, value=times),
    st.builds(Empirical, values=st.lists(times, min_size=1, max_size=8)),
)


class TestProperties:
    @settings(max_examples=60, deadline=None)
    @given(simple, st.floats(0.05, 20.0))
    def test_change_of_unit(self, law, factor):
        """A law in other units, through a product with a constant."""
        one, other = distribution(law), distribution(Product(factors=[law, Deterministic(value=factor)]))
        assert other.mean == pytest.approx(factor * one.mean, rel=1e-12)
        assert other.scv == pytest.approx(one.scv, rel=1e-9)
        t = one.quantile(0.37)
        assert other.quantile(0.37) == pytest.approx(factor * t, rel=1e-12)
        if not one.atoms[0].size:
            assert other.capped_moment(1.0, factor * t) == pytest.approx(factor * one.capped_moment(1.0, t), rel=1e-10)
        assert other.laplace(1.0 / (factor * t)) == pytest.approx(one.laplace(1.0 / t), rel=1e-7)

    @settings(max_examples=60, deadline=None)
    @given(simple)
    def test_quantiles_rise_and_moments_are_log_convex(self, law):
        known = distribution(law)
        q = known.quantile(np.linspace(0, 1, 21))
        assert np.all(np.diff(q) >= 0)
        logs = [math.log(known.moment(k)) for k in (0.5, 0.75, 1.0)]
        assert logs[0] + logs[2] >= 2 * logs[1] - 1e-9

    @settings(max_examples=40, deadline=None)
    @given(simple, st.floats(0.05, 0.95))
    def test_excess_is_the_integral_of_the_survival_function(self, law, p):
        known = distribution(law)
        t = known.quantile(p)
        h = 1e-5 * max(t, 0.01)
        if any(t - h <= point <= t + h for point in known.kinks):
            return
        slope = (known.excess(t + h) - known.excess(t - h)) / (2 * h)
        assert slope == pytest.approx(-known.survival(t), abs=1e-4)

    @settings(max_examples=40, deadline=None)
    @given(simple, simple, st.floats(0.0, 1.0))
    def test_mixture_is_linear(self, one, two, weight):
        law = Mixture(weights=[weight, 1 - weight], laws=[one, two])
        first, second = distribution(one), distribution(two)
        for t in (0.5, 3.0):
            for ask in ("cdf", "excess"):
                parts = [getattr(known, ask)(t) for known in (first, second)]
                expected = (weight * parts[0] if weight else 0.0) + ((1 - weight) * parts[1] if weight < 1 else 0.0)
                assert getattr(distribution(law), ask)(t) == pytest.approx(expected, rel=1e-9, abs=1e-12)
        q = distribution(law).quantile(np.array([0.1, 0.5, 0.9]))
        ends = [known.quantile(np.array([0.1, 0.5, 0.9])) for known in (first, second)]
        if 0 < weight < 1:
            assert np.all(q >= np.minimum(*ends) * (1 - 1e-9))
            assert np.all(q <= np.maximum(*ends) * (1 + 1e-9))


def test_levels_of_a_quantile_may_come_in_any_order():
    law = distribution(Mixture(weights=[0.5, 0.5], laws=[Exponential(mean=1.0), Exponential(mean=9.0)]))
    levels = np.array([0.9, 0.1, 0.999999, 0.5])
    together = law.quantile(levels)
    assert together.tolist() == pytest.approx([law.quantile(float(p)) for p in levels], rel=1e-13)
    assert all(a < b for a, b in pairwise(np.sort(together)))


AT_ZERO = Mixture(weights=(0.5, 0.5), laws=(Deterministic(value=0.0), Exponential(mean=1.0)))


@pytest.mark.parametrize(
    "law",
    [
        AT_ZERO,
        PhaseType(alpha=(0.5,), generator=((-1.0,),)),
        Mixture(weights=(0.999, 0.001), laws=(Deterministic(value=0.0), Exponential(mean=1.0))),
        Mixture(
            weights=(0.3, 0.3, 0.4),
            laws=(Deterministic(value=0.0), Deterministic(value=2.0), Gamma(shape=2.0, scale=1.0)),
        ),
        Mixture(weights=(0.5, 0.5), laws=(LogNormal(mean=0.4, scv=1e-4), LogNormal(mean=2.0, scv=1e-4))),
        Product(factors=(AT_ZERO, Uniform(low=0.5, high=1.5))),
        Gamma(shape=0.01, scale=100.0),
        Erlang(shape=3000, mean=1.0),
        Hyperexponential(probabilities=(0.999, 0.001), means=(1.0, 1000.0)),
    ],
)
def test_sums_over_a_density_miss_nothing(law) -> None:
    """What stands for the law, atoms and nodes, has its mass, mean and transform (atoms at 0 and narrow parts too)."""
    known = distribution(law)
    table = known.tabulated()
    nodes, weights = table.nodes()
    points, masses = np.append(table.atoms[0], nodes), np.append(table.atoms[1], weights)
    assert masses.sum() == pytest.approx(1.0, rel=1e-9)
    assert masses @ points == pytest.approx(known.mean, rel=1e-3)
    for rate in (0.1, 1.0, 10.0):
        assert masses @ np.exp(-rate * points) == pytest.approx(known.laplace(rate), rel=1e-3)
