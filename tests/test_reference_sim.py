"""The third witness checked: by hand, by recorded traces, by the recursion, and against closed forms."""

from __future__ import annotations

import csv
import json
import math

import anchors
import pytest
from calibrated import assert_agrees
from hypothesis import given
from hypothesis import strategies as st
from reference_sim import (
    Job,
    departure_rows,
    mean_responses,
    replay_dispatcher,
    simulate_dispatcher,
    stream,
)
from shared_data import SHARED, needs_shared


def departures(jobs, servers, time_limit, **variants):
    return [job.departure for job in replay_dispatcher(jobs, servers, time_limit, **variants)]


def recursion(jobs, servers, time_limit):
    """Departures by Kiefer-Wolfowitz recursion on Group 0, merge, recursion on Group 1."""

    def first_come(requests, count):
        free, ends = [-math.inf] * count, []
        for at, length in requests:
            free.sort()
            free[0] = max(at, free[0]) + length
            ends.append(free[0])
        return ends

    short = [i for i, job in enumerate(jobs) if job[2] == 0]
    ends0 = first_come([(jobs[i][0], min(jobs[i][1], time_limit)) for i in short], servers[0])
    result = dict(zip(short, ends0, strict=True))
    killed = [(end, 0, i) for i, end in result.items() if jobs[i][1] > time_limit]
    line = sorted(killed + [(job[0], 1, i) for i, job in enumerate(jobs) if job[2] == 1])
    ends1 = first_come([(at, jobs[i][1]) for at, _, i in line], servers[1])
    result.update(zip([i for _, _, i in line], ends1, strict=True))
    return [result[i] for i in range(len(jobs))]


@pytest.mark.parametrize("example", [anchors.EXAMPLE_A, anchors.EXAMPLE_B, anchors.EXAMPLE_C])
def test_recorded_examples(example):
    records = replay_dispatcher(example.jobs, example.servers, example.time_limit)
    assert {k: round(v, example.digits) for k, v in mean_responses(records).items()} == example.means
    for job in records:
        if example.departures:
            assert (job.departure, job.klass) == example.departures[job.arrival]


@needs_shared
@pytest.mark.parametrize("name", ["bursts-and-zero-services", "lattice-ties", "none-killed", "single-killed-job"])
def test_recorded_traces_to_the_digit(name):
    folder = SHARED / "anchors" / "traces"
    spec = json.loads((folder / f"{name}.json").read_text())
    with (folder / f"{name}.csv").open() as file:
        jobs = [(float(row["arrival"]), float(row["service"]), int(row["group"])) for row in csv.DictReader(file)]
    with (folder / f"{name}.departures.csv").open() as file:
        expected = [(float(row["arrival"]), float(row["departure"]), row["class"]) for row in csv.DictReader(file)]
    records = replay_dispatcher(jobs, tuple(spec["servers"]), spec["time_limit"])
    assert departure_rows(records) == expected
    assert mean_responses(records) == pytest.approx(spec["mean_response"], rel=1e-12)


class TestOneInstant:
    """The order of things that coincide, each case worked by hand."""

    def test_killed_job_goes_before_a_simultaneous_arrival(self):
        assert departures([(0, 5, 0), (2, 1, 1)], (1, 1), 2) == [7, 8]

    def test_freed_server_takes_the_head_of_its_queue_before_the_killed_job(self):
        # At 2 the Group 1 server is freed and takes the waiting job; the job killed at 2 joins behind it.
        assert departures([(0, 5, 0), (0, 2, 1), (1, 1, 1)], (1, 1), 2) == [8, 2, 3]

    def test_several_killed_by_original_arrival(self):
        # Both start at 3 and are killed at 5, in whatever order the servers are looked at.
        jobs = [(0, 3, 0), (0, 3, 0), (1, 9, 0), (2, 8, 0)]
        assert departures(jobs, (2, 1), 3) == [3, 3, 15, 23]
        # Same arrival: input order.
        assert departures([(0, 5, 0), (0, 4, 0)], (2, 1), 2) == [7, 11]

    def test_idle_server_takes_a_killed_job_at_once(self):
        (job,) = replay_dispatcher([(1, 5, 0)], (1, 1), 2)
        assert (job.start0, job.killed_at, job.start1, job.departure) == (1, 3, 3, 8)
        assert (job.klass, job.wait, job.response) == ("r0", 0, 7)

    def test_service_equal_to_the_limit_completes(self):
        records = replay_dispatcher([(0.1, 0.3, 0), (0.1, math.nextafter(0.3, 1), 0)], (2, 1), 0.3)
        assert [job.klass for job in records] == ["0", "r0"]

    def test_server_freed_at_the_arrival_instant_is_not_waited_for(self):
        assert [job.wait for job in replay_dispatcher([(0, 2, 1), (2, 1, 1)], (1, 1), 9)] == [0, 0]

    def test_services_of_length_zero_cascade(self):
        # At 2 the first job ends, both empty jobs pass in turn, and the last of the queue starts at 2 as well.
        jobs = [(0, 2, 0), (1, 0, 0), (1, 0, 0), (1, 1, 0), (2, 0, 0)]
        assert departures(jobs, (1, 1), 9) == [2, 2, 2, 3, 3]

    def test_empty_job_in_queue_1_lets_the_killed_job_in_at_the_same_instant(self):
        # At 2: the Group 1 server takes the empty job, the killed job joins, the empty job ends, all before the
        # arrival at 2.
        jobs = [(0, 5, 0), (0, 2, 1), (1, 0, 1), (2, 1, 1)]
        assert departures(jobs, (1, 1), 2) == [7, 2, 2, 8]

    def test_burst_is_taken_in_input_order(self):
        assert departures([(1, 3, 1), (1, 1, 1), (1, 2, 1), (1, 1, 1)], (1, 2), 9) == [4, 2, 4, 5]


class TestVariants:
    """Departures from the standing rules, worked by hand."""

    JOBS = ((0, 6, 0), (0, 4, 1), (1, 3, 1), (3, 2, 1))  # killed at 2 while one long job is served and one waits

    @pytest.mark.parametrize(
        ("join", "expected"),
        [("back", [13, 4, 7, 15]), ("head", [10, 4, 13, 15]), ("low-priority", [15, 4, 7, 9])],
    )
    def test_where_a_killed_job_joins(self, join, expected):
        assert departures(self.JOBS, (1, 1), 2, killed_join=join) == expected

    def test_several_killed_at_the_head_keep_their_order(self):
        jobs = [(0, 6, 0), (0, 5, 0), (0, 4, 1), (1, 1, 1)]
        assert departures(jobs, (2, 1), 2, killed_join="head") == [10, 15, 4, 16]

    def test_freed_server_takes_the_head_of_its_queue_before_a_killed_job_gets_there(self):
        jobs = [(0, 6, 0), (0, 2, 1), (1, 3, 1), (1, 1, 1)]
        assert departures(jobs, (1, 1), 2, killed_join="head") == [11, 2, 5, 12]

    def test_checkpoint_keeps_a_share_of_the_work(self):
        assert departures([(0, 6, 0)], (1, 1), 2, checkpoint_share=0.5) == [7]
        assert departures([(0, 6, 0)], (1, 1), 2, checkpoint_share=1) == [6]

    def test_limits_of_their_own(self):
        # The second starts at 2 and is killed at 3, the first is killed at 4: kills out of starting order.
        records = replay_dispatcher([(0, 6, 0), (2, 6, 0)], (2, 1), 99, limits=[4, 1])
        assert [job.killed_at for job in records] == [4, 3]
        assert [job.departure for job in records] == [15, 9]

    def test_grace(self):
        jobs = [(0, 3, 0), (0, 6, 0)]
        records = replay_dispatcher(jobs, (2, 1), 2, grace=1)
        assert [(job.klass, job.departure) for job in records] == [("0", 3), ("r0", 9)]
        records = replay_dispatcher(jobs, (2, 1), 2, grace=1, grace_completes=False)
        assert [(job.killed_at, job.departure) for job in records] == [(3, 6), (3, 12)]
        records = replay_dispatcher(jobs, (2, 1), 2, grace=1, grace_completes=False, checkpoint_share=0.5)
        assert [job.departure for job in records] == [5, 10]

    @pytest.mark.parametrize(
        "wrong",
        [{"killed_join": "front"}, {"checkpoint_share": 1.5}, {"grace": -1.0}, {"limits": [1.0]}],
    )
    def test_wrong_variants_are_refused(self, wrong):
        with pytest.raises(ValueError):
            replay_dispatcher(self.JOBS, (1, 1), 2, **wrong)

    @pytest.mark.parametrize(
        "jobs", [[(2, 1, 0), (1, 1, 0)], [(0, -1, 0)], [(0, math.nan, 0)], [(0, 1, 2)], [(math.inf, 1, 0)]]
    )
    def test_wrong_jobs_are_refused(self, jobs):
        with pytest.raises(ValueError):
            replay_dispatcher(jobs, (1, 1), 2)


# Halves make every sum exact, so that coincidences are real ties.
halves = st.integers(0, 12).map(lambda n: n / 2)
traces = st.lists(st.tuples(halves, halves, st.integers(0, 1)), min_size=1, max_size=40).map(
    lambda gaps: [(sum(gap for gap, _, _ in gaps[: i + 1]) / 4, *gaps[i][1:]) for i in range(len(gaps))]
)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 4))


class TestProperties:
    @given(traces, sizes, st.integers(1, 8).map(lambda n: n / 2))
    def test_equals_the_recursion(self, jobs, servers, time_limit):
        assert departures(jobs, servers, time_limit) == recursion(jobs, servers, time_limit)

    @given(traces, sizes, st.integers(1, 8).map(lambda n: n / 2))
    def test_history_of_each_job_is_consistent(self, jobs, servers, time_limit):
        for job in replay_dispatcher(jobs, servers, time_limit):
            assert (job.klass == "r0") == (job.group == 0 and job.service > time_limit)
            aborted = time_limit if job.klass == "r0" else 0
            assert job.response == job.wait + aborted + job.service

    @given(traces, sizes, st.sampled_from(["back", "head", "low-priority"]), st.floats(0, 1))
    def test_no_more_jobs_in_service_than_servers(self, jobs, servers, join, share):
        records = replay_dispatcher(jobs, servers, 1.5, killed_join=join, checkpoint_share=share)
        for now in {job.arrival for job in records} | {job.departure for job in records}:
            busy0 = sum(job.start0 is not None and job.start0 <= now < job.left0 for job in records)
            busy1 = sum(job.start1 is not None and job.start1 <= now < job.departure for job in records)
            assert busy0 <= servers[0]
            assert busy1 <= servers[1]
            waits0 = any(job.group == 0 and job.arrival <= now < job.start0 for job in records)
            waits1 = any(job.start1 is not None and job.joined1 <= now < job.start1 for job in records)
            assert not waits0 or busy0 == servers[0]
            assert not waits1 or busy1 == servers[1]

    @given(traces, sizes)
    def test_variants_reduce_to_the_standing_rules(self, jobs, servers):
        plain = departures(jobs, servers, 2.0)
        assert departures(jobs, servers, 9.0, limits=[2.0] * len(jobs)) == plain
        assert departures(jobs, servers, 1.5, grace=0.5) == plain
        assert departures(jobs, servers, 2.0, killed_join="back", checkpoint_share=0.0, grace=0.0) == plain
        assert departures(jobs, servers, 2.0, grace=0.0, grace_completes=False) == plain

    @given(traces, sizes)
    def test_moving_killed_jobs_changes_no_work(self, jobs, servers):
        """With one server the end of the last busy period does not depend on the order of service."""
        last = {
            join: max(departures(jobs, (servers[0], 1), 2.0, killed_join=join))
            for join in ("back", "head", "low-priority")
        }
        assert len(set(last.values())) == 1


def exponential(mean):
    return lambda rng: rng.expovariate(1 / mean)


class TestSteadyState:
    """Closed forms met by small runs. Each comparison has a false-alarm rate of 1e-8; `power` is the relative error
    that it would have reported with probability .9."""

    def test_poisson_group_0_alone_is_erlang(self):
        """No kills, one group: M/M/1 at load .5 and M/M/3 at load .7, C from the defining sum."""
        for servers, load, power in ((1, 0.5, 0.1), (3, 0.7, 0.2)):
            offered = servers * load
            top = offered**servers / math.factorial(servers) / (1 - load)
            delay = top / (sum(offered**k / math.factorial(k) for k in range(servers)) + top)
            found = simulate_dispatcher(
                servers=(servers, 1),
                time_limit=math.inf,
                short_fraction=1.0,
                interarrival=exponential(1 / offered),
                service0=exponential(1.0),
                service1=exponential(1.0),
                jobs=2000,
                warmup=100,
                replications=32,
                seed=1,
            )
            wait = delay / (servers - offered)
            assert_agrees(found["mean_response", "all"], 1 + wait, power=power)
            assert_agrees(found["mean_queue", "group0"], offered * wait, power=2 * power)
            assert_agrees(found["wait_probability", "group0"], delay, power=power)
            assert_agrees(found["utilisation", "group0"], load, power=0.07)
            assert ("mean_response", "killed") not in found
            assert found["utilisation", "group1"].value == 0

    def test_one_server_with_limit_is_pollaczek_khinchine(self):
        """W0 = lambda p0 E[min(S, T)^2] / (2 (1 - rho0)); killed jobs' service in Group 1 has mean T + E[S]."""
        limit, rate, p0 = 3.0, 1 / 1.14, 0.6
        tail = math.exp(-limit)
        first, second = 1 - tail, 2 - 2 * (1 + limit) * tail
        found = simulate_dispatcher(
            servers=(1, 1),
            time_limit=limit,
            short_fraction=p0,
            interarrival=exponential(1 / rate),
            service0=exponential(1.0),
            service1=exponential(1.13),
            jobs=2000,
            warmup=150,
            replications=32,
            seed=2,
        )
        wait = rate * p0 * second / (2 * (1 - rate * p0 * first))
        assert_agrees(found["mean_wait", "group0"], wait, power=0.2)
        assert_agrees(found["mean_response", "short"], wait + (first - limit * tail) / (1 - tail), power=0.1)
        assert_agrees(found["kill_probability", "group0"], tail, power=0.25)
        assert_agrees(found["utilisation", "group0"], rate * p0 * first, power=0.08)
        load1 = rate * (p0 * tail * (limit + 1) + (1 - p0) * 1.13)
        assert_agrees(found["utilisation", "group1"], load1, power=0.15)

    def test_example_e_and_little(self):
        found = simulate_dispatcher(
            servers=(3, 4),
            time_limit=3.0,
            short_fraction=0.65,
            interarrival=exponential(1 / 3),
            service0=exponential(1.2),
            service1=exponential(2.0),
            jobs=3000,
            warmup=200,
            replications=32,
            seed=3,
        )
        anchor = anchors.EXAMPLE_E_RESPONSE[3, 4]
        assert_agrees(found["mean_response", "all"], anchor.value, power=0.12, known_within=anchor.within)
        assert_agrees(found["kill_probability", "group0"], math.exp(-2.5), power=0.12)
        for scope, rate in (("all", 3.0), ("long", 3.0 * 0.35), ("short", 3.0 * 0.65 * (1 - math.exp(-2.5)))):
            number, response = found["mean_number", scope].value, found["mean_response", scope].value
            assert number == pytest.approx(rate * response, rel=0.03)

    def test_example_d(self):
        """The best design and its neighbours: renewal arrivals, heavy tails."""

        def pareto(rng):
            return 2.7 * rng.random() ** (-1 / 2.5)

        def bounded_pareto(rng):
            low, high = 0.5**-1.9, 5.7**-1.9
            return (low - rng.random() * (low - high)) ** (-1 / 1.9)

        for n0 in (3, 4, 5):
            found = simulate_dispatcher(
                servers=(n0, 10 - n0),
                time_limit=3.3,
                short_fraction=0.74,
                interarrival=lambda rng: rng.expovariate(3.1) * rng.uniform(0.85, 1.21),
                service0=bounded_pareto,
                service1=pareto,
                jobs=1500,
                warmup=150,
                replications=32,
                seed=4,
            )
            for scope, power in (("short", 0.12), ("long", 0.2)):
                anchor = anchors.EXAMPLE_D_RESPONSE[n0, scope]
                assert_agrees(found["mean_response", scope], anchor.value, power=power, known_within=anchor.within)

    def test_seed_is_the_run(self):
        def run(seed):
            return simulate_dispatcher(
                servers=(1, 1),
                time_limit=1.0,
                short_fraction=0.5,
                interarrival=exponential(2.0),
                service0=exponential(1.0),
                service1=exponential(1.0),
                jobs=50,
                warmup=5,
                replications=2,
                seed=seed,
            )

        assert run(1) == run(1)
        assert run(1) != run(2)


def test_job_is_described_by_its_own_instants():
    job = Job(index=0, arrival=1.0, service=4.0, group=0, start0=2.0, killed_at=5.0, start1=6.5, departure=10.5)
    assert (job.wait0, job.wait1, job.wait, job.response) == (1.0, 1.5, 2.5, 9.5)
    assert (job.joined1, job.left0) == (5.0, 5.0)


def test_streams_of_different_purposes_are_not_the_same():
    draws = {stream(1, k, name).random() for k in range(3) for name in ("arrivals", "class")}
    assert len(draws) == 6
