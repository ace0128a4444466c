"""The donor system solved exactly: right values, claims of the literature, closed forms, the plain box, limits."""

from __future__ import annotations

import math

import anchors
import numpy as np
import pytest
from donor_cases import RATES, box, means, published_rows, random_model, standing
from scipy.optimize import brentq
from shared_data import needs_shared

import qtheory
from qtheory.models import ADT, T1, T1T2, T2, CMu, Dedicated, InvalidModel, NotConverged, Unstable, parse
from qtheory.systems.donor import busy_period
from qtheory.systems.donor.chain import Steady, layout, steady
from qtheory.systems.donor.distribution import joint, marginal, tail
from qtheory.systems.donor.exact import level_load, relative_error, stationary_law
from qtheory.systems.donor.stability import check_stable, stability


def response(policy, *, rho1, rho2):
    return qtheory.solve(standing(policy, rho1=rho1, rho2=rho2))["mean_response", "all"].value


def plain_policy(data):
    return parse({"kind": "donor", "arrival_rates": [1, 1], "service_rates": RATES, "policy": data}).policy


def stable_models(rng, count, **options):
    found = []
    while len(found) < count:
        model = random_model(rng, **options)
        if stability(model).stable:
            found.append(model)
    return found


class TestRightValues:
    @pytest.mark.parametrize(("policy", "rho1", "rho2", "n1", "n2", "total"), anchors.DONOR_NUMBERS)
    def test_numbers(self, policy, rho1, rho2, n1, n2, total):
        found = qtheory.solve(standing(plain_policy(policy), rho1=rho1, rho2=rho2))
        assert found["mean_number", "queue1"].value == pytest.approx(n1.value, abs=n1.within * 1.001)
        assert found["mean_number", "queue2"].value == pytest.approx(n2.value, abs=n2.within * 1.001)
        assert found["mean_response", "all"].value == pytest.approx(total.value, abs=total.within * 1.001)

    @pytest.mark.parametrize(("policy", "rho1", "rho2", "total"), anchors.DONOR_RESPONSE)
    def test_responses(self, policy, rho1, rho2, total):
        found = response(plain_policy(policy), rho1=rho1, rho2=rho2)
        assert found == pytest.approx(total.value, abs=total.within * 1.001)

    @needs_shared
    def test_every_published_row(self):
        """107 rows of ten digits, within 1e-8 relative; unstable ones are refused."""
        rows = published_rows()
        assert len(rows) > 100
        for model, right in rows:
            if right is None:
                with pytest.raises(Unstable):
                    qtheory.solve(model)
                continue
            found = qtheory.solve(model, method="exact")
            keys = [("mean_number", "queue1"), ("mean_number", "queue2"), ("mean_response", "all")]
            assert [found[key].value for key in keys] == pytest.approx(right, rel=1e-9), model
            assert found["mean_response", "all"].error < 1e-10 * right[2]


class TestClaims:
    """What the source says of its figures (rho1 = 1.15 unless said), by exact numbers."""

    def test_a_switch_at_one_job_is_t2_of_one(self):
        for t1 in (3, 5):
            for rho2 in (0.1, 0.5, 0.8):
                one = qtheory.solve(standing(T1T2(t1=t1, t2=1), rho1=1.15, rho2=rho2))
                two = qtheory.solve(standing(T2(t2=1), rho1=1.15, rho2=rho2))
                assert one.measures["cost", "all"] == two.measures["cost", "all"]

    @pytest.mark.parametrize(("loads", "best"), anchors.DONOR_BEST_T1.items())
    def test_best_t1(self, loads, best):
        rho1, rho2 = loads
        costs = {}
        for t1 in range(2, 41):
            if stability(standing(T1(t1=t1), rho1=rho1, rho2=rho2)).stable:
                costs[t1] = response(T1(t1=t1), rho1=rho1, rho2=rho2)
        assert min(costs, key=costs.get) == best

    @pytest.mark.parametrize(("pair", "where"), anchors.DONOR_CROSSOVERS.items())
    def test_crossovers(self, pair, where):
        policies = {"T1(3)": T1(t1=3), "T1(19)": T1(t1=19), "T1T2(3,10)": T1T2(t1=3, t2=10)}

        def gap(rho2):
            one, two = (response(policies[name], rho1=1.15, rho2=rho2) for name in pair)
            return one - two

        assert brentq(gap, 0.55, 0.6, xtol=1e-9) == pytest.approx(where.value, abs=where.within * 1.01)

    def test_first_crossover_is_the_first_advantage(self):
        """Below .564279 T1T2(3, 10) is worse than T1(3), above it better."""
        for rho2 in (0.2, 0.4, 0.5, 0.56):
            assert response(T1T2(t1=3, t2=10), rho1=1.15, rho2=rho2) > response(T1(t1=3), rho1=1.15, rho2=rho2)
        for rho2 in (0.565, 0.6, 0.65):
            assert response(T1T2(t1=3, t2=10), rho1=1.15, rho2=rho2) < response(T1(t1=3), rho1=1.15, rho2=rho2)

    def test_a_late_switch_changes_nothing_at_low_load(self):
        for rho2 in (0.2, 0.4, 0.5):
            one, two = (response(p, rho1=1.15, rho2=rho2) for p in (T1T2(t1=3, t2=100), T1(t1=3)))
            assert one == pytest.approx(two, rel=1e-10)
        apart = response(T1T2(t1=3, t2=100), rho1=1.15, rho2=0.65)
        assert abs(apart / response(T1(t1=3), rho1=1.15, rho2=0.65) - 1) > 1e-3

    def test_best_switch_at_high_load_is_far_from_t1(self):
        best, value = anchors.DONOR_BEST_T2_OF_T1T2
        costs = {t2: response(T1T2(t1=3, t2=t2), rho1=1.15, rho2=0.8) for t2 in range(6, 21)}
        assert min(costs, key=costs.get) == best
        assert costs[best] == pytest.approx(value.value, abs=value.within)
        assert costs[best] > 5 * response(T1(t1=19), rho1=1.15, rho2=0.8)

    def test_thresholds_of_the_two_columns(self):
        """Column (a), rho2 = .6, is drawn with T1 = 5 and column (b), rho1 = 1.15, with T1 = 3.

        In (b) T1(3) is the best at rho2 = .4. In (a) "T1T2(5, 40) has a slight advantage over T1(5), but is
        significantly worse than T1(12)" at high rho1, which T1 = 3 would not give: T1(3) is unstable there.
        """
        assert response(T1T2(t1=5, t2=40), rho1=1.3, rho2=0.6) < response(T1(t1=5), rho1=1.3, rho2=0.6)
        assert response(T1T2(t1=5, t2=40), rho1=1.3, rho2=0.6) > 1.3 * response(T1(t1=12), rho1=1.3, rho2=0.6)
        assert not stability(standing(T1(t1=3), rho1=1.3, rho2=0.6)).stable

    def test_t2_of_two_is_best_under_the_third_reading_only(self):
        def best(reading):
            costs = {t2: response(T2(t2=t2, reading=reading), rho1=1.15, rho2=0.4) for t2 in range(1, 8)}
            return min(costs, key=costs.get)

        assert best("source") == 2
        assert best("idle") == 1
        assert best("work-conserving") >= 4

    @pytest.mark.slow
    def test_adt_gains_a_few_percent_and_t1t2_nothing(self):
        """Optimised: T1T2 gains at most .0012 % over T1, ADT 1.5 to 3.2 %, at rho2 = .4, .5, .6, .7."""
        for rho2 in (0.4, 0.5, 0.6, 0.7):
            stable = [t for t in range(2, 31) if stability(standing(T1(t1=t), rho1=1.15, rho2=rho2)).stable]
            t1 = min(response(T1(t1=t), rho1=1.15, rho2=rho2) for t in stable)
            switch = (8, 15, 25, 40, 60, 90, 140)
            mixed = min(response(T1T2(t1=t, t2=s), rho1=1.15, rho2=rho2) for t in range(2, 20) for s in switch)
            assert -1e-12 < 1 - mixed / t1 < 0.000012
            grid = [
                ADT(low=low, high=high, t2=t2)
                for low in range(2, 8)
                for high in range(low + 1, 30, 2)
                for t2 in (2, 3, 4, 5, 6, 8, 10, 13)
                if stability(standing(T1(t1=high), rho1=1.15, rho2=rho2)).stable
            ]
            adaptive = min(response(policy, rho1=1.15, rho2=rho2) for policy in grid)
            assert 0.01 < 1 - adaptive / t1 < 0.034, rho2


class TestClosedForms:
    @pytest.mark.parametrize("rho2", [0.01, 0.5, 0.9, 0.999])
    def test_a_donor_at_home_is_mm1(self, rho2):
        """T2(1), any mu: queue 2 is M/M/1 whatever queue 1 does."""
        rates = {"mu1": 1.0, "mu12": 0.7, "mu2": 0.3}
        found = qtheory.solve(standing(T2(t2=1), rho1=0.6, rho2=rho2, rates=rates))
        assert found["mean_number", "queue2"].value == pytest.approx(rho2 / (1 - rho2), rel=1e-11)

    @pytest.mark.parametrize(
        "policy", [T1(t1=3), T1(t1=math.inf), T1T2(t1=3, t2=4), T2(t2=3), ADT(low=2, high=9, t2=3)]
    )
    def test_without_type_2_it_is_mm2(self, policy):
        """mu1 = mu12: E[N1] = 2 r / (1 - r^2) with r = lambda1 / 2, and continuously so."""
        r = 1.3 / 2
        for rho2, within in ((0.0, 1e-13), (1e-9, 1e-6)):
            found = qtheory.solve(standing(policy, rho1=1.3, rho2=rho2))
            assert found["mean_number", "queue1"].value == pytest.approx(2 * r / (1 - r * r), rel=within)

    def test_dedicated_is_two_mm1(self):
        found = qtheory.solve(standing(Dedicated(), rho1=0.7, rho2=0.4, holding_costs=(2.0, 3.0)))
        assert found["mean_number", "queue1"].value == pytest.approx(7 / 3, rel=1e-14)
        assert found["mean_number", "queue2"].value == pytest.approx(2 / 3, rel=1e-14)
        assert found["cost", "all"].value == pytest.approx((2 * 7 / 3 + 2) / 0.725, rel=1e-14)
        assert found["cost", "all"].error == 0

    @pytest.mark.parametrize("policy", [T1(t1=3), T2(t2=4), T1T2(t1=2, t2=3), ADT(low=1, high=2, t2=2), CMu()])
    def test_without_type_1_it_is_mm1(self, policy):
        found = qtheory.solve(standing(policy, rho1=0.0, rho2=0.4))
        assert found["mean_number", "queue2"].value == pytest.approx(2 / 3, rel=1e-14)
        assert ("mean_response", "queue1") not in found.measures
        assert found["mean_response", "all"].value == pytest.approx(2 / 3 / 0.025, rel=1e-14)
        near = qtheory.solve(standing(policy, rho1=1e-9, rho2=0.4))
        assert near["mean_number", "queue2"].value == pytest.approx(2 / 3, rel=1e-6)

    def test_the_idle_reading_keeps_jobs_back(self):
        """With reading "idle" N2 never falls below t2 - 1: E[N2] = t2 - 1 + rho2 / (1 - rho2)."""
        for rho1 in (0.0, 1e-9, 0.8):
            found = qtheory.solve(standing(T2(t2=4, reading="idle"), rho1=rho1, rho2=0.4))
            assert found["mean_number", "queue2"].value == pytest.approx(3 + 2 / 3, rel=1e-12)

    def test_a_donor_without_skill_never_helps_whatever_it_tries(self):
        """mu12 = 0: queue 1 is M/M/1; under T1(t) type 2 waits for N1 < t, under T2(1) it is M/M/1 too."""
        rates = {"mu1": 1.0, "mu12": 0.0, "mu2": 0.5}
        found = qtheory.solve(standing(T2(t2=1), rho1=0.6, rho2=0.3, rates=rates))
        assert found["mean_number", "queue1"].value == pytest.approx(1.5, rel=1e-12)
        assert found["mean_number", "queue2"].value == pytest.approx(3 / 7, rel=1e-12)
        blocked = qtheory.solve(standing(T1(t1=4), rho1=0.6, rho2=0.3, rates=rates))
        assert blocked["mean_number", "queue1"].value == pytest.approx(1.5, rel=1e-12)
        assert blocked["mean_number", "queue2"].value > 3 / 7

    def test_priority_of_type_1_is_t1_of_one(self):
        """mu1 tiny: the donor serves both types, type 1 first. E[N1] of M/M/1, E[N2] by Cobham's formula."""
        rates = {"mu1": 1e-7, "mu12": 1.0, "mu2": 1.0}
        model = standing(T1(t1=1), rho1=0.3e7, rho2=0.4, rates=rates)
        found = qtheory.solve(model)
        assert found["mean_number", "queue1"].value == pytest.approx(0.3 / 0.7, rel=1e-5)
        waiting = (0.3 + 0.4) / (0.7 * 0.3)
        assert found["mean_response", "queue2"].value == pytest.approx(1 / 0.7 + waiting, rel=1e-5)


class TestAgainstThePlainBox:
    def test_means_joint_laws_and_shares(self):
        """Random systems of all policies against the chain cut at a box that holds all but 1e-13 of the mass."""
        rng = np.random.default_rng(2)
        done = 0
        for model in stable_models(rng, 60, most=0.75):
            law = stationary_law(model)
            sizes = [next((n for n in (20, 35, 50, 70) if law.tail(queue=q, n=n - 6) < 1e-13), None) for q in (1, 2)]
            if None in sizes or min(model.arrival_rates) == 0:
                continue
            p = box(model, size1=sizes[0], size2=sizes[1])
            assert law.mean_numbers == pytest.approx(means(p), rel=1e-9), model
            mine = joint(model, n1=sizes[0] - 1, n2=sizes[1] - 1)
            assert np.abs(mine - p).max() < 1e-11, model
            for queue in (1, 2):
                expected = p.sum(axis=2 - queue)
                assert marginal(model, queue=queue, last=len(expected) - 1) == pytest.approx(expected, abs=1e-11)
                assert tail(model, queue=queue, n=2) == pytest.approx(expected[3:].sum(), abs=1e-11)
            done += 1
        assert done >= 30

    def test_waiting_and_utilisation(self):
        """mean_queue, mean_wait and utilisation from the joint law and the reference policy map."""
        from donor_cases import reference_policy
        from reference_donor import serves

        policies = [T1(t1=1), T2(t2=3), T2(t2=3, reading="idle"), ADT(low=1, high=4, t2=2), T1T2(t1=3, t2=2)]
        for policy in policies:
            rates = {"mu1": 1.0, "mu12": 1.5, "mu2": 1.2}
            model = standing(policy, rho1=0.7, rho2=0.25, rates=rates)
            p = box(model, size1=70, size2=90)
            one, donor = np.zeros_like(p), np.zeros_like(p)
            for state in np.ndindex(p.shape):
                one[state], donor[state] = serves(reference_policy(model), *state, mu1=1.0, mu12=1.5)
            n1, n2 = np.indices(p.shape)
            found = qtheory.solve(model)
            assert found["utilisation", "queue1"].value == pytest.approx((p * one).sum(), rel=1e-9)
            assert found["utilisation", "queue2"].value == pytest.approx((p * (donor > 0)).sum(), rel=1e-9)
            waiting = (p * (n1 - one - (donor == 1))).sum()
            assert found["mean_queue", "queue1"].value == pytest.approx(waiting, rel=1e-8)
            waiting = (p * (n2 - (donor == 2))).sum()
            assert found["mean_wait", "queue2"].value == pytest.approx(waiting / model.arrival_rates[1], rel=1e-8)


class TestErrors:
    def test_declared_errors_cover_differently_cut_chains(self):
        """More kept numbers change the answer by less than `error`, which stays below 1e-9.

        300 systems up to loads of .999; what the two chains share is checked elsewhere, this is rounding.
        """
        rng = np.random.default_rng(8)
        for model in stable_models(rng, 300, most=0.999):
            law = stationary_law(model)
            if not isinstance(law, Steady):
                continue
            lay = law.layout
            more = lay.first + lay.kept + int(rng.integers(1, 25))
            other = layout(model, excursion=busy_period.exact, least_kept=more)
            again = steady(other, load=level_load(model, check_stable(model)))
            error = relative_error(law)
            assert again.mean_numbers == pytest.approx(law.mean_numbers, rel=error), model
            assert error < 1e-9 or law.law.core.load > 0.99 or lay.ratio > 0.98

    @pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-8])
    def test_near_the_limit_numbers_grow_as_one_over_the_gap(self, gap):
        """(1 - rho2 / F) E[N2] tends to a constant; each halving of the gap changes it by O(gap)."""
        limit = stability(standing(T1(t1=3), rho1=1.15, rho2=0.1)).limit2
        products = []
        for distance in (gap, gap / 2):
            model = standing(T1(t1=3), rho1=1.15, rho2=limit * (1 - distance))
            found = qtheory.solve(model)["mean_number", "queue2"]
            products.append(found.value * distance)
            assert found.error < max(1e-9, 1e-11 / distance) * found.value
        assert products[0] == pytest.approx(products[1], rel=10 * gap + 1e-6)

    def test_too_near_to_tell(self):
        model = standing(T1(t1=3), rho1=1.15, rho2=0.1)
        limit = stability(model).limit2
        with pytest.raises((NotConverged, Unstable)):
            qtheory.solve(standing(T1(t1=3), rho1=1.15, rho2=limit * (1 - 1e-13)))

    def test_long_excursions_need_few_phases(self):
        """M/M/1 under T2(1) up to rho2 = .99999: some eighty phases, where a cut needs millions; with honest errors."""
        for rho2, within in ((0.9, 1e-10), (0.99, 1e-9), (0.999, 1e-7), (0.99999, 1e-3)):
            found = qtheory.solve(standing(T2(t2=1), rho1=0.5, rho2=rho2))["mean_number", "queue2"]
            assert abs(found.value - rho2 / (1 - rho2)) < found.error < within * found.value

    def test_thresholds_too_large_are_refused(self):
        with pytest.raises(InvalidModel, match="too many to solve"):
            qtheory.solve(standing(T1(t1=10_000), rho1=1.15, rho2=0.4))
        with pytest.raises(InvalidModel, match="use inf"):
            qtheory.solve(standing(ADT(low=3, high=40, t2=10**6), rho1=1.15, rho2=0.4))

    def test_what_no_analytic_method_knows_is_refused_by_field(self):
        good = standing(T1(t1=3), rho1=1, rho2=0.1)
        for model, options, field in [
            (good.replace(work1={"kind": "erlang", "shape": 2, "mean": 1.0}), {}, "work1"),
            (good.replace(work2={"kind": "exponential", "mean": 2.0}), {}, "work2"),
            (good.replace(switching_time=0.1), {}, "switching_time"),
            (good, {"at": [1.0]}, "at"),
        ]:
            for method in ("exact", "reduction", "auto"):
                with pytest.raises(InvalidModel) as caught:
                    qtheory.solve(model, method=method, **options)
                assert caught.value.field == field

    @pytest.mark.parametrize(("call", "field"), [
        (lambda m: marginal(m, queue=3, last=2), "queue"),
        (lambda m: tail(m, queue=1, n=-1), "n"),
        (lambda m: joint(m, n1=-1, n2=2), "n1"),
    ])  # fmt: skip
    def test_wrong_questions_are_named(self, call, field):
        with pytest.raises(InvalidModel) as caught:
            call(standing(T1(t1=3), rho1=1, rho2=0.1))
        assert caught.value.field == field


class TestLaws:
    def test_little_flows_and_costs(self):
        rng = np.random.default_rng(4)
        for model in stable_models(rng, 40):
            found = qtheory.solve(model)
            (l1, l2), (c1, c2), rates = model.arrival_rates, model.holding_costs, model.service_rates
            n1, n2 = found["mean_number", "queue1"].value, found["mean_number", "queue2"].value
            assert found["mean_response", "queue1"].value == pytest.approx(n1 / l1)
            assert found["mean_response", "all"].value == pytest.approx((n1 + n2) / (l1 + l2))
            assert found["cost", "all"].value == pytest.approx((c1 * n1 + c2 * n2) / (l1 + l2))
            server1, helps, home = stationary_law(model).busy_shares
            assert rates.mu1 * server1 + rates.mu12 * helps == pytest.approx(l1, rel=1e-9)
            assert rates.mu2 * home == pytest.approx(l2, rel=1e-9)
            assert found["throughput", "all"].value == l1 + l2

    def test_time_scaling(self):
        rates = {"mu1": 1.0, "mu12": 0.6, "mu2": 0.2}
        one = qtheory.solve(standing(ADT(low=2, high=5, t2=3), rho1=0.9, rho2=0.5, rates=rates))
        fast = {name: 7 * rate for name, rate in rates.items()}
        two = qtheory.solve(standing(ADT(low=2, high=5, t2=3), rho1=0.9, rho2=0.5, rates=fast))
        assert two["mean_number", "all"].value == pytest.approx(one["mean_number", "all"].value, rel=1e-12)
        assert two["mean_response", "queue2"].value == pytest.approx(
            one["mean_response", "queue2"].value / 7, rel=1e-12
        )

    def test_tails_of_both_queues(self):
        """Tails sum to means: E[N] = sum of P(N > n); geometric beyond what is kept."""
        for policy in (T1(t1=4), T1T2(t1=3, t2=5), T2(t2=3, reading="idle"), ADT(low=2, high=6, t2=4)):
            law = stationary_law(standing(policy, rho1=1.0, rho2=0.4))
            for queue in (1, 2):
                total = sum(law.tail(queue=queue, n=n) for n in range(1200))
                assert total == pytest.approx(law.mean_numbers[queue - 1], rel=1e-9)
                p = law.marginal(queue=queue, last=30)
                assert law.tail(queue=queue, n=-1) == pytest.approx(1, abs=1e-12)
                assert [law.tail(queue=queue, n=n) for n in range(31)] == pytest.approx(1 - np.cumsum(p), abs=1e-12)

    def test_a_plain_answer(self):
        found = qtheory.solve(standing(T1(t1=3), rho1=1.15, rho2=0.4))
        assert found.method == "exact"
        data = found.to_dict()
        assert data["model"]["policy"] == {"kind": "t1", "t1": 3}
        assert {row["measure"] for row in data["measures"]} == {
            "mean_response", "mean_wait", "mean_number", "mean_queue", "utilisation", "throughput", "cost"
        }  # fmt: skip
