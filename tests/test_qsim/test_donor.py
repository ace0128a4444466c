"""The donor system simulated: path by path against the plain event simulation, against exact answers, by its laws."""

from __future__ import annotations

import math

import anchors
import numpy as np
import pytest
from calibrated import FALSE_ALARM, assert_figure_agrees
from donor_cases import random_model, reference_policy, standing
from reference_donor import replay_donor, serves, simulate_donor, tally_donor
from scipy.stats import t as student

import qsim
import qtheory
from qsim.kernels._jit import jit
from qsim.kernels.donor_policy import wish
from qsim.kernels.random import exponential, uniform
from qsim.lower import Options, lower
from qsim.lowering.donor import thresholds
from qsim.sampling import sample
from qsim.streams import stream
from qtheory.models import ADT, T1, T1T2, T2, CMu, Dedicated, InvalidModel, Uniform
from qtheory.models.laws import Deterministic, Erlang, Exponential, Hyperexponential, LogNormal
from qtheory.systems.donor.stability import stability

HYPER = Hyperexponential(probabilities=(0.9, 0.1), means=(0.5, 5.5))
LAWS = (
    Exponential(mean=1.0),
    Deterministic(value=1.0),
    Erlang(shape=3, mean=1.0),
    HYPER,
    LogNormal(mean=1.0, scv=2.0),
    Uniform(low=0.0, high=2.0),
)


@jit
def wishes(rule, faster, size, one, task):
    for n1 in range(size):
        for n2 in range(size):
            one[n1, n2], task[n1, n2] = wish(rule, faster, n1, n2)


@pytest.mark.parametrize("seed", range(6))
def test_every_state_is_ruled_as_the_definitions_say(seed):
    """The kernel's policy against the reference's, 30 random policies, states (0..11, 0..11)."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        model = random_model(rng)
        rates = model.service_rates
        one, task = np.zeros((12, 12), np.bool_), np.zeros((12, 12), np.int64)
        wishes(thresholds(model), rates.mu12 > rates.mu1, 12, one, task)
        for n1, n2 in np.ndindex(12, 12):
            right = serves(reference_policy(model), n1, n2, mu1=rates.mu1, mu12=rates.mu12)
            assert (bool(one[n1, n2]), int(task[n1, n2])) == right, (model.policy, n1, n2)


def recorded(model, *, seed, replication, jobs):
    """The jobs that the event kernel sees: (arrival, work, type), from the same streams."""

    def state(name):
        return stream(seed=seed, replication=replication, name=name)

    arrivals, kinds = state("arrivals"), state("class")
    rate = sum(model.arrival_rates)
    laws = ((model.work1, "service1"), (model.work2, "service2"))
    works = [sample(law, size=jobs, state=state(name)) for law, name in laws]
    used, now, result = [0, 0], 0.0, []
    for _ in range(jobs):
        now += exponential(arrivals) / rate
        kind = 0 if uniform(kinds) < model.arrival_rates[0] / rate else 1
        result.append((now, works[kind][used[kind]], kind + 1))
        used[kind] += 1
    return result


def figures(model, *, seed, jobs, warmup, **options):
    """One replication's own figures from the kernels."""
    found = qsim.simulate(model, jobs=jobs, warmup=warmup, replications=1, seed=seed, threads=1, **options)
    return {key: found[key].value for key in found.measures}


class TestPathByPath:
    """The event kernel must do with the same jobs what the slow simulation does, to rounding."""

    @pytest.mark.parametrize("seed", range(40))
    def test_same_jobs_same_fate(self, seed):
        """Random rates, policies (all kinds, thresholds up to infinity) and laws of work; 350 counted jobs each."""
        rng = np.random.default_rng(1000 + seed)
        model = random_model(rng, most=1.05)
        model = model.replace(work1=LAWS[rng.integers(len(LAWS))], work2=LAWS[rng.integers(len(LAWS))])
        jobs, warmup, extra = 350, 50, 3000
        rates = model.service_rates
        record = recorded(model, seed=seed, replication=0, jobs=warmup + jobs + extra)
        speeds = (rates.mu1, rates.mu2)
        sized = [(arrival, work / speeds[kind - 1], kind) for arrival, work, kind in record]
        run = replay_donor(sized, reference_policy(model), mu1=rates.mu1, mu12=rates.mu12)
        counted = run.jobs[warmup : warmup + jobs]
        # The record goes on until the last of them has left, also where the system is overloaded.
        assert max(job.departure for job in counted) <= run.jobs[-1].arrival
        found = figures(model, seed=seed, jobs=jobs, warmup=warmup, chain=False)
        # The window of the kernel opens at the last arrival of the warm-up.
        right = tally_donor(run, first=warmup, last=warmup + jobs, holding_costs=model.holding_costs)
        for scope in ("all", "queue1", "queue2"):
            if ("mean_response", scope) in right:
                assert found["mean_response", scope] == pytest.approx(right["mean_response", scope], rel=1e-9)
        begin, end = run.jobs[warmup - 1].arrival, run.jobs[warmup + jobs - 1].arrival
        for queue, stretches in enumerate(run.busy, start=1):
            busy = sum(max(0.0, min(to, end) - max(start, begin)) for start, to, _ in stretches)
            assert found["utilisation", f"queue{queue}"] == pytest.approx(busy / (end - begin), rel=1e-9, abs=1e-12)
        for kind in (1, 2):
            stays = [(job.arrival, job.departure) for job in run.jobs if job.type == kind]
            present = sum(max(0.0, min(to, end) - max(start, begin)) for start, to in stays)
            left = sum(begin < to <= end for _, to in stays)
            assert found["mean_number", f"queue{kind}"] == pytest.approx(present / (end - begin), rel=1e-9, abs=1e-12)
            assert found["throughput", f"queue{kind}"] == pytest.approx(left / (end - begin), rel=1e-9)

    def test_two_replications_are_two_records(self):
        """Replication k sees the jobs of stream k, whatever the others do."""
        model = standing(T1(t1=3), rho1=0.9, rho2=0.3, work1=Erlang(shape=2, mean=1.0))
        simulator = lower(model, options=Options(means_only=True))
        alone = simulator.run(seed=3, replication=1, jobs=200, warmup=20)
        both = qsim.simulate(model, jobs=400, replications=2, warmup=20, seed=3, means_only=True)
        mine = simulator.summarise([alone]).samples["mean_response", "all"].values[0]
        assert both.samples["mean_response", "all"].values[1] == mine


def replay_with_changes(jobs, model):
    """The system with switching times, event by event in plain lists; gives departures and the number of changes."""
    rates, policy = model.service_rates, reference_policy(model)
    left = [work for _, work, _ in jobs]
    departure = [math.inf] * len(jobs)
    waiting: list[list[int]] = [[], []]
    one = donor = None
    queue, changed, changes, now, following = 2, math.inf, 0, 0.0, 0
    while following < len(jobs) or any(waiting) or one is not None or donor is not None:
        speed = {1: rates.mu12, 2: rates.mu2}[jobs[donor][2]] if donor is not None else 0.0
        end1 = now + left[one] / rates.mu1 if one is not None else math.inf
        end2 = now + left[donor] / speed if speed > 0 else math.inf
        arrival = jobs[following][0] if following < len(jobs) else math.inf
        then = min(end1, end2, arrival, changed)
        if then == math.inf:
            break
        for job, rate in ((one, rates.mu1), (donor, speed)):
            if job is not None:
                left[job] -= (then - now) * rate
        now = then
        if now in (end1, end2):
            if end1 == now:
                departure[one], one = now, None
            if end2 == now:
                departure[donor], donor = now, None
        elif changed == now:
            queue, changed = 3 - queue, math.inf
        else:
            waiting[jobs[following][2] - 1].append(following)
            following += 1
        serving = [job for job in (one, donor) if job is not None]
        n1, n2 = (len(waiting[k - 1]) + sum(jobs[job][2] == k for job in serving) for k in (1, 2))
        works, task = serves(policy, n1, n2, mu1=rates.mu1, mu12=rates.mu12)
        if changed < math.inf or (task > 0 and task != queue):
            if changed == math.inf:
                changes, changed = changes + 1, now + model.switching_time
            works, task = n1 > 0, 0
        if donor is not None and jobs[donor][2] != task:
            waiting[jobs[donor][2] - 1].insert(0, donor)
            donor = None
        if one is not None and not works:
            waiting[0].insert(0, one)
            one = None
        if works and one is None:
            one = waiting[0].pop(0)
        if task and donor is None:
            donor = waiting[task - 1].pop(0)
    return departure, changes


class TestSwitchingTime:
    @pytest.mark.parametrize("seed", range(12))
    def test_same_jobs_same_fate(self, seed):
        rng = np.random.default_rng(77 + seed)
        model = random_model(rng, most=0.6)
        laws = [LAWS[rng.integers(len(LAWS))] for _ in range(2)]
        model = model.replace(work1=laws[0], work2=laws[1], switching_time=float(rng.uniform(0.05, 2.0)))
        jobs, extra = 300, 3000
        record = recorded(model, seed=seed, replication=0, jobs=jobs + extra)
        departure, _ = replay_with_changes(record, model)
        assert max(departure[:jobs]) <= record[-1][0]
        found = figures(model, seed=seed, jobs=jobs, warmup=0)
        for kind in (1, 2):
            responses = [departure[i] - record[i][0] for i in range(jobs) if record[i][2] == kind]
            if responses:
                assert found["mean_response", f"queue{kind}"] == pytest.approx(np.mean(responses), rel=1e-9)

    def test_time_lost_is_changes_times_length(self):
        model = standing(T1(t1=3), rho1=1.0, rho2=0.3, switching_time=0.25)
        found = qsim.simulate(model, jobs=200_000, replications=4, seed=2)
        details = found.details
        assert details["switches"] > 10_000
        assert details["switching_share"] == pytest.approx(0.25 * details["switch_rate"], rel=1e-3)

    def test_a_vanishing_time_is_none(self):
        """The same jobs, 1e-9 per change: the same means to 1e-5, and the same number of changes."""
        model = standing(ADT(low=2, high=5, t2=3), rho1=0.9, rho2=0.4)
        free = qsim.simulate(model, jobs=20_000, replications=2, seed=5, chain=False)
        paid = qsim.simulate(model.replace(switching_time=1e-9), jobs=20_000, replications=2, seed=5)
        assert paid["mean_response", "all"].value == pytest.approx(free["mean_response", "all"].value, rel=1e-5)
        assert paid.details["switches"] == pytest.approx(free.details["switches"], abs=3)


MILD = {"mu1": 1.0, "mu12": 1.0, "mu2": 0.5}
AGREEMENT = [
    (T1(t1=3), 0.9, 0.4, MILD),
    (T1(t1=1), 0.9, 0.3, {"mu1": 1.0, "mu12": 2.0, "mu2": 0.5}),
    (T2(t2=2), 0.9, 0.3, MILD),
    (T2(t2=3, reading="work-conserving"), 0.9, 0.3, {"mu1": 1.0, "mu12": 0.5, "mu2": 0.25}),
    (T2(t2=3, reading="idle"), 0.7, 0.3, MILD),
    (T1T2(t1=3, t2=5), 0.9, 0.4, MILD),
    (ADT(low=2, high=6, t2=4), 0.8, 0.4, MILD),
    (CMu(), 0.7, 0.4, {"mu1": 1.0, "mu12": 1.0, "mu2": 2.0}),
]


class TestAgreement:
    @pytest.mark.parametrize(("policy", "rho1", "rho2", "rates"), AGREEMENT)
    @pytest.mark.parametrize("chain", [True, False])
    def test_with_the_exact_answer(self, policy, rho1, rho2, rates, chain):
        """Every measure both know, by either kernel; a relative error of 20 % would be seen, mostly 5 %."""
        model = standing(policy, rho1=rho1, rho2=rho2, rates=rates)
        found = qsim.simulate(model, jobs=480_000, warmup=2000, replications=32, seed=9, means_only=True, chain=chain)
        for key, value in qtheory.solve(model).measures.items():
            assert_figure_agrees(found, key, value.value, power=0.2)

    @pytest.mark.parametrize(
        ("policy", "law1", "law2"),
        [
            (T1(t1=3), Deterministic(value=1.0), HYPER),
            (T2(t2=2), Erlang(shape=3, mean=1.0), Exponential(mean=1.0)),
            (T1T2(t1=2, t2=4), HYPER, Deterministic(value=1.0)),
            (ADT(low=2, high=6, t2=3), LogNormal(mean=1.0, scv=1.5), Uniform(low=0.0, high=2.0)),
        ],
    )
    @pytest.mark.slow
    def test_with_the_second_witness(self, policy, law1, law2):
        """General work against the slow simulation with its own random numbers; errors of 40 % would be seen.

        The sharp comparison is that of paths above; this one shares no random number.
        """
        rates = {"mu1": 1.0, "mu12": 0.8, "mu2": 0.5}
        model = standing(policy, rho1=0.7, rho2=0.4, rates=rates, work1=law1, work2=law2)
        found = qsim.simulate(model, jobs=1_600_000, replications=32, seed=11, means_only=True)
        witness = simulate_donor(
            *model.arrival_rates,
            (lambda rng: draw(law1, rng) / 1.0, lambda rng: draw(law2, rng) / 0.5),
            reference_policy(model),
            mu1=1.0,
            mu12=0.8,
            jobs=6000,
            warmup=400,
            replications=40,
            seed=4,
        )
        for scope in ("queue1", "queue2"):
            for measure in ("mean_response", "mean_number", "utilisation"):
                one, two = found[measure, scope], witness[measure, scope]
                spread = math.hypot(one.se, two.standard_error)
                critical = student.isf(FALSE_ALARM / 2, two.replications - 1)
                assert abs(one.value - two.value) <= critical * spread, (measure, scope)
                assert (critical + 1.4) * spread <= 0.4 * two.value

    @pytest.mark.parametrize("law", LAWS[1:])
    def test_queue_2_at_home_is_mg1(self, law):
        """Under T2(1) queue 2 is M/G/1: E[N2] = rho + rho^2 (1 + scv) / (2 (1 - rho)) (Pollaczek, Khinchine)."""
        from qtheory import laws

        rho = 0.5
        model = standing(T2(t2=1), rho1=0.8, rho2=rho, rates={"mu1": 1.0, "mu12": 1.0, "mu2": 1.0}, work2=law)
        truth = rho + rho**2 * (1 + laws.scv(law)) / (2 * (1 - rho))
        found = qsim.simulate(model, jobs=640_000, warmup=2000, replications=32, seed=12, means_only=True)
        assert_figure_agrees(found, ("mean_number", "queue2"), truth, power=0.2)
        assert_figure_agrees(found, ("throughput", "queue2"), rho, power=0.02)

    @pytest.mark.slow
    def test_published_numbers(self):
        """T1(3), rho1 = 1.15, rho2 = .4 in the figures' own rates, where type 2 is rare and slow."""
        _, rho1, rho2, n1, n2, response = anchors.DONOR_NUMBERS[0]
        found = qsim.simulate(standing(T1(t1=3), rho1=rho1, rho2=rho2), jobs=16_000_000, seed=13, means_only=True)
        assert_figure_agrees(found, ("mean_number", "queue1"), n1.value, power=0.02)
        assert_figure_agrees(found, ("mean_number", "queue2"), n2.value, power=0.1)
        assert_figure_agrees(found, ("mean_response", "all"), response.value, power=0.1)


class TestResponses:
    def test_mm1_response_is_exponential(self):
        """Dedicated: quantiles, tails and P(wait) of M/M/1; errors of 20 % would be seen, of most figures 5 %."""
        model = standing(Dedicated(), rho1=0.5, rho2=0.5, rates={"mu1": 1.0, "mu12": 1.0, "mu2": 2.0})
        for chain in (True, False):
            found = qsim.simulate(model, jobs=1_280_000, warmup=2000, seed=14, at=[1.0, 4.0], chain=chain)
            for scope, rate in (("queue1", 0.5), ("queue2", 1.0)):
                for level, name in ((0.5, "p50_response"), (0.95, "p95_response"), (0.99, "p99_response")):
                    truth = -math.log(1 - level) / rate
                    # Buckets of relative width 2^-9 add to what can be known of a quantile.
                    assert_figure_agrees(found, (name, scope), truth, power=0.15, known_within=truth / 512)
                for time in (1.0, 4.0):
                    truth = math.exp(-rate * time)
                    assert_figure_agrees(found, ("tail_response", scope, time), truth, power=0.2)
                assert_figure_agrees(found, ("wait_probability", scope), 0.5, power=0.03)

    def test_waits_by_pieces(self):
        """Work conserved: mean wait + mean service = mean response for type 2, whose service is 1 / mu2."""
        model = standing(T1(t1=2), rho1=0.9, rho2=0.3, work2=Deterministic(value=1.0))
        found = qsim.simulate(model, jobs=400_000, replications=8, seed=15, means_only=True)
        service = found["mean_response", "queue2"].value - found["mean_wait", "queue2"].value
        assert service == pytest.approx(16.0, rel=1e-9)


class TestRuns:
    @pytest.mark.parametrize("chain", [True, False])
    def test_same_seed_same_bits(self, chain):
        model = standing(T1T2(t1=2, t2=4), rho1=1.0, rho2=0.4)
        runs = [
            qsim.simulate(model, jobs=40_000, replications=8, seed=6, threads=threads, chain=chain).to_dict()
            for threads in (1, 8)
        ]
        for run in runs:
            del run["seconds"]
        assert runs[0] == runs[1]
        other = qsim.simulate(model, jobs=40_000, replications=8, seed=7, chain=chain)
        assert other["mean_response", "all"].value != runs[0]["measures"][0]["value"]

    def test_policies_see_the_same_jobs(self):
        """By events, throughput of arrivals does not depend on the policy: counted types are the same."""
        tallies = []
        for policy in (T1(t1=2), T2(t2=3), Dedicated()):
            model = standing(policy, rho1=0.6, rho2=0.3)
            simulator = lower(model, options=Options(means_only=True, extra={"chain": False}))
            flat = simulator.run(seed=1, replication=0, jobs=5000, warmup=100)
            tallies.append(simulator._tally(flat).jobs[:, 0])
        assert (tallies[0] == tallies[1]).all()
        assert (tallies[0] == tallies[2]).all()

    def test_an_unstable_system_runs_and_says_what_is_left(self):
        grows = standing(T1(t1=3), rho1=1.15, rho2=0.9)
        assert not stability(grows).stable
        short, long = (qsim.simulate(grows, jobs=n, replications=4, seed=1, means_only=True) for n in (20_000, 80_000))
        assert long["mean_number", "queue2"].value > 2 * short["mean_number", "queue2"].value
        assert "unfinished" not in long.details
        never = standing(T2(t2=math.inf, reading="idle"), rho1=0.5, rho2=0.3)
        stuck = qsim.simulate(never, jobs=2000, replications=2, seed=1)
        assert stuck.details["unfinished"] > 10
        assert ("mean_response", "queue2") not in stuck.measures
        assert stuck["throughput", "queue2"].value == 0

    @pytest.mark.parametrize("chain", [True, False])
    def test_one_type_only(self, chain):
        found = qsim.simulate(standing(T1(t1=3), rho1=1.2, rho2=0.0), jobs=400_000, seed=2, chain=chain)
        r = 0.6
        assert_figure_agrees(found, ("mean_number", "queue1"), 2 * r / (1 - r * r), power=0.1)
        assert ("mean_response", "queue2") not in found.measures

    def test_rings_grow(self):
        """Over a thousand jobs in a queue: the ring doubles and nothing is lost."""
        model = standing(T2(t2=math.inf), rho1=0.9, rho2=0.9, rates={"mu1": 1.0, "mu12": 1.0, "mu2": 1.0})
        for chain in (True, False):
            simulator = lower(model, options=Options(means_only=True, extra={"chain": chain}))
            tally = simulator._tally(simulator.run(seed=1, replication=0, jobs=60_000, warmup=0))
            assert tally.jobs[:, 0].sum() == 60_000
            assert tally.times[2] / tally.times[0] > 1500  # mean number in queue 2

    @pytest.mark.parametrize(
        ("options", "changes", "field"),
        [
            ({"chain": 1}, {}, "chain"),
            ({"chain": True}, {"switching_time": 0.5}, "chain"),
            ({"lanes": 2}, {}, "lanes"),
            ({"at": [math.inf]}, {}, "at"),
            ({"at": [-1.0]}, {}, "at"),
            ({}, {"work1": {"kind": "scipy", "name": "norm"}}, "work1"),
        ],
    )
    def test_wrong_options_are_named(self, options, changes, field):
        model = standing(T1(t1=3), rho1=0.5, rho2=0.1).replace(**changes)
        with pytest.raises(InvalidModel) as caught:
            qsim.simulate(model, jobs=100, replications=2, **options)
        assert caught.value.field == field


def draw(law, rng):
    """One draw with Python's own generator."""
    if isinstance(law, Exponential):
        return rng.expovariate(1.0)
    if isinstance(law, Deterministic):
        return law.value
    if isinstance(law, Erlang):
        return rng.gammavariate(law.shape, law.mean / law.shape)
    if isinstance(law, Hyperexponential):
        return rng.expovariate(1 / rng.choices(law.means, law.probabilities)[0])
    if isinstance(law, Uniform):
        return rng.uniform(law.low, law.high)
    sigma2 = math.log1p(law.scv)
    return rng.lognormvariate(math.log(law.mean) - sigma2 / 2, math.sqrt(sigma2))
