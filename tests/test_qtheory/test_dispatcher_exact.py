"""Method `exact` of the dispatcher: closed forms, simulated systems, and the errors it claims."""

from __future__ import annotations

import json
import math
from typing import Any

import anchors
import msgspec
import numpy as np
import pytest
from scipy import sparse
from shared_data import SHARED, needs_shared

import qtheory
from qtheory.laws import distribution
from qtheory.models import (
    Deterministic,
    Dispatcher,
    Erlang,
    Exponential,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    PhaseType,
    Unstable,
)
from qtheory.queues.age import typed_queue
from qtheory.queues.map import poisson, renewal, superposition
from qtheory.queues.markov import stationary
from qtheory.queues.multiserver_ph import map_ph_c
from qtheory.queues.phase_type import PhaseType as PhaseTypeTime
from qtheory.queues.phase_type import erlang, exponential
from qtheory.systems.dispatcher.ages import AgedService, aged_service, constant_time, radau
from qtheory.systems.dispatcher.exact_chain import marked_chain
from qtheory.systems.dispatcher.exact_projection import Projection
from qtheory.systems.dispatcher.exact_queues import Group1, killed_waits, settled_ages
from qtheory.systems.dispatcher.loads import traffic
from qtheory.systems.dispatcher.phase_laws import exact_phases


def model(**changes: Any) -> Dispatcher:
    fields: dict[str, Any] = {
        "servers": (1, 1),
        "time_limit": 1.5,
        "short_fraction": 0.7,
        "interarrival": Exponential(mean=1.2),
        "service0": Exponential(mean=1.0),
        "service1": Exponential(mean=0.9),
    }
    return Dispatcher(**(fields | changes))


def solve(system: Dispatcher) -> qtheory.Solution:
    return qtheory.solve(system, method="exact")


def waits(solution: qtheory.Solution) -> dict[str, tuple[float, float]]:
    """(value, error) of W0 and of the waits in Queue 1 of both classes."""
    own = {"group0": solution["mean_wait", "group0"]}
    found = {name: (value.value, value.error) for name, value in own.items()}
    for name in ("killed", "long"):
        if ("mean_wait", name) in solution.measures:
            value = solution["mean_wait", name]
            before = found["group0"][0] if name == "killed" else 0.0
            found[f"group1_{name}"] = (value.value - before, value.error)
    return found


# Ages


def test_radau_is_the_published_method() -> None:
    """The three-stage Radau IIA matrix (Hairer, Wanner 1996, table 5.6)."""
    nodes, matrix = radau(3)
    root = math.sqrt(6.0)
    np.testing.assert_allclose(nodes, [(4 - root) / 10, (4 + root) / 10, 1.0], rtol=1e-13)
    expected = [
        [(88 - 7 * root) / 360, (296 - 169 * root) / 1800, (-2 + 3 * root) / 225],
        [(296 + 169 * root) / 1800, (88 + 7 * root) / 360, (-2 - 3 * root) / 225],
        [(16 - root) / 36, (16 + root) / 36, 1 / 9],
    ]
    np.testing.assert_allclose(matrix, expected, rtol=1e-12)


@pytest.mark.parametrize("order", [2, 3])
def test_constant_time_moments(order: int) -> None:
    law = constant_time(1.7, order=order)
    for k in range(1, 2 * order):
        assert law.moment(k) == pytest.approx(1.7**k, rel=1e-11)


@pytest.mark.parametrize(
    "law",
    [Exponential(mean=1.0), Erlang(shape=4, mean=1.0), Hyperexponential(probabilities=(0.3, 0.7), means=(3, 0.4))],
)
def test_aged_service_ends_and_moments(law: Any) -> None:
    service, limit = distribution(law), 1.3
    aged = aged_service(service, limit=limit, order=7)
    spent = np.linalg.solve(-aged.law.generator.T, aged.law.alpha)
    assert spent @ aged.kills == pytest.approx(service.survival(limit), rel=1e-12)
    assert (spent > 0).all()
    for k in (1, 2, 3):
        assert aged.law.moment(k) == pytest.approx(service.capped_moment(float(k), limit), rel=1e-6)


# Closed forms


@pytest.mark.parametrize("service", [Exponential(mean=1.0), Erlang(shape=3, mean=1.0)])
def test_group0_alone_is_pollaczek_khinchine(service: Any) -> None:
    system = model(service0=service)
    offered = traffic(system)
    rate, law = offered.rates[0], offered.occupation0
    right = rate * law.moment(2.0) / (2.0 * (1.0 - rate * law.mean))
    value = solve(system)["mean_wait", "group0"]
    assert abs(value.value - right) <= value.error
    assert value.error <= 1e-5 * right


def test_no_kills_is_two_queues() -> None:
    """T infinite: M/M/2 (C = 1/3 at offered load 1) and M/E2/1 (Pollaczek-Khinchine)."""
    system = model(
        servers=(2, 1),
        time_limit=math.inf,
        short_fraction=0.5,
        interarrival=Exponential(mean=0.5),
        service1=Erlang(shape=2, mean=0.5),
    )
    solution = solve(system)
    assert solution["mean_wait", "group0"].value == pytest.approx(1 / 3, rel=1e-9)
    assert solution["wait_probability", "group0"].value == pytest.approx(1 / 3, rel=1e-9)
    assert solution["mean_wait", "long"].value == pytest.approx(0.375 / (2 * 0.5), rel=1e-9)


def test_group1_alone_against_the_many_server_queue() -> None:
    system = model(
        servers=(1, 3), short_fraction=0.0, interarrival=Erlang(shape=2, mean=0.3), service1=Erlang(shape=2, mean=0.7)
    )
    queue = map_ph_c(arrivals=renewal(erlang(shape=2, mean=0.3)), service=erlang(shape=2, mean=0.7), servers=3)
    assert solve(system)["mean_wait", "long"].value == pytest.approx(queue.mean_wait, rel=1e-7)


def test_rare_kills_leave_the_long_jobs_alone() -> None:
    """At T = 14 means, one job in 10^6 is killed: the long jobs see M/M/1."""
    system = model(time_limit=14.0, short_fraction=0.5, interarrival=Exponential(mean=0.8))
    rate, mean = 0.5 / 0.8, 0.9
    right = rate * mean**2 / (1.0 - rate * mean)
    assert solve(system)["mean_wait", "long"].value == pytest.approx(right, rel=2e-4)


def test_many_servers_in_group0_make_the_kills_poisson() -> None:
    """With Group 0 nearly an infinite-server group, kills are Poisson: W1 of the pooled jobs is M/G/1."""
    system = model(servers=(6, 1), short_fraction=0.6, interarrival=Exponential(mean=1.0), time_limit=1.0)
    offered = traffic(system)
    rate, law = offered.rates[1], offered.occupation1
    right = rate * law.moment(2.0) / (2.0 * (1.0 - rate * law.mean))
    value = solve(system)["mean_wait", "group1"]
    assert abs(value.value / right - 1.0) <= 2e-3


# Simulated systems


@pytest.mark.parametrize("number", [1, 4])
def test_kill_stream_systems(number: int) -> None:
    """Within the simulation's 95 % interval, doubled, and the claimed error: 4 standard errors."""
    system = msgspec.convert(anchors.KILL_STREAM_SYSTEMS[number], Dispatcher)
    solution = solve(system)
    found = waits(solution) | {"all": (solution["mean_response", "all"].value, solution["mean_response", "all"].error)}
    for (owner, _, scope), anchor in anchors.KILL_STREAM.items():
        if owner == number:
            value, error = found[scope]
            assert abs(value - anchor.value) <= 2.0 * anchor.within + error, scope


@needs_shared
@pytest.mark.parametrize("name", ["poisson-exp-1x1", "renewal-erlang2-exp-1x1"])
def test_simulated_anchors(name: str) -> None:
    assert SHARED is not None
    rows = json.loads((SHARED / "anchors/dispatcher.json").read_text())
    row = next(row for row in rows if row["name"] == name)
    solution = solve(msgspec.convert(row["model"], Dispatcher))
    for scope, (mean, half_width) in row["truth"]["mean_response"].items():
        value = solution["mean_response", scope]
        assert abs(value.value - mean) <= 2.0 * half_width + value.error, scope


# Refusals


def test_refuses_other_laws() -> None:
    with pytest.raises(InvalidModel, match=r"service1: must be exponential, erlang.*lognormal"):
        solve(model(service1=LogNormal(mean=0.5, scv=1.0)))
    with pytest.raises(InvalidModel, match="interarrival"):
        solve(model(interarrival=Deterministic(value=2.0)))


def test_refuses_beyond_the_budget() -> None:
    for servers in ((60, 3), (1, 60)):
        with pytest.raises(InvalidModel, match=r"up to .* states .*phase-type"):
            solve(model(servers=servers))


def test_refuses_atoms_and_vanishing_kills() -> None:
    with pytest.raises(InvalidModel, match="alpha"):
        solve(model(service1=PhaseType(alpha=(0.5,), generator=((-1.0,),))))
    with pytest.raises(InvalidModel, match="time_limit"):
        solve(model(time_limit=40.0))


def test_unstable_is_named() -> None:
    with pytest.raises(Unstable, match="group0"):
        solve(model(interarrival=Exponential(mean=0.3)))


# The joint chain, state by state


def joint_chain(*, rate: float, share: float, stages: int, limit: float, rate1: float) -> tuple[float, float]:
    """Mean waits in Queue 1 of killed and of long jobs in a chain with both groups of one server, all at once.

    T is an Erlang time of `stages` stages here, S0 exponential of mean 1, services in Group 1 exponential of rate
    `rate1` for both classes: a job that finds j there waits j / rate1 on average. States (i, stage, j), both queues
    cut far out.
    """
    top0, top1 = 60, 60
    empty, move = 0, stages / limit

    def index(i: int, stage: int, j: int) -> int:
        return (0 if i == empty else 1 + (i - 1) * stages + stage) * (top1 + 1) + j

    size = (1 + top0 * stages) * (top1 + 1)
    rows, columns, rates = [], [], []
    kill_rates = np.zeros(size)

    def add(start: int, end: int, value: float) -> None:
        rows.extend((start, start))
        columns.extend((end, start))
        rates.extend((value, -value))

    for i in range(top0 + 1):
        for stage in range(stages if i else 1):
            for j in range(top1 + 1):
                here = index(i, stage, j)
                if i < top0:
                    add(here, index(i + 1, stage, j), rate * share)
                if j < top1:
                    add(here, index(i, stage, j + 1), rate * (1.0 - share))
                if j:
                    add(here, index(i, stage, j - 1), rate1)
                if i:
                    add(here, index(i - 1, 0, j), 1.0)
                    last = stage == stages - 1
                    after = index(i - 1, 0, min(j + 1, top1)) if last else index(i, stage + 1, j)
                    add(here, after, move)
                    kill_rates[here] = move if last else 0.0
    x = stationary(sparse.csr_array(sparse.coo_array((rates, (rows, columns)), shape=(size, size))))
    found = np.tile(np.arange(top1 + 1), size // (top1 + 1))
    kills = x * kill_rates
    return float(kills @ found / kills.sum()) / rate1, float(x @ found) / rate1


def test_projection_against_the_joint_chain() -> None:
    rate, share, limit, rate1 = 0.75, 0.7, 1.5, 0.9
    killed, long = joint_chain(rate=rate, share=share, stages=2, limit=limit, rate1=rate1)
    stage = erlang(shape=2, mean=limit)
    service = AgedService(
        law=PhaseTypeTime(alpha=stage.alpha, generator=stage.generator - np.eye(2)), kills=stage.exits
    )
    chain = marked_chain(arrivals=poisson(rate=rate), short_fraction=share, servers=1, service=service, highest=80)
    projection = Projection(chain=chain, time_scale=1.0 / rate1)
    process = superposition(projection.arrivals(20), poisson(rate=rate * (1.0 - share)))
    law = exponential(mean=1.0 / rate1)
    queue = typed_queue(arrivals=process, services=[law, law], servers=1)
    assert queue.mean_wait(0) == pytest.approx(killed, rel=1e-6)
    assert queue.mean_wait(1) == pytest.approx(long, rel=1e-6)


def test_time_scaling() -> None:
    """All times a thousand times as long: so are the waits."""
    one = waits(solve(model(servers=(2, 2))))
    thousand = waits(
        solve(
            model(
                servers=(2, 2),
                time_limit=1500.0,
                interarrival=Exponential(mean=1200.0),
                service0=Exponential(mean=1000.0),
                service1=Exponential(mean=900.0),
            )
        )
    )
    for name, (value, _) in one.items():
        assert thousand[name][0] == pytest.approx(1e3 * value, rel=1e-6)


def test_an_erlang_written_as_phases_is_the_same() -> None:
    """Means of the waits only: quantiles of phase-type laws take their time."""
    found = []
    for law in (Erlang(shape=2, mean=0.5), PhaseType(alpha=(1.0, 0.0), generator=((-4.0, 4.0), (0.0, -4.0)))):
        system = model(service0=law)
        offered, phases = traffic(system), exact_phases(law, field="service0")
        group1 = Group1.affordable(
            offered, residual_of=phases, service1=exact_phases(system.service1, field="service1"), servers=1
        )
        ages = settled_ages(offered, arrivals=poisson(rate=1 / 1.2), short_fraction=0.7, servers=(1, 1))
        found.append([ages.wait.wait.mean, *(wait.wait.mean for wait in killed_waits(group1, ages=ages))])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-7)
