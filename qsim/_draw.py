"""One realisation of a dispatcher's jobs, as a log."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qsim.kernels.random import Array, fill_uniform
from qsim.sampling import check_progress, sample
from qsim.streams import stream
from qtheory.models.dispatcher import Dispatcher
from qtheory.models.errors import InvalidModel

_CHUNK = 4096


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Jobs in the order of arrival: a column each."""

    arrival: Array
    service: Array
    group: NDArray[np.int64]


def draw_jobs(model: Dispatcher, *, time_end: float, seed: int = 1) -> Jobs:
    """The jobs that arrive by `time_end`, the first ones that replication 0 of `simulate` with this seed meets.

    Raises
    ------
    InvalidModel : `time_end` is not a finite time > 0, or a law cannot be sampled.
    """
    if not 0 < time_end < math.inf:
        raise InvalidModel(field="time_end", rule="must be a finite time > 0", value=time_end)
    if seed < 0:
        raise InvalidModel(field="seed", rule="must not be negative", value=seed)
    check_progress(model.interarrival, field="interarrival")
    states = {
        name: stream(seed=seed, replication=0, name=name) for name in ("arrivals", "class", "service0", "service1")
    }
    chunks, now = [], 0.0
    while now <= time_end:
        gaps = sample(model.interarrival, size=_CHUNK, state=states["arrivals"], field="interarrival")
        chunks.append(now + np.cumsum(gaps))
        now = float(chunks[-1][-1])
    arrival = np.concatenate(chunks)
    arrival = arrival[arrival <= time_end]
    classes = np.empty(arrival.size)
    fill_uniform(states["class"], classes)
    group = np.where(classes < model.short_fraction, 0, 1)
    service = np.empty(arrival.size)
    for place, (name, law) in enumerate((("service0", model.service0), ("service1", model.service1))):
        members = group == place
        service[members] = sample(law, size=int(members.sum()), state=states[name], field=name)
    return Jobs(arrival=arrival, service=service, group=group)
