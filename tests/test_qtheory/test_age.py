"""Typed queues by the age process: single types against the QBD, types against mixtures and simulation."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from scipy.optimize import brentq

from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.queues.age import TypedQueue, typed_queue
from qtheory.queues.fitting import three_moments, two_moments
from qtheory.queues.map import ArrivalProcess, markovian, mmpp, poisson, renewal
from qtheory.queues.multiserver_ph import m_ph_c, map_ph_c
from qtheory.queues.phase_type import PhaseType, closed_by, erlang, exponential, phase_type
from qtheory.queues.riccati import first_return

H2 = two_moments(mean=1.0, scv=4.0)
E3 = erlang(shape=3, mean=1.0)
FIXED = three_moments(m1=1.0, m2=1.0, m3=1.0)
SWITCH = mmpp(generator=[[-0.4, 0.4], [0.1, -0.1]], rates=[5.0, 0.5])


@pytest.mark.parametrize("arrivals", [poisson(rate=1.0), renewal(E3), SWITCH])
@pytest.mark.parametrize(("service", "servers"), [(H2, 1), (H2, 6), (E3, 4), (FIXED, 5)])
@pytest.mark.parametrize("load", [0.3, 0.8, 0.999])
def test_one_type_agrees_with_the_qbd(arrivals: ArrivalProcess, service: PhaseType, servers: int, load: float) -> None:
    """Two algorithms on two different processes (age against number) give one mean wait, to 9 digits."""
    arrivals = arrivals.scaled(rate=load * servers)
    aged = typed_queue(arrivals=arrivals, services=[service], servers=servers)
    counted = map_ph_c(arrivals=arrivals, service=service, servers=servers)
    assert aged.mean_wait(0) == pytest.approx(counted.mean_wait, rel=1e-9)
    assert aged.wait_probability(0) == pytest.approx(counted.wait_probability, rel=1e-9)
    assert aged.wait(0).mean == pytest.approx(counted.mean_wait, rel=1e-9)


def test_wait_distribution_agrees_with_distributional_little() -> None:
    aged = typed_queue(arrivals=poisson(rate=3.2), services=[H2], servers=4)
    counted = m_ph_c(rate=3.2, service=H2, servers=4)
    times = np.array([0.0, 0.3, 2.0, 10.0])
    np.testing.assert_allclose(aged.wait(0).survival(times), counted.wait.survival(times), rtol=1e-10)
    assert aged.wait(0).quantile(0.95) == pytest.approx(counted.wait.quantile(0.95), rel=1e-10)
    assert aged.response(0).mean == pytest.approx(counted.mean_response, rel=1e-11)


@pytest.mark.parametrize("servers", [1, 3])
def test_gi_m_c_wait_is_exponential(servers: int) -> None:
    """P(W > x) = P(W > 0) e^(-c (1 - sigma) x), sigma the root of A*(c (1 - x)) = x."""
    arrivals = renewal(erlang(shape=2, mean=1 / (0.85 * servers)))
    queue = typed_queue(arrivals=arrivals, services=[exponential(mean=1.0)], servers=servers)
    law = arrivals.interval
    sigma = brentq(lambda x: float(law.transform(servers * (1 - x))) - x, 0.0, 1 - 1e-9, xtol=1e-15)
    times = np.array([0.0, 0.5, 3.0, 20.0])
    expected = queue.wait_probability(0) * np.exp(-servers * (1 - sigma) * times)
    np.testing.assert_allclose(queue.wait(0).survival(times), expected, rtol=1e-10)


def test_types_of_a_poisson_process_wait_alike() -> None:
    """Random types: every arrival sees time averages, and the services are a mixture."""
    fast, slow = erlang(shape=2, mean=0.5), exponential(mean=2.5)
    arrivals = poisson(rate=3.0).split(probabilities=[0.75, 0.25])
    queue = typed_queue(arrivals=arrivals, services=[fast, slow], servers=4)
    mixed = phase_type(
        alpha=np.concatenate([0.75 * fast.alpha, 0.25 * slow.alpha]),
        generator=np.block([[fast.generator, np.zeros((2, 1))], [np.zeros((1, 2)), slow.generator]]),
    )
    single = m_ph_c(rate=3.0, service=mixed, servers=4)
    np.testing.assert_allclose(queue.mean_waits, single.mean_wait, rtol=1e-10)
    np.testing.assert_allclose([queue.wait(k).survival(1.5) for k in (0, 1)], single.wait.survival(1.5), rtol=1e-10)


def bursts() -> tuple[ArrivalProcess, list[PhaseType]]:
    """Type 0 comes in bursts with long services, type 1 in quiet times with short ones."""
    hidden = [[-4.0, 1.0], [0.2, -1.2]]
    arrivals = markovian(hidden, [[3.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]])
    return arrivals, [exponential(mean=1.0), erlang(shape=2, mean=0.4)]


def simulated(queue: TypedQueue, jobs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean wait by type, and standard errors from 40 batches, job by job."""
    rng = np.random.default_rng(seed)
    process = queue.arrivals
    exits = -np.diag(process.hidden)
    moves = []
    for i in range(process.order):
        rates = [np.where(np.arange(process.order) == i, 0.0, process.hidden[i]), *(mark[i] for mark in process.marks)]
        moves.append(np.cumsum(np.concatenate(rates)) / exits[i])
    free = [0.0] * queue.servers
    now, phase = 0.0, 0
    waits, kinds = np.empty(jobs), np.empty(jobs, dtype=int)
    for n in range(jobs):
        kind = -1
        while kind < 0:
            now += rng.exponential(1 / exits[phase])
            kind, phase = divmod(int(np.searchsorted(moves[phase], rng.random())), process.order)
            kind -= 1
        begin = max(now, heapq.heappop(free))
        service = queue.services[kind]
        heapq.heappush(free, begin + rng.gamma(service.order, service.mean / service.order))
        waits[n], kinds[n] = begin - now, kind
    means, errors = [], []
    for kind in range(len(queue.services)):
        chosen = kinds == kind
        sums = np.where(chosen, waits, 0.0).reshape(40, -1).sum(axis=1)
        counts = chosen.reshape(40, -1).sum(axis=1)
        mean = sums.sum() / counts.sum()
        means.append(mean)
        errors.append(np.std(sums - mean * counts, ddof=1) / counts.mean() / np.sqrt(40))
    return np.array(means), np.array(errors)


@pytest.mark.parametrize("servers", [1, 2])
def test_types_against_simulation(servers: int) -> None:
    """60 000 jobs, seed 11; bounds of 6 standard errors (false alarm 1e-6 each). The two types differ by a factor
    above 2, so a model that forgets the type would be caught; errors above 10 % are."""
    arrivals, services = bursts()
    arrivals = arrivals.scaled(rate=arrivals.rate * (0.75 if servers == 1 else 1.5))
    queue = typed_queue(arrivals=arrivals, services=services, servers=servers)
    means, errors = simulated(queue, 60_000, seed=11)
    assert (np.abs(queue.mean_waits - means) < 6 * errors).all()
    assert (6 * errors < 0.45 * means).all()
    assert queue.mean_waits[0] > 1.5 * queue.mean_waits[1]


def test_modes_of_typed_servers_against_the_exact_chain() -> None:
    arrivals, services = bursts()
    servers = 12
    arrivals = arrivals.scaled(rate=0.8 * servers * arrivals.rate / float(arrivals.rates @ [1.0, 0.4]))
    exact = typed_queue(arrivals=arrivals, services=services, servers=servers, depth=servers)
    short = typed_queue(arrivals=arrivals, services=services, servers=servers)
    assert short.truncation > 0.0
    np.testing.assert_allclose(short.mean_waits, exact.mean_waits, rtol=1e-6)
    np.testing.assert_allclose(
        [short.wait(k).survival(0.5) for k in (0, 1)], [exact.wait(k).survival(0.5) for k in (0, 1)], rtol=1e-4
    )


def test_signed_pieces_of_one_law() -> None:
    """The same arrivals and services after a change of basis that loses all signs."""
    arrivals, services = bursts()
    plain = typed_queue(arrivals=arrivals, services=services, servers=2)
    basis = np.array([[1.3, -0.3], [-0.4, 1.4]])
    back = np.linalg.inv(basis)
    turned = ArrivalProcess(
        hidden=basis @ arrivals.hidden @ back, marks=tuple(basis @ mark @ back for mark in arrivals.marks)
    )
    law = services[1]
    other = PhaseType(alpha=law.alpha @ back, generator=basis @ law.generator @ back)
    queue = typed_queue(arrivals=turned, services=[services[0], other], servers=2)
    np.testing.assert_allclose(queue.mean_waits, plain.mean_waits, rtol=1e-9)
    times = np.array([0.0, 0.5, 2.0])
    np.testing.assert_allclose(queue.wait(1).survival(times), plain.wait(1).survival(times), rtol=1e-8)


def test_closing_vectors() -> None:
    """A law written with a closing vector other than e, positive or signed."""
    law = erlang(shape=3, mean=2.0)
    times = np.array([0.0, 1.0, 4.0])
    for scale in (np.array([2.0, 0.5, 1.0]), np.array([1.0, -0.5, 3.0]), np.array([1.0, 1e-9, -2.0])):
        turn = np.eye(3) + np.outer(scale - 1.0, [1.0, 0.0, 0.0])
        closing = turn @ np.ones(3)
        back = np.linalg.inv(turn)
        found = closed_by(alpha=law.alpha @ back, generator=turn @ law.generator @ back, closing=closing)
        np.testing.assert_allclose(found.survival(times), law.survival(times), atol=1e-9)


def test_first_return_of_a_fluid() -> None:
    """Psi solves its equation and is a law; blocks of a chain whose rows do not sum to 0 are refused."""
    rng = np.random.default_rng(8)
    a, b, c, d = rng.random((3, 3)), 2.0 * rng.random((3, 2)), rng.random((2, 3)), rng.random((2, 2))
    a -= np.diag(a.sum(axis=1) + b.sum(axis=1))
    d -= np.diag(d.sum(axis=1) + c.sum(axis=1))
    psi = first_return(up=a, up_to_down=b, down_to_up=c, down=d)
    assert np.abs(b + a @ psi + psi @ d + psi @ c @ psi).max() < 1e-13
    np.testing.assert_allclose(psi.sum(axis=1), 1.0, rtol=1e-13)
    assert psi.min() > 0.0
    with pytest.raises(NotConverged):
        first_return(up=a, up_to_down=0.9 * b, down_to_up=c, down=d)


def test_refusals() -> None:
    arrivals, services = bursts()
    with pytest.raises(InvalidModel, match="one law for each type"):
        typed_queue(arrivals=arrivals, services=services[:1], servers=2)
    with pytest.raises(InvalidModel, match="at least 1"):
        typed_queue(arrivals=arrivals, services=services, servers=0)
    with pytest.raises(InvalidModel, match="atom"):
        typed_queue(arrivals=poisson(rate=0.5), services=[phase_type(alpha=[0.5], generator=[[-1.0]])], servers=1)
    with pytest.raises(InvalidModel, match="positive rate"):
        typed_queue(arrivals=poisson(rate=0.5).split(probabilities=[1.0, 0.0]), services=services, servers=1)
    with pytest.raises(Unstable, match="group1"):
        typed_queue(arrivals=arrivals.scaled(rate=9.0), services=services, servers=1, where="group1")
    with pytest.raises(NotConverged, match="too near"):
        typed_queue(arrivals=poisson(rate=1 - 1e-12), services=[exponential(mean=1.0)], servers=1)
    with pytest.raises(NotConverged, match="too many phases"):
        typed_queue(arrivals=poisson(rate=8.0), services=[two_moments(mean=1.0, scv=1 / 100)], servers=10)
