"""Thirty random MAP/PH/c queues against a plain simulation of the workload of each server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from calibrated import assert_agrees

from qtheory.queues.age import typed_queue
from qtheory.queues.map import ArrivalProcess, markovian
from qtheory.queues.multiserver_ph import map_ph_c
from qtheory.queues.phase_type import PhaseType, phase_type

REPLICATIONS, WARM_UP, JOBS = 256, 600, 1600


@dataclass
class Estimate:
    """What `assert_agrees` asks for."""

    value: float
    standard_error: float
    replications: int = REPLICATIONS


def random_queue(rng: np.random.Generator) -> tuple[ArrivalProcess, PhaseType, int]:
    """Two to three arrival phases, two to three service phases with all transitions, 1 to 6 servers, load .5 to .75."""
    k, m, servers = int(rng.integers(2, 4)), int(rng.integers(2, 4)), int(rng.integers(1, 7))
    hidden, arrivals = rng.exponential(size=(k, k)), rng.exponential(size=(k, k)) * rng.choice([0.2, 3.0], size=(k, 1))
    hidden -= np.diag(np.diag(hidden) + (hidden - np.diag(np.diag(hidden)) + arrivals).sum(axis=1))
    generator, exits = 0.3 * rng.exponential(size=(m, m)), rng.choice([0.3, 1.0, 3.0], size=m)
    generator -= np.diag(np.diag(generator) + (generator - np.diag(np.diag(generator))).sum(axis=1) + exits)
    service = phase_type(alpha=rng.dirichlet(np.ones(m)), generator=generator)
    process = markovian(hidden, arrivals)
    return process.scaled(rate=float(rng.uniform(0.5, 0.75)) * servers / service.mean), service, servers


def jump(rates: np.ndarray, phase: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Time spent in each phase, and the column of `rates` (one row a phase) the chain leaves by."""
    total = np.cumsum(rates, axis=1)
    out = total[phase, -1]
    column = (rng.random(len(phase))[:, None] * out[:, None] > total[phase]).sum(axis=1)
    return rng.exponential(size=len(phase)) / out, column


def intervals(process: ArrivalProcess, phase: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Time to the next arrival of every replication; `phase` is moved on."""
    rates = np.concatenate([process.hidden - np.diag(np.diag(process.hidden)), process.arrivals], axis=1)
    times = np.zeros(len(phase))
    open_ = np.arange(len(phase))
    while len(open_):
        spent, column = jump(rates, phase[open_], rng)
        times[open_] += spent
        phase[open_] = column % process.order
        open_ = open_[column < process.order]
    return times


def services(law: PhaseType, rng: np.random.Generator) -> np.ndarray:
    """One service time for every replication."""
    rates = np.concatenate([law.generator - np.diag(np.diag(law.generator)), law.exits[:, None]], axis=1)
    phase = rng.choice(law.order, size=REPLICATIONS, p=law.alpha)
    times = np.zeros(REPLICATIONS)
    open_ = np.arange(REPLICATIONS)
    while len(open_):
        spent, column = jump(rates, phase[open_], rng)
        times[open_] += spent
        going = column < law.order
        open_ = open_[going]
        phase[open_] = column[going]
    return times


def simulated(process: ArrivalProcess, law: PhaseType, servers: int, rng: np.random.Generator) -> list[Estimate]:
    """Mean wait, P(W > 0) and P(W > mean service)."""
    work = np.zeros((REPLICATIONS, servers))
    phase = rng.choice(process.order, size=REPLICATIONS, p=process.phases)
    sums = np.zeros((3, REPLICATIONS))
    rows = np.arange(REPLICATIONS)
    for job in range(WARM_UP + JOBS):
        work = np.maximum(work - intervals(process, phase, rng)[:, None], 0.0)
        first = work.argmin(axis=1)
        wait = work[rows, first]
        work[rows, first] += services(law, rng)
        if job >= WARM_UP:
            sums += [wait, wait > 0.0, wait > law.mean]
    means = sums / JOBS
    return [Estimate(float(row.mean()), float(row.std(ddof=1) / np.sqrt(REPLICATIONS))) for row in means]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_random_queue(seed: int) -> None:
    """256 replications of 1600 jobs, false alarm 1e-8 a comparison; errors of 35 % would be
    seen, of 80 % where fewer than one job in ten waits; many are seen from 10 %."""
    rng = np.random.default_rng(seed)
    process, law, servers = random_queue(rng)
    counted = map_ph_c(arrivals=process, service=law, servers=servers)
    aged = typed_queue(arrivals=process, services=[law], servers=servers)
    assert aged.mean_wait(0) == pytest.approx(counted.mean_wait, rel=1e-6)
    truths = [counted.mean_wait, counted.wait_probability, float(aged.wait(0).survival(law.mean))]
    power = 0.35 if counted.wait_probability > 0.1 else 0.8
    for estimate, truth in zip(simulated(process, law, servers, rng), truths, strict=True):
        if truth > 1e-3:
            assert_agrees(estimate, truth, power=power)
