"""Infinitely many queues and the 1/N term: closed forms, published values, other roads to the same numbers."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import solve_continuous_lyapunov
from shared_data import SHARED, needs_shared

from qtheory.models import InvalidModel, NotConverged, Unstable
from qtheory.queues import phase_type as phases
from qtheory.systems.flexible import fixed_point
from qtheory.systems.flexible.expansion import expansion
from qtheory.systems.flexible.phase_fixed_point import phase_law
from qtheory.systems.flexible.positions import found, mixed
from qtheory.systems.flexible.sharing import sharing_means
from qtheory.systems.flexible.workload import workload_law

GRID = [(rho, p, d) for rho in (0.3, 0.7, 0.9, 0.99) for p in (0.0, 0.1, 0.5, 1.0) for d in (2, 3, 5)]

# N. Gast (2017), "Expected values estimated via mean-field approximation are 1/N-accurate", Proc. ACM Meas. Anal.
# Comput. Syst. 1(1), art. 17: two choices with replacement, mean queue length at rho = .9 and N -> infinity.
GAST_LIMIT = 2.3527


def read(name):
    with open(SHARED / "anchors" / name) as lines:
        return list(csv.DictReader(lines))


def test_no_choice_is_mm1():
    for rho in (0.1, 0.5, 0.99):
        m = fixed_point.means(load=rho, fraction=0.0, choices=2)
        assert m.all == pytest.approx(1 / (1 - rho), rel=1e-12)
        assert m.flexible == pytest.approx(1 / (1 - rho**2), rel=1e-12)


@pytest.mark.parametrize(("rho", "d"), [(0.5, 2), (0.9, 2), (0.99, 3), (0.8, 7)])
def test_full_choice_is_doubly_exponential(rho, d):
    """s_k = rho^((d^k - 1) / (d - 1)), Mitzenmacher (2001)."""
    exact = [rho ** ((d**k - 1) / (d - 1)) for k in range(12) if d**k < 1e5]
    s = fixed_point.tails(load=rho, fraction=1.0, choices=d)
    size = min(len(s), len(exact))
    assert s[:size] == pytest.approx(exact[:size], rel=1e-10)
    m = fixed_point.means(load=rho, fraction=1.0, choices=d)
    assert m.all == pytest.approx(sum(exact[1:]) / rho, rel=1e-10)


def test_published_limit():
    assert 0.9 * fixed_point.means(load=0.9, fraction=1.0, choices=2).all == pytest.approx(GAST_LIMIT, abs=5e-5)


@pytest.mark.parametrize(("rho", "p", "d"), GRID)
def test_sums_close_as_the_tails_say(rho, p, d):
    """The closed end of the sums against the sums themselves, and 1 + rho ET = ET_ded."""
    m = fixed_point.means(load=rho, fraction=p, choices=d)
    s = fixed_point.tails(load=rho, fraction=p, choices=d, least=1e-25)
    assert m.dedicated == pytest.approx(s.sum(), rel=1e-12)
    assert m.flexible == pytest.approx((s**d).sum(), rel=1e-12)
    assert m.all == pytest.approx(s[1:].sum() / rho, rel=1e-12)
    assert m.dedicated == pytest.approx(1 + rho * m.all, rel=1e-12)


def test_arrays_are_cells():
    loads, fractions = np.array([[0.2], [0.9], [0.99]]), np.linspace(0, 1, 7)
    grid = fixed_point.means(load=loads, fraction=fractions, choices=2)
    for i, rho in enumerate(loads[:, 0]):
        for j, p in enumerate(fractions):
            cell = fixed_point.means(load=float(rho), fraction=float(p), choices=2)
            assert grid.all[i, j] == pytest.approx(cell.all, rel=1e-13)
            assert grid.flexible[i, j] == pytest.approx(cell.flexible, rel=1e-13)


@needs_shared
def test_mean_field_anchors():
    for row in read("flexible_mean_field.csv"):
        m = fixed_point.means(load=float(row["rho"]), fraction=float(row["p"]), choices=int(row["d"]))
        assert m.all == pytest.approx(float(row["ET"]), abs=1e-9)
        assert m.flexible == pytest.approx(float(row["ET_flex"]), abs=1e-9)
        assert m.dedicated == pytest.approx(float(row["ET_ded"]), abs=1e-9)


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("rho", [0.3, 0.5, 0.7, 0.8, 0.9, 0.99])
def test_decreasing_and_convex(rho, d):
    """Akgun, Righter and Wolff on 2001 points, exactly: differences are far above round-off."""
    response = fixed_point.means(load=rho, fraction=np.linspace(0, 1, 2001), choices=d).all
    assert np.diff(response).max() < -1e-9
    assert np.diff(response, 2).min() > 1e-11


def test_single_tails_are_not_convex_above_sqrt_half():
    """The trap: s_3(p) for d = 2 is convex up to rho = 1 / sqrt 2 and not beyond, ET always."""

    def least_bend(rho):
        s3 = [fixed_point.tails(load=rho, fraction=p, choices=2)[3] for p in np.linspace(0, 1, 401)]
        return np.diff(s3, 2).min()

    assert least_bend(0.70) > 0
    assert least_bend(0.715) < -1e-8


@pytest.mark.parametrize(("rho", "d"), [(0.5, 2), (0.9, 2), (0.7, 4)])
def test_slope_at_zero(rho, d):
    """Against differences; d = 2: -rho / ((1 - rho)^2 (1 + rho))."""
    h = 1e-5
    m = fixed_point.means(load=rho, fraction=np.array([0.0, h, 2 * h]), choices=d).all
    slope = (-3 * m[0] + 4 * m[1] - m[2]) / (2 * h)
    assert fixed_point.slope_at_zero(load=rho, choices=d) == pytest.approx(slope, rel=1e-5)
    if d == 2:
        assert fixed_point.slope_at_zero(load=rho, choices=2) == pytest.approx(-rho / ((1 - rho) ** 2 * (1 + rho)))


def test_heavy_traffic():
    """The ratio to ln(1 / (1 - rho)) / ln(1 + p (d - 1)) tends to 1, as slowly as logarithms do."""
    ratios = [
        fixed_point.means(load=rho, fraction=0.5, choices=3).all
        / fixed_point.heavy_traffic(load=rho, fraction=0.5, choices=3)
        for rho in (1 - 1e-4, 1 - 1e-7, 1 - 1e-10)
    ]
    assert abs(ratios[2] - 1) < abs(ratios[1] - 1) < abs(ratios[0] - 1) < 0.2


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"load": 1.0, "fraction": 0.5, "choices": 2}, Unstable),
        ({"load": 0.0, "fraction": 0.5, "choices": 2}, InvalidModel),
        ({"load": 0.5, "fraction": 1.5, "choices": 2}, InvalidModel),
        ({"load": 0.5, "fraction": 0.5, "choices": 1}, InvalidModel),
    ],
)
def test_arguments_out_of_range(arguments, kind):
    with pytest.raises(kind):
        fixed_point.means(**arguments)


def test_mm1_stay_is_exponential():
    """Without choice the response is exponential with rate 1 - rho, the wait is 0 with probability 1 - rho."""
    rho = 0.8
    stay = found(fixed_point.tails(load=rho, fraction=0.0, choices=2))
    for t in (0.0, 0.3, 5.0, 60.0):
        assert stay.response_tail(t) == pytest.approx(math.exp(-(1 - rho) * t), rel=1e-10)
        assert stay.wait_tail(t) == pytest.approx(rho * math.exp(-(1 - rho) * t), rel=1e-10)
    for level in (0.5, 0.99):
        assert stay.response_quantile(level) == pytest.approx(-math.log(1 - level) / (1 - rho), rel=1e-9)
    assert stay.wait_quantile(0.15) == 0.0
    assert stay.wait_quantile(0.5) == pytest.approx(math.log(rho / 0.5) / (1 - rho), rel=1e-9)


def test_tail_is_the_integral_of_the_mean():
    s = fixed_point.tails(load=0.9, fraction=0.3, choices=2)
    classes = {"flexible": found(s**2), "dedicated": found(s)}
    everybody = mixed(classes, fraction=0.3)
    mean, _ = quad(everybody.response_tail, 0, 200, limit=200)
    assert mean == pytest.approx(fixed_point.means(load=0.9, fraction=0.3, choices=2).all, rel=1e-8)


# The 1/N term


def dense_coefficient(rho, p, d, *, distinct, size):
    """V by the general equations with dense matrices: A W + W A' + Q = 0, A V + B:W / 2 + C = 0."""
    s = fixed_point.tails(load=rho, fraction=p, choices=d, least=0.0 if size is None else 1e-300)
    x = np.zeros(size + 2)
    x[: min(len(s), size + 2)] = s[: size + 2]
    inner = x[1 : size + 1]

    def drift(y):
        full = np.concatenate([[1.0], y, [0.0]])
        flow = rho * ((1 - p) * full + p * full**d)
        return flow[:-2] - flow[1:-1] - (full[1:-1] - full[2:])

    h = 1e-6
    a = np.array([(drift(inner + h * e) - drift(inner - h * e)) / (2 * h) for e in np.eye(size)]).T
    q = np.diag(2 * (inner - x[2 : size + 2]))
    w = solve_continuous_lyapunov(a, -q)
    bend = rho * p * d * (d - 1) / 2
    c = np.array([bend * (x[k - 1] ** (d - 2) * (w[k - 2, k - 2] if k > 1 else 0.0)) for k in range(1, size + 1)])
    c -= bend * inner ** (d - 2) * np.diag(w)
    if distinct:
        lack = -0.5 * d * (d - 1) * x ** (d - 1) * (1 - x)
        c += rho * p * (lack[:size] - lack[1 : size + 1])
    return float(np.linalg.solve(a, -c).sum())


@pytest.mark.parametrize(("rho", "p", "d"), [(0.5, 1.0, 2), (0.7, 0.4, 3), (0.9, 0.5, 2)])
@pytest.mark.parametrize("distinct", [True, False])
def test_expansion_against_dense_equations(rho, p, d, distinct):
    term = expansion(load=rho, fraction=p, choices=d, distinct=distinct)
    assert term.coefficient == pytest.approx(dense_coefficient(rho, p, d, distinct=distinct, size=60), abs=2e-5)


@pytest.mark.parametrize(("rho", "p", "d"), [(0.5, 0.3, 2), (0.9, 0.1, 3), (0.95, 1.0, 5)])
def test_expansion_keeps_the_class_identity(rho, p, d):
    """The mean over classes of what jobs find is Little's ET to order 1/N: a check of V and variances at once."""
    for distinct in (True, False):
        term = expansion(load=rho, fraction=p, choices=d, distinct=distinct)
        n = 40
        response = (term.mean_queue + term.coefficient / n) / rho
        both = (1 - p) * term.dedicated(queues=n).sum() + p * term.flexible(queues=n).sum()
        assert both == pytest.approx(response, rel=1e-8)


def test_expansion_against_published_simulation():
    """Gast (2017), two choices with replacement: rho = .7, N = 100: 1.1387; rho = .9, N = 1000: 2.3567."""
    for rho, n, value in ((0.7, 100, 1.1387), (0.9, 1000, 2.3567)):
        term = expansion(load=rho, fraction=1.0, choices=2, distinct=False)
        refined = term.mean_queue + term.coefficient / n
        assert refined == pytest.approx(value, abs=term.error(queues=n) + 6e-4)


def test_error_of_the_expansion_covers_published_small_systems():
    """The same source at N = 10, 20, 30, 50: the stated error covers the distance, and N = 10 shows it is needed."""
    for rho, published in (
        (0.9, {10: 2.8040, 20: 2.566, 50: 2.434}),
        (0.7, {10: 1.2193, 20: 1.1737, 30: 1.1587, 50: 1.1471}),
    ):
        term = expansion(load=rho, fraction=1.0, choices=2, distinct=False)
        for n, value in published.items():
            off = abs(term.mean_queue + term.coefficient / n - value)
            assert off <= term.error(queues=n) + 5e-4


@needs_shared
def test_refined_anchors():
    for row in read("flexible_refined.csv"):
        for distinct, column in ((True, "V_norepl"), (False, "V_repl")):
            term = expansion(load=float(row["rho"]), fraction=float(row["p"]), choices=int(row["d"]), distinct=distinct)
            assert term.coefficient == pytest.approx(float(row[column]), abs=1e-7)
            assert term.mean_queue == pytest.approx(float(row["EQ_mf"]), abs=1e-9)


def test_expansion_says_when_it_is_too_much():
    with pytest.raises(NotConverged, match="mean-field"):
        expansion(load=0.9999, fraction=1e-6, choices=2, distinct=True)


# Other laws and rules


def balanced(scv):
    q = 0.5 * (1 + math.sqrt((scv - 1) / (scv + 1)))
    return phases.hyperexponential(probabilities=[q, 1 - q], means=[0.5 / q, 0.5 / (1 - q)])


LAWS = {
    "exp": phases.exponential(mean=1.0),
    "erlang2": phases.erlang(shape=2, mean=1.0),
    "H2bal": balanced(4.0),
}


@pytest.mark.parametrize("name", LAWS)
def test_phases_without_choice_are_pollaczek_khinchine(name):
    law = LAWS[name]
    for rho in (0.3, 0.9):
        response = 1 + rho * (1 + law.scv) / (2 * (1 - rho))
        got = phase_law(load=rho, fraction=0.0, choices=2, service=law)
        assert got.means.all == pytest.approx(response, rel=1e-9)
        assert got.means.dedicated == pytest.approx(response, rel=1e-9)


@pytest.mark.parametrize(("rho", "p", "d"), [(0.5, 1.0, 2), (0.9, 0.2, 3), (0.97, 0.1, 2)])
def test_exponential_phases_are_the_fixed_point(rho, p, d):
    got = phase_law(load=rho, fraction=p, choices=d, service=LAWS["exp"])
    want = fixed_point.means(load=rho, fraction=p, choices=d)
    assert got.means.all == pytest.approx(want.all, rel=1e-10)
    assert got.means.flexible == pytest.approx(want.flexible, rel=1e-10)


@pytest.mark.parametrize("name", LAWS)
def test_phase_stays_have_the_means(name):
    """Uniformised laws of response and wait integrate to the means; M/PH/1 against its own law at p = 0."""
    got = phase_law(load=0.8, fraction=0.4, choices=2, service=LAWS[name])
    for flexible, mean in ((True, got.means.flexible), (False, got.means.dedicated)):
        stay = got.stay(flexible=flexible)
        assert stay.mean_response == pytest.approx(mean, rel=1e-8)
        assert stay.wait.sum() / stay.rate == pytest.approx(mean - 1, rel=1e-8)
    alone = phase_law(load=0.8, fraction=0.0, choices=2, service=LAWS["exp"]).stay(flexible=False)
    assert alone.response_tail(7.0) == pytest.approx(math.exp(-0.2 * 7.0), rel=1e-9)


@needs_shared
def test_phase_type_anchors():
    for row in read("flexible_phase_type.csv"):
        law = LAWS[row["service"]]
        got = phase_law(load=float(row["rho"]), fraction=float(row["p"]), choices=int(row["d"]), service=law)
        assert got.means.all == pytest.approx(float(row["ET"]), abs=1e-6)


@pytest.mark.parametrize(("rho", "p", "d"), [(0.5, 0.5, 2), (0.9, 0.1, 3), (0.95, 1.0, 2)])
def test_sharing_obeys_little(rho, p, d):
    """Means of the classes under processor sharing average to that of all jobs, which is insensitive."""
    m = sharing_means(load=rho, fraction=p, choices=d)
    assert m.all == pytest.approx(fixed_point.means(load=rho, fraction=p, choices=d).all, rel=1e-10)


def test_sharing_without_choice():
    """M/M/1-PS: a job that finds k others stays (k + 2) / (2 - rho) services in the mean: it solves the recursion."""
    rho = 0.6
    k = np.arange(200)
    m = sharing_means(load=rho, fraction=0.0, choices=2)
    assert m.dedicated == pytest.approx(((1 - rho) * rho**k * (k + 2) / (2 - rho)).sum(), rel=1e-10)
    assert m.dedicated == pytest.approx(1 / (1 - rho), rel=1e-12)
    assert m.flexible == pytest.approx(((1 - rho**2) * rho ** (2 * k) * (k + 2) / (2 - rho)).sum(), rel=1e-10)


@pytest.mark.parametrize(("rho", "p", "d"), [(0.9, 0.3, 2), (0.5, 1.0, 3), (0.95, 0.1, 5)])
def test_workload_law_solves_its_equation(rho, p, d):
    law = workload_law(load=rho, fraction=p, choices=d)
    h = 1e-5
    for w in (0.2, 1.0, 6.0):
        f = law.tail(w)
        slope = (law.tail(w + h) - law.tail(w - h)) / (2 * h)
        assert slope == pytest.approx(rho * ((1 - p) * f + p * f**d) - f, abs=1e-9)
    assert law.tail(0.0) == pytest.approx(rho)
    for power in (1, d):
        mean, _ = quad(lambda w, power=power: law.tail(w) ** power, 0, np.inf, limit=300)
        assert law.mean_wait(power=power) == pytest.approx(mean, rel=1e-7)


def test_workload_law_of_hellemans_and_van_houdt():
    """LL(d), exponential: F(w) = (rho + (rho^(1-d) - rho) e^((d-1) w))^(1 / (1-d)) (2018, for p = 1)."""
    rho, d = 0.8, 3
    law = workload_law(load=rho, fraction=1.0, choices=d)
    for w in (0.0, 0.7, 4.0):
        want = (rho + (rho ** (1 - d) - rho) * math.exp((d - 1) * w)) ** (1 / (1 - d))
        assert law.tail(w) == pytest.approx(want, rel=1e-12)
    t = law.response_quantile(0.95, share=1.0)
    assert law.response_tail(t, share=1.0) == pytest.approx(0.05, rel=1e-9)
