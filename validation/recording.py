"""A log made from a model: one realisation of its jobs up to a given time."""

from __future__ import annotations

import qsim
from qtheory.models import Dispatcher
from qtheory.models.errors import InvalidModel
from validation.traces import Trace


def record(model: Dispatcher, *, time_end: float, seed: int, source: str) -> Trace:
    """The jobs that arrive until `time_end`, drawn from the model's laws.

    Raises `InvalidModel` when none does.
    """
    jobs = qsim.draw_jobs(model, time_end=time_end, seed=seed)
    if not jobs.arrival.size:
        raise InvalidModel(field="time_end", rule="no job arrives before it", value=time_end, file=source)
    return Trace(
        source=source, arrival=jobs.arrival, service=jobs.service, group=jobs.group, used=int(jobs.arrival.size)
    )
