"""The recursion job by job against the event simulation, recorded examples and traces."""

from __future__ import annotations

import csv
import json
import math

import anchors
import numpy as np
import pytest
import reference_sim
from dispatcher_expected import expected_measures
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import SHARED, needs_shared

import qsim
from qsim.lower import Options, lower
from qtheory.models import (
    BoundedPareto,
    Deterministic,
    Dispatcher,
    Empirical,
    Exponential,
    Gamma,
    Hyperexponential,
    InvalidModel,
    Mixture,
    Pareto,
    Product,
    Uniform,
)

LAW = Exponential(mean=1.0)


def model(servers: tuple[int, int], time_limit: float) -> Dispatcher:
    return Dispatcher(
        servers=servers, time_limit=time_limit, short_fraction=0.5, interarrival=LAW, service0=LAW, service1=LAW
    )


def replay(jobs, servers, time_limit, **options):
    arrival, service, group = zip(*jobs, strict=True)
    return qsim.replay(model(servers, time_limit), arrival=arrival, service=service, group=group, **options)


def assert_same_path(jobs, servers, time_limit) -> None:
    ours = replay(jobs, servers, time_limit)
    theirs = reference_sim.replay_dispatcher(jobs, servers, time_limit)
    none = math.nan
    for name in ("start0", "killed_at", "start1", "departure"):
        wanted = [none if getattr(job, name) is None else getattr(job, name) for job in theirs]
        assert np.array_equal(getattr(ours.history, name), wanted, equal_nan=True), name
    assert ours.classes == [job.klass for job in theirs]


# Integers and dyadic fractions: sums are exact, so ties are real on both sides.
_LATTICE = st.integers(0, 12).map(lambda k: k / 2)
_JOBS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.0, 2.0]), _LATTICE, st.integers(0, 1)), min_size=1, max_size=60
)


@settings(max_examples=80, deadline=None)
@given(gaps=_JOBS, n0=st.integers(1, 11), n1=st.integers(1, 11), limit=st.sampled_from([0.5, 1.0, 1.5, 3.0, math.inf]))
def test_random_traces_with_ties(gaps, n0, n1, limit) -> None:
    arrivals = np.cumsum([gap for gap, _, _ in gaps])
    jobs = [(float(t), size, group) for t, (_, size, group) in zip(arrivals, gaps, strict=True)]
    assert_same_path(jobs, (n0, n1), limit)


@pytest.mark.parametrize("servers", [(1, 1), (2, 3), (4, 5), (8, 9), (16, 17), (40, 3)])
def test_long_random_traces(servers) -> None:
    rng = np.random.default_rng(1)
    count = 3000
    arrivals = np.cumsum(rng.integers(0, 3, count) / (2 * sum(servers)))
    jobs = list(
        zip(
            arrivals.tolist(),
            (rng.integers(0, 9, count) / 8).tolist(),
            rng.integers(0, 2, count).tolist(),
            strict=True,
        )
    )
    assert_same_path(jobs, servers, 0.75)


@pytest.mark.parametrize("example", [anchors.EXAMPLE_A, anchors.EXAMPLE_B, anchors.EXAMPLE_C])
def test_recorded_examples(example) -> None:
    run = replay(example.jobs, example.servers, example.time_limit)
    for scope, mean in example.means.items():
        assert round(run["mean_response", scope].value, example.digits) == mean
    for place, (arrival, _, _) in enumerate(example.jobs):
        if arrival in example.departures:
            departure, kind = example.departures[arrival]
            assert (run.departure[place], run.classes[place]) == (pytest.approx(departure, abs=1e-9), kind)


@needs_shared
def test_recorded_traces_to_the_digit() -> None:
    names = sorted((SHARED / "anchors" / "traces").glob("*.json"))
    assert names
    for name in names:
        spec = json.loads(name.read_text())
        with name.with_suffix(".csv").open() as file:
            jobs = [(float(r["arrival"]), float(r["service"]), int(r["group"])) for r in csv.DictReader(file)]
        run = replay(jobs, tuple(spec["servers"]), spec["time_limit"])
        with name.with_name(f"{name.stem}.departures.csv").open() as file:
            wanted = [(float(r["arrival"]), float(r["departure"]), r["class"]) for r in csv.DictReader(file)]
        order = np.lexsort((np.arange(len(jobs)), run.arrival, run.departure))
        for place, (arrival, departure, kind) in zip(order, wanted, strict=True):
            assert (run.arrival[place], run.classes[place]) == (arrival, kind)
            assert abs(run.departure[place] - departure) <= 1e-9
        for scope, mean in spec["mean_response"].items():
            assert run["mean_response", scope].value == pytest.approx(mean, rel=1e-12)


def test_the_end_of_a_replay() -> None:
    run = replay([(0.0, 2.0, 0), (1.0, 9.0, 0), (2.0, 1.0, 1)], (1, 1), 4.0, time_end=5.0)
    assert run.unfinished == 1
    assert np.array_equal(run.departure, [2.0, math.nan, 3.0], equal_nan=True)
    # Two jobs overlap on [1, 3]: the first until 2, the third from 2; the second is there from 1 to the end.
    assert run["mean_number", "all"].value == pytest.approx((2.0 + 4.0 + 1.0) / 5)
    assert run["mean_queue", "all"].value == pytest.approx(1.0 / 5)
    assert run["utilisation", "group0"].value == pytest.approx(1.0)
    assert run["utilisation", "group1"].value == pytest.approx(0.2)
    assert run["throughput", "all"].value == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("arrival", {"arrival": [], "service": [], "group": []}),
        ("arrival.1", {"arrival": [1.0, 0.5]}),
        ("arrival.0", {"arrival": [math.nan, 0.5]}),
        ("service.1", {"service": [1.0, -1.0]}),
        ("service.0", {"service": [math.inf, 1.0]}),
        ("service", {"service": [1.0]}),
        ("group.0", {"group": [2, 0]}),
        ("service", {"service": [1e308, 1e308]}),
        ("service", {"arrival": [0.0, 1.7e308]}),
    ],
)
def test_wrong_jobs(field, change) -> None:
    jobs = {"arrival": [0.0, 1.0], "service": [1.0, 1.0], "group": [0, 1]} | change
    with pytest.raises(InvalidModel) as found:
        qsim.replay(model((1, 1), 1.0), **jobs)
    assert found.value.field == field


@pytest.mark.parametrize("size", [5e-324, 1e-300, 1e-30, 1e30, 1e300])
def test_a_unit_of_time_scales_a_replay(size) -> None:
    """Rates leave double precision before times do: then there are no time averages."""
    run = replay([(0.0, size, 0), (size, 2 * size, 1)], (1, 1), math.inf)
    assert run.measures["mean_response", "all"].value == pytest.approx(1.5 * size, abs=size)
    assert all(math.isfinite(row.value) for row in run.measures.values())
    assert (("throughput", "all") in run.measures) == (size > 1e-307)


SYSTEMS = {
    "example": Dispatcher.replace(model((3, 4), 3.0), short_fraction=0.65, interarrival=Exponential(mean=1 / 3)),
    "kill-heavy": Dispatcher(
        servers=(2, 9),
        time_limit=0.75,
        short_fraction=0.9,
        interarrival=Gamma(shape=0.5, scale=0.5),
        service0=Hyperexponential(probabilities=(0.6, 0.4), means=(0.3, 2.5)),
        service1=Exponential(mean=1.0),
    ),
    "heavy-tailed": Dispatcher(
        servers=(4, 6),
        time_limit=3.3,
        short_fraction=0.74,
        interarrival=Product(factors=(Exponential(mean=1 / 3.1), Uniform(low=0.85, high=1.21))),
        service0=BoundedPareto(shape=1.9, minimum=0.5, maximum=5.7),
        service1=Pareto(shape=2.5, minimum=2.7),
    ),
    "ties": Dispatcher(
        servers=(1, 12),
        time_limit=1.0,
        short_fraction=0.5,
        interarrival=Empirical(values=(0.0, 0.25, 0.5, 1.0)),
        service0=Empirical(values=(0.0, 0.25, 0.5, 1.0, 2.0)),
        service1=Mixture(weights=(0.5, 0.5), laws=(Deterministic(value=2.0), Empirical(values=(0.5, 4.0)))),
    ),
    "short only": model((2, 1), 2.0).replace(short_fraction=1.0),
    "long only": model((1, 2), 2.0).replace(short_fraction=0.0),
    "no limit": model((2, 1), math.inf).replace(interarrival=Exponential(mean=1.5)),
}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize(("warmup", "jobs"), [(0, 700), (1500, 3000)])
def test_tallies_of_a_replication(name: str, warmup: int, jobs: int) -> None:
    """Every measure of one replication, recomputed from the event simulation of the same jobs."""
    system = SYSTEMS[name]
    at = (0.5, 2.0)
    simulator = lower(system, options=Options(at=at))
    flat = simulator.run(seed=3, replication=0, jobs=jobs, warmup=warmup)
    (tally,) = simulator._batches(flat)
    drawn = qsim.draw_jobs(system, time_end=6.0 * (warmup + jobs + 400), seed=3)
    last = min(warmup + jobs + 3_000, drawn.arrival.size)
    recorded = list(
        zip(drawn.arrival[:last].tolist(), drawn.service[:last].tolist(), drawn.group[:last].tolist(), strict=True)
    )
    records = reference_sim.replay_dispatcher(recorded, system.servers, system.time_limit)
    counted = records[warmup : warmup + jobs]
    begin = records[warmup - 1].arrival if warmup else 0.0
    window = reference_sim.Window(begin, counted[-1].arrival)
    assert tally.window == pytest.approx(window.end - window.begin)

    samples = simulator.summarise([flat]).samples
    expected = expected_measures(records, counted, window, system, at)
    for key, value in expected.items():
        if key in samples:
            assert samples[key].figure(confidence=0.95).value == pytest.approx(value, rel=1e-9, abs=1e-9), key
    missing = {key[0] for key in expected} - {key[0] for key in samples}
    assert missing <= {"kill_probability", "mean_wait", "mean_queue", "wait_probability", "tail_response"}
    for row, kind in enumerate(("0", "1", "r0")):
        responses = [job.response for job in counted if job.klass == kind]
        histogram = tally.responses[row]
        assert histogram.counts.sum() == len(responses)
        for time in (0.3, 1.7, 4.2):
            lower_edge, upper_edge = time * (1 - 2**-9), time * (1 + 2**-9)
            assert sum(r < lower_edge for r in responses) <= histogram.reached(time) if responses else True
            assert histogram.reached(time) <= sum(r <= upper_edge for r in responses) if responses else True


def test_the_clock_may_be_set_back() -> None:
    """A run long enough to set the clock back gives the means of one pass over all its jobs."""
    system = SYSTEMS["example"]
    jobs = 400_000
    simulator = lower(system, options=Options(means_only=True))
    samples = simulator.summarise([simulator.run(seed=5, replication=0, jobs=jobs, warmup=0)]).samples
    drawn = qsim.draw_jobs(system, time_end=(jobs + 3000) / 3, seed=5)
    assert drawn.arrival.size > jobs + 500
    run = qsim.replay(system, arrival=drawn.arrival, service=drawn.service, group=drawn.group)
    response = (run.departure - run.arrival)[:jobs]
    assert samples["mean_response", "all"].values[0] == pytest.approx(response.mean(), rel=1e-10)
    killed = np.array([kind == "r0" for kind in run.classes[:jobs]])
    assert samples["mean_response", "killed"].values[0] == pytest.approx(response[killed].mean(), rel=1e-10)
    assert samples["mean_wait", "all"].values[0] == pytest.approx(run.wait[:jobs].mean(), rel=1e-9)
