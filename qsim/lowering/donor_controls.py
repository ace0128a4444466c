"""Quantities of a donor system's run whose means may be known, and those that go with each measure.

The window lies between two arrivals, so that counts of it less their rates times the time they had are martingales
stopped at a stopping time: their means are 0 whatever the policy does.
"""

from __future__ import annotations

from qsim.estimate import Sample
from qsim.kernels.donor import AT_HOME, COUNT, HELPED, LEFT1, LEFT2, ONE_BUSY, RESPONSE, WAIT, WINDOW
from qsim.kernels.random import Array
from qsim.lowering.samples import ratio
from qtheory.measures import Key
from qtheory.models.donor import Donor

CONTROLS = ("interarrival", "type1", "service1", "service2", "work2")

#: The most useful first.
_MAIN = ("service1", "interarrival", "type1")
_QUEUE2 = ("service2", "work2", "interarrival")


def controls_of(key: Key) -> tuple[str, ...]:
    """Names of the controls of a measure, a fixed rule.

    Throughputs and utilisations would merely repeat their known means, and quantiles depend on the draws too little to
    pay for the degrees of freedom.
    """
    measure, scope = key[:2]
    if not (measure.startswith("mean_") or measure == "cost"):
        return ()
    return _QUEUE2 if scope == "queue2" else _MAIN


def control_samples(model: Donor, *, jobs: Array, times: Array) -> dict[str, Sample]:
    """Samples over the replications by name.

    interarrival : time between arrivals.
    type1 : share of type 1 among the counted jobs.
    service1, service2 : work done at a queue in the window for each departure from it, where work is exponential.
    work2 : work of a counted type 2 job.
    """
    rates, counts = model.service_rates, jobs[:, :, COUNT]
    total = counts.sum(axis=1)
    done1 = rates.mu1 * times[:, ONE_BUSY] + rates.mu12 * times[:, HELPED]
    served2 = jobs[:, 1, RESPONSE] - jobs[:, 1, WAIT]
    return {
        "interarrival": ratio(times[:, WINDOW], total),
        "type1": ratio(counts[:, 0], total),
        "service1": ratio(done1, times[:, LEFT1]),
        "service2": ratio(rates.mu2 * times[:, AT_HOME], times[:, LEFT2]),
        "work2": ratio(rates.mu2 * served2, counts[:, 1]),
    }
