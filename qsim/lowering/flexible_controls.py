"""Quantities of a run of parallel queues whose means may be known, and those that go with each measure."""

from __future__ import annotations

from qsim.estimate import Sample
from qsim.kernels import flexible as kernel
from qsim.kernels import flexible_chain as chain
from qsim.kernels.random import Array
from qsim.lowering.samples import ratio
from qtheory.measures import Key
from qtheory.models.flexible import Flexible

#: The most useful first.
CONTROLS = ("offered_load", "service", "interarrival", "flexible_share")


def controls_of(key: Key) -> tuple[str, ...]:
    """Names of the controls of a measure, a fixed rule.

    Throughputs and utilisations would merely repeat their known means, and quantiles gain too little to pay for the
    degrees of freedom.
    """
    return CONTROLS if key[0].startswith("mean_") else ()


def job_controls(model: Flexible, *, jobs: Array, windows: Array) -> dict[str, Sample]:
    """Samples over the replications by name, from runs job by job.

    interarrival : time between arrivals; service : requirements; offered_load : requirements a queue and unit of time.
    flexible_share : share of flexible jobs.
    """
    assert isinstance(model.queues, int)
    counts, window = jobs[:, :, kernel.COUNT], windows[:, kernel.WINDOW]
    total = counts.sum(axis=1)
    served = (jobs[:, :, kernel.RESPONSE] - jobs[:, :, kernel.WAIT]).sum(axis=1)
    return {
        "interarrival": ratio(window, total),
        "flexible_share": ratio(counts[:, kernel.FLEXIBLE], total),
        "service": ratio(served, total),
        "offered_load": ratio(served / model.queues, window),
    }


def chain_controls(model: Flexible, *, steps: Array, counts: Array, mean: float) -> dict[str, Sample]:
    """The same from runs of the jump chain, where services are steps that come at the rate of all servers."""
    arrived = steps[:, chain.ARRIVED]
    assert isinstance(model.queues, int)
    rate = model.queues * (1.0 + model.load) / mean
    return {
        "interarrival": ratio(steps[:, chain.STEPS] / rate, arrived),
        "flexible_share": ratio(counts[:, chain.FLEXIBLE], arrived),
    }
