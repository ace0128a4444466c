"""How far the `phase-type` method is off: errors that cover the truth 19 times in 20.

Relative errors of mean waits grow with l = -ln P(W > 0): a rare wait is a tail event, and stand-ins of low order err
in the exponent. Behind the kill stream they grow with its distance from a Poisson stream as well, with the
share of kills in the load, with the difference that another reduction makes, and with what richer laws changed in the
queue with Poisson kills.
The constants were set by hand on 37 simulated systems (Poisson and renewal arrivals, many with more than half of
Group 1's load killed; 1 to 60 servers, loads .3 to .95). Of 50 drawn later (the guide `accuracy`) the 30 with Poisson
arrivals confirmed them; on the first 15 with other arrivals errors of intervals that a stand-in does not match, of
fixed times behind regular arrivals and of rare waits were added, and the last five of them checked those.
"""

from __future__ import annotations

import math

from qtheory.laws import Distribution
from qtheory.systems.dispatcher.delay import Delay
from qtheory.systems.dispatcher.group_queues import Wait
from qtheory.systems.dispatcher.killed_queue import KilledQueue
from qtheory.systems.dispatcher.loads import Traffic
from qtheory.systems.dispatcher.stand_ins import intervals_are_matched

#: Relative error where nothing else is left: rounding in the solvers.
_FLOOR = 1e-7
#: Times, in means, beyond which laws are not followed, and what half of their second moment there may do to the wait.
_FAR, _FAR_WEIGHT = 100.0, 0.6
_LEAST_PROBABILITY = 1e-12
#: Moments that the law of a wait is made of where they are sound.
_ALL_MOMENTS = 5


def pure(traffic: Traffic, *, group: int, servers: int, wait: Wait, exponential: bool) -> float:
    """Relative error of the mean wait of a group that sees a thinning of the arrivals only."""
    if traffic.poisson and (servers == 1 or exponential):
        return _FLOOR
    rare = _rarity(wait)
    error = 0.0003 + 0.0006 * (1.0 - wait.probability) + 0.0005 * rare**2
    if not traffic.poisson:
        error = 0.0004 + 2.5 * error
    return error + _far(traffic.occupations[group], wait)


def with_kills(traffic: Traffic, *, found: KilledQueue, wait: Wait, factor: float) -> float:
    """Relative error of the mean waits of Group 1 where killed jobs join it; `wait` is that of any job."""
    rare, distance = _rarity(wait), abs(math.log(max(found.ratio, 1e-12)))
    killed = traffic.killed_load_share
    error = 0.0006 + 0.0008 * rare**2 + distance * (0.04 * killed**2 + 0.02 * (0.3 + rare + 0.3 * rare**2))
    if not traffic.poisson:
        error += 0.001 + 0.003 * rare
    error += unmatched(traffic, wait=wait, factor=factor)
    return error + 0.7 * found.spread + 0.2 * found.correction + _far(traffic.occupations[1], wait)


def dispersed(*, ratio: float, wait: Wait) -> float:
    """Relative error of the Poisson queue times the work-dispersion ratio."""
    return 0.03 + 0.6 * abs(1.0 - ratio) + 0.03 * _rarity(wait) ** 2


def shape(law: Distribution, *, wait: Wait) -> float:
    """Relative error of quantiles of the wait beside that of its mean."""
    heavy = math.isinf(law.moment(3.0)) or law.scv > 3.0
    few = 0 < len(wait.moments) < _ALL_MOMENTS
    return 0.003 + 0.004 * (1.0 - wait.probability) + (0.03 if heavy else 0.0) + (0.03 if few else 0.0)


def delay(wait: Wait, *, relative: float, shape_error: float) -> Delay:
    """The wait with its errors."""
    return Delay(
        mean=wait.mean,
        probability=wait.probability,
        scv=max(wait.scv, 0.05),
        error=relative * wait.mean,
        probability_error=min(relative + 0.01 * (1.0 - wait.probability), 1.0) * wait.probability,
        shape_error=shape_error,
        moments=wait.moments,
    )


def unmatched(traffic: Traffic, *, wait: Wait, factor: float) -> float:
    """What intervals whose third moment, or even second, is not that of their stand-in may do (`interval_factor`)."""
    if intervals_are_matched(traffic):
        return 0.0
    heavy = 0.05 if math.isinf(traffic.scv) else 0.002
    return heavy + 0.004 * (1.0 - wait.probability) + 0.5 * abs(math.log(factor))


def _rarity(wait: Wait) -> float:
    """-ln P(W > 0)."""
    return -math.log(max(wait.probability, _LEAST_PROBABILITY))


def _far(law: Distribution, wait: Wait) -> float:
    """What lies beyond the times that a fit follows; half the wait where there is no second moment."""
    if not math.isfinite(law.scv):
        return 0.5
    share = float(law.tail_moment(2.0, _FAR * law.mean)) / law.moment(2.0)
    return _FAR_WEIGHT * share * (1.0 - wait.probability)
