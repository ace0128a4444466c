"""What a stand-in for times between arrivals leaves out, by a queue that is known for any such times: GI/M/c."""

from __future__ import annotations

import numpy as np

from qtheory.queues.linear import Array
from qtheory.queues.phase_type import PhaseType
from qtheory.systems.dispatcher.loads import Traffic
from qtheory.systems.dispatcher.stand_ins import interval_fit, intervals_are_matched
from qtheory.systems.dispatcher.thinned import by_transform, transform_rest

#: Stands for an infinite scv in the power below.
_LARGEST_SCV = 1e6


def interval_factor(traffic: Traffic, *, group: int, servers: int) -> float:
    """By what the mean wait behind the stand-in is to be multiplied; 1 where that has three moments of the intervals.

    The ratio of the exact mean waits of GI/M/c behind the true intervals and behind the stand-in, both thinned, to
    the power (c2 + 1) / (c2 + cs2), c2 the scv of the thinned intervals: they tell the more the less services vary.
    """
    if intervals_are_matched(traffic):
        return 1.0
    service, rate = traffic.occupations[group], traffic.rates[group]
    keep, count = min(rate / traffic.rate, 1.0), np.array([float(servers)])
    fit = interval_fit(traffic.interarrival)
    true, near = (
        by_transform(rest, keep=keep, mean_service=traffic.offered[group] / rate, servers=count)[0].item()
        for rest in (transform_rest(traffic.interarrival), lambda s: _rest(fit, s))
    )
    scv = keep * min(traffic.scv, _LARGEST_SCV) + 1.0 - keep
    return float((true / near) ** ((scv + 1.0) / (scv + min(service.scv, _LARGEST_SCV))))


def _rest(law: PhaseType, s: Array) -> Array:
    """1 - f(s) = s alpha (s I - A)^-1 e."""
    one = np.eye(law.order)
    left = [x * float(law.alpha @ np.linalg.solve(x * one - law.generator, one.sum(axis=1))) for x in s.ravel()]
    return np.reshape(left, s.shape)
