"""The pieces of the dispatcher's phase-type method, each against another road to the same number."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, linalg

from qtheory.laws import Upto, distribution
from qtheory.models import (
    BoundedPareto,
    Deterministic,
    Dispatcher,
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    NotConverged,
    Pareto,
    Uniform,
    Weibull,
)
from qtheory.queues.map import ArrivalProcess, poisson, renewal
from qtheory.queues.multiserver_ph import m_ph_c
from qtheory.queues.phase_type import PhaseType, erlang, exponential
from qtheory.systems.dispatcher.arrival_reduction import Shifts, Subspace, sound_reductions
from qtheory.systems.dispatcher.banded import Banded
from qtheory.systems.dispatcher.delay import Delay, both
from qtheory.systems.dispatcher.group0_chain import Group0Chain, group0_chain
from qtheory.systems.dispatcher.group_queues import Wait, deepest, many_server_wait
from qtheory.systems.dispatcher.loads import traffic
from qtheory.systems.dispatcher.pieces import atom_and_rest, constant, moment_fit, residual_gap, two_phases
from qtheory.systems.dispatcher.residual_fit import plain_fit, residual_fit, service_fit
from qtheory.systems.dispatcher.stand_ins import interval_fit
from qtheory.systems.dispatcher.wait_law import law_of

HEAVY = [
    LogNormal(mean=2.0, scv=4.0),
    LogNormal(mean=1.0, scv=10.0),
    Pareto(shape=3.5, minimum=1.0),
    Pareto(shape=2.6, minimum=0.3),
    BoundedPareto(shape=1.5, minimum=1.0, maximum=300.0),
    Weibull(shape=0.4, scale=1.0),
]


class TestStandIns:
    @pytest.mark.parametrize("order", [2, 3, 4, 5])
    def test_constant_has_the_moments_of_its_order(self, order):
        law = constant(1.7, order=order)
        assert law.order == order
        for k in range(1, min(2 * order, 6)):
            assert law.moment(k) == pytest.approx(1.7**k, rel=1e-9)

    @pytest.mark.parametrize(
        "law",
        [
            Erlang(shape=4, mean=1.3),
            Uniform(low=0.5, high=2.0),
            Gamma(shape=0.5, scale=2.0),
            Weibull(shape=2.0, scale=1.0),
            Hyperexponential(probabilities=(0.3, 0.5, 0.2), means=(0.2, 1.0, 5.0)),
        ],
    )
    def test_three_phases_have_five_moments(self, law):
        known = distribution(law)
        fit = moment_fit(known, order=3)
        assert fit.order == 3
        for k in range(1, 6):
            assert fit.moment(k) == pytest.approx(known.moment(k), rel=1e-6)

    @pytest.mark.parametrize(
        "law", [*HEAVY, LogNormal(mean=1.0, scv=0.7), BoundedPareto(shape=1.9, minimum=0.5, maximum=5.7)]
    )
    def test_two_moments_hold_where_more_do_not(self, law):
        known = distribution(law)
        fit = moment_fit(known, order=3)
        assert fit.mean == pytest.approx(known.mean, rel=1e-6)
        assert fit.scv == pytest.approx(known.scv, abs=2e-3)
        assert -np.linalg.eigvals(fit.generator).real.max() > 0.0

    def test_third_moment_out_of_reach_is_moved(self):
        fit = two_phases(mean=1.0, scv=4.0, third=math.inf)
        assert (fit.mean, fit.scv) == (pytest.approx(1.0), pytest.approx(4.0))

    @pytest.mark.parametrize("law", HEAVY)
    def test_heavy_laws_keep_moments_and_residual_life(self, law):
        """Mean and second moment are exact, and P(residual life > t) is within 4 % from 1/100 to 100 means."""
        known = distribution(law)
        for fit, gap in ((service_fit(known), 0.04), (plain_fit(known), 0.09)):
            assert fit.mean == pytest.approx(known.mean, rel=1e-6)
            assert fit.moment(2) == pytest.approx(known.moment(2), rel=1e-5)
            assert residual_gap(known, fit) < gap

    def test_law_without_a_second_moment_is_followed(self):
        known = distribution(Pareto(shape=1.8, minimum=1.0))
        fit = service_fit(known)
        assert fit.mean == pytest.approx(known.mean, rel=1e-6)
        times = known.mean * np.array([1.0, 10.0, 100.0, 1000.0])
        assert fit.equilibrium().survival(times) == pytest.approx(known.equilibrium_survival(times), abs=0.03)
        with pytest.raises(InvalidModel):
            moment_fit(known, order=3)

    def test_residual_gap_by_hand(self):
        """Residual life of a constant, 1 - t, against exp(-t): the largest gap is 1 / e, near t = 1."""
        known = distribution(Uniform(low=0.999999, high=1.000001))
        assert residual_gap(known, exponential(mean=1.0)) == pytest.approx(math.exp(-1.0), abs=0.03)

    def test_atom_at_the_limit(self):
        rest = erlang(shape=2, mean=0.5)
        law = atom_and_rest(limit=2.0, share=0.25, rest=rest, order=3)
        assert law.mean == pytest.approx(0.25 * 2.0 + 0.75 * 0.5)
        assert law.moment(2) == pytest.approx(0.25 * 4.0 + 0.75 * rest.moment(2))
        assert atom_and_rest(limit=2.0, share=0.0, rest=rest, order=3) is rest
        assert atom_and_rest(limit=2.0, share=1.0, rest=None, order=3).scv == pytest.approx(0.0, abs=1e-9)

    @pytest.mark.parametrize(
        "law",
        [
            Erlang(shape=8, mean=1.0),
            LogNormal(mean=1.0, scv=0.8),
            LogNormal(mean=1.0, scv=3.0),
            Weibull(shape=0.6, scale=1.0),
        ],
    )
    def test_intervals(self, law):
        known = distribution(law)
        fit = interval_fit(known)
        assert (fit.mean, fit.scv) == (pytest.approx(known.mean, rel=1e-6), pytest.approx(known.scv, rel=1e-4))
        assert residual_gap(known, fit) < 0.015

    def test_residual_fit_of_a_constant_is_refused(self):
        with pytest.raises(InvalidModel):
            residual_fit(distribution(Deterministic(value=1.0)), phases=3)


class TestBanded:
    @pytest.fixture
    def matrix(self):
        rng = np.random.default_rng(5)
        sizes = (1, 3, 4, 4, 4)
        up = tuple(rng.random((a, b)) for a, b in itertools.pairwise(sizes))
        down = tuple(rng.random((b, a)) for a, b in itertools.pairwise(sizes))
        local = [rng.random((a, a)) for a in sizes]
        whole = Banded(sizes=sizes, up=(*up, None), local=tuple(local), down=(None, *down))
        sums = whole.right(np.ones(whole.order))
        closed = tuple(block - np.diag(sums[place]) for block, place in zip(local, whole.places, strict=True))
        return Banded(sizes=sizes, up=(*up, None), local=closed, down=(None, *down))

    def dense(self, matrix):
        return np.column_stack([matrix.right(column) for column in np.eye(matrix.order)])

    def test_products(self, matrix):
        dense, x = self.dense(matrix), np.arange(1.0, matrix.order + 1)
        assert dense.sum(axis=1) == pytest.approx(np.zeros(matrix.order), abs=1e-12)
        assert matrix.left(x) == pytest.approx(x @ dense)
        assert (matrix - matrix).right(x) == pytest.approx(np.zeros(matrix.order))

    def test_solves(self, matrix):
        dense, x = self.dense(matrix), np.arange(1.0, matrix.order + 1)
        shifted = matrix.shifted(0.7, where="test")
        system = 0.7 * np.eye(matrix.order) - dense
        assert shifted.solve(x) == pytest.approx(np.linalg.solve(system, x))
        assert shifted.solve_left(x) == pytest.approx(np.linalg.solve(system.T, x))
        both_sides = np.vstack([x, x**2])
        assert shifted.solve_left(both_sides) == pytest.approx(np.linalg.solve(system.T, both_sides.T).T)

    def test_stationary(self, matrix):
        x = matrix.stationary(where="test")
        assert x.sum() == pytest.approx(1.0)
        assert matrix.left(x) == pytest.approx(np.zeros(matrix.order), abs=1e-12)

    def test_long_stretches_of_equal_levels(self):
        """A birth-death chain of 400 levels, whose kernels settle: the solution of the dense system."""
        n, one = 400, np.ones((1, 1))
        chain = Banded(
            sizes=(1,) * n,
            up=(*([0.5 * one] * (n - 1)), None),
            local=(-0.5 * one, *([(inner := -1.5 * one)] * (n - 2)), -one),
            down=(None, *([one] * (n - 1))),
        )
        assert chain.local[1] is inner
        b = np.cos(np.arange(n))
        dense = np.diag([-0.5, *[-1.5] * (n - 2), -1.0]) + np.diag([0.5] * (n - 1), 1) + np.diag([1.0] * (n - 1), -1)
        assert chain.shifted(0.1, where="test").solve(b) == pytest.approx(np.linalg.solve(0.1 * np.eye(n) - dense, b))


def chain(*, servers: int, load: float, limit: PhaseType, completed: PhaseType | None, depth: int = 3) -> Group0Chain:
    q = 0.4 if completed is not None else 1.0
    mean = q * limit.mean + (0.0 if completed is None else (1.0 - q) * completed.mean)
    return group0_chain(
        arrivals=poisson(rate=load * servers / mean),
        short_fraction=1.0,
        servers=servers,
        kill_probability=q,
        limit=limit,
        completed=completed,
        depth=depth,
    )


class TestGroup0Chain:
    @pytest.mark.parametrize(("servers", "load"), [(1, 0.7), (3, 0.8), (12, 0.6)])
    def test_levels_are_those_of_the_queue(self, servers, load):
        """Number in Group 0 against the M/PH/c solver, with phase-type laws in place of the fixed limit."""
        limit, completed = erlang(shape=2, mean=2.0), exponential(mean=0.5)
        found = chain(servers=servers, load=load, limit=limit, completed=completed, depth=6)
        law = atom_and_rest(limit=1.0, share=0.0, rest=limit, order=3)
        service = PhaseType(
            alpha=np.concatenate([0.4 * law.alpha, 0.6 * completed.alpha]),
            generator=linalg.block_diag(law.generator, completed.generator),
        )
        queue = m_ph_c(rate=load * servers / service.mean, service=service, servers=servers)
        levels = [float(found.stationary[place].sum()) for place in found.generator.places[:20]]
        assert levels == pytest.approx(list(queue.number_probabilities(len(levels) - 1)), abs=1e-6)

    @pytest.mark.parametrize("servers", [1, 4])
    def test_kills_leave_at_their_rate(self, servers):
        found = chain(servers=servers, load=0.8, limit=constant(1.0, order=3), completed=exponential(mean=0.3))
        rate = 0.8 * servers / (0.4 * 1.0 + 0.6 * 0.3)
        kills = float(found.stationary @ found.kills.right(np.ones(found.generator.order)))
        assert kills == pytest.approx(0.4 * rate, rel=1e-6)

    def test_longs_are_marked_with_renewal_arrivals(self):
        arrivals = renewal(erlang(shape=2, mean=1.0))
        found = group0_chain(
            arrivals=arrivals, short_fraction=0.6, servers=2, kill_probability=0.4,
            limit=constant(1.0, order=2), completed=exponential(mean=0.3), depth=2,
        )  # fmt: skip
        longs = float(found.stationary @ found.longs.right(np.ones(found.generator.order)))
        assert longs == pytest.approx(0.4, rel=1e-6)


def reduced(found: Group0Chain, shifts: Shifts) -> ArrivalProcess:
    space = Subspace(generator=found.generator, marks=[found.kills], stationary=found.stationary, time_scale=1.0)
    return space.reduced(shifts).process


FULL = Shifts(counts=(3.0, 1.0, 0.3, 0.1), intervals=(1.0,))


class TestReduction:
    def test_kills_of_many_idle_servers_are_poisson(self):
        """The output of M/G/infinity is a Poisson process (Mirasol 1963)."""
        found = chain(servers=60, load=0.3, limit=constant(1.0, order=3), completed=exponential(mean=0.5), depth=2)
        process = reduced(found, FULL)
        assert process.dispersion([0.3, 1.0, 3.0, 30.0]) == pytest.approx(np.ones(4), abs=2e-3)

    def test_kills_of_one_busy_server_are_a_renewal_process(self):
        """At load .999 kills come at intervals T + sum of a geometric number of completed services.

        Dispersion over times far below the busy period's is that of the renewal process, (m2 - m1^2) / m1^2 in its
        long run; at T = 1, q = .4 and exponential completed services of mean .3 it is .13793.
        """
        found = chain(servers=1, load=0.995, limit=constant(1.0, order=3), completed=exponential(mean=0.3))
        mean, variance = 1.0 + 1.5 * 0.3, 1.5 * 0.09 + (0.6 / 0.16) * 0.09
        assert float(reduced(found, FULL).dispersion(8.0)) == pytest.approx(variance / mean**2, abs=0.06)

    @pytest.mark.parametrize("shifts", [FULL, Shifts(counts=(1.0, 0.1)), Shifts(counts=(3.0, 0.6, 0.1))])
    def test_the_reduced_process_counts_like_the_whole(self, shifts):
        """Rate and, between the time scales asked for, index of dispersion of the chain itself, solved densely."""
        found = chain(servers=2, load=0.8, limit=erlang(shape=2, mean=1.0), completed=exponential(mean=0.4), depth=2)
        dense = np.column_stack([found.generator.right(column) for column in np.eye(found.generator.order)])
        kills = np.column_stack([found.kills.right(column) for column in np.eye(found.generator.order)])
        whole = ArrivalProcess(hidden=dense - kills, marks=(kills,))
        process = reduced(found, shifts)
        assert process.rate == pytest.approx(whole.rate, rel=1e-9)
        times = np.array([1.0, 3.0, 10.0])
        assert process.dispersion(times) == pytest.approx(whole.dispersion(times), abs=0.012)

    def test_intervals_are_right_where_asked_for(self):
        """Transform of the interval at the shift, against the chain's own (no such demand with counts alone)."""
        found = chain(servers=2, load=0.8, limit=erlang(shape=2, mean=1.0), completed=exponential(mean=0.4), depth=2)
        e = np.ones(found.generator.order)
        hidden = found.generator - found.kills
        start = found.kills.left(found.stationary)
        wanted = float(start / start.sum() @ hidden.shifted(1.0, where="test").solve(found.kills.right(e)))
        process = reduced(found, Shifts(counts=(1.0, 0.1), intervals=(1.0,)))
        assert float(process.interval.transform(1.0)) == pytest.approx(wanted, rel=1e-8)
        off = reduced(found, Shifts(counts=(1.0, 0.1)))
        assert abs(float(off.interval.transform(1.0)) / wanted - 1.0) > 1e-5

    def test_unsound_reductions_are_passed_over(self, monkeypatch):
        found = chain(servers=1, load=0.5, limit=constant(1.0, order=3), completed=exponential(mean=0.3))
        space = Subspace(generator=found.generator, marks=[found.kills], stationary=found.stationary, time_scale=1.0)
        whole = space.reduced

        def refuse(shifts):
            if shifts.intervals:
                raise NotConverged(where="test", residual=1.0, iterations=1, advice="")
            return whole(shifts)

        monkeypatch.setattr(space, "reduced", refuse)
        assert len(list(sound_reductions(space, [FULL, Shifts(counts=(1.0, 0.1))]))) == 1


class TestWaits:
    def test_moments_of_m_m_c(self):
        """Positive waits of M/M/c are exponential with mean 1 / (c mu - lambda)."""
        wait = many_server_wait(
            arrivals=poisson(rate=2.4), service=exponential(mean=1.0), servers=3, depth=3, where="test"
        )
        assert wait.moments == pytest.approx([math.factorial(k) / 0.6**k for k in range(1, 6)], rel=1e-9)
        assert wait.scv == pytest.approx(1.0)

    def test_renewal_arrivals_take_the_other_road(self):
        """An Erlang process of shape 1 is Poisson: the age process against the queue-length process."""
        service = erlang(shape=2, mean=1.0)
        one = many_server_wait(arrivals=poisson(rate=1.6), service=service, servers=2, depth=2, where="test")
        hidden = np.array([[-1.6, 0.0], [0.5, -2.1]])
        twice = ArrivalProcess(hidden=hidden, marks=(np.diag([1.6, 1.6]),))
        other = many_server_wait(arrivals=twice, service=service, servers=2, depth=2, where="test")
        assert other.mean == pytest.approx(one.mean, rel=1e-8)
        assert other.moments == pytest.approx(one.moments, rel=1e-6)

    def test_what_are_no_moments_is_refused(self):
        with pytest.raises(NotConverged):
            Wait.of([0.5, 1.0, -1.0, 1.0, 1.0, 1.0], where="test")
        assert Wait.of([0.0] * 6, where="test").mean == 0.0

    def test_mixture_and_scale(self):
        one = Wait(probability=0.5, moments=(1.0, 2.0, 6.0, 24.0, 120.0))
        mixed = Wait.mixed([(1.0, one), (3.0, one.times(2.0))])
        assert mixed.probability == 0.5
        assert mixed.mean == pytest.approx(0.25 * 0.5 + 0.75 * 1.0)
        assert mixed.moments[1] == pytest.approx(0.25 * 2.0 + 0.75 * 8.0)

    def test_depth_within_a_budget(self):
        assert deepest(servers=5, phases=3, states=21) == 5
        assert deepest(servers=50, phases=3, states=21) == 5
        assert deepest(servers=50, phases=9, states=1) == 1

    @pytest.mark.parametrize("scales", [(1.0, 4.0, 9.0), (2.0, 2.5, 3.0)])
    def test_law_from_moments(self, scales):
        weights = np.array([0.5, 0.3, 0.2])
        moments = [float(math.factorial(k) * weights @ np.array(scales) ** k) for k in range(1, 6)]
        law = law_of(moments)
        t = np.array([0.0, 0.5, 3.0, 20.0])
        assert law.survival(t) == pytest.approx(np.exp(-t[:, None] / scales) @ weights, abs=1e-7)
        assert law.mean == pytest.approx(moments[0])
        assert integrate.quad(law.density, 0.0, 200.0)[0] == pytest.approx(1.0, abs=1e-6)

    def test_sum_of_two_waits(self):
        """Independent exponentials: the hypoexponential law; with correlation 1, the exponential of the joint mean."""
        first, second = (
            Delay(
                mean=mean, probability=1.0, scv=1.0, error=0.0, probability_error=0.0, shape_error=0.0,
                moments=tuple(math.factorial(k) * mean**k for k in range(1, 6)),
            )
            for mean in (1.0, 3.0)
        )  # fmt: skip
        t = np.array([0.5, 2.0, 8.0])
        apart = (3.0 * np.exp(-t / 3.0) - np.exp(-t)) / 2.0
        assert both(first, second).survival(t) == pytest.approx(apart, abs=1e-6)
        assert both(first, second, correlation=1.0).survival(t) == pytest.approx(np.exp(-t / 4.0), abs=1e-6)


def test_completed_times_are_those_below_the_limit():
    """The law that `traffic` gives for completed jobs is the one that the chain takes: P(S <= t | S <= T)."""
    model = Dispatcher(
        servers=(1, 1), time_limit=1.5, short_fraction=0.5, interarrival=Exponential(mean=3.0),
        service0=Erlang(shape=3, mean=1.0), service1=Exponential(mean=1.0),
    )  # fmt: skip
    known = distribution(model.service0)
    completed = traffic(model).completed
    assert completed.cdf(0.8) == pytest.approx(known.cdf(0.8) / known.cdf(1.5))
    assert moment_fit(Upto(known, limit=1.5), order=3).mean == pytest.approx(completed.mean, rel=1e-9)
