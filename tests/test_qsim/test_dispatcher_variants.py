"""Other rules for killed jobs: job by job against the event simulation, and against the plain kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference_sim
from dispatcher_expected import expected_measures

import qsim
from qsim.lower import Options, lower
from qsim.lowering.dispatcher_variants import VariantSimulator, lower_variant
from qsim.sampling import sample
from qsim.streams import stream
from qtheory.models import (
    Deterministic,
    Dispatcher,
    Empirical,
    Exponential,
    Gamma,
    Hyperexponential,
    InvalidModel,
    Uniform,
)

SYSTEMS = {
    "example": Dispatcher(
        servers=(3, 4),
        time_limit=1.5,
        short_fraction=0.65,
        interarrival=Exponential(mean=1 / 3),
        service0=Exponential(mean=1.2),
        service1=Exponential(mean=2.0),
    ),
    "kill-heavy": Dispatcher(
        servers=(2, 9),
        time_limit=0.75,
        short_fraction=0.9,
        interarrival=Gamma(shape=0.5, scale=0.5),
        service0=Hyperexponential(probabilities=(0.6, 0.4), means=(0.3, 2.5)),
        service1=Exponential(mean=1.0),
    ),
    # Multiples of 1/8: sums are exact, so that ties are real on both sides; services of length zero among them.
    "ties": Dispatcher(
        servers=(3, 3),
        time_limit=1.0,
        short_fraction=0.75,
        interarrival=Empirical(values=(0.0, 0.0, 0.5, 1.0, 1.0)),
        service0=Empirical(values=(0.0, 0.5, 1.0, 2.0, 2.0)),
        service1=Empirical(values=(0.0, 0.5, 1.0, 3.0)),
    ),
    "short only": Dispatcher(
        servers=(2, 1),
        time_limit=2.0,
        short_fraction=1.0,
        interarrival=Exponential(mean=1.0),
        service0=Exponential(mean=1.0),
        service1=Exponential(mean=1.0),
    ),
}

VARIANTS = {
    "head": {"killed_join": "head"},
    "low priority": {"killed_join": "low-priority"},
    "checkpoint": {"checkpoint_share": 0.5},
    "whole checkpoint, head": {"checkpoint_share": 1.0, "killed_join": "head"},
    "grace": {"grace": 0.5},
    "grace to save": {"grace": 0.5, "grace_completes": False, "killed_join": "low-priority"},
    "limits": {"limits": Uniform(low=0.3, high=1.8)},
    "limits on a grid": {"limits": Empirical(values=(0.5, 1.0, 1.5)), "killed_join": "head", "checkpoint_share": 0.5},
    "all": {
        "limits": Empirical(values=(0.5, 1.0)),
        "killed_join": "low-priority",
        "checkpoint_share": 0.25,
        "grace": 0.25,
        "grace_completes": False,
    },
}


def reference(model, *, seed, count):
    """What becomes of the jobs that the kernel meets, by the event simulation."""
    drawn = qsim.draw_jobs(model, time_end=3.0 * count, seed=seed)
    limits = None
    if model.limits is not None:
        first = drawn.group == 0
        limits = np.full(first.size, math.nan)
        state = stream(seed=seed, replication=0, name="limits")
        limits[first] = sample(model.limits, size=int(first.sum()), state=state)
        limits = limits[:count].tolist()
    columns = (drawn.arrival[:count].tolist(), drawn.service[:count].tolist(), drawn.group[:count].tolist())
    jobs = list(zip(*columns, strict=True))
    assert len(jobs) == count
    rules = reference_sim.rules_of(model)
    return reference_sim.replay_dispatcher(jobs, model.servers, model.time_limit, limits=limits, **rules)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_job_goes_as_in_the_event_simulation(system, variant) -> None:
    """Instants bit by bit, ties included, and every measure of the replication."""
    model, warmup, jobs = SYSTEMS[system].replace(**VARIANTS[variant]), 500, 2000
    simulator = lower(model, options=Options(at=(0.6, 2.1)))
    flat, paths = simulator.traced(seed=3, replication=0, jobs=jobs, warmup=warmup, paths=3000)
    # Jobs that begin long after the last arrival looked at depend on arrivals that the event simulation has not.
    records = reference(model, seed=3, count=6000)
    for place, name in enumerate(("start0", "killed_at", "start1")):
        wanted = [math.nan if getattr(job, name) is None else getattr(job, name) for job in records[: warmup + jobs]]
        assert np.array_equal(paths[: warmup + jobs, place], wanted, equal_nan=True), name

    counted = records[warmup : warmup + jobs]
    window = reference_sim.Window(records[warmup - 1].arrival, counted[-1].arrival)
    samples = simulator.summarise([flat]).samples
    expected = expected_measures(records, counted, window, model, (0.6, 2.1))
    for key, value in expected.items():
        if key in samples:
            assert samples[key].figure(confidence=0.95).value == pytest.approx(value, rel=1e-9, abs=1e-9), key
    missing = {key[0] for key in expected} - {key[0] for key in samples}
    assert missing <= {"kill_probability", "mean_wait", "mean_queue", "wait_probability", "tail_response"}


@pytest.mark.parametrize("jobs", [3000, 300_000])
def test_the_plain_rules_are_those_of_the_plain_kernel(jobs) -> None:
    """The same measures and histograms from both kernels; the longer run sets the clock back."""
    model = SYSTEMS["example"]
    plain = lower(model, options=Options(at=(1.0,)))
    variant = lower_variant(model, options=Options(at=(1.0,)))
    found = []
    for simulator in (plain, variant):
        flat = simulator.run(seed=2, replication=1, jobs=jobs, warmup=200)
        tally = next(simulator._batches(flat)) if simulator is plain else simulator._tally(flat)
        found.append((simulator.summarise([flat]).samples, tally))
    (samples, tally), (others, other) = found
    assert samples.keys() == others.keys()
    for key, wanted in samples.items():
        assert others[key].figure(confidence=0.95).value == pytest.approx(
            wanted.figure(confidence=0.95).value, rel=1e-8
        ), key
    for one, two in zip((*tally.responses, *tally.waits), (*other.responses, *other.waits), strict=True):
        assert one.counts.sum() == two.counts.sum()
        # Waits by another order of additions may fall on the other side of an edge.
        assert abs(one.reached(1.0) - two.reached(1.0)) <= 3


def test_a_share_kept_and_the_head_of_the_line_help_killed_jobs() -> None:
    """By common random numbers: what each rule is for, in the direction that it must have."""
    model = SYSTEMS["example"]

    def responses(**options):
        run = qsim.simulate(model.replace(**options), jobs=64_000, replications=8, seed=1, means_only=True)
        return run["mean_response", "killed"].value, run["mean_response", "long"].value

    killed, long = responses()
    assert responses(checkpoint_share=0.5)[0] < killed
    ahead = responses(killed_join="head")
    assert ahead[0] < killed
    assert ahead[1] > long
    behind = responses(killed_join="low-priority")
    assert behind[0] > killed
    assert behind[1] < long
    # Waits do not know how long a job will be: the order of service leaves the number waiting as it is.
    numbers = [
        qsim.simulate(model.replace(service0=law, service1=law, killed_join=join), jobs=64_000, replications=8, seed=1)
        for law in (Deterministic(value=1.0),)
        for join in ("back", "low-priority")
    ]
    assert numbers[0]["mean_number", "all"].value == pytest.approx(numbers[1]["mean_number", "all"].value, rel=1e-9)


def test_a_rule_is_no_option() -> None:
    for name, value in VARIANTS["all"].items():
        with pytest.raises(InvalidModel) as found:
            qsim.simulate(SYSTEMS["example"], jobs=10, **{name: value})
        assert found.value.field == name


def test_defaults_take_the_plain_kernel() -> None:
    model = SYSTEMS["example"]
    plain = lower(model, options=Options())
    for same in (model.replace(killed_join="back", grace=0.0, limits=None), model.replace(grace_completes=False)):
        other = lower(same, options=Options())
        assert type(other) is type(plain)
        runs = [one.run(seed=1, replication=0, jobs=300, warmup=30) for one in (plain, other)]
        assert np.array_equal(*runs)
    for options in VARIANTS.values():
        assert isinstance(lower(model.replace(**options), options=Options()), VariantSimulator)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_replay_goes_as_in_the_event_simulation_or_is_refused(system, variant) -> None:
    model = SYSTEMS[system].replace(**VARIANTS[variant])
    drawn = qsim.draw_jobs(model, time_end=300.0, seed=4)
    columns = {"arrival": drawn.arrival, "service": drawn.service, "group": drawn.group}
    if model.killed_join != "back" or model.limits is not None:
        with pytest.raises(InvalidModel) as found:
            qsim.replay(model, **columns)
        assert found.value.field in ("killed_join", "limits")
        return
    replayed = qsim.replay(model, **columns)
    jobs = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    rules = reference_sim.rules_of(model)
    records = reference_sim.replay_dispatcher(jobs, model.servers, model.time_limit, **rules)
    assert replayed.classes == [job.klass for job in records]
    assert np.array_equal(replayed.departure, [job.departure for job in records])
    assert replayed["utilisation", "group0"].value > 0


def test_stationary_draws_know_a_longer_limit_only() -> None:
    """A grace that completes jobs is a longer limit; rules of Queue 1 leave Group 0 alone."""
    model = SYSTEMS["example"]
    wanted = qsim.perfect(model.replace(time_limit=2.0), samples=50, seed=3).workload
    same = model.replace(time_limit=1.5, grace=0.5, killed_join="head", checkpoint_share=0.5)
    assert np.array_equal(qsim.perfect(same, samples=50, seed=3).workload, wanted)
    for field, value in (("limits", Uniform(low=0.3, high=1.8)), ("grace_completes", False)):
        with pytest.raises(InvalidModel) as found:
            qsim.perfect(model.replace(grace=0.5, **{field: value}), samples=1)
        assert found.value.field == field
