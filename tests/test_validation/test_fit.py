"""A log drawn from a known model gives that model back; what a renewal model leaves out is said."""

from __future__ import annotations

import numpy as np
import pytest

import qsim
from qtheory import laws
from qtheory.models import (
    Dispatcher,
    Empirical,
    Exponential,
    Gamma,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    Mixture,
    Weibull,
)
from validation import fit
from validation.traces import Trace


def trace_of(model: Dispatcher, *, time_end: float, seed: int = 1) -> Trace:
    jobs = qsim.draw_jobs(model, time_end=time_end, seed=seed)
    return Trace(source="x", arrival=jobs.arrival, service=jobs.service, group=jobs.group, used=int(jobs.arrival.size))


def test_known_model_comes_back() -> None:
    """20,000 jobs: each mean within 6 standard errors, the family recognised, no false alarm of the KS distance."""
    model = Dispatcher(
        servers=(3, 4),
        time_limit=3.0,
        short_fraction=0.65,
        interarrival=Gamma(shape=3.5, scale=0.08),
        service0=Weibull(shape=0.7, scale=1.0),
        service1=LogNormal(mean=2.0, scv=3.0),
    )
    trace = trace_of(model, time_end=6000.0)
    found = fit.fit(trace, servers=(3, 4), time_limit=3.0)
    assert isinstance(found.model.interarrival, Gamma)
    assert isinstance(found.model.service0, Weibull)
    assert isinstance(found.model.service1, LogNormal)
    assert found.model.interarrival.shape == pytest.approx(3.5, rel=0.06)
    assert found.model.service0.shape == pytest.approx(0.7, rel=0.05)
    assert found.model.short_fraction == pytest.approx(0.65, abs=6 * np.sqrt(0.65 * 0.35 / len(trace)))
    for row in found.laws:
        assert laws.mean(row.law) == pytest.approx(row.mean, rel=1e-6)
        assert row.ks < 1.3 * row.ks_critical
    assert found.kill_share[1] == pytest.approx(found.kill_share[0], abs=0.01)


@pytest.mark.parametrize(
    "law",
    [Exponential(mean=3.0), Hyperexponential(probabilities=(0.1, 0.9), means=(10.0, 0.5))],
)
def test_mixtures_of_exponentials(law: Exponential | Hyperexponential) -> None:
    model = Dispatcher(
        servers=(1, 1),
        time_limit=9.0,
        short_fraction=0.0,
        interarrival=Exponential(mean=1.0),
        service0=Exponential(mean=1.0),
        service1=law,
    )
    found = fit.fit(trace_of(model, time_end=20_000.0), servers=(1, 1), time_limit=9.0)
    fitted = next(row for row in found.laws if row.field == "service1")
    assert fitted.ks < 1.3 * fitted.ks_critical
    assert fitted.law_scv == pytest.approx(laws.scv(law), rel=0.15)


def test_zeros_become_an_atom_and_bursts_are_told() -> None:
    rng = np.random.default_rng(2)
    arrival = np.repeat(np.cumsum(rng.exponential(size=2000)), 3)
    service = np.where(rng.random(6000) < 0.2, 0.0, rng.exponential(size=6000))
    trace = Trace(source="x", arrival=arrival, service=service, group=np.zeros(6000, np.int64), used=6000)
    found = fit.fit(trace, servers=(2, 2), time_limit=1.0)
    assert isinstance(found.model.interarrival, Mixture)
    assert found.model.interarrival.weights[0] == pytest.approx(4000 / 5999)
    assert isinstance(found.model.service0, Mixture)
    assert found.model.service0.weights[0] == pytest.approx(0.2, abs=0.03)
    assert any("group 1" in notice for notice in found.notices)
    # Arrivals in threes: the counts' dispersion is 3, and two gaps in three are 0.
    assert found.dispersion == pytest.approx(3.0, rel=0.6)


def test_empirical_laws_keep_the_values() -> None:
    trace = Trace(
        source="x",
        arrival=np.array([0.0, 1.0, 3.0]),
        service=np.array([2.0, 5.0, 2.5]),
        group=np.array([0, 1, 0]),
        used=3,
    )
    found = fit.fit(trace, servers=(1, 1), time_limit=2.0, laws="empirical")
    assert found.model.service0 == Empirical(values=(2.0, 2.5))
    assert found.model.interarrival == Empirical(values=(1.0, 2.0))
    assert found.kill_share == (0.5, 0.5)
    assert all(row.ks < 1e-12 for row in found.laws)


def test_one_instant_cannot_be_fitted() -> None:
    trace = Trace(source="log.csv", arrival=np.ones(3), service=np.ones(3), group=np.zeros(3, np.int64), used=3)
    with pytest.raises(InvalidModel, match=r"log\.csv"):
        fit.fit(trace, servers=(1, 1), time_limit=1.0)
