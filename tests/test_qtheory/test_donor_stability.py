"""What the donor does in each state, and which systems are stable."""

from __future__ import annotations

import math
import pickle

import anchors
import numpy as np
import pytest
from donor_cases import RATES, random_model, reference_policy, standing
from reference_donor import serves
from scipy.optimize import brentq

from qtheory.models import ADT, T1, T1T2, T2, CMu, Dedicated, InvalidModel, Unstable
from qtheory.systems.donor import symbolic
from qtheory.systems.donor.rules import departure_rates, donor_at, policy_map, rule
from qtheory.systems.donor.stability import (
    check_stable,
    home_share,
    largest_rho1,
    largest_rho2,
    policy_name,
    stability,
)

MIXED = ({"mu1": 1.0, "mu12": 0.5, "mu2": 0.7}, {"mu1": 1.0, "mu12": 2.0, "mu2": 0.7}, {"mu1": 1, "mu12": 0, "mu2": 1})
NEVER_HOME = T2(t2=math.inf, reading="idle")
POLICIES = (
    T1(t1=1),
    T1(t1=2),
    T1(t1=4),
    T1(t1=math.inf),
    T2(t2=1),
    *(T2(t2=t, reading=r) for t in (3, math.inf) for r in ("source", "idle", "work-conserving")),
    T1T2(t1=1, t2=3),
    T1T2(t1=4, t2=1),
    T1T2(t1=4, t2=3),
    T1T2(t1=math.inf, t2=3),
    T1T2(t1=3, t2=math.inf),
    ADT(low=1, high=5, t2=2),
    ADT(low=2, high=math.inf, t2=3),
    ADT(low=3, high=3, t2=1),
    ADT(low=3, high=6, t2=math.inf),
    CMu(),
    Dedicated(),
)


@pytest.mark.parametrize("rates", [RATES, *MIXED])
@pytest.mark.parametrize("policy", POLICIES, ids=policy_name)
def test_every_state_is_ruled_as_the_definitions_say(policy, rates):
    """Against the plain reading of the definitions in the event simulation, states (0..9, 0..9)."""
    model = standing(policy, rho1=0.5, rho2=0.3, rates=rates)
    n1, n2 = np.meshgrid(np.arange(10), np.arange(10), indexing="ij")
    donor, (leave1, leave2, server1) = donor_at(model, n1=n1, n2=n2), departure_rates(model, n1=n1, n2=n2)
    for i in range(10):
        for j in range(10):
            works, on = serves(reference_policy(model), i, j, mu1=rates["mu1"], mu12=rates["mu12"])
            assert (bool(server1[i, j]), int(donor[i, j])) == (works, on), (i, j)
            assert leave1[i, j] == rates["mu1"] * works + rates["mu12"] * (on == 1)
            assert leave2[i, j] == rates["mu2"] * (on == 2)
    assert (policy_map(model, n1=9, n2=9) == donor).all()


def test_rules_that_are_one_chain_are_one_rule():
    """Identities of the definitions: T1(1) = T1(2) if mu1 >= mu12, T1T2(x, 1) = T2(1) = T1(inf), ADT(x, x) = T1(x)."""

    def form(policy, rates=RATES):
        return rule(standing(policy, rho1=0.5, rho2=0.3, rates=rates))

    assert form(T1(t1=1)) == form(T1(t1=2)) != form(T1(t1=3))
    assert form(T1(t1=1), MIXED[1]) != form(T1(t1=2), MIXED[1])
    assert form(T1(t1=math.inf)) == form(T2(t2=1)) == form(T2(t2=1, reading="idle"))
    for t1 in (1, 3, 50, math.inf):
        assert form(T1T2(t1=t1, t2=1)) == form(T2(t2=1))
        assert form(T1T2(t1=t1, t2=math.inf)) == form(T1(t1=t1)) == form(ADT(low=t1, high=t1, t2=4))
    assert form(ADT(low=3, high=math.inf, t2=4)) == form(T1T2(t1=3, t2=5))
    assert form(T2(t2=6, reading="work-conserving")) == form(T1T2(t1=2, t2=6))
    assert form(CMu()) == form(T1(t1=1))
    assert rule(standing(CMu(), rho1=1, rho2=0.1, holding_costs=(0.01, 1))) == form(T2(t2=1))
    assert rule(standing(CMu(), rho1=1, rho2=0.1, holding_costs=(1, 16))) == form(T2(t2=1))  # a tie stays at home


@pytest.mark.parametrize(("threshold", "limit"), anchors.DONOR_RHO2_LIMIT.items())
def test_largest_rho2(threshold, limit):
    model = standing(T1(t1=threshold), rho1=1.15, rho2=0.3)
    assert largest_rho2(model) == pytest.approx(limit, abs=5e-7)


@pytest.mark.parametrize(("threshold", "limit"), anchors.DONOR_RHO1_LIMIT.items())
def test_largest_rho1(threshold, limit):
    model = standing(T1(t1=threshold), rho1=1.0, rho2=0.6)
    assert largest_rho1(model) == pytest.approx(limit, abs=5e-7)


@pytest.mark.parametrize("rates", [RATES, *MIXED])
@pytest.mark.parametrize("threshold", [1, 2, 3, 7])
def test_share_at_home_is_that_of_the_birth_death_chain(threshold, rates):
    """F(T) against P(N1 < T) of N1 while queue 2 never empties, summed over 4000 states."""
    policy = T1(t1=threshold)
    for rho1 in (0.05, 0.6, 0.95, 1.0, 1.05, 1.4):
        if rho1 >= 0.99 * (1 + rates["mu12"] / rates["mu1"]):
            continue
        model = standing(policy, rho1=rho1, rho2=0.01, rates=rates)
        n1 = np.arange(4000)
        leave, _, _ = departure_rates(model, n1=n1, n2=np.full(4000, 1000))
        home = donor_at(model, n1=n1, n2=np.full(4000, 1000)) == 2
        log_p = np.concatenate([[0.0], np.cumsum(np.log(model.arrival_rates[0] / leave[1:]))])
        p = np.exp(log_p - log_p.max())
        assert stability(model).limit2 == pytest.approx(p[home].sum() / p.sum(), rel=1e-9)


def test_share_at_home_is_smooth_and_never_overflows():
    assert home_share(threshold=10**6, rho1=0.5, m=1.0) == 1.0
    assert home_share(threshold=10**6, rho1=1.15, m=1.0) == pytest.approx(0.85, abs=1e-12)
    assert home_share(threshold=5, rho1=1.0, m=1.0) == pytest.approx(5 / 6, rel=1e-15)
    below, above = (home_share(threshold=5, rho1=1 + d, m=1.0) for d in (-1e-12, 1e-12))
    assert below == pytest.approx(5 / 6, abs=1e-11)
    assert above == pytest.approx(5 / 6, abs=1e-11)
    assert home_share(threshold=3, rho1=2.0, m=1.0) == 0.0
    assert home_share(threshold=1, rho1=0.5, m=0.0) == 0.0


def test_expressions_say_what_the_numbers_say():
    """sympy against the numeric code at 60 random systems, both bounds."""
    rng = np.random.default_rng(11)
    for _ in range(60):
        model = random_model(rng, most=1.3)
        found, rates = stability(model), model.service_rates
        if found.rho1 >= 1 + rates.mu12 / rates.mu1:
            continue
        values = {
            symbolic.LAMBDA1: model.arrival_rates[0],
            symbolic.LAMBDA2: model.arrival_rates[1],
            symbolic.MU1: rates.mu1,
            symbolic.MU12: rates.mu12,
            symbolic.MU2: rates.mu2,
        }
        if rates.mu12 == 0 and rule(model).high == 1:
            continue  # the expression divides by mu12
        first, second = symbolic.limits(model)
        assert float(first.subs(values)) == pytest.approx(found.limit1, rel=1e-12)
        assert float(second.subs(values)) == pytest.approx(found.limit2, rel=1e-9)


def test_largest_loads_are_where_stability_ends():
    """A step of 1e-9 below the bound is stable, above it is not; 80 random systems."""
    rng = np.random.default_rng(5)
    for _ in range(80):
        model = random_model(rng)
        for place, bound in ((0, largest_rho1(model)), (1, largest_rho2(model))):
            mu = (model.service_rates.mu1, model.service_rates.mu2)[place]
            rates = list(model.arrival_rates)
            verdicts = []
            for factor in (1 - 1e-9, 1 + 1e-9):
                rates[place] = bound * mu * factor
                verdicts.append(stability(model.replace(arrival_rates=tuple(rates))).stable)
            if bound > 0:
                assert verdicts == [True, False], (model, place)


def test_refusals_name_queue_load_and_limit():
    cases = [
        (T1(t1=3), 1.15, 0.70, "queue 2 is unstable under T1(3): rho2 = 0.70, limit 0.659950"),
        (T1(t1=3), 2.0, 0.1, "queue 1 is unstable under T1(3): rho1 = 2.00, limit 2.000000"),
        (T1T2(t1=3, t2=9), 1.5, 0.6, "queue 1 is unstable under T1T2(3, 9): rho1 = 1.50, limit 1.400000"),
        (T2(t2=2), 0.5, 1.25, "queue 2 is unstable under T2(2): rho2 = 1.25, limit 1.000000"),
        (ADT(low=2, high=5, t2=3), 1.15, 0.75, "queue 2 is unstable under ADT(2, 5, 3): rho2 = 0.75, limit 0.740215"),
        (Dedicated(), 1.0, 0.6, "queue 1 is unstable under dedicated: rho1 = 1.00, limit 1.000000"),
        (NEVER_HOME, 0.5, 0.1, "queue 2 is unstable under T2(inf, idle): rho2 = 0.10, limit 0.000000"),
        (CMu(), 1.15, 0.58016, "queue 2 is unstable under c-mu: rho2 = 0.58016, limit 0.580159"),
    ]
    for policy, rho1, rho2, message in cases:
        with pytest.raises(Unstable) as caught:
            check_stable(standing(policy, rho1=rho1, rho2=rho2))
        assert str(caught.value) == message
        assert caught.value.where == message[:7].replace(" ", "")
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.limit) == (message, caught.value.limit)


def test_at_the_limit_itself_nothing_is_stable():
    limit = largest_rho2(standing(T1(t1=3), rho1=1.15, rho2=0.1))
    with pytest.raises(Unstable):
        check_stable(standing(T1(t1=3), rho1=1.15, rho2=limit))
    check_stable(standing(T1(t1=3), rho1=1.15, rho2=limit * (1 - 1e-9)))


def test_empty_queues_are_stable_under_any_policy():
    for policy in POLICIES:
        assert stability(standing(policy, rho1=0.0, rho2=0.0001)).queue1
        assert stability(standing(policy, rho1=0.5, rho2=0.0)).stable


def test_general_work_is_judged_by_what_no_policy_can_exceed():
    """With constant work of type 1, F(T) is not known: only loads beyond every policy are refused."""
    constant = {"work1": {"kind": "deterministic", "value": 1.0}}
    check_stable(standing(T1(t1=3), rho1=1.15, rho2=0.7, **constant))
    with pytest.raises(Unstable, match=r"rho1 = 1.15, limit 1.10"):
        check_stable(standing(T1(t1=3), rho1=1.15, rho2=0.9, **constant))
    # The law of type 2 work has no say.
    with pytest.raises(Unstable, match=r"limit 0.659950"):
        check_stable(standing(T1(t1=3), rho1=1.15, rho2=0.7, work2={"kind": "deterministic", "value": 1.0}))


def test_threshold_inverse_is_the_root():
    """largest_rho1 under T1 against a plain root search on the definition of F."""
    model = standing(T1(t1=6), rho1=0.5, rho2=0.35, rates={"mu1": 2.0, "mu12": 0.6, "mu2": 3.0})

    def gap(rho1):
        a = sum(rho1**k for k in range(6))
        return a / (a + rho1**6 / (1 + 0.3 - rho1)) - 0.35

    assert largest_rho1(model) == pytest.approx(brentq(gap, 0.1, 1.2999), rel=1e-11)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"t1": 0}, "t1"),
        ({"t1": -1}, "t1"),
        ({"t1": 2.5}, "t1"),
        ({"t1": math.nan}, "t1"),
        ({"t1": "3"}, "t1"),
    ],
)
def test_wrong_thresholds_are_named(fields, field):
    with pytest.raises(InvalidModel) as caught:
        T1(**fields)
    assert caught.value.field == field


def test_wrong_systems_are_named():
    good = standing(T1(t1=3), rho1=1, rho2=0.1)
    for changes, field in [
        ({"arrival_rates": (0.0, 0.0)}, "arrival_rates"),
        ({"arrival_rates": (-1.0, 0.1)}, "arrival_rates.0"),
        ({"service_rates": {"mu1": 0.0, "mu12": 1.0, "mu2": 1.0}}, "service_rates.mu1"),
        ({"service_rates": {"mu1": 1.0, "mu12": -1.0, "mu2": 1.0}}, "service_rates.mu12"),
        ({"holding_costs": (1.0, -1.0)}, "holding_costs.1"),
        ({"switching_time": -1.0}, "switching_time"),
        ({"switching_time": math.inf}, "switching_time"),
        ({"policy": {"kind": "adt", "low": 5, "high": 3, "t2": 1}}, "policy.low"),
        ({"work1": {"kind": "erlang", "shape": 0, "mean": 1.0}}, "work1.shape"),
    ]:
        with pytest.raises(InvalidModel) as caught:
            good.replace(**changes)
        assert caught.value.field == field


def test_work_must_have_mean_one():
    from qtheory import laws

    good = standing(T1(t1=3), rho1=1, rho2=0.1, work1={"kind": "erlang", "shape": 3, "mean": 1.0})
    laws.check(good)
    with pytest.raises(InvalidModel, match=r"work2: must have mean 1 \(it is 2\)"):
        laws.check(good.replace(work2={"kind": "deterministic", "value": 2.0}))
