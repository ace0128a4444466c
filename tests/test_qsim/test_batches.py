"""Batch means: batches are the jobs that they claim to be, and short ones are seen."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import qsim
from qsim.batch_means import batch_means
from qsim.estimate import Sample
from qsim.lower import Options, lower
from qtheory.models import Dispatcher, Exponential, Gamma, InvalidModel, LogNormal, load
from validation import cli, steer

KEY = ("mean_response", "all")
MODEL = Dispatcher(
    servers=(2, 3),
    time_limit=1.5,
    short_fraction=0.6,
    interarrival=Gamma(shape=0.5, scale=0.8),
    service0=LogNormal(mean=1.0, scv=2.0),
    service1=Exponential(mean=1.2),
)
MM1 = Dispatcher(
    servers=(1, 1),
    time_limit=1.0,
    short_fraction=0.0,
    interarrival=Exponential(mean=1 / 0.8),
    service0=Exponential(mean=1.0),
    service1=Exponential(mean=1.0),
)


@pytest.mark.parametrize("warmup", [0, 700])
@pytest.mark.parametrize("jobs", [40, 1024, 2500], ids=lambda jobs: f"{jobs} jobs")
def test_each_batch_is_a_run_with_a_later_warmup(warmup: int, jobs: int) -> None:
    """Batches shorter and longer than the kernel's blocks, and far more than jobs are present."""
    batches = 7
    options = Options(at=(2.0,), batches=batches)
    cut = lower(MODEL, options=options)
    found = cut.summarise([cut.run(seed=2, replication=1, jobs=batches * jobs, warmup=warmup)])
    whole = lower(MODEL, options=Options(at=(2.0,)))
    apart = whole.summarise(
        [whole.run(seed=2, replication=1, jobs=jobs, warmup=warmup + batch * jobs) for batch in range(batches)]
    )
    assert set(found.samples) == set(apart.samples)
    for key, sample in apart.samples.items():
        np.testing.assert_allclose(found.samples[key].values, sample.values, rtol=1e-9, atol=1e-9, err_msg=str(key))
        weights = (found.samples[key].weights, sample.weights)
        if weights[1] is not None:
            np.testing.assert_allclose(*weights, rtol=1e-9, atol=1e-9, err_msg=str(key))


def test_batches_together_are_the_run() -> None:
    one = qsim.simulate(MODEL, jobs=64_000, replications=1, warmup=500, seed=4)
    cut = qsim.simulate(MODEL, jobs=64_000, batches=32, warmup=500, seed=4)
    assert cut.replications == 1
    assert cut.jobs == one.jobs == 64_000
    assert math.isnan(one[KEY].half_width)
    for key in (KEY, ("mean_wait", "killed"), ("mean_number", "group1"), ("utilisation", "group0")):
        assert cut[key].value == pytest.approx(one[key].value, rel=1e-9)
        assert cut[key].half_width > 0
    assert cut.details["batch_means"]["batches"] == 32
    two = qsim.simulate(MODEL, jobs=64_001, batches=16, replications=2, warmup=500, seed=4)
    assert two.jobs == 64_032
    assert len(two.samples[KEY].values) == 32


def test_intervals_of_batch_means_cover() -> None:
    """M/M/1 at load .8, mean response 5: of 200 intervals with 32 batches of 4,000 jobs each, 95 % nominal.

    174 or fewer have a probability of 1e-6 at a coverage of 95 %; a coverage of 80 % is seen with probability .999.
    """
    covered = 0
    for seed in range(200):
        figure = qsim.simulate(MM1, jobs=128_000, batches=32, warmup=2000, seed=seed, means_only=True)[KEY]
        covered += abs(figure.value - 5.0) <= figure.half_width
    assert stats.binom.cdf(174, 200, 0.95) < 1e-5
    assert covered > 174


def test_known_means_narrow_batches_too() -> None:
    plain = qsim.simulate(MM1.replace(servers=(1, 2)), jobs=256_000, batches=64, seed=1)
    model = MM1.replace(servers=(1, 2))
    narrow = qsim.simulate(model, jobs=256_000, batches=64, seed=1, controls=steer.controls(model))
    assert narrow[KEY].half_width < plain[KEY].half_width
    assert narrow.samples[KEY].values == pytest.approx(plain.samples[KEY].values)


def test_short_batches_are_seen() -> None:
    """The relaxation time is 90 jobs: batches of 50 are one queue's mood, those of 10,000 are not."""
    short = qsim.simulate(MM1, jobs=6_400, batches=128, warmup=2000, seed=1, means_only=True)
    long = qsim.simulate(MM1, jobs=1_280_000, batches=128, warmup=2000, seed=1, means_only=True)
    assert short.details["batch_means"]["enough"] is False
    assert long.details["batch_means"]["enough"] is True


def test_independent_means_are_seldom_called_dependent() -> None:
    """1,000 times 64 normal means: more than six alarms at a rate of 1e-4 have a probability below 1e-11, and a rate
    of .02 would be seen with probability .999."""
    rng = np.random.default_rng(5)
    found = [batch_means(Sample(values=rng.standard_normal(64)), batches=32) for _ in range(1000)]
    assert sum(not row["enough"] for row in found) <= 6
    # An autocorrelation of 0 with a standard error of 1 / sqrt(62 * 1000) = .004.
    assert abs(np.mean([row["autocorrelation"] for row in found])) < 5 * 0.004
    # First-order autoregression with coefficient .8 is seen.
    noise, values = rng.standard_normal(64), [0.0]
    for shock in noise:
        values.append(0.8 * values[-1] + shock)
    assert batch_means(Sample(values=np.array(values[1:])), batches=64)["enough"] is False


def test_what_cannot_be_cut() -> None:
    donor = load(Path(cli.__file__).parent / "cases" / "donor-t1.toml")
    for model, options, field in (
        (donor, {"batches": 8}, "batches"),
        (MODEL, {"batches": 1}, "batches"),
        (MODEL, {"batches": 129}, "batches"),
        (MODEL, {"batches": 8, "precision": 0.1}, "batches"),
    ):
        with pytest.raises(InvalidModel) as caught:
            qsim.simulate(model, **options)
        assert caught.value.field == field
