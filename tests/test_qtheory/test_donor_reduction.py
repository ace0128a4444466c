"""The busy period in a few phases, and the donor system by dimensionality reduction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from donor_cases import published_rows, random_model, standing
from scipy.integrate import quad
from scipy.special import ive
from shared_data import needs_shared

import qtheory
from qtheory.models import ADT, T1, T1T2, T2, InvalidModel, Unstable
from qtheory.systems.donor import busy_period
from qtheory.systems.donor.passage import arrivals_in_busy_period
from qtheory.systems.donor.stability import stability

LOADS = (1e-9, 0.01, 0.3, 0.575, 0.9, 0.99, 0.9999, 1 - 1e-7)


class TestBusyPeriod:
    @pytest.mark.parametrize("r", LOADS)
    def test_exact_to_rounding_with_three_moments(self, r):
        law = busy_period.exact(arrival=r, service=1.0)
        assert law.weights.min() > 0
        assert law.rates.min() > 0
        assert law.error < 1e-12
        # 1 - r as the code sees it: r itself is rounded.
        gap = 1.0 - r
        assert law.moment(1) == pytest.approx(1 / gap, rel=1e-12)
        assert law.moment(2) == pytest.approx(2 / gap**3, rel=1e-12)
        assert law.moment(3) == pytest.approx(6 * (1 + r) / gap**5, rel=1e-12)
        assert busy_period.moments(arrival=r, service=1.0) == pytest.approx(
            [law.moment(k) for k in (1, 2, 3)], rel=1e-12
        )
        assert len(law.rates) < 120

    def test_density_is_the_bessel_function(self):
        """f(t) = exp(-(a + b) t) I1(2 t sqrt(a b)) / (t sqrt(a / b)) (Kleinrock 1975, eq. 5.149)."""
        a, b = 0.6, 1.0
        law = busy_period.exact(arrival=a, service=b)
        root = math.sqrt(a * b)
        for t in (0.5, 2.0, 10.0, 60.0):
            density = math.exp(-(a + b - 2 * root) * t) * ive(1, 2 * t * root) / (t * math.sqrt(a / b))
            assert float((law.weights * law.rates * np.exp(-law.rates * t)).sum()) == pytest.approx(density, rel=1e-9)

    def test_transform_is_that_of_the_density(self):
        a, b, s = 0.6, 1.0, 0.37
        root = math.sqrt(a * b)

        def integrand(t):
            return math.exp(-(a + b + s - 2 * root) * t) * ive(1, 2 * t * root) / (t * math.sqrt(a / b))

        found = float(busy_period.transform(s, arrival=a, service=b).real)
        assert found == pytest.approx(quad(integrand, 0, np.inf, limit=200)[0], rel=1e-8)

    @pytest.mark.parametrize("r", LOADS[1:])
    def test_two_phases_in_closed_form(self, r):
        law = busy_period.matching(arrival=2 * r, service=2.0, phases=2)
        order = np.argsort(law.rates)
        root = math.sqrt(r)
        rates = [2 * (1 - r) * (1 - r) / (1 + root), 2 * (1 - r) * (1 + root)]
        assert law.rates[order] == pytest.approx(rates, rel=1e-7)
        assert law.weights[order] == pytest.approx([(1 - root) / 2, (1 + root) / 2], rel=1e-6, abs=1e-9)

    @pytest.mark.parametrize("phases", [1, 2, 3, 5])
    def test_moments_matched(self, phases):
        """2 phases - 1 moments of the exact law; the next one is missed."""
        right = busy_period.exact(arrival=0.5, service=1.0)
        law = busy_period.matching(arrival=0.5, service=1.0, phases=phases)
        for order in range(1, 2 * phases):
            assert law.moment(order) == pytest.approx(right.moment(order), rel=1e-10)
        assert law.moment(2 * phases) < right.moment(2 * phases) * (1 - 1e-6)

    def test_arrivals_while_a_queue_is_busy(self):
        """d_m = integral of the Poisson probability against the busy period's law, by its phases."""
        law = busy_period.exact(arrival=0.5, service=1.0)
        d = arrivals_in_busy_period(arrival=0.5, service=1.0, other=0.3, count=40)
        for m in (0, 1, 2, 7, 39):
            mixed = float((law.weights * law.rates / (law.rates + 0.3) * (0.3 / (law.rates + 0.3)) ** m).sum())
            assert d[m] == pytest.approx(mixed, rel=1e-10)

    def test_a_busy_period_that_may_never_end(self):
        """arrival > service: it ends with probability service / arrival."""
        d = arrivals_in_busy_period(arrival=2.0, service=1.0, other=0.3, count=400)
        assert d.sum() == pytest.approx(0.5, rel=1e-9)


class TestReduction:
    @needs_shared
    def test_every_published_row(self):
        """Within 1e-7 relative, where 1e-6 is asked for."""
        for model, right in published_rows():
            if right is None:
                with pytest.raises(Unstable):
                    qtheory.solve(model, method="reduction")
                continue
            found = qtheory.solve(model, method="reduction")
            keys = [("mean_number", "queue1"), ("mean_number", "queue2"), ("mean_response", "all")]
            assert [found[key].value for key in keys] == pytest.approx(right, rel=1e-7), model
            assert found["mean_response", "all"].error < 1.1e-6 * right[2]

    @pytest.mark.parametrize("policy", [T1(t1=3), T1(t1=19), ADT(low=3, high=19, t2=6)])
    def test_three_moments_do_where_the_donor_comes(self, policy):
        """The source's own two phases: within 1e-7 of the exact E[R] (rho1 = 1.15, rho2 = .6)."""
        model = standing(policy, rho1=1.15, rho2=0.6)
        exact, found = qtheory.solve(model), qtheory.solve(model, method="reduction", phases=2)
        assert found.details == {"phases": 2, "moments": 3}
        assert found["mean_response", "all"].value == pytest.approx(exact["mean_response", "all"].value, rel=2e-7)

    def test_three_moments_do_not_where_it_stays(self):
        """Under T2 the same two phases err by some tenths of a percent, as the declared error says."""
        model = standing(T2(t2=1), rho1=0.9, rho2=0.6)
        exact, found = qtheory.solve(model), qtheory.solve(model, method="reduction", phases=2)
        off = abs(found["mean_response", "all"].value - exact["mean_response", "all"].value)
        assert 1e-3 < off / exact["mean_response", "all"].value < 0.02
        assert off < found["mean_response", "all"].error

    def test_declared_errors_cover(self):
        """Against the exact method on 120 random systems; all within `error`, `error` is at most 1.1e-6 relative."""
        rng = np.random.default_rng(21)
        count = 0
        while count < 120:
            model = random_model(rng)
            if not stability(model).stable:
                continue
            count += 1
            exact, found = qtheory.solve(model), qtheory.solve(model, method="reduction")
            for key in (("mean_number", "queue1"), ("mean_number", "queue2"), ("cost", "all")):
                slack = found[key].error + exact[key].error
                assert abs(found[key].value - exact[key].value) <= slack + 1e-12 * exact[key].value, model
            assert found["mean_number", "all"].error <= 1.1e-6 * found["mean_number", "all"].value

    def test_the_switch_far_off_is_no_obstacle(self):
        found = qtheory.solve(standing(T1T2(t1=3, t2=400), rho1=1.15, rho2=0.6), method="reduction")
        exact = qtheory.solve(standing(T1T2(t1=3, t2=400), rho1=1.15, rho2=0.6), method="exact")
        assert found["cost", "all"].value == pytest.approx(exact["cost", "all"].value, rel=1e-7)

    @pytest.mark.parametrize("phases", [0, -1, 2.5])
    def test_wrong_phases_are_named(self, phases):
        with pytest.raises(InvalidModel, match="phases"):
            qtheory.solve(standing(T1(t1=3), rho1=1.0, rho2=0.3), method="reduction", phases=phases)
