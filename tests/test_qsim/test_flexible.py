"""Parallel queues simulated: path by path against the plain event simulation, against exact answers, by identities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from calibrated import FALSE_ALARM, assert_figure_agrees, critical_value
from reference_flexible import replay_flexible

import qsim
import qtheory
from qsim.kernels import flexible as jobs_kernel
from qsim.kernels._jit import jit
from qsim.kernels.flexible import draw_kinds, draw_picks
from qsim.kernels.random import uniform
from qsim.kernels.sampling import fill
from qsim.kernels.shortest import (
    boundaries,
    empty_order,
    empty_tournament,
    longer_by_one,
    play,
    shorter_by_one,
)
from qsim.lower import Options, lower
from qsim.sampling import program
from qsim.streams import stream
from qtheory.models import (
    Deterministic,
    Erlang,
    Exponential,
    Flexible,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    Pareto,
)
from qtheory.queues import erlang

HYPER = Hyperexponential(probabilities=(0.9, 0.1), means=(0.5, 5.5))

# N. Gast (2017), Proc. ACM Meas. Anal. Comput. Syst. 1(1), art. 17, and N. Gast and B. Van Houdt (2017), ibid. 1(2),
# art. 33: two choices with replacement, mean queue length by simulation (no intervals given).
PUBLISHED = {
    0.9: {10: 2.8040, 20: 2.566, 50: 2.434, 100: 2.3931, 1000: 2.3567},
    0.7: {10: 1.2193, 20: 1.1737, 30: 1.1587, 50: 1.1471, 100: 1.1387},
}


@jit
def serve(rule, arrivals, sizes, kinds, picks, ties, queues, held, spare, keys, winners, seen, starts, joined):
    """The kernel without what it returns, which matters to other kernels alone."""
    jobs_kernel.serve(
        rule, arrivals, sizes, kinds, picks, ties, queues, held, spare, keys, winners, seen, starts, joined
    )


def model(**fields):
    return Flexible(**{"queues": 2, "load": 0.7, "flexible_fraction": 0.4, "choices": 2} | fields)


# Structures


@jit
def walk(order, place, first, lengths, queues, changes, out):
    """The walk; the boundaries in the end, which may have grown, go to `out`, and how many there are."""
    for i in range(queues.size):
        queue = queues[i]
        if changes[i] > 0:
            first = longer_by_one(order, place, first, queue, lengths[queue])
            lengths[queue] += 1
        elif lengths[queue] > 0:
            shorter_by_one(order, place, first, queue, lengths[queue])
            lengths[queue] -= 1
    for k in range(first.size):
        out[k] = first[k]
    return first.size


def test_sorted_order_stays_sorted():
    """Random walks of 7 queues up to lengths past the first allocation, checked against a plain sort."""
    rng = np.random.default_rng(3)
    order, place, first = empty_order(7)
    lengths, out = np.zeros(7, np.int64), np.empty(4096, np.int64)
    for share in (0.9, 0.4, 0.7):
        for _ in range(20):
            queues, up = rng.integers(0, 7, 50), (rng.random(50) < share).astype(np.int64)
            first = out[: walk(order, place, first, lengths, queues, up, out)].copy()
            assert np.all(np.diff(lengths[order]) >= 0)
            assert np.all(order[place] == np.arange(7))
            for k in range(int(lengths.max()) + 2):
                assert first[k] == boundaries(lengths)[k] == (lengths < k).sum()
    assert lengths.max() > 64


@jit
def plays(keys, winners, leaves, values, tops):
    for i in range(leaves.size):
        play(keys, winners, leaves[i], values[i])
        tops[i] = winners[1]


@pytest.mark.parametrize("count", [2, 3, 8, 13])
def test_tournament_has_the_least_key_on_top(count):
    """Of equal keys the lowest index."""
    rng = np.random.default_rng(count)
    keys, winners = empty_tournament(count, 0.0)
    assert winners[1] == 0
    plain = np.zeros(count)
    leaves, values = rng.integers(0, count, 400), rng.integers(0, 5, 400).astype(float)
    tops = np.empty(400, np.int64)
    plays(keys, winners, leaves, values, tops)
    for leaf, value, top in zip(leaves, values, tops, strict=True):
        plain[leaf] = value
        assert top == int(np.argmin(plain))


# Paths


def recorded(rng, *, count, queues, choices, integer, sampling="distinct", fraction=0.6):
    """Jobs with class, picks and ties; on a small integer grid everything happens at once now and then."""
    if integer:
        arrivals = np.sort(rng.integers(0, count // 2, count)).astype(float)
        sizes = rng.integers(0, 4, count).astype(float)
    else:
        arrivals = np.cumsum(rng.exponential(1.0 / queues, count))
        sizes = rng.exponential(0.9, count)
    kinds = (rng.random(count) < fraction).astype(np.int8)
    draw = rng.permuted(np.tile(np.arange(queues), (count, 1)), axis=1)[:, :choices]
    picks = draw if sampling == "distinct" else rng.integers(0, queues, (count, choices))
    return arrivals, sizes, kinds, picks.astype(np.int32), rng.random(count)


def reference(columns, *, queues, shortest="number", discipline="fcfs"):
    arrivals, sizes, kinds, picks, ties = columns
    jobs = [
        (arrival, size, tuple(pick) if kind else (int(pick[0]),), tie)
        for arrival, size, kind, pick, tie in zip(arrivals, sizes, kinds, picks.tolist(), ties, strict=True)
    ]
    return replay_flexible(jobs, queues, shortest=shortest, discipline=discipline)


@pytest.mark.parametrize("shortest", ["number", "workload"])
@pytest.mark.parametrize("sampling", ["distinct", "replacement"])
@pytest.mark.parametrize(("queues", "choices"), [(2, 2), (5, 2), (5, 3), (4, 4)])
@pytest.mark.parametrize("integer", [True, False])
def test_jobs_kernel_path_by_path(shortest, sampling, queues, choices, integer):
    """Queue joined and start of each job, ties and simultaneous events included."""
    rng = np.random.default_rng(queues + 10 * choices + 100 * integer)
    rule = jobs_kernel.NUMBER if shortest == "number" else jobs_kernel.WORKLOAD
    for _ in range(5):
        columns = recorded(rng, count=200, queues=queues, choices=choices, integer=integer, sampling=sampling)
        starts, joined = np.empty(200), np.empty(200, np.int32)
        held, spare = jobs_kernel.empty_held(4)
        arrivals, sizes, kinds, picks, ties = columns
        serve(
            rule,
            arrivals,
            sizes,
            kinds,
            picks,
            ties,
            jobs_kernel.empty_queues(queues),
            held,
            spare,
            np.empty(0),
            np.empty(0, np.int64),
            np.zeros(64, np.int64),
            starts,
            joined,
        )
        right = reference(columns, queues=queues, shortest=shortest)
        assert joined.tolist() == [job.queue for job in right]
        assert starts == pytest.approx([job.start for job in right], rel=1e-12, abs=1e-9)


def test_least_workload_of_all_path_by_path():
    """A tournament over all queues against the reference looking at all: the same starts, for idle queues are alike."""
    rng = np.random.default_rng(5)
    columns = recorded(rng, count=400, queues=6, choices=6, integer=False, fraction=1.0)
    arrivals, sizes, kinds, picks, ties = columns
    starts, joined = np.empty(400), np.empty(400, np.int32)
    held, spare = jobs_kernel.empty_held(4)
    keys, winners = empty_tournament(6, -math.inf)
    serve(
        jobs_kernel.LEAST_WORKLOAD,
        arrivals,
        sizes,
        kinds,
        picks[:, :1].copy(),
        ties,
        jobs_kernel.empty_queues(6),
        held,
        spare,
        keys,
        winners,
        np.zeros(64, np.int64),
        starts,
        joined,
    )
    right = reference(columns, queues=6, shortest="workload")
    assert starts == pytest.approx([job.start for job in right], rel=1e-12)


@jit
def draw_columns(classes, routing, breaking, queues, fraction, distinct, kinds, picks, ties):
    draw_kinds(classes, fraction, np.empty(kinds.size), kinds)
    draw_picks(routing, queues, distinct, picks)
    for i in range(ties.size):
        ties[i] = uniform(breaking)


def same_jobs(m, *, jobs, warmup):
    """What a replication (seed 3, number 0) of the model meets, drawn once more and given to the reference."""
    simulator = lower(m, options=Options())
    count = 2 * (warmup + jobs)

    def state(name):
        return stream(seed=3, replication=0, name=name)

    gap = program(Exponential(mean=simulator.mean / (m.queues * m.load)), field="load")
    gaps, sizes = np.empty(count), np.empty(count)
    fill(*gap, state("arrivals"), gaps)
    fill(*simulator.service, state("service"), sizes)
    kinds, picks, ties = np.zeros(count, np.int8), np.empty((count, simulator.choices), np.int32), np.empty(count)
    streams = (state("class"), state("routing"), state("ties"))
    draw_columns(*streams, m.queues, m.flexible_fraction, m.sampling == "distinct", kinds, picks, ties)
    if m.ties == "lowest":
        ties[:] = 0.0
    columns = (np.cumsum(gaps), sizes, kinds, picks, ties)
    return reference(columns, queues=m.queues, shortest=m.shortest, discipline=m.discipline)


@pytest.mark.parametrize(
    ("kernel", "fields"),
    [
        ("jobs", {"service": HYPER}),
        ("jobs", {"queues": 5, "choices": 3, "ties": "lowest"}),
        ("jobs", {"queues": 3, "sampling": "replacement", "shortest": "workload"}),
        ("events", {"service": Erlang(shape=2, mean=1.0)}),
        ("events", {"queues": 5, "choices": 3, "discipline": "ps"}),
        ("events", {"queues": 2, "service": HYPER, "discipline": "ps", "load": 0.9}),
    ],
)
def test_tallies_are_those_of_the_reference(kernel, fields):
    """A replication's sums over jobs and integrals over the window against the reference on the same jobs."""
    m = model(**fields)
    jobs, warmup = 3000, 500
    simulator = lower(m, options=Options(extra={"kernel": kernel}))
    tally = simulator._tally(simulator.run(seed=3, replication=0, jobs=jobs, warmup=warmup))
    records = same_jobs(m, jobs=jobs, warmup=warmup)
    counted = records[warmup : warmup + jobs]
    begin, end = records[warmup - 1].arrival, counted[-1].arrival
    assert tally.window[jobs_kernel.WINDOW] == pytest.approx(end - begin, rel=1e-12)
    inside = np.zeros(2)
    for kind in range(2):
        mine = [job for job in counted if (len(job.candidates) > 1) == bool(kind)]
        assert tally.jobs[kind, jobs_kernel.COUNT] == len(mine)
        responses = np.array([job.departure - job.arrival for job in mine])
        assert tally.jobs[kind, jobs_kernel.RESPONSE] == pytest.approx(responses.sum(), rel=1e-9)
        stays = [(job.arrival, job.departure) for job in records if (len(job.candidates) > 1) == bool(kind)]
        inside[kind] = sum(max(0.0, min(b, end) - max(a, begin)) for a, b in stays)
        left = sum(begin < b <= end for _, b in stays)
        assert tally.times[kind, jobs_kernel.PRESENT] == pytest.approx(inside[kind], rel=1e-9)
        assert tally.times[kind, jobs_kernel.LEFT] == left
        if m.discipline == "fcfs":
            waits = np.array([job.start - job.arrival for job in mine])
            assert tally.jobs[kind, jobs_kernel.WAIT] == pytest.approx(waits.sum(), rel=1e-9)
            assert tally.jobs[kind, jobs_kernel.WAITED] == (waits > 0).sum()
    busy = 0.0
    for queue in range(m.queues):
        # The union of the stays in a queue is when its server works.
        reached = begin
        for job in sorted((job for job in records if job.queue == queue), key=lambda job: job.arrival):
            low, high = max(job.arrival, reached), min(job.departure, end)
            busy += max(0.0, high - low)
            reached = max(reached, high)
    assert tally.window[jobs_kernel.BUSY] == pytest.approx(busy, rel=1e-9)


# Against exact answers


@pytest.mark.parametrize("kernel", ["jobs", "events"])
@pytest.mark.parametrize("fields", [{}, {"sampling": "replacement"}, {"queues": 3, "choices": 3, "load": 0.6}])
def test_against_exact_answers(kernel, fields):
    """Two and three queues, all measures within a false-alarm rate of 1e-8 each; seen are errors of 2 to 8 %."""
    m = model(**fields)
    truth = qtheory.solve(m, method="exact", at=(2.0,))
    run = qsim.simulate(m, jobs=1_500_000, replications=32, seed=11, at=(2.0,), kernel=kernel)
    compared = 0
    for key, value in truth.measures.items():
        if key in run.measures and run[key].se > 0:
            # A median wait next to 0 is judged by the scale of waits, not by itself.
            scale = max(value.value, truth["mean_wait", "all"].value) if key[0].endswith("_wait") else None
            assert_figure_agrees(run, key, value.value, power=0.1, known_within=value.error, scale=scale)
            compared += 1
    assert compared >= 38


@pytest.mark.parametrize(
    ("queues", "choices", "power"), [(2, 2, 0.08), (3, 2, 0.08), (3, 3, 0.08), (12, "all", 0.2), (12, 10, 0.2)]
)
def test_jump_chain(queues, choices, power):
    """The chain's own bookkeeping, all three of its loops, against exact answers or the job-by-job kernel."""
    m = model(queues=queues, choices=choices, load=0.8)
    run = qsim.simulate(m, jobs=3_000_000, replications=32, seed=5, means_only=True)
    assert run.details["kernel"] == "chain"
    if queues <= 3:
        truth = qtheory.solve(m, method="exact", tolerance=1e-6)
        for key in run.measures:
            assert_figure_agrees(run, key, truth[key].value, power=power, known_within=truth[key].error)
    else:
        other = qsim.simulate(m, jobs=1_000_000, replications=32, seed=6)
        assert other.details["kernel"] == "events"
        for key in run.measures:
            se = math.hypot(run[key].se, other[key].se)
            assert abs(run[key].value - other[key].value) <= critical_value(32, FALSE_ALARM) * se
            assert 9 * se <= power * other[key].value
    tail = run.details["queue_length_tail"]
    assert tail[0] == 1.0
    assert tail == sorted(tail, reverse=True)
    assert 2 * run["utilisation", "all"].half_width > abs(tail[1] - 0.8)


@pytest.mark.parametrize("seed", [1, 2])
def test_class_identity(seed):
    """ET_ded = 1 + rho ET at N = 10, two estimators of one run: time averages give ET, arrivals the dedicated jobs."""
    m = model(queues=10, load=0.8, flexible_fraction=0.5)
    run = qsim.simulate(m, jobs=2_000_000, replications=32, seed=seed, means_only=True)
    everybody, dedicated = run.samples["mean_response", "all"], run.samples["mean_response", "dedicated"]
    gap = dedicated.values - 1 - 0.8 * everybody.values
    se = gap.std(ddof=1) / math.sqrt(32)
    assert abs(gap.mean()) <= critical_value(32, FALSE_ALARM) * se
    assert 9 * se < 0.02 * run["mean_response", "all"].value


@pytest.mark.parametrize("fields", [{}, {"choices": "all"}, {"shortest": "workload"}])
def test_without_choice_is_mg1(fields):
    """p = 0: Pollaczek-Khinchine with a law that has no phases."""
    m = model(queues=9, flexible_fraction=0.0, load=0.6, service=Deterministic(value=2.0), **fields)
    run = qsim.simulate(m, jobs=2_000_000, replications=32, seed=2)
    assert_figure_agrees(run, ("mean_response", "all"), 2.0 + 2.0 * 0.6 / (2 * 0.4), power=0.02)
    assert_figure_agrees(run, ("wait_probability", "all"), 0.6, power=0.02)


def test_sharing_without_choice_is_insensitive():
    m = model(queues=4, flexible_fraction=0.0, load=0.6, service=HYPER, discipline="ps")
    run = qsim.simulate(m, jobs=1_000_000, replications=32, seed=2)
    assert_figure_agrees(run, ("mean_response", "all"), 1.0 / 0.4, power=0.1)
    assert_figure_agrees(run, ("utilisation", "all"), 0.6, power=0.05)


def test_least_workload_of_all_is_mmn():
    m = model(queues=20, flexible_fraction=1.0, choices="all", shortest="workload", load=0.9)
    run = qsim.simulate(m, jobs=3_000_000, replications=32, seed=4)
    waits = float(erlang.erlang_c(offered_load=18.0, servers=20.0))
    assert_figure_agrees(run, ("wait_probability", "all"), waits, power=0.1)
    assert_figure_agrees(run, ("mean_response", "all"), 1.0 + waits / 2.0, power=0.06)


@pytest.mark.parametrize(
    ("jobs", "power"), [(8_000_000, 0.03), pytest.param(160_000_000, 0.008, marks=pytest.mark.slow)]
)
def test_many_queues_agree_with_the_refined_mean_field(jobs, power):
    """N = 100, rho = .9, d = 2, p = 1: 2.6449; the mean field is 1.2 % below, which the longer run would see."""
    m = model(queues=100, load=0.9, flexible_fraction=1.0)
    run = qsim.simulate(m, jobs=jobs, replications=32, seed=8, means_only=True)
    refined = qtheory.solve(m, method="refined")["mean_response", "all"]
    assert_figure_agrees(run, ("mean_response", "all"), refined.value, power=power, known_within=refined.error)


@pytest.mark.parametrize("ties", ["random", "lowest"])
@pytest.mark.parametrize("discipline", ["fcfs", "ps"])
def test_sorted_order_and_tournament_find_the_shortest(ties, discipline):
    """Three queues, all looked at: the structures for many queues must give the exact mean number, too."""
    m = model(queues=3, choices="all", flexible_fraction=1.0, ties=ties, discipline=discipline)
    simulator = lower(m, options=Options(extra={"kernel": "events"}))
    object.__setattr__(simulator, "choices", 0)
    tallies = [simulator.run(seed=9, replication=k, jobs=40_000, warmup=4_000) for k in range(32)]
    sample = simulator.summarise(tallies).samples["mean_number", "all"].figure(confidence=0.95)
    truth = qtheory.solve(m.replace(discipline="fcfs"), method="exact")["mean_number", "all"].value
    assert abs(sample.value - truth) <= critical_value(32, FALSE_ALARM) * sample.se
    assert 9 * sample.se < 0.05 * truth


@pytest.mark.parametrize("choices", [2, 9, 30])
def test_positions_follow_the_looks(choices):
    """The law of the least of d places, as table and as drawn by looking."""
    for sampling in ("distinct", "replacement"):
        simulator = lower(model(queues=40, choices=choices, sampling=sampling), options=Options())
        table = simulator._positions()
        half = table.size // 2
        chances = np.zeros(40)
        for column, (threshold, other) in enumerate(zip(table[:half], table[half:], strict=True)):
            chances[column] += threshold / half
            chances[int(other)] += (1 - threshold) / half
        picks = np.empty((40_000, choices), np.int32)
        picks_only(stream(seed=1, replication=0, name="routing"), 40, sampling == "distinct", picks)
        drawn = np.bincount(picks.min(axis=1), minlength=40) / 40_000
        if sampling == "distinct":
            assert all(len(set(row)) == choices for row in picks[:200].tolist())
        # Five standard errors at each of 40 places, 2e-5 for all of them, and ten draws where hardly any fall.
        assert np.all(np.abs(chances - drawn) <= 5 * np.sqrt(chances * (1 - chances) / 40_000) + 10 / 40_000)


@jit
def picks_only(routing, queues, distinct, picks):
    draw_picks(routing, queues, distinct, picks)


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "queues"), [(rho, n) for rho, table in PUBLISHED.items() for n in table])
def test_published_values(rho, queues):
    """Within 0.5 % of the published simulation, the run's own standard error being below a fifth of that."""
    m = model(queues=queues, load=rho, flexible_fraction=1.0, sampling="replacement")
    run = qsim.simulate(m, jobs=160_000_000 if rho > 0.8 else 40_000_000, replications=32, seed=1, means_only=True)
    number = run["mean_number", "all"]
    assert number.se <= 1e-3 * number.value
    assert number.value / queues == pytest.approx(PUBLISHED[rho][queues], rel=5e-3)


@pytest.mark.slow
def test_hundred_thousand_queues():
    """The limit itself: 10^5 queues, mean field to 0.5 %."""
    m = model(queues=100_000, load=0.7, flexible_fraction=0.5)
    run = qsim.simulate(m, jobs=8_000_000, replications=4, seed=1, warmup=4_000_000)
    limit = qtheory.solve(m.replace(queues="infinite"))
    for scope in ("all", "flexible", "dedicated"):
        assert run["mean_response", scope].value == pytest.approx(limit["mean_response", scope].value, rel=5e-3)


# The wrapper


def test_runs_are_reproducible():
    m = model(service=LogNormal(mean=1.0, scv=2.0))
    one = qsim.simulate(m, jobs=20_000, replications=4, seed=7)
    two = qsim.simulate(m, jobs=20_000, replications=4, seed=7, threads=1)
    assert one.to_dict() | {"seconds": 0} == two.to_dict() | {"seconds": 0}
    other = qsim.simulate(m, jobs=20_000, replications=4, seed=8)
    assert other["mean_response", "all"].value != one["mean_response", "all"].value


def test_designs_see_the_same_jobs():
    """Common random numbers: the difference between two fractions is far more precise than either."""
    runs = [
        qsim.simulate(model(flexible_fraction=p), jobs=200_000, replications=16, seed=3).samples["mean_response", "all"]
        for p in (0.5, 0.6)
    ]
    gap = runs[0].values - runs[1].values
    assert gap.std() < 0.6 * runs[0].values.std()
    assert gap.mean() > 0


def test_overload_runs_and_says_so():
    """Above saturation queues grow; under processor sharing counted jobs may never leave: then no means are given."""
    grown = qsim.simulate(model(load=1.5), jobs=20_000, replications=2)
    assert grown["mean_number", "all"].value > 1000
    shared = qsim.simulate(model(load=3.0, discipline="ps"), jobs=2_000, replications=2)
    assert shared.details["unfinished"] > 0
    assert ("mean_response", "all") not in shared.measures


def test_empty_classes_are_left_out():
    run = qsim.simulate(model(flexible_fraction=1.0), jobs=10_000, replications=2)
    assert {key[1] for key in run.measures} == {"all", "flexible"}


@pytest.mark.parametrize(
    ("fields", "options", "field"),
    [
        ({"queues": "infinite"}, {}, "queues"),
        ({"service": Pareto(shape=0.9, minimum=1.0)}, {}, "service"),
        ({}, {"at": (math.inf,)}, "at"),
        ({}, {"speed": 3}, "speed"),
        ({}, {"kernel": "chain"}, "kernel"),
        ({"discipline": "ps"}, {"kernel": "jobs"}, "kernel"),
        ({"shortest": "workload"}, {"kernel": "events"}, "kernel"),
    ],
)
def test_wrong_requests_are_refused(fields, options, field):
    with pytest.raises(InvalidModel) as refusal:
        qsim.simulate(model(**fields), jobs=1000, replications=2, **options)
    assert refusal.value.field == field
    assert "\n" not in str(refusal.value)
