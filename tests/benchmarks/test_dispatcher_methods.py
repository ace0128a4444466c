"""The quick method of the dispatcher: every split of a thousand servers, and one design with all its measures."""

from __future__ import annotations

from typing import Any

import anchors

import qtheory
from qtheory.models import Exponential, parse
from qtheory.systems.dispatcher import mgc


def test_all_designs_of_a_thousand_servers(benchmark: Any) -> None:
    """Example E scaled to 1000 servers: mean responses of every stable n0 in one call."""
    model = parse(anchors.EXAMPLE_E_MODEL).replace(interarrival=Exponential(mean=7 / 3000))
    curve = benchmark.pedantic(mgc.curve, args=(model,), kwargs={"total": 1000}, rounds=5, warmup_rounds=1)
    assert len(curve.servers) == 297


def test_all_measures_of_one_design(benchmark: Any) -> None:
    """Means, quantiles and probabilities of example E."""
    found = benchmark.pedantic(qtheory.solve, args=(parse(anchors.EXAMPLE_E_MODEL),), rounds=5, warmup_rounds=1)
    assert ("p99_response", "killed") in found.measures
