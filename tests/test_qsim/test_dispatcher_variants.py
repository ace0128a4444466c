"""Other rules for killed jobs: job by job against the event simulation, and against the plain kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference_sim
from dispatcher_expected import expected_measures

import qsim
from qsim.lower import Options, lower
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
    "back": {"killed_join": "back"},
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


def reference(system, options, *, seed, count):
    """What becomes of the jobs that the kernel meets, by the event simulation."""
    drawn = qsim.draw_jobs(system, time_end=3.0 * count, seed=seed)
    options = dict(options)
    first = drawn.group == 0
    if "limits" in options:
        limits = np.full(first.size, math.nan)
        state = stream(seed=seed, replication=0, name="limits")
        limits[first] = sample(options["limits"], size=int(first.sum()), state=state)
        options["limits"] = limits[:count].tolist()
    columns = (drawn.arrival[:count].tolist(), drawn.service[:count].tolist(), drawn.group[:count].tolist())
    jobs = list(zip(*columns, strict=True))
    assert len(jobs) == count
    return reference_sim.replay_dispatcher(jobs, system.servers, system.time_limit, **options)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_job_goes_as_in_the_event_simulation(system, variant) -> None:
    """Instants bit by bit, ties included, and every measure of the replication."""
    model, options, warmup, jobs = SYSTEMS[system], VARIANTS[variant], 500, 2000
    simulator = lower(model, options=Options(at=(0.6, 2.1), extra=options))
    flat, paths = simulator.traced(seed=3, replication=0, jobs=jobs, warmup=warmup, paths=3000)
    # Jobs that begin long after the last arrival looked at depend on arrivals that the event simulation has not.
    records = reference(model, options, seed=3, count=6000)
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
    variant = lower(model, options=Options(at=(1.0,), extra={"killed_join": "back"}))
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
        run = qsim.simulate(model, jobs=64_000, replications=8, seed=1, means_only=True, **options)
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
        qsim.simulate(model.replace(service0=law, service1=law), jobs=64_000, replications=8, seed=1, **options)
        for law in (Deterministic(value=1.0),)
        for options in ({"killed_join": "back"}, {"killed_join": "low-priority"})
    ]
    assert numbers[0]["mean_number", "all"].value == pytest.approx(numbers[1]["mean_number", "all"].value, rel=1e-9)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("killed_join", "front"),
        ("checkpoint_share", 1.5),
        ("checkpoint_share", "half"),
        ("grace", -1.0),
        ("grace", math.inf),
        ("grace_completes", 1),
        ("limits", 2.0),
        ("graze", 1.0),
    ],
)
def test_wrong_options(field, value) -> None:
    with pytest.raises(InvalidModel) as found:
        qsim.simulate(SYSTEMS["example"], jobs=10, **{field: value})
    assert found.value.field == field
