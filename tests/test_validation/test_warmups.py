"""Warm-ups from theory: long enough, and said so where a run is too short for its relaxation time."""

from __future__ import annotations

import json
import math

import network_cases
import pytest
from scipy import stats

import qsim
import validation
from qtheory.models import Bernoulli, Flexible, Model, load, save
from qtheory.systems.network import with_load
from qtheory.systems.network.stabilizability import stabilizability
from validation import cli, library, steer


def near_one(kind: str, *, spare: float) -> Model:
    """A system of each kind whose load is so far from 1."""
    if kind == "dispatcher":
        model = load(library.case_path("dispatcher-exponential"))
        return model.replace(
            short_fraction=0.0, servers=(1, 2), interarrival=model.interarrival.replace(mean=1 / (1 - spare))
        )
    if kind == "donor":
        model = load(library.case_path("donor-dedicated"))
        return model.replace(arrival_rates=(1.0 - spare, 0.1), service_rates=model.service_rates.replace(mu1=1.0))
    if kind == "flexible":
        return Flexible(queues=3, load=1 - spare, flexible_fraction=0.5, choices=2)
    model = network_cases.small({"kind": "maxweight"})
    return with_load(model, factor=stabilizability(model).theta_star * (1 - spare))


@pytest.mark.parametrize("kind", ["dispatcher", "donor", "flexible", "network"])
def test_a_run_too_short_says_so(kind, tmp_path, capsys) -> None:
    """Relaxation times grow as 1 / spare^2: 32 replications of 1 250 jobs are short at .999 and long enough at .5."""
    path = tmp_path / "m.toml"
    notes = []
    for spare in (0.001, 0.5):
        save(near_one(kind, spare=spare), path)
        assert cli.run(["simulate", str(path), "--jobs", "40000", "--json"]) == 0
        notes.append(json.loads(capsys.readouterr().out).get("note", ""))
    assert "have not forgotten their start" in notes[0]
    assert notes[1] == ""
    save(near_one(kind, spare=0.001), path)
    assert cli.run(["simulate", str(path), "--jobs", "40000"]) == 0
    assert "have not forgotten their start" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["flexible", "network"])
def test_a_comparison_too_short_judges_nothing(kind) -> None:
    model = near_one(kind, spare=0.001)
    if isinstance(model, Flexible):
        # Known in closed form.
        model = model.replace(flexible_fraction=0.0)
    else:
        model = steer.check(model.replace(policy=Bernoulli()))
    found = validation.compare(model, jobs=64_000)
    assert found.measures == {}
    assert found.verdict == "inconclusive"
    assert found.needed is not None
    assert "have not forgotten their start" in found.remark


def test_the_warm_up_is_long_enough() -> None:
    """M/M/1's mean number at load .95 is 19; the jobs right after the warm-up must see it, those at the start far less.

    400 replications of 200 jobs: the interval at false-alarm rate 1e-6 reaches to some 6, five relaxation times leave
    a bias of e^-5 of 19 at most; without a warm-up it is more than half of 19.
    """
    model = Flexible(queues=2, load=0.95, flexible_fraction=0.0, choices=2)
    skipped = steer.warmup(model, jobs=None)
    reach = float(stats.t.ppf(1 - 0.5e-6, 399))
    for warmup, settled in ((skipped, True), (0, False)):
        found = qsim.simulate(model, jobs=80_000, replications=400, warmup=warmup, seed=5, means_only=True)
        figure = found["mean_number", "all"]
        assert (abs(figure.value - 38.0) < reach * figure.se) == settled


def test_warm_ups_of_many_queues_outlast_short_replications() -> None:
    """Ten times the counted jobs and twenty a queue at most: few jobs a queue still make a mean."""
    model = Flexible(queues=1000, load=0.9, flexible_fraction=0.5, choices=2)
    wanted = steer.wanted_warmup(model)
    assert wanted is not None
    assert steer.warmup(model, jobs=1000) == 30_000
    assert steer.warmup(model, jobs=10**6) == steer.warmup(model, jobs=None) == wanted


def test_what_theory_cannot_time_is_left_to_the_simulator() -> None:
    full = Flexible(queues=2, load=1.0, flexible_fraction=0.5, choices=2)
    assert steer.warmup(full, jobs=1000) is None
    assert steer.unsettled(full, warmup=0) is None
    assert steer.warmup(full.replace(load=0.5, queues="infinite"), jobs=1000) is None


def test_a_network_skips_a_quarter_at_least() -> None:
    model = load(library.case_path("network-fig1-jsr"))
    assert steer.warmup(model, jobs=100_000) == 25_000
    assert math.isfinite(steer.wanted_warmup(model) or math.inf)
