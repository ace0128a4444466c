"""Other rules for killed jobs: what theory answers under them is right, and what it does not know it refuses."""

from __future__ import annotations

import math

import pytest
from scipy import integrate

import qsim
import qtheory
from qtheory._solve import METHODS, require_method
from qtheory.laws import Above, Shifted, distribution
from qtheory.models import (
    Deterministic,
    Dispatcher,
    Empirical,
    Exponential,
    Gamma,
    InvalidModel,
    LogNormal,
    Mixture,
    Pareto,
    Uniform,
    Unstable,
)
from qtheory.systems.dispatcher import auto, exact, mgc, mmc, phase_type
from qtheory.systems.dispatcher.loads import traffic
from qtheory.systems.dispatcher.relaxation import relaxation_jobs
from qtheory.systems.dispatcher.stability import check_stable

SYSTEM = Dispatcher(
    servers=(3, 4),
    time_limit=1.5,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 2.6),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=1.6),
)
VARIANTS = {
    "head": {"killed_join": "head"},
    "low priority": {"killed_join": "low-priority"},
    "checkpoint": {"checkpoint_share": 0.5},
    "whole checkpoint": {"checkpoint_share": 1.0},
    "checkpoint, head": {"checkpoint_share": 0.5, "killed_join": "head"},
    "grace": {"grace": 0.5},
    "grace to save": {"grace": 0.3, "grace_completes": False},
    "limits": {"limits": Uniform(low=0.5, high=2.2)},
    "limits on a grid": {"limits": Empirical(values=(0.5, 1.5, 2.5))},
    "all but the place": {
        "limits": Empirical(values=(0.75, 1.5)),
        "checkpoint_share": 0.7,
        "grace": 0.15,
        "grace_completes": False,
    },
    "limits and head": {"limits": Empirical(values=(0.5, 1.5)), "killed_join": "head"},
    "all": {"limits": Uniform(low=0.5, high=2.0), "checkpoint_share": 0.25, "grace": 0.25, "killed_join": "head"},
}
#: Standard errors beyond which chance counts as impossible: Student's law with 31 degrees, 1e-8 a measure.
FAR = 7.6


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_method_agrees_with_the_simulation_or_refuses(variant) -> None:
    """By name and called directly.  False alarms below 1e-5 over all measures; seen is what is off by 11 standard
    errors beyond the method's own error."""
    model = SYSTEM.replace(**VARIANTS[variant])
    quantiles = not isinstance(model.limits, Uniform)
    run = qsim.simulate(model, jobs=640_000, seed=7, means_only=not quantiles)
    modules = {"mmc": mmc, "mgc": mgc, "phase-type": phase_type, "exact": exact, "auto": auto}
    assert set(modules) == {*METHODS["dispatcher"], "auto"}
    answered = []
    for name, module in modules.items():
        if name not in qtheory.methods(model):
            for call in (lambda n=name: qtheory.solve(model, method=n), lambda m=module: m.solve(model)):
                with pytest.raises(InvalidModel) as refusal:
                    call()
                assert refusal.value.field in model.changed_rules
                assert refusal.value.value == getattr(model, refusal.value.field)
            continue
        answered.append(name)
        if name == "exact":
            continue  # takes long: held against the plain rules below
        solution = qtheory.solve(model, method=name, quantiles=quantiles)
        compared = 0
        for key, value in solution.measures.items():
            if key in run.measures:
                figure = run[key]
                assert abs(value.value - figure.value) <= value.error + FAR * figure.se + 1e-12, (name, key)
                compared += 1
        assert compared > 30
    assert tuple(answered) == qtheory.methods(model)
    wanted = {
        "grace": 5,
        "limits": 0,
        "head": 0,
        "low priority": 0,
        "limits and head": 0,
        "checkpoint, head": 0,
        "all": 0,
    }
    assert len(answered) == wanted.get(variant, 3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_curves_and_budgets_refuse_what_methods_refuse(variant) -> None:
    model = SYSTEM.replace(**VARIANTS[variant])
    known = qtheory.methods(model)
    light = model.replace(servers=(2, 2), interarrival=Exponential(mean=1.2))
    for method, curve in (("mgc", mgc.curve), ("phase-type", phase_type.curve)):
        if method in known:
            found = curve(light, total=4)
            place = found.servers.tolist().index([2, 2])
            wanted = qtheory.solve(light, method=method, quantiles=False)["mean_response", "killed"].value
            assert found.mean_response["killed"][place] == pytest.approx(wanted, rel=1e-9)
        else:
            with pytest.raises(InvalidModel, match=r"covers? this rule"):
                curve(light, total=4)
    if "auto" in known and "phase-type" not in known:
        solution = auto.solve(model, budget=30.0, quantiles=False)
        assert solution.method == "mgc"
        assert "phase-type does not cover" in solution.details["choice"]
    if not known:
        with pytest.raises(InvalidModel, match=r"no analytic method covers this rule.*; qsim simulates it"):
            auto.solve(model, budget=30.0)
        with pytest.raises(InvalidModel, match=model.changed_rules[0]):
            require_method(model, method="nonsense")


@pytest.mark.parametrize("method", ["mmc", "mgc", "auto", "phase-type", pytest.param("exact", marks=pytest.mark.slow)])
def test_a_grace_that_completes_is_a_longer_limit(method) -> None:
    small = SYSTEM.replace(servers=(1, 1), interarrival=Exponential(mean=6.0))
    model, longer = small.replace(grace=0.5), small.replace(time_limit=2.0)
    assert len(qtheory.methods(model)) == 5
    one, other = (qtheory.solve(m, method=method, quantiles=False) for m in (model, longer))
    assert one.measures == other.measures
    both = model.replace(limits=Empirical(values=(1.0, 2.0))), longer.replace(limits=Empirical(values=(1.5, 2.5)))
    assert mgc.solve(both[0]).measures == mgc.solve(both[1]).measures


def test_fields_without_an_effect_leave_every_method() -> None:
    same = SYSTEM.replace(grace_completes=False)
    assert same.changed_rules == ()
    assert qtheory.methods(same) == qtheory.methods(SYSTEM)
    assert mgc.solve(same).measures == mgc.solve(SYSTEM).measures
    fixed = SYSTEM.replace(time_limit=9.0, limits=Deterministic(value=1.5))
    assert traffic(fixed).offered == traffic(SYSTEM).offered
    assert mgc.solve(fixed)["mean_response", "all"] == mgc.solve(SYSTEM)["mean_response", "all"]


class TestLoads:
    """Offered loads in closed form for exponential S0 of rate m: q = E exp(-m E), and S0 - E forgets E."""

    RATE, MEAN = 2.6 * 0.65, 1.2
    LONG = 2.6 * 0.35 * 1.6

    def offered(self, **rules):
        return traffic(SYSTEM.replace(**rules)).offered

    def test_checkpoint(self) -> None:
        q = math.exp(-1.5 / self.MEAN)
        for share in (0.0, 0.3, 1.0):
            first, second = self.offered(checkpoint_share=share)
            assert first == pytest.approx(self.RATE * self.MEAN * (1 - q), rel=1e-12)
            wanted = self.RATE * q * ((1 - share) * 1.5 + self.MEAN) + self.LONG
            assert second == pytest.approx(wanted, rel=1e-12)

    def test_grace_to_save(self) -> None:
        q = math.exp(-1.5 / self.MEAN)
        first, second = self.offered(grace=0.4, grace_completes=False, checkpoint_share=0.5)
        assert first == pytest.approx(self.RATE * (self.MEAN * (1 - q) + 0.4 * q), rel=1e-12)
        assert second == pytest.approx(self.RATE * q * (0.75 + self.MEAN) + self.LONG, rel=1e-12)

    def test_limits(self) -> None:
        rate = 1 / self.MEAN
        uniform = Uniform(low=0.5, high=2.2)
        q = (math.exp(-0.5 * rate) - math.exp(-2.2 * rate)) / (1.7 * rate)
        found = traffic(SYSTEM.replace(limits=uniform))
        assert found.kill_probability == pytest.approx(q, rel=1e-9)
        assert found.offered[0] == pytest.approx(self.RATE * self.MEAN * (1 - q), rel=1e-9)
        # An exponential limit of rate v: q = v / (m + v), E[T; S0 > T] = v / (m + v)^2.
        v = 1 / 1.5
        found = traffic(SYSTEM.replace(limits=Exponential(mean=1.5), checkpoint_share=0.3))
        assert found.kill_probability == pytest.approx(v / (rate + v), rel=1e-9)
        killed = v / (rate + v) * self.MEAN + 0.7 * v / (rate + v) ** 2
        assert found.offered[1] == pytest.approx(self.RATE * killed + self.LONG, rel=1e-9)

    def test_limits_and_services_with_atoms(self) -> None:
        """S0 is 1 or 2, T uniform on (0.5, 2.5) or 1 with probability 1/2: sums by hand, a tie completes."""
        law = Mixture(weights=(0.5, 0.5), laws=(Uniform(low=0.5, high=2.5), Deterministic(value=1.0)))
        model = SYSTEM.replace(service0=Empirical(values=(1.0, 2.0)), limits=law)
        # T < 1 (S0 = 1): 1/2 * 1/4; T < 2 (S0 = 2): 1/2 * 3/4 + 1/2.
        q = 0.5 * 0.125 + 0.5 * 0.875
        found = traffic(model)
        assert found.kill_probability == pytest.approx(q, rel=1e-9)
        assert found.offered[1] == pytest.approx(self.RATE * (0.5 * 0.125 + 0.875) + self.LONG, rel=1e-9)
        one = 0.5 * (0.25 * 0.75 + 0.75) + 0.5
        two = 0.5 * (0.75 * 1.25 + 0.25 * 2.0) + 0.5
        assert found.offered[0] == pytest.approx(self.RATE * 0.5 * (one + two), rel=1e-9)
        grid = traffic(model.replace(limits=Empirical(values=(1.0, 1.5, 2.0)), checkpoint_share=0.5))
        assert grid.kill_probability == pytest.approx(1 / 3, rel=1e-12)
        killed = (0.5 / 3) * ((2 - 0.5) + (2 - 0.75))
        assert grid.offered[1] == pytest.approx(self.RATE * killed + self.LONG, rel=1e-12)

    @pytest.mark.parametrize("law", [LogNormal(mean=1.2, scv=2.0), Gamma(shape=0.5, scale=2.4)])
    def test_limits_by_a_double_integral(self, law) -> None:
        """E[min(S0, T)] is the integral of both survival functions."""
        limits = LogNormal(mean=1.5, scv=1.0)
        s, t = distribution(law), distribution(limits)
        wanted, _ = integrate.quad(lambda x: s.survival(x) * t.survival(x), 0, math.inf, epsabs=1e-11, limit=300)
        found = self.offered(service0=law, limits=limits)[0]
        assert found == pytest.approx(self.RATE * wanted, rel=1e-7)

    def test_laws_have_the_loads(self) -> None:
        """Made of two dozen limits at most, so that the means are right to 1e-3 where the limits have a density."""
        for name, rules in VARIANTS.items():
            found = traffic(SYSTEM.replace(**rules))
            close = 1e-3 if isinstance(rules.get("limits"), Uniform) else 1e-9
            for rate, load, law in zip(found.rates, found.offered, found.occupations, strict=True):
                assert rate * law.mean == pytest.approx(load, rel=close), name
            assert found.killed_service.mean == pytest.approx(found.aborted.mean + found.killed.mean, rel=1e-9)

    def test_stability_is_refused_by_these_loads(self) -> None:
        """A model that the plain rules overload and a checkpoint does not, and the other way round with grace."""
        model = SYSTEM.replace(servers=(3, 3), interarrival=Exponential(mean=1 / 2.9))
        with pytest.raises(Unstable, match="group1") as found:
            check_stable(model)
        q = math.exp(-1.5 / 1.2)
        load = 2.9 * (0.65 * q * 2.7 + 0.35 * 1.6) / 3
        assert found.value.load == pytest.approx(load, rel=1e-9)
        check_stable(model.replace(checkpoint_share=1.0))
        light = SYSTEM.replace(servers=(2, 4))
        check_stable(light)
        for rules in (
            {"grace": 2.0, "grace_completes": False},
            {"grace": 1.5, "grace_completes": False, "killed_join": "head"},
        ):
            with pytest.raises(Unstable, match="group0"):
                check_stable(light.replace(**rules))

    def test_relaxation_follows_the_loads(self) -> None:
        plain = relaxation_jobs(SYSTEM)
        assert relaxation_jobs(SYSTEM.replace(checkpoint_share=1.0)) < plain
        assert relaxation_jobs(SYSTEM.replace(killed_join="head")) == plain
        assert relaxation_jobs(SYSTEM.replace(limits=Uniform(low=0.1, high=0.5))) > plain


class TestShifted:
    """What is left of a service S0 > 2 of which the share of 1.5 is kept: S0 - 1.5 given S0 > 2."""

    LAW = Shifted(Above(distribution(Gamma(shape=2.0, scale=1.0)), limit=2.0), by=-1.5)

    def test_against_quadrature(self) -> None:
        tail = math.exp(-2.0) * 3.0

        def expect(function, low=0.5):
            return integrate.quad(lambda y: function(y) * (y + 1.5) * math.exp(-(y + 1.5)) / tail, low, 60.0)[0]

        for order in (1.0, 2.0, 2.5, 3.0):
            assert self.LAW.moment(order) == pytest.approx(expect(lambda y, k=order: y**k), rel=1e-7)
            assert self.LAW.tail_moment(order, 1.7) == pytest.approx(expect(lambda y, k=order: y**k, 1.7), rel=1e-7)
        for t in (0.0, 0.3, 0.9, 4.0):
            assert self.LAW.excess(t) == pytest.approx(expect(lambda y, t=t: max(y - t, 0.0), max(t, 0.5)), rel=1e-7)
        assert self.LAW.laplace(0.7) == pytest.approx(expect(lambda y: math.exp(-0.7 * y)), rel=1e-7)
        assert self.LAW.support[0] == pytest.approx(0.5)
        assert self.LAW.cdf(self.LAW.quantile(0.3)) == pytest.approx(0.3)

    def test_no_negative_times(self) -> None:
        with pytest.raises(InvalidModel, match="negative"):
            Shifted(distribution(Exponential(mean=1.0)), by=-0.1)


class TestLimitsThatHardlyOrAlwaysKill:
    """Loads where the limits kill nearly all jobs or none; a limit for all is the plain rule."""

    def test_services_beyond_every_limit(self) -> None:
        """P(limit > 10) = exp(-10); all others are killed after a mean of 1 and ask all of 15 again."""
        model = SYSTEM.replace(service0=Pareto(minimum=10.0, shape=3.0), limits=Exponential(mean=1.0))
        found = traffic(model)
        rate = 1 / distribution(model.interarrival).mean * model.short_fraction
        assert found.offered[0] == pytest.approx(rate, rel=1e-3)
        killed = found.offered[1] - found.long_rate * distribution(model.service1).mean
        assert killed == pytest.approx(15.0 * rate, rel=1e-3)
        assert relaxation_jobs(model.replace(servers=(50, 90))) > 0

    @pytest.mark.parametrize(
        "rules",
        [
            {"service0": Uniform(low=0.001, high=0.01), "limits": Exponential(mean=100.0)},
            {
                "service0": Deterministic(value=1.0),
                "limits": Empirical(values=(1.0, *(0.5 + 0.004 * i for i in range(99)))),
            },
            {"service0": Pareto(minimum=10.0, shape=3.0), "limits": Exponential(mean=1.0)},
        ],
    )
    def test_every_law_is_there(self, rules) -> None:
        found = traffic(SYSTEM.replace(**rules))
        for law in (found.completed, found.killed, found.aborted, found.occupation0, found.occupation1):
            assert law.mean > 0
        parts = (1 - found.kill_probability) * found.completed.mean + found.kill_probability * found.aborted.mean
        assert parts == pytest.approx(found.occupation0.mean, rel=0.02)
