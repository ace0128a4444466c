"""Elementary queue formulas at scale: values a second of one thread, in `extra_info`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qtheory.queues import deterministic, many_server, markovian


@pytest.mark.parametrize("largest", [1e3, 1e6])
def test_a_million_erlang_c_values(benchmark: Any, largest: float) -> None:
    """Servers log-uniform from 1, loads per server to 1 - 1e-9: one call for a million (lambda, m, c)."""
    random = np.random.default_rng(1)
    servers = np.floor(np.exp(random.uniform(0.0, np.log(largest), 1_000_000)))
    mean = random.uniform(0.1, 10.0, servers.size)
    rate = servers / mean * (1.0 - 10.0 ** random.uniform(-9.0, -0.05, servers.size))
    waits = benchmark.pedantic(
        markovian.wait_probability,
        kwargs={"arrival_rate": rate, "mean_service": mean, "servers": servers},
        rounds=3,
    )
    assert waits.shape == servers.shape
    assert np.all((waits >= 0.0) & (waits <= 1.0))
    benchmark.extra_info["million values a second"] = 1.0 / benchmark.stats.stats.min


@pytest.mark.parametrize("closed", [True, False], ids=["closed form", "exact M/D/c"])
def test_two_groups_of_every_size_to_1000(benchmark: Any, closed: bool) -> None:
    """Kimura's wait of both groups of 1000 servers for all 999 splits."""
    first = np.arange(1.0, 1000.0)
    servers = np.stack([first, 1000.0 - first])
    queue = {"arrival_rate": 0.9 * servers, "servers": servers}

    def waits() -> Any:
        constant = deterministic.kimura_wait(service_time=1.0, **queue) if closed else None
        return many_server.kimura(mean_service=1.0, service_scv=4.0, deterministic_wait=constant, **queue)

    assert np.all(benchmark(waits) >= 0.0)
    benchmark.extra_info["designs"] = first.size
