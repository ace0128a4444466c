"""`solve` for parallel queues: which method answers, what each covers, refuses and claims; the design questions."""

from __future__ import annotations

import math

import numpy as np
import pytest

import qtheory
from qtheory.models import (
    Deterministic,
    Erlang,
    Exponential,
    Flexible,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    NotConverged,
    Pareto,
    PhaseType,
    Unstable,
)
from qtheory.systems.flexible.auto import choose
from qtheory.systems.flexible.design import least_choices, least_fraction

SCOPES = ("all", "flexible", "dedicated")
HYPER = Hyperexponential(probabilities=(0.9, 0.1), means=(0.5, 5.5))


def model(**fields):
    return Flexible(**{"queues": 2, "load": 0.9, "flexible_fraction": 0.3, "choices": 2} | fields)


@pytest.mark.parametrize(
    ("fields", "method"),
    [
        ({}, "exact"),
        ({"queues": 5}, "exact"),
        ({"queues": 6}, "refined"),
        ({"queues": 100_000}, "mean-field"),
        ({"queues": "infinite"}, "mean-field"),
        ({"queues": 50, "flexible_fraction": 0.0, "service": Deterministic(value=1.0)}, "exact"),
        ({"queues": 50, "service": Erlang(shape=2, mean=1.0)}, "phase-type"),
        ({"queues": "infinite", "service": LogNormal(mean=1.0, scv=2.0)}, "phase-type"),
        ({"queues": 50, "discipline": "ps", "service": HYPER}, "mean-field"),
        ({"queues": 50, "discipline": "ps"}, "refined"),
        ({"queues": 50, "shortest": "workload"}, "mean-field"),
        ({"queues": 50, "shortest": "workload", "flexible_fraction": 1.0, "choices": "all"}, "exact"),
    ],
)
def test_auto_takes(fields, method):
    assert choose(model(**fields)) == method


def test_auto_goes_by_the_wanted_error():
    many = model(queues=3000)
    assert choose(many, error=1e-2) == "mean-field"
    assert choose(many, error=1e-5) == "refined"
    with pytest.raises(InvalidModel, match="error"):
        qtheory.solve(many, error=0.0)


@pytest.mark.parametrize("queues", [2, 3, 40, "infinite"])
def test_every_measure_hangs_together(queues):
    """Little's law by class, waits, shares of the load, tails at quantiles, the identity of the classes."""
    m = model(queues=queues, load=0.7, service=Exponential(mean=2.0))
    s = qtheory.solve(m, at=(1.0, 9.0))
    count = 1 if queues == "infinite" else queues
    rate = {"all": 0.35 * count, "flexible": 0.3 * 0.35 * count, "dedicated": 0.7 * 0.35 * count}
    for scope in SCOPES:
        response = s["mean_response", scope].value
        assert s["mean_wait", scope].value == pytest.approx(response - 2.0)
        assert s["mean_number", scope].value == pytest.approx(rate[scope] * response)
        assert s["mean_queue", scope].value == pytest.approx(rate[scope] * (response - 2.0))
        assert s["throughput", scope].value == pytest.approx(rate[scope])
        assert s["utilisation", scope].value == pytest.approx(2.0 * rate[scope] / count)
        quantiles = [s[f"p{level}_response", scope].value for level in (50, 90, 95, 99)]
        assert quantiles == sorted(quantiles)
        at = s["p90_response", scope].value
        assert qtheory.solve(m, at=(at,))["tail_response", scope, at].value == pytest.approx(0.1, rel=1e-4)
        assert 0 < s["tail_response", scope, 9.0].value < s["tail_response", scope, 1.0].value < 1
    dedicated = 2.0 * (1 + 0.7 * s["mean_response", "all"].value / 2.0)
    assert s["mean_response", "dedicated"].value == pytest.approx(dedicated)
    assert s["wait_probability", "dedicated"].value == 0.7


@pytest.mark.parametrize("method", ["exact", "refined", "mean-field"])
def test_time_scales(method):
    """Service three times as long: times three times as long, probabilities and numbers the same."""
    one = qtheory.solve(model(load=0.6), method=method, at=(2.0,))
    three = qtheory.solve(model(load=0.6, service=Exponential(mean=3.0)), method=method, at=(6.0,))
    for key, value in one.measures.items():
        factor = {"mean_response": 3, "mean_wait": 3, "throughput": 1 / 3}.get(key[0], 1)
        factor = 3 if key[0].startswith("p") else factor
        other = (*key[:2], 6.0) if len(key) == 3 else key
        assert three[other].value == pytest.approx(factor * value.value, rel=1e-9)


@pytest.mark.parametrize("method", ["refined", "mean-field"])
@pytest.mark.parametrize(
    ("queues", "rho", "p"), [(2, 0.3, 1.0), (2, 0.7, 0.2), (2, 0.9, 0.5), (2, 0.95, 1.0), (3, 0.3, 1.0), (3, 0.9, 1.0)]
)
def test_approximations_cover_exact_values(method, queues, rho, p):
    """Stated errors at the smallest systems, where they are largest: at least 9 in 10 of all measures are covered,
    every mean is, and errors are not idle (the mean is off by more than a hundredth of its error)."""
    m = model(queues=queues, load=rho, flexible_fraction=p)
    truth = qtheory.solve(m, method="exact", at=(3.0,), tolerance=1e-4) if queues > 2 else qtheory.solve(m, at=(3.0,))
    guess = qtheory.solve(m, method=method, at=(3.0,))
    covered = {
        key: abs(guess[key].value - value.value) <= guess[key].error + value.error
        for key, value in truth.measures.items()
        if guess[key].error > 0
    }
    assert np.mean(list(covered.values())) >= 0.9
    assert all(good for key, good in covered.items() if key[0] in ("mean_response", "mean_wait", "mean_number"))
    off = abs(guess["mean_response", "all"].value - truth["mean_response", "all"].value)
    assert off > 0.01 * guess["mean_response", "all"].error


def test_infinitely_many_are_the_limit():
    """Refined answers tend to the mean field as 1/N."""
    limit = qtheory.solve(model(queues="infinite"))["mean_response", "all"].value
    gaps = [qtheory.solve(model(queues=n), method="refined")["mean_response", "all"].value - limit for n in (100, 1000)]
    assert gaps[0] == pytest.approx(10 * gaps[1], rel=1e-9)


def test_replacement_halves_p_for_two_queues():
    whole = qtheory.solve(model(flexible_fraction=0.4, sampling="replacement"))
    half = qtheory.solve(model(flexible_fraction=0.2))
    for measure in ("mean_response", "p95_response", "mean_number"):
        assert whole[measure, "all"].value == pytest.approx(half[measure, "all"].value, rel=1e-10)
    both = (half["mean_response", "flexible"].value + half["mean_response", "dedicated"].value) / 2
    assert whole["mean_response", "flexible"].value == pytest.approx(both, rel=1e-10)


def test_all_means_every_queue():
    """`all` is d = N of distinct queues whatever the sampling says."""
    every = qtheory.solve(model(queues=3, load=0.5, choices="all", sampling="replacement"))
    three = qtheory.solve(model(queues=3, load=0.5, choices=3))
    assert every["mean_response", "all"].value == pytest.approx(three["mean_response", "all"].value, rel=1e-12)


def test_no_choice_is_mg1():
    """Pollaczek-Khinchine for any law; processor sharing is insensitive; heavy tails have infinite means."""
    for law, scv in ((Erlang(shape=4, mean=2.0), 0.25), (LogNormal(mean=2.0, scv=3.0), 3.0)):
        s = qtheory.solve(model(queues=7, load=0.8, flexible_fraction=0, service=law))
        assert s["mean_response", "all"].value == pytest.approx(2 * (1 + 0.8 * (1 + scv) / 2 / 0.2))
        s = qtheory.solve(model(queues=7, load=0.8, flexible_fraction=0, service=law, discipline="ps"))
        assert s["mean_response", "all"].value == pytest.approx(2 / 0.2)
    s = qtheory.solve(model(flexible_fraction=0, service=Pareto(shape=1.5, minimum=1.0)))
    assert math.isinf(s["mean_response", "all"].value)
    assert "infinite" in s["mean_response", "all"].note


def test_least_workload_of_all_is_mmn():
    """Ten queues: Erlang's delay formula by its recursion."""
    n, rho = 10, 0.8
    blocked = 1.0
    for k in range(1, n + 1):
        blocked = n * rho * blocked / (k + n * rho * blocked)
    waits = blocked / (1 - rho * (1 - blocked))
    s = qtheory.solve(model(queues=n, load=rho, flexible_fraction=1, choices="all", shortest="workload"))
    assert s.method == "exact"
    assert s["wait_probability", "all"].value == pytest.approx(waits, rel=1e-12)
    assert s["mean_response", "all"].value == pytest.approx(1 + waits / (n - n * rho), rel=1e-12)


def test_sharing_has_the_same_lengths():
    for queues in (2, 3, 40):
        shared = qtheory.solve(model(queues=queues, load=0.6, discipline="ps"))
        ordered = qtheory.solve(model(queues=queues, load=0.6))
        assert shared["mean_number", "all"].value == pytest.approx(ordered["mean_number", "all"].value, rel=1e-9)
        assert ("p95_response", "all") not in shared.measures


def test_fitted_laws_say_so():
    s = qtheory.solve(model(queues="infinite", service=LogNormal(mean=1.0, scv=2.0)))
    assert "two moments" in s.method
    assert s["mean_response", "all"].error > 0.04 * s["mean_wait", "all"].value


def test_tolerance_narrows_the_bracket():
    m = model(queues=3, load=0.8, flexible_fraction=0.5)
    wide = qtheory.solve(m, method="exact", tolerance=1e-3)
    narrow = qtheory.solve(m, method="exact", tolerance=1e-5)
    assert narrow["mean_response", "all"].error < min(1e-5, wide["mean_response", "all"].error)
    assert narrow.details["spread"] > wide.details["spread"]
    assert wide.details["lower"] <= narrow["mean_response", "all"].value <= wide.details["upper"]


def test_too_few_states_are_no_answer():
    with pytest.raises(NotConverged, match="states"):
        qtheory.solve(model(queues=3, load=0.95, flexible_fraction=0.02), method="exact", states=20)


@pytest.mark.parametrize(
    ("fields", "method", "field"),
    [
        ({"queues": 9}, "exact", "queues"),
        ({"queues": "infinite"}, "exact", "queues"),
        ({"service": HYPER}, "exact", "service"),
        ({"shortest": "workload"}, "exact", "shortest"),
        ({"queues": "infinite"}, "refined", "queues"),
        ({"queues": 50, "service": HYPER}, "refined", "service"),
        ({"queues": 50, "shortest": "workload"}, "refined", "shortest"),
        ({"queues": 50, "service": HYPER}, "mean-field", "service"),
        ({"queues": 50, "shortest": "workload", "service": HYPER}, "mean-field", "service"),
        ({"queues": 50, "discipline": "ps"}, "phase-type", "discipline"),
        ({"queues": 50, "shortest": "workload"}, "phase-type", "shortest"),
        ({"queues": 50, "service": Pareto(shape=1.5, minimum=1.0)}, "phase-type", "service"),
        ({"queues": 50, "service": PhaseType(alpha=(0.9,), generator=((-1.0,),))}, "phase-type", "service.alpha"),
    ],
)
def test_methods_refuse_by_name(fields, method, field):
    with pytest.raises(InvalidModel) as refusal:
        qtheory.solve(model(**fields), method=method)
    assert refusal.value.field == field
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("method", ["auto", "exact", "refined", "mean-field", "phase-type"])
@pytest.mark.parametrize("load", [1.0, 1.7])
def test_overload_has_no_answer(method, load):
    with pytest.raises(Unstable) as refusal:
        qtheory.solve(model(queues=50, load=load), method=method)
    assert (refusal.value.where, refusal.value.load) == ("all", load)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"choices": 3}, "choices"),
        ({"queues": 1}, "queues"),
        ({"queues": 2.5}, "queues"),
        ({"queues": "many"}, "queues"),
        ({"flexible_fraction": 1.1}, "flexible_fraction"),
        ({"flexible_fraction": -0.1}, "flexible_fraction"),
        ({"load": 0.0}, "load"),
        ({"discipline": "ps", "shortest": "workload"}, "shortest"),
        ({"queues": "infinite", "choices": "all"}, "choices"),
        ({"sampling": "twice"}, "sampling"),
    ],
)
def test_wrong_models_are_refused_in_one_line(fields, field):
    with pytest.raises(InvalidModel) as refusal:
        model(**fields)
    assert refusal.value.field == field
    assert "\n" not in str(refusal.value)


# Design questions


@pytest.mark.parametrize("queues", [2, "infinite"])
@pytest.mark.parametrize("measure", ["mean_response", "p95_response"])
def test_least_fraction_meets_its_target(queues, measure):
    m = model(queues=queues)
    none, full = (qtheory.solve(m.replace(flexible_fraction=p))[measure, "all"].value for p in (0.0, 1.0))
    target = 0.3 * none + 0.7 * full
    found = least_fraction(m, target=target, measure=measure)
    value = qtheory.solve(m.replace(flexible_fraction=found.fraction))[measure, "all"].value
    assert value <= target
    assert value == pytest.approx(target, rel=1e-6)
    assert found.fraction <= found.safe < found.fraction + 1e-3
    assert (found.without.value, found.full.value) == (none, full)


def test_least_fraction_at_the_ends():
    assert least_fraction(model(), target=20.0).fraction == 0.0
    with pytest.raises(InvalidModel, match="out of reach"):
        least_fraction(model(), target=5.0)
    with pytest.raises(InvalidModel, match="scope"):
        least_fraction(model(), target=6.0, scope="flexible")
    with pytest.raises(InvalidModel, match="measure"):
        least_fraction(model(discipline="ps"), target=6.0, measure="p95_response")
    with pytest.raises(Unstable):
        least_fraction(model(load=1.2), target=5.0)


def test_least_choices():
    """Infinitely many queues, p = 1: each d has its own mean; the answer is the first that meets the target."""
    m = model(queues="infinite", flexible_fraction=1.0)
    means = [qtheory.solve(m.replace(choices=d))["mean_response", "all"].value for d in (2, 3, 4, 5, 6)]
    for place, mean in enumerate(means):
        assert least_choices(m, target=mean * (1 + 1e-9)).choices == place + 2
    assert least_choices(m, target=11.0).choices == 1
    with pytest.raises(InvalidModel, match="out of reach"):
        least_choices(m, target=0.99)
    few = least_choices(model(queues=3, load=0.6, flexible_fraction=1.0), target=1.5)
    assert few.choices == few.safe == 3


@pytest.mark.parametrize("queues", [2, 3, 100, "infinite"])
@pytest.mark.parametrize(
    ("load", "fraction"),
    [(1e-12, 0.1), (1e-9, 1e-9), (1 - 1e-9, 0.0), (1 - 1e-9, 1e-9), (1 - 1e-6, 0.1), (1 - 1e-9, 1.0)],
)
def test_next_to_loads_of_0_and_1(queues, fraction, load):
    """Between service at once and no choice, within the error; or a refusal, next to 1 only, that says what to do."""
    try:
        solution = qtheory.solve(model(queues=queues, flexible_fraction=fraction, load=load))
    except NotConverged as failure:
        refused = load > 0.99 and failure.advice != ""
    else:
        refused = False
    if refused:
        return
    response = solution["mean_response", "all"]
    slack = response.error + 1e-12 * response.value
    assert 1 - slack <= response.value <= 1 / (1 - load) * (1 + 1e-12) + slack
    assert response.error <= 1e-8 or load > 0.99


def test_light_traffic_of_two_queues():
    """A dedicated job finds another at its server with probability rho + O(rho^2), a flexible one hardly ever."""
    for load in (1e-3, 1e-4, 1e-6):
        solution = qtheory.solve(model(load=load, flexible_fraction=0.1))
        response = solution["mean_response", "all"]
        assert abs(response.value - 1 - 0.9 * load) <= 2 * load**2 + response.error
        flexible = solution["mean_response", "flexible"]
        assert abs(flexible.value - 1) <= 2 * load**2 + flexible.error


@pytest.mark.parametrize(
    ("queues", "load", "fraction"), [(5, 0.3, 1.0), (6, 0.4, 1.0), (7, 0.5, 1.0), (6, 0.7, 1.0), (5, 0.4, 0.3)]
)
def test_refined_knows_how_far_off_it_is_with_many_choices(load, fraction, queues):
    """Flexible jobs that see all queues, against the exact bracket: means and chances to find no idle queue."""
    all_of_them = model(load=load, flexible_fraction=fraction, queues=queues, choices="all")
    exact = qtheory.solve(all_of_them, method="exact", tolerance=1e-3)
    refined = qtheory.solve(all_of_them, method="refined")
    for measure in ("mean_response", "wait_probability"):
        for scope in ("all", "flexible"):
            truth, answer = exact[measure, scope], refined[measure, scope]
            assert abs(answer.value - truth.value) <= answer.error + truth.error, (measure, scope)


@pytest.mark.parametrize("choices", [30, 100, 1000])
def test_many_choices_of_many_queues(choices):
    """Tails that end abruptly: hardly anybody waits who looks at so many queues."""
    solution = qtheory.solve(model(load=0.9, flexible_fraction=1.0, queues=100_000, choices=choices), method="refined")
    assert solution["mean_response", "all"].value == pytest.approx(1 + 0.9**choices, abs=2e-2)
    assert math.isfinite(solution["p99_response", "all"].error)
