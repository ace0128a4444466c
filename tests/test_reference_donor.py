"""The donor witness checked: policy maps through an exact chain, event simulation by hand and by closed forms."""

from __future__ import annotations

import math

import anchors
import numpy as np
import pytest
from calibrated import assert_agrees
from reference_donor import cmu, replay_donor, serves, simulate_donor
from scipy import sparse
from scipy.sparse.linalg import spsolve

EQUAL = {"mu1": 1.0, "mu12": 1.0}
SLOW_DONOR = {"mu1": 1.0, "mu12": 0.5}
FAST_DONOR = {"mu1": 1.0, "mu12": 2.0}
GRID = [(n1, n2) for n1 in range(9) for n2 in range(9)]


def exact_numbers(policy, *, lambda1, lambda2, mu1, mu12, mu2, box):
    """E[N1], E[N2] of the Markov chain that `serves` defines, arrivals lost at the edges of the box."""
    size1, size2 = box
    rows, columns, rates = [], [], []

    def move(start, end, rate):
        rows.append(start[0] * size2 + start[1])
        columns.append(end[0] * size2 + end[1])
        rates.append(rate)

    for n1 in range(size1):
        for n2 in range(size2):
            one_works, donated = serves(policy, n1, n2, mu1=mu1, mu12=mu12)
            departures1 = one_works * mu1 + (donated == 1) * mu12
            if n1 + 1 < size1:
                move((n1, n2), (n1 + 1, n2), lambda1)
            if n2 + 1 < size2:
                move((n1, n2), (n1, n2 + 1), lambda2)
            if departures1:
                move((n1, n2), (n1 - 1, n2), departures1)
            if donated == 2:
                move((n1, n2), (n1, n2 - 1), mu2)
    states = size1 * size2
    jumps = sparse.csc_matrix((rates, (rows, columns)), shape=(states, states))
    balance = (jumps - sparse.diags(np.asarray(jumps.sum(axis=1)).ravel())).T.tocsr()
    # The empty state has probability 1, its balance equation is left out; then everything is normalised.
    rest = spsolve(balance[1:, 1:].tocsc(), -balance[1:, 0].toarray().ravel())
    p = np.concatenate(([1.0], rest)).reshape(size1, size2)
    p /= p.sum()
    return p.sum(axis=1) @ np.arange(size1), p.sum(axis=0) @ np.arange(size2)


def standing(rho1, rho2):
    rates = anchors.DONOR_RATES
    return {"lambda1": rho1 * rates["mu1"], "lambda2": rho2 * rates["mu2"]} | rates


class TestPolicyMaps:
    @pytest.mark.parametrize(("policy", "rho1", "rho2", "n1", "n2", "response"), anchors.DONOR_NUMBERS)
    def test_chain_of_the_map_has_the_known_numbers(self, policy, rho1, rho2, n1, n2, response):
        box = (1200, 70) if policy["kind"] == "t1t2" else (60, 260)  # N1 decays by .98138 a job under T1T2
        found = exact_numbers(policy, **standing(rho1, rho2), box=box)
        assert found[0] == pytest.approx(n1.value, abs=2 * n1.within)
        assert found[1] == pytest.approx(n2.value, abs=2 * n2.within)
        assert sum(found) / (rho1 + rho2 / 16) == pytest.approx(response.value, abs=2 * response.within)

    @pytest.mark.parametrize(
        ("policy", "rho1", "rho2", "response"), [row for row in anchors.DONOR_RESPONSE if row[2] < 0.8]
    )
    def test_chain_of_the_map_has_the_known_response(self, policy, rho1, rho2, response):
        box = (60, 260) if policy["kind"] == "t1" else (260, 45)
        found = exact_numbers(policy, **standing(rho1, rho2), box=box)
        assert sum(found) / (rho1 + rho2 / 16) == pytest.approx(response.value, abs=2 * response.within)

    def same(self, one, other, rates=(EQUAL, SLOW_DONOR, FAST_DONOR)):
        return all(
            serves(one, *state, **speeds) == serves(other, *state, **speeds) for state in GRID for speeds in rates
        )

    def test_identities_between_policies(self):
        never = {"kind": "t1", "t1": math.inf}
        assert self.same({"kind": "t2", "t2": 1}, never)
        for t1 in (1, 2, 3, 5):
            plain = {"kind": "t1", "t1": t1}
            assert self.same({"kind": "t1t2", "t1": t1, "t2": 1}, {"kind": "t2", "t2": 1})
            assert self.same({"kind": "t1t2", "t1": t1, "t2": math.inf}, plain)
            assert self.same({"kind": "adt", "low": t1, "high": t1, "t2": 4}, plain)
        one, two = {"kind": "t1", "t1": 1}, {"kind": "t1", "t1": 2}
        assert self.same(one, two, rates=(EQUAL, SLOW_DONOR))
        assert not self.same(one, two, rates=(FAST_DONOR,))
        readings = [{"kind": "t2", "t2": 3, "reading": r} for r in ("source", "idle", "work-conserving")]
        assert not any(self.same(a, b) for a, b in zip(readings, readings[1:] + readings[:1], strict=True))

    def test_cmu(self):
        assert cmu(holding_costs=(1, 1), mu12=1, mu2=1 / 16) == {"kind": "t1", "t1": 1}
        assert cmu(holding_costs=(1, 16), mu12=1, mu2=1 / 16) == {"kind": "t1", "t1": math.inf}

    def test_borders(self):
        """T1T2 hands queue 2 its server at N2 = t2, ADT changes threshold only beyond t2."""
        assert serves({"kind": "t1t2", "t1": 3, "t2": 4}, 5, 3, **EQUAL) == (True, 1)
        assert serves({"kind": "t1t2", "t1": 3, "t2": 4}, 5, 4, **EQUAL) == (True, 2)
        assert serves({"kind": "adt", "low": 3, "high": 7, "t2": 4}, 5, 4, **EQUAL) == (True, 1)
        assert serves({"kind": "adt", "low": 3, "high": 7, "t2": 4}, 5, 5, **EQUAL) == (True, 2)

    @pytest.mark.parametrize("policy", [{"kind": "t3"}, {"kind": "t2", "t2": 4, "reading": "greedy"}])
    def test_unknown_policies_are_refused(self, policy):
        with pytest.raises(ValueError):
            serves(policy, 1, 1, **EQUAL)


class TestByHand:
    def departures(self, jobs, policy, **rest):
        return [job.departure for job in replay_donor(jobs, policy, **rest).jobs]

    def test_preempted_type_2_resumes(self):
        # Server 2 leaves type 2 at 2 with 3 to go, serves the second type 1 job from 2 to 4, then resumes.
        jobs = [(0, 5, 2), (1, 4, 1), (2, 2, 1)]
        assert self.departures(jobs, {"kind": "t1", "t1": 2}, **EQUAL) == [7, 5, 4]

    def test_donated_job_goes_on_at_the_speed_of_its_server(self):
        # Speed .5 on server 2 from 1 to 4; the last .5 at speed 1 on server 1, alone.
        jobs = [(0, 4, 1), (1, 2, 1)]
        assert self.departures(jobs, {"kind": "t1", "t1": 2}, **SLOW_DONOR) == [4, 4.5]

    def test_lone_job_runs_on_the_faster_server(self):
        assert self.departures([(0, 4, 1)], {"kind": "t1", "t1": 3}, **FAST_DONOR) == [2]
        # At 1 a type 2 job claims server 2: 2 of the size are done, 2 remain at speed 1.
        assert self.departures([(0, 4, 1), (1, 3, 2)], {"kind": "t1", "t1": 3}, **FAST_DONOR) == [3, 4]
        # T1(1): the lone job keeps the faster server.
        assert self.departures([(0, 4, 1), (1, 3, 2)], {"kind": "t1", "t1": 1}, **FAST_DONOR) == [2, 5]

    def test_staying_and_serving_by_age_differ(self):
        # Size 1 on server 1, sizes 3 and 3 behind it. At 1 the second has 2.5 left. Staying: it is on server 2 until
        # the third, on server 1, ends at 4, then alone on server 1 with 1 left. By age: it moves to server 1 at 1 and
        # ends at 3.5, while the third has done 1.25 on server 2.
        jobs = [(0, 1, 1), (0, 3, 1), (0, 3, 1)]
        policy = {"kind": "t1", "t1": 2}
        assert self.departures(jobs, policy, **SLOW_DONOR) == [1, 5, 4]
        assert self.departures(jobs, policy, **SLOW_DONOR, assignment="by-age") == [1, 3.5, 5.25]

    def test_readings_of_t2(self):
        # One job of each type at the same time.
        jobs = [(0, 2, 1), (0, 3, 2)]
        for reading, expected in (
            ("source", [2, 5]),
            ("work-conserving", [2, 3]),
            ("idle", [2, math.inf]),
        ):
            assert self.departures(jobs, {"kind": "t2", "t2": 2, "reading": reading}, **EQUAL) == expected

    def test_busy_stretches(self):
        run = replay_donor([(0, 5, 2), (1, 4, 1), (2, 2, 1)], {"kind": "t1", "t1": 2}, **EQUAL)
        assert sum(to - start for start, to, _ in run.busy[0]) == 4
        assert [kind for _, _, kind in run.busy[1]] == [2, 2, 1, 2, 2]
        assert sum(to - start for start, to, _ in run.busy[1]) == 7

    def test_donor_that_is_of_no_use(self):
        assert self.departures([(0, 1, 1), (0, 1, 1)], {"kind": "t1", "t1": 1}, mu1=1, mu12=0) == [1, 2]

    def test_wrong_input_is_refused(self):
        with pytest.raises(ValueError):
            replay_donor([(1, 1, 1), (0, 1, 1)], {"kind": "dedicated"}, **EQUAL)
        with pytest.raises(ValueError):
            replay_donor([(0, 1, 1)], {"kind": "dedicated"}, **EQUAL, assignment="oldest")


def exponential(mean):
    return lambda rng: rng.expovariate(1 / mean)


def erlang2(mean):
    return lambda rng: rng.gammavariate(2, mean / 2)


class TestSteadyState:
    """Small runs, false-alarm rate 1e-8 a comparison; `power`: relative error seen with probability .9."""

    def test_alone_queue_1_is_two_servers(self):
        """No type 2: E[N1] = 2 r / (1 - r^2), r = lambda1 / 2."""
        found = simulate_donor(
            1.0, 0.0, (exponential(1), exponential(1)), {"kind": "t1", "t1": 3}, **EQUAL,
            jobs=1500, warmup=60, replications=32, seed=1,
        )  # fmt: skip
        assert_agrees(found["mean_number", "queue1"], 4 / 3, power=0.15)
        assert_agrees(found["mean_response", "queue1"], 4 / 3, power=0.12)

    def test_dedicated_servers_are_pollaczek_khinchine(self):
        """E[R] = E[S] + lambda E[S^2] / (2 (1 - rho)), Erlang sizes of shape 2 on both."""
        found = simulate_donor(
            0.5, 0.3, (erlang2(1), erlang2(2)), {"kind": "dedicated"}, **EQUAL,
            jobs=2000, warmup=60, replications=32, seed=2,
        )  # fmt: skip
        assert_agrees(found["mean_response", "queue1"], 1 + 0.5 * 1.5 / 2 / 0.5, power=0.15)
        assert_agrees(found["mean_response", "queue2"], 2 + 0.3 * 6 / 2 / 0.4, power=0.3)
        assert_agrees(found["utilisation", "queue1"], 0.5, power=0.1)
        assert_agrees(found["utilisation", "queue2"], 0.6, power=0.15)

    def test_type_2_has_priority_under_t2_1(self):
        """Queue 2 sees a server of its own: Pollaczek-Khinchine whatever queue 1 does."""
        found = simulate_donor(
            0.9, 0.25, (exponential(1), erlang2(2)), {"kind": "t2", "t2": 1}, **EQUAL,
            jobs=1500, warmup=60, replications=32, seed=3,
        )  # fmt: skip
        assert_agrees(found["mean_response", "queue2"], 2 + 0.25 * 6 / 2 / 0.5, power=0.2)

    @pytest.mark.parametrize(
        "policy",
        [
            {"kind": "t1", "t1": 3},
            {"kind": "t2", "t2": 3, "reading": "source"},
            {"kind": "t2", "t2": 3, "reading": "idle"},
            {"kind": "t1t2", "t1": 2, "t2": 4},
            {"kind": "adt", "low": 2, "high": 4, "t2": 2},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("mu12", [0.5, 2.0])
    def test_exponential_sizes_follow_the_exact_chain(self, policy, mu12):
        rates = {"mu1": 1.0, "mu12": mu12}
        exact = exact_numbers(policy, lambda1=0.8, lambda2=0.15, mu2=0.5, **rates, box=(70, 40))
        found = simulate_donor(
            0.8, 0.15, (exponential(1), exponential(2)), policy, **rates,
            jobs=900, warmup=60, replications=32, seed=4,
        )  # fmt: skip
        assert_agrees(found["mean_number", "queue1"], exact[0], power=0.3)
        assert_agrees(found["mean_number", "queue2"], exact[1], power=0.45)
        assert_agrees(found["mean_response", "all"], sum(exact) / 0.95, power=0.25)
        cost = found["cost", "all"].value
        assert cost == pytest.approx(found["mean_response", "all"].value, rel=0.05)
