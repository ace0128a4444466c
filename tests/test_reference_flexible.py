"""The witness of partial power of d choices checked: by hand, by the central queue, by an exact chain."""

from __future__ import annotations

import math
import random

import anchors
import numpy as np
import pytest
from calibrated import assert_agrees
from reference_flexible import replay_flexible, simulate_flexible
from reference_sim import replay_dispatcher
from scipy import sparse
from scipy.sparse.linalg import spsolve


def joined(jobs, queues=2, **rest):
    return [job.queue for job in replay_flexible(jobs, queues, **rest)]


def departures(jobs, queues=2, **rest):
    return [job.departure for job in replay_flexible(jobs, queues, **rest)]


class TestByHand:
    def test_joins_the_shorter(self):
        jobs = [(0, 9, [0], 0), (1, 9, [0, 1], 0), (2, 9, [0], 0), (3, 1, [1, 0], 0.9)]
        assert joined(jobs) == [0, 1, 0, 1]
        assert departures(jobs) == [9, 10, 18, 11]

    def test_number_and_workload_differ(self):
        # Queue 0 holds one long job, queue 1 two short ones.
        jobs = [(0, 9, [0], 0), (0, 1, [1], 0), (0, 1, [1], 0), (0.5, 1, [0, 1], 0)]
        assert joined(jobs)[-1] == 0
        assert joined(jobs, shortest="workload")[-1] == 1
        assert departures(jobs, shortest="workload") == [9, 1, 2, 3]

    def test_ties(self):
        empty = [(0, 1, [2, 0, 2], tie) for tie in (0.0, 0.49, 0.5, 0.99)]
        assert [joined([job], 3)[0] for job in empty] == [0, 0, 2, 2]

    def test_departures_come_before_arrivals(self):
        # At 2 queue 0 is empty again: no tie, and the newcomer starts at once.
        jobs = [(0, 2, [0], 0), (1, 9, [1], 0), (2, 1, [0, 1], 0.9), (2, 1, [0, 1], 0.0)]
        records = replay_flexible(jobs, 2)
        assert [job.queue for job in records] == [0, 1, 0, 0]
        assert [job.start for job in records] == [0, 1, 2, 3]

    def test_processor_sharing(self):
        # Alone 0-1 (2 left), shared 1-3 (one each done), then the third joins: shares of a third.
        jobs = [(0, 3, [0], 0), (1, 1, [0], 0), (4, 2, [0], 0), (4, 0.5, [0], 0)]
        # 3: second leaves; first has 1 left, leaves at 4; third and fourth share from 4: fourth at 5, third at 6.5.
        assert departures(jobs, discipline="ps") == [4, 3, 6.5, 5]

    def test_processor_sharing_lets_equal_jobs_leave_together(self):
        assert departures([(0, 1, [0], 0)] * 4, 1, discipline="ps") == [4, 4, 4, 4]

    def test_empty_services(self):
        for discipline in ("fcfs", "ps"):
            assert departures([(1, 0, [0], 0), (1, 0, [0], 0)], 1, discipline=discipline) == [1, 1]

    @pytest.mark.parametrize(
        "wrong", [{"discipline": "ps", "shortest": "workload"}, {"discipline": "lcfs"}, {"shortest": "age"}]
    )
    def test_unknown_rules_are_refused(self, wrong):
        with pytest.raises(ValueError):
            replay_flexible([(0, 1, [0], 0)], 1, **wrong)

    def test_unsorted_arrivals_are_refused(self):
        with pytest.raises(ValueError):
            replay_flexible([(1, 1, [0], 0), (0, 1, [0], 0)], 1)


def test_least_workload_of_all_is_the_central_queue():
    """Joining the least workload of all queues serves jobs exactly as one first-come line before all servers."""
    rng = random.Random(1)
    for queues in (1, 2, 5):
        now, jobs = 0.0, []
        for _ in range(400):
            now += rng.expovariate(0.9 * queues)
            jobs.append((now, rng.paretovariate(1.5) / 3, range(queues), rng.random()))
        central = replay_dispatcher([(at, size, 1) for at, size, _, _ in jobs], (1, queues), math.inf)
        found = departures(jobs, queues, shortest="workload")
        assert found == pytest.approx([job.departure for job in central], rel=1e-12)


def exact_number(load, flexible, size):
    """E[N] of two queues with d = 2 distinct draws: Markov chain on a box, arrivals lost at its edges."""
    rows, columns, rates = [], [], []
    for a in range(size):
        for b in range(size):
            to_a = load * (1 - flexible) + 2 * load * flexible * (1.0 if a < b else 0.5 if a == b else 0.0)
            for (da, db), rate in (
                ((1, 0), to_a),
                ((0, 1), 2 * load - to_a),
                ((-1, 0), 1.0),
                ((0, -1), 1.0),
            ):
                if 0 <= a + da < size and 0 <= b + db < size and rate:
                    rows.append(a * size + b)
                    columns.append((a + da) * size + b + db)
                    rates.append(rate)
    jumps = sparse.csc_matrix((rates, (rows, columns)), shape=(size**2, size**2))
    balance = (jumps - sparse.diags(np.asarray(jumps.sum(axis=1)).ravel())).T.tocsr()
    rest = spsolve(balance[1:, 1:].tocsc(), -balance[1:, 0].toarray().ravel())
    p = np.concatenate(([1.0], rest)).reshape(size, size)
    p /= p.sum()
    return 2 * p.sum(axis=1) @ np.arange(size)


def exponential(mean):
    return lambda rng: rng.expovariate(1 / mean)


class TestSteadyState:
    """Small runs, false-alarm rate 1e-8 a comparison; `power`: relative error seen with probability .9."""

    def run(self, **changes):
        standing = {
            "queues": 2,
            "arrival_rate": 0.7,
            "flexible_fraction": 0.3,
            "choices": 2,
            "service": exponential(1.0),
            "jobs": 1500,
            "warmup": 150,
            "replications": 32,
            "seed": 1,
        }
        return simulate_flexible(**(standing | changes))

    def test_two_queues_follow_the_exact_chain(self):
        """Sojourns by class: E[T ded] = 1 + rho E[T]; the exact chain meets 5.47491282 at rho = .9, p = 1."""
        anchor = anchors.FLEXIBLE_TWO_QUEUES
        assert exact_number(0.9, 1.0, 170) / 1.8 == pytest.approx(anchor.value, abs=anchor.within)
        for discipline in ("fcfs", "ps"):
            found = self.run(discipline=discipline)
            response = exact_number(0.7, 0.3, 60) / 1.4
            assert_agrees(found["mean_response", "all"], response, power=0.2)
            assert_agrees(found["mean_number", "all"], 1.4 * response, power=0.3)
            if discipline == "fcfs":
                dedicated = 1 + 0.7 * response
                assert_agrees(found["mean_response", "dedicated"], dedicated, power=0.25)
                flexible = (response - 0.7 * dedicated) / 0.3
                assert_agrees(found["mean_response", "flexible"], flexible, power=0.2)
                assert_agrees(found["utilisation", "all"], 0.7, power=0.08)

    def test_two_draws_with_replacement_from_two_queues_halve_p(self):
        found = self.run(sampling="replacement", seed=2)
        assert_agrees(found["mean_response", "all"], exact_number(0.7, 0.15, 70) / 1.4, power=0.25)

    def test_lowest_ties_keep_the_total(self):
        """For two equal exponential servers the tie rule only relabels the queues of the chain."""
        found = self.run(ties="lowest", flexible_fraction=1.0, seed=3)
        assert_agrees(found["mean_response", "all"], exact_number(0.7, 1.0, 60) / 1.4, power=0.2)

    def test_no_choice_is_pollaczek_khinchine_or_insensitive(self):
        """p = 0: M/G/1, Erlang sizes of shape 2; under processor sharing E[T] = 1/(1 - rho) whatever the law."""

        def erlang2(rng):
            return rng.gammavariate(2, 0.5)

        found = self.run(queues=3, flexible_fraction=0.0, arrival_rate=0.5, service=erlang2, seed=4)
        assert_agrees(found["mean_response", "all"], 1 + 0.5 * 1.5 / 2 / 0.5, power=0.1)
        shared = self.run(queues=3, flexible_fraction=0.0, arrival_rate=0.5, service=erlang2, discipline="ps", seed=4)
        assert_agrees(shared["mean_response", "all"], 2.0, power=0.15)
        assert ("mean_response", "flexible") not in found

    def test_published_ten_queues(self):
        """Mean queue length rho E[T] = 1.2193 at N = 10, rho = .7, d = 2, draws with replacement."""
        found = self.run(queues=10, flexible_fraction=1.0, sampling="replacement", seed=5, jobs=2500)
        anchor = anchors.FLEXIBLE_GAST[0.7, 10]
        assert_agrees(found["mean_response", "all"], anchor.value / 0.7, power=0.1)
