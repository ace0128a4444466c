"""Exact many-server queues against a package that solves them, in one run; figures go into `extra_info`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from qtheory.queues.age import typed_queue
from qtheory.queues.fitting import two_moments
from qtheory.queues.map import renewal
from qtheory.queues.multiserver_ph import m_ph_c
from qtheory.queues.phase_type import erlang

H2 = two_moments(mean=1.0, scv=4.0)
RESPONSES = {2: 5.28538, 10: 1.43237, 50: 1.01408}


def seconds(work: Callable[[], Any], rounds: int = 5) -> float:
    """Processor time on one thread, best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("servers", [2, 10, 50, 100, 1000])
def test_hyperexponential_services(benchmark: Any, servers: int) -> None:
    queue = benchmark(lambda: m_ph_c(rate=0.8 * servers, service=H2, servers=servers))
    if servers in RESPONSES:
        assert queue.mean_response == pytest.approx(RESPONSES[servers], abs=6e-6)


@pytest.mark.parametrize("servers", [2, 10, 50])
def test_against_most_queue(benchmark: Any, servers: int) -> None:
    """M/H2/c by Takahashi and Takami's method."""
    theory = pytest.importorskip("most_queue.theory.fifo.mgn_takahasi")

    def theirs() -> float:
        calc = theory.MGnCalc(n=servers)
        calc.set_sources(l=0.8 * servers)
        calc.set_servers(b=[H2.moment(k) for k in (1, 2, 3, 4)])
        return float(calc.run().v[0])

    mean = theirs()
    queue = benchmark(lambda: m_ph_c(rate=0.8 * servers, service=H2, servers=servers))
    assert queue.mean_response == pytest.approx(RESPONSES[servers], abs=6e-6)
    ours = seconds(lambda: m_ph_c(rate=0.8 * servers, service=H2, servers=servers))
    benchmark.extra_info |= {"most_queue_seconds": seconds(theirs, rounds=3), "seconds": ours, "their_mean": mean}


def test_four_phases_twenty_servers(benchmark: Any) -> None:
    service = erlang(shape=4, mean=1.0)
    queue = benchmark(lambda: m_ph_c(rate=16.0, service=service, servers=20))
    assert queue.truncation < 1e-8


def test_typed_queue(benchmark: Any) -> None:
    """Two types from one renewal process, ten servers, three service phases: the size of a killed-job group."""
    arrivals = renewal(erlang(shape=2, mean=0.1)).split(probabilities=[0.6, 0.4])
    services = [erlang(shape=2, mean=0.9), two_moments(mean=0.6, scv=1.0)]
    queue = benchmark(lambda: typed_queue(arrivals=arrivals, services=services, servers=10))
    assert queue.load == pytest.approx(0.78)
