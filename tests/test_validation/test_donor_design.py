"""Thresholds by search, and the figures of the donor system."""

from __future__ import annotations

import itertools
import json
import math

import anchors
import numpy as np
import pytest
from donor_cases import standing

import qtheory
from qtheory.models import ADT, T1, T1T2, T2, Dedicated, InvalidModel, Unstable, save
from qtheory.systems.donor.stability import largest_rho1, largest_rho2, stability
from validation import cli, donor_figures, library
from validation.donor_design import optimise, optimise_over, with_loads


def cost(model, policy):
    changed = model.replace(policy=policy)
    return qtheory.solve(changed)["cost", "all"].value if stability(changed).stable else math.inf


class TestOneLoad:
    @pytest.mark.parametrize(("loads", "best"), anchors.DONOR_BEST_T1.items())
    def test_best_t1_of_sixty(self, loads, best):
        rho1, rho2 = loads
        found = optimise(standing(T1(t1=1), rho1=rho1, rho2=rho2))
        assert found.best == T1(t1=best)
        assert len(found.table) == 60
        unstable = [row.policy.t1 for row in found.table if not row.stable]
        assert unstable == [t for t in range(1, 61) if not stability(standing(T1(t1=t), rho1=rho1, rho2=rho2)).stable]
        assert all(row.value is None for row in found.table if not row.stable)
        assert found.value == pytest.approx(cost(standing(T1(t1=1), rho1=rho1, rho2=rho2), T1(t1=best)), rel=1e-12)

    def test_the_same_chain_is_a_tie(self):
        """T1(1) is T1(2) for mu1 >= mu12; where type 1 is dear it is the best."""
        rates = {"mu1": 1.0, "mu12": 1.0, "mu2": 0.5}
        found = optimise(standing(T1(t1=5), rho1=0.3, rho2=0.2, rates=rates, holding_costs=(20.0, 1.0)))
        assert {found.best, *found.ties} == {T1(t1=1), T1(t1=2)}

    def test_t2_in_the_reading_of_the_model(self):
        model = standing(T2(t2=1), rho1=1.15, rho2=0.4)
        assert optimise(model, policy="t2", bounds={"t2": (1, 10)}).best == T2(t2=2)
        idle = model.replace(policy=T2(t2=5, reading="idle"))
        assert optimise(idle, policy="t2", bounds={"t2": (1, 10)}).best == T2(t2=1, reading="idle")

    def test_costs_weigh(self):
        """Type 2 dear: the donor stays at home longer."""
        rates = {"mu1": 1.0, "mu12": 1.0, "mu2": 0.5}
        cheap, dear = (standing(T1(t1=2), rho1=1.0, rho2=0.3, rates=rates, holding_costs=(1, c)) for c in (0.2, 5))
        assert optimise(cheap).best.t1 < optimise(dear).best.t1

    def test_descent_finds_what_enumeration_finds(self):
        """ADT and T1T2 in small bounds against every design there."""
        model = standing(T1(t1=1), rho1=1.1, rho2=0.5)
        bounds = {"low": (1, 5), "high": (1, 8), "t2": (1, 5)}
        points = itertools.product(range(1, 6), range(1, 9), range(1, 6))
        grid = [ADT(low=a, high=b, t2=c) for a, b, c in points if a <= b]
        found = optimise(model, policy="adt", bounds=bounds)
        assert found.best == min(grid, key=lambda policy: cost(model, policy))
        grid = [T1T2(t1=a, t2=b) for a, b in itertools.product(range(2, 6), [*range(1, 21), math.inf])]
        found = optimise(model, policy="t1t2", bounds={"t1": (2, 5), "t2": (1, 20)})
        assert found.value == pytest.approx(min(cost(model, policy) for policy in grid), rel=1e-9)

    @pytest.mark.slow
    def test_what_the_families_gain(self):
        """Over optimised T1: T1T2 at most .0012 %, ADT 1.5 to 3.2 %, at rho2 = .3 to .8 (rho1 = 1.15)."""
        for rho2 in (0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
            model = standing(T1(t1=1), rho1=1.15, rho2=rho2)
            single = optimise(model).value
            mixed, adaptive = (optimise(model, policy=family).value for family in ("t1t2", "adt"))
            assert -1e-11 < 1 - mixed / single < 1.25e-5, rho2
            assert 0.015 < 1 - adaptive / single < 0.0325, rho2

    def test_nothing_stable_is_refused(self):
        with pytest.raises(Unstable, match=r"queue 2 is unstable under T1\(\d\): rho2 = 0.80"):
            optimise(standing(T1(t1=1), rho1=1.15, rho2=0.8), bounds={"t1": (1, 5)})
        with pytest.raises(Unstable):
            optimise(standing(T1(t1=1), rho1=1.9, rho2=0.8), policy="adt", bounds={"high": (1, 9)})

    @pytest.mark.parametrize(
        ("options", "field"),
        [
            ({"policy": "t3"}, "policy"),
            ({"bounds": {"t2": (1, 5)}}, "bounds"),
            ({"bounds": {"t1": (0, 5)}}, "bounds.t1"),
            ({"bounds": {"t1": (6, 5)}}, "bounds.t1"),
        ],
    )
    def test_wrong_questions_are_named(self, options, field):
        with pytest.raises(InvalidModel) as caught:
            optimise(standing(T1(t1=1), rho1=1.0, rho2=0.1), **options)
        assert caught.value.field == field

    def test_only_what_the_exact_method_knows(self):
        with pytest.raises(InvalidModel, match="work1"):
            optimise(standing(T1(t1=1), rho1=1.0, rho2=0.1, work1={"kind": "deterministic", "value": 1.0}))


class TestManyLoads:
    def test_robust_t1_by_hand(self):
        """The least of the largest ratios against a table made here; an unstable load rules a design out."""
        loads = (0.3, 0.5, 0.65)
        models = with_loads(standing(T1(t1=1), rho1=1.15, rho2=0.1), rho2=loads)
        table = np.array([[cost(model, T1(t1=t)) for model in models] for t in range(1, 31)])
        worst = (table / table.min(axis=0)).max(axis=1)
        found = optimise_over(models, policy="t1", bounds={"t1": (1, 30)})
        assert found.best == T1(t1=1 + int(worst.argmin()))
        assert found.value == pytest.approx(worst.min(), rel=1e-12)
        assert found.references == pytest.approx(table.min(axis=0))
        assert [row.stable for row in found.table] == np.isfinite(worst).tolist()

    def test_weighted_mean_by_hand(self):
        models = with_loads(standing(T1(t1=1), rho1=0.5, rho2=0.6), rho1=(0.8, 1.0, 1.2))
        table = np.array([[cost(model, T1(t1=t)) for model in models] for t in range(1, 31)])
        mean = table @ np.array([1, 2, 5]) / 8
        found = optimise_over(models, policy="t1", objective="mean", weights=(1, 2, 5), bounds={"t1": (1, 30)})
        assert found.best == T1(t1=1 + int(mean.argmin()))
        assert found.value == pytest.approx(mean.min(), rel=1e-12)

    def test_adt_is_more_robust_than_t1(self):
        """The point of the policy: a smaller worst ratio to the same yardstick; progress is reported."""
        models = with_loads(standing(T1(t1=1), rho1=1.15, rho2=0.1), rho2=(0.4, 0.7))
        steps = []
        bounds = {"low": (1, 8), "high": (1, 16), "t2": (1, 10)}
        adaptive = optimise_over(
            models, policy="adt", bounds=bounds, progress=lambda done, all_: steps.append((done, all_))
        )
        single = optimise_over(models, policy="t1", bounds={"t1": (1, 16)})
        yardstick = np.array(adaptive.references)
        ratios = [
            max(cost(model, found.best) / least for model, least in zip(models, yardstick, strict=True))
            for found in (adaptive, single)
        ]
        assert ratios[0] == pytest.approx(adaptive.value, rel=1e-12)
        assert ratios[0] < ratios[1]
        assert steps == [(1, 3), (2, 3), (3, 3)]

    def test_as_data(self):
        models = with_loads(standing(T1(t1=1), rho1=1.15, rho2=0.1), rho2=(0.2, 0.6))
        data = optimise_over(models, policy="t1", bounds={"t1": (1, 5)}).to_dict()
        assert data["best"]["policy"]["kind"] == "t1"
        assert len(data["table"]) == 5
        assert data["table"][1]["costs"][1] is None  # T1(2) is unstable at rho2 = .6
        assert data["table"][1]["analytic"] is None
        assert data["loads"][1] == [1.15, 0.6 / 16]

    @pytest.mark.parametrize("weights", [(1.0,), (-1.0, 2.0), (0.0, 0.0)])
    def test_wrong_weights_are_named(self, weights):
        models = with_loads(standing(T1(t1=1), rho1=1.15, rho2=0.1), rho2=(0.2, 0.6))
        with pytest.raises(InvalidModel, match="weights"):
            optimise_over(models, policy="t1", objective="mean", weights=weights)


class TestFigures:
    def test_curves_are_exact_and_end_at_their_limits(self):
        model = standing(T1(t1=3), rho1=1.15, rho2=0.4)
        policies = [T1(t1=3), T2(t2=1), ADT(low=3, high=19, t2=6)]
        found = donor_figures.curves(model, policies=policies, vary="rho2", loads=(0.2, 0.4, 0.66, 0.845, 0.9))
        by_policy = dict(zip(policies, found, strict=True))
        assert by_policy[T1(t1=3)].costs[:2] == pytest.approx((1.991375047, 3.07461996), rel=1e-9)
        assert by_policy[T1(t1=3)].costs[2:] == (None, None, None)
        assert [cost is None for cost in by_policy[T2(t2=1)].costs] == [False] * 4 + [True]
        assert by_policy[ADT(low=3, high=19, t2=6)].costs[1] == pytest.approx(3.113660683, rel=1e-9)
        for curve in found:
            assert curve.limit == largest_rho2(model.replace(policy=curve.policy))
        other = donor_figures.curves(model, policies=policies, vary="rho1")
        assert [curve.limit for curve in other] == [largest_rho1(model.replace(policy=p)) for p in policies]
        assert len(other[0].loads) == 60

    @pytest.mark.parametrize("vary", ["rho1", "rho2"])
    def test_robustness_is_drawn_with_limits(self, vary):
        model = standing(T1(t1=3), rho1=1.15, rho2=0.4)
        policies = [T1(t1=3), T1T2(t1=3, t2=10), Dedicated()]
        found = donor_figures.curves(model, policies=policies, vary=vary, loads=(0.1, 0.3, 0.5))
        axes = donor_figures.robustness(model, found=found, vary=vary).axes[0]
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["T1(3)", "T1T2(3, 10)", "dedicated"]
        dotted = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"]
        assert dotted == [curve.limit for curve in found]

    def test_policy_map_is_drawn(self):
        figure = donor_figures.policy_map(standing(T1T2(t1=3, t2=2), rho1=1, rho2=0.4), n1=4, n2=3)
        mesh = figure.axes[0].collections[0]
        right = [[0, 0, 1, 1, 1], [2, 2, 2, 1, 1], [2, 2, 2, 2, 2], [2, 2, 2, 2, 2]]
        assert np.asarray(mesh.get_array()).reshape(4, 5).tolist() == right

    def test_wrong_axes_are_named(self):
        model = standing(T1(t1=3), rho1=1.15, rho2=0.4)
        with pytest.raises(InvalidModel, match="vary"):
            donor_figures.curves(model, policies=[T1(t1=3)], vary="rho3")
        with pytest.raises(InvalidModel, match="policies"):
            donor_figures.curves(model, policies=[], vary="rho1")


class TestCases:
    @pytest.mark.parametrize("name", [name for name in library.cases() if name.startswith("donor-")])
    def test_bundled_cases_are_stable_and_solved(self, name):
        from qtheory.models import load

        model = load(library.case_path(name))
        exact, reduced = qtheory.solve(model), qtheory.solve(model, method="reduction")
        assert exact["cost", "all"].value == pytest.approx(reduced["cost", "all"].value, rel=1e-6)
        assert library.about(name)

    def test_every_policy_has_a_case(self):
        from qtheory.models import load

        kinds = {load(library.case_path(n)).policy.kind() for n in library.cases() if n.startswith("donor-")}
        assert kinds == {"t1", "t2", "t1t2", "adt", "cmu", "dedicated"}


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("donor", ["--total", "5"]),
        ("donor", ["--target", "5"]),
        ("donor", ["--method", "exact"]),
        ("donor", ["--width", "one"]),
        ("flexible", ["--target", "7", "--policy", "t1"]),
        ("flexible", ["--target", "7", "--out", "somewhere"]),
        ("dispatcher", ["--total", "7", "--scope", "all"]),
        ("network", ["--total", "7"]),
    ],
)
def test_search_refuses_options_it_would_not_look_at(kind, arguments, tmp_path, capsys):
    case = {"donor": "donor-t1", "flexible": "flexible-two", "dispatcher": "dispatcher-exponential"}
    path = tmp_path / "m.toml"
    path.write_text(library.case_path(case.get(kind, "network-fig1-jsr")).read_text())
    capsys.readouterr()
    assert cli.run(["search", str(path), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert arguments[-2] in err
    assert kind in err


@pytest.mark.parametrize("policy", [T1(t1=10**9), T1T2(t1=10**9, t2=5), ADT(low=2, high=10**9, t2=10**9), T1(t1=2**53)])
def test_thresholds_too_large_to_solve_are_simulated_all_the_same(policy, tmp_path, capsys):
    """One of them is never reached: the answer is that of infinity."""
    path, limit = tmp_path / "m.toml", {"t1": math.inf, "t2": math.inf, "high": math.inf}
    model = standing(T1(t1=1), rho1=0.9, rho2=0.4).replace(policy=policy)
    save(model, path)
    assert cli.run(["solve", str(path)]) == 2
    capsys.readouterr()
    assert cli.run(["simulate", str(path), "--jobs", "20000", "--warmup", "0", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    fields = {name: limit[name] for name in policy.__struct_fields__ if getattr(policy, name) > 100}
    save(model.replace(policy=policy.replace(**fields)), path)
    assert cli.run(["simulate", str(path), "--jobs", "20000", "--warmup", "0", "--json"]) == 0
    assert json.loads(out)["measures"] == json.loads(capsys.readouterr().out)["measures"]


def test_the_warm_up_asks_for_no_solution(capsys, tmp_path):
    path = tmp_path / "m.toml"
    save(standing(T1(t1=10**9), rho1=0.9, rho2=0.4), path)
    assert cli.run(["simulate", str(path), "--jobs", "20000", "--json"]) == 0
