"""Quantities of a dispatcher's run whose means may be known, and those that go with each measure.

Job by job a run is a function of gaps, classes and requirements, whose means the law of the model fixes, so their
averages over the run tell how lucky the draw was.  `pooled_wait0` and `pooled_wait1` are the mean waits of the same
jobs where one server a group works as fast as all of its servers together (`qsim.kernels.pooled`): close companions
of the real waits in heavy traffic.
"""

from __future__ import annotations

import numpy as np

from qsim.estimate import Sample
from qsim.kernels.dispatcher import COUNT, KILLED, LONG, RESPONSE, SHORT, WAIT
from qsim.kernels.random import Array
from qtheory.measures import Key

#: Controls that cost the kernel a pass of their own, and all of them.
POOLED_WAITS = ("pooled_wait0", "pooled_wait1")
CONTROLS = (
    "interarrival",
    "work0",
    "work1",
    "offered_load0",
    "offered_load1",
    "completed_service",
    "killed_service",
    "service1",
    *POOLED_WAITS,
)

#: What goes with responses of a scope, the most useful first: services, offered loads, pooled waits.
_RESPONSE = {
    "all": ("pooled_wait1", "pooled_wait0", "work1", "work0", "interarrival"),
    "short": ("pooled_wait0", "completed_service", "offered_load0"),
    "long": ("pooled_wait1", "service1", "offered_load1"),
    "killed": ("pooled_wait1", "killed_service", "pooled_wait0", "offered_load1"),
}
#: What goes with waits and with numbers of jobs.
_WAIT = {
    "all": ("pooled_wait1", "pooled_wait0", "offered_load1", "offered_load0"),
    "short": ("pooled_wait0", "offered_load0"),
    "group0": ("pooled_wait0", "offered_load0"),
    "long": ("pooled_wait1", "offered_load1"),
    "group1": ("pooled_wait1", "offered_load1"),
    "killed": ("pooled_wait1", "pooled_wait0", "offered_load1"),
}
_UTILISATION = {
    "all": ("offered_load1", "offered_load0"),
    "group0": ("offered_load0",),
    "group1": ("offered_load1",),
}


def controls_of(key: Key) -> tuple[str, ...]:
    """Names of the controls of a measure: a fixed rule, so that the data that are adjusted choose nothing.

    A probability of a kill and a throughput are themselves averages of draws: adjusted, they would merely repeat
    their known mean.
    """
    measure, scope = key[:2]
    if measure in ("kill_probability", "throughput"):
        return ()
    if measure == "utilisation":
        return _UTILISATION[scope]
    if measure.endswith("response") or (measure, scope) == ("mean_number", "all"):
        return _RESPONSE[scope]
    return _WAIT[scope]


def control_samples(*, jobs: Array, window: Array, pooled: Array, aborted: Array) -> dict[str, Sample]:
    """Samples over the replications by name, from class totals (replications x classes x columns) and windows.

    interarrival : time between arrivals.
    work0, work1 : what a job, of whatever class, asks of Group 0, min(S0, T) if it is submitted there, and of Group 1.
        `aborted` is what killed jobs ask of Group 0, a sum for each replication.
    offered_load0, offered_load1 : the same for a unit of time.
    completed_service, killed_service, service1 : what short, killed and long jobs ask of the group that completes them.
    pooled_wait0, pooled_wait1 : mean waits of pooled groups, where the kernel kept them.
    """
    counts = jobs[:, :, COUNT]
    total = counts.sum(axis=1)
    served = jobs[:, :, RESPONSE] - jobs[:, :, WAIT]
    restarted = served[:, KILLED] - aborted
    work0, work1 = served[:, SHORT] + aborted, served[:, LONG] + restarted
    found = {
        "interarrival": _mean(window, total),
        "work0": _mean(work0, total),
        "work1": _mean(work1, total),
        "offered_load0": _mean(work0, window),
        "offered_load1": _mean(work1, window),
        "completed_service": _mean(served[:, SHORT], counts[:, SHORT]),
        "killed_service": _mean(restarted, counts[:, KILLED]),
        "service1": _mean(served[:, LONG], counts[:, LONG]),
    }
    for group in range(pooled.shape[1]):
        found[f"pooled_wait{group}"] = _mean(pooled[:, group, 1], pooled[:, group, 0])
    return found


def _mean(sums: Array, counts: Array) -> Sample:
    values = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
    return Sample(values=values, weights=counts)
