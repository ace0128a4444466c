"""How long a dispatcher remembers its start: relaxation of the workloads as reflected Brownian motions."""

from __future__ import annotations

import math

from qtheory.laws import Distribution
from qtheory.models import Dispatcher
from qtheory.systems.dispatcher.loads import traffic

#: Service times beyond this quantile are cut where the second moment is infinite.
_CUT = 1e-5


def relaxation_jobs(model: Dispatcher) -> float:
    """Jobs that arrive at the dispatcher during one relaxation time of the slower group."""
    return max(relaxation_jobs_of_groups(model))


def relaxation_jobs_of_groups(model: Dispatcher) -> tuple[float, float]:
    """Jobs that arrive at the dispatcher during one relaxation time of each group, 0 for a group without jobs.

    The workload of a group behaves as Brownian motion reflected at 0 with drift -d, d = (1 - rho) n, and variance
    rate P = lambda m^2 (cs2 + I), m mean and cs2 scv of the occupation, I the long-run dispersion of the arrivals;
    its relaxation time is about 2 P / d^2 (Whitt 1989, "Planning queueing simulations", Management Sci. 35).
    """
    offered = traffic(model)
    found = []
    for rate, load, servers, dispersion, occupation in zip(
        offered.rates, offered.offered, model.servers, offered.dispersions, offered.occupations, strict=True
    ):
        if rate == 0.0:
            found.append(0.0)
            continue
        spare = servers - load
        variance = rate * (second_moment(occupation) + occupation.mean**2 * (dispersion - 1.0))
        # A group also needs the time of a few services to fill, however light its load.
        found.append(offered.rate * max(2.0 * variance / spare**2, occupation.mean))
    return found[0], found[1]


def second_moment(occupation: Distribution) -> float:
    """E[X^2]; where it is infinite, that of min(X, x) with x exceeded once in 10^5 draws."""
    second = occupation.moment(2.0)
    if math.isfinite(second):
        return float(second)
    cut = occupation.quantile(1.0 - _CUT)
    return float(occupation.partial_moment(2.0, cut) + cut**2 * _CUT)
