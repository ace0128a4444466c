"""The recursion over servers against a heap of idle instants, for every structure it may stand in."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsim.kernels.servers import idle_servers, serve


def by_heap(joins, services, count: int, limit: float) -> list[float]:
    free = [-math.inf] * count
    starts = []
    for join, service in zip(joins, services, strict=True):
        start = max(join, heapq.heappop(free))
        heapq.heappush(free, start + min(service, limit))
        starts.append(start)
    return starts


def by_kernel(joins, services, count: int, limit: float, *, cut: int = 0) -> list[float]:
    free, places = idle_servers(count)
    joins, services, starts = np.array(joins), np.array(services), np.empty(len(joins))
    for part in (slice(0, cut), slice(cut, None)):
        serve(free, places, joins[part], services[part], limit, starts[part])
    return starts.tolist()


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=50),
    count=st.integers(1, 20),
    limit=st.sampled_from([2.0, 5.0, math.inf]),
    cut=st.integers(0, 20),
)
def test_ties_and_blocks(jobs, count, limit, cut) -> None:
    joins = np.cumsum([float(gap) for gap, _ in jobs]).tolist()
    services = [float(size) for _, size in jobs]
    assert by_kernel(joins, services, count, limit, cut=cut) == by_heap(joins, services, count, limit)


@pytest.mark.parametrize("count", [*range(1, 18), 31, 33, 100, 1000])
def test_every_number_of_servers(count: int) -> None:
    rng = np.random.default_rng(count)
    joins = np.cumsum(rng.exponential(1 / (0.95 * count), 4000))
    services = rng.exponential(1.0, 4000)
    assert by_kernel(joins, services, count, 2.5, cut=1777) == by_heap(joins, services, count, 2.5)
