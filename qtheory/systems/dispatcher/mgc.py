"""M/G/c or GI/G/c for each group, kills as a stream of their own: the quick answer of every design.

Group 0 is a many-server queue in its own right.  Group 1 is taken for one too, its input for a Poisson stream (for
a thinning of the arrivals, where those are not Poisson); its mean wait is then multiplied by the ratio by which the
work that reaches it is less dispersed (`kill_stream`).  With ``kills="poisson"`` that last step is left out.
Checkpoints, grace and limits of the jobs' own change the laws in this, not the steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from qtheory.models import Dispatcher, InvalidModel
from qtheory.queues import deterministic_law, erlang
from qtheory.solution import Solution
from qtheory.systems.dispatcher.calibration import relative_errors
from qtheory.systems.dispatcher.coverage import require_covered
from qtheory.systems.dispatcher.delay import Delay
from qtheory.systems.dispatcher.kill_stream import work_dispersion_ratio
from qtheory.systems.dispatcher.loads import Traffic, require_stable, traffic
from qtheory.systems.dispatcher.measures import table
from qtheory.systems.dispatcher.waits import Waits, conditional_scv, group_waits, infinite_note

FloatArray = NDArray[np.float64]
Kills = Literal["dispersed", "poisson"]
#: Loads per server up to which the exact M/D/c wait probability is worked out.
_HIGHEST_LOAD = 0.9999
_NO_SECOND_MOMENT = (
    "interarrival has no second moment: waits by GI/M/c and its limit for other services, known to a factor only"
)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Mean responses of all stable designs, one entry for each.

    Attributes
    ----------
    servers : rows (n0, n1), by n0.
    mean_response : by class (``all``, ``short``, ``long``, ``killed``; those that have jobs).
    error : of each mean response, absolute.
    """

    servers: NDArray[np.int64]
    mean_response: dict[str, FloatArray]
    error: dict[str, FloatArray]


def solve(
    model: Dispatcher, *, at: Sequence[float] = (), quantiles: bool = True, kills: Kills = "dispersed"
) -> Solution:
    """All measures of one design.

    Means by `waits.group_waits`, quantiles by convolving a two-moment law of the wait with the class's service law.
    `error` covers the truth 19 times in 20 over the systems described in `calibration`.

    Without `quantiles` those are left out: means take a fraction of the time.

    Raises `Unstable` with the overloaded group, `InvalidModel` for laws the model cannot have, rules for killed
    jobs that are not covered or another `kills`,
    `NotConverged` if a quadrature over a law fails.

    >>> from qtheory.models import Exponential
    >>> model = Dispatcher(
    ...     servers=(3, 4), time_limit=3.0, short_fraction=0.65, interarrival=Exponential(mean=1 / 3),
    ...     service0=Exponential(mean=1.2), service1=Exponential(mean=2.0),
    ... )
    >>> round(solve(model)["mean_response", "all"].value, 1)
    2.3
    """
    if kills not in ("dispersed", "poisson"):
        raise InvalidModel(field="kills", rule="must be dispersed or poisson", value=kills)
    require_covered(model, method="mgc")
    offered = traffic(model)
    require_stable(offered.offered, servers=model.servers)
    design = _Designs(offered, servers=np.array([model.servers], dtype=np.int64), kills=kills)
    delays = (design.delay(0), design.delay(1))
    measures = table(offered, servers=model.servers, delays=delays, at=at, quantiles=quantiles)
    remarks = [_NO_SECOND_MOMENT] if math.isinf(offered.scv) else []
    return Solution(model=model, method="mgc", measures=measures, details={"remarks": remarks} if remarks else {})


def group_delay(offered: Traffic, *, group: int, servers: tuple[int, int]) -> Delay | None:
    """The wait in one group of a stable design; None where no job joins it."""
    return _Designs(offered, servers=np.array([servers], dtype=np.int64), kills="dispersed").delay(group)


def curve(model: Dispatcher, *, total: int, kills: Kills = "dispersed") -> Curve:
    """Mean responses of all stable designs n0 + n1 = total; the model's own `servers` do not matter.

    The same numbers as `solve` gives one by one.  Raises `Unstable` if no design is stable.
    """
    if total < 2:
        raise InvalidModel(field="total", rule="must be at least 2", value=total)
    first = np.arange(1, total, dtype=np.int64)
    return rank_designs(model, servers=np.column_stack([first, total - first]), kills=kills)


def rank_designs(model: Dispatcher, *, servers: NDArray[np.int64], kills: Kills = "dispersed") -> Curve:
    """Mean responses of those of the given designs, rows (n0, n1), that are stable.

    Raises `Unstable` if none is.
    """
    require_covered(model, method="mgc")
    offered = traffic(model)
    loads = np.array(offered.offered) / servers
    stable = np.all(loads < 1.0, axis=1)
    if not np.any(stable):
        least = int(np.argmin(loads.max(axis=1)))
        require_stable(offered.offered, servers=(int(servers[least, 0]), int(servers[least, 1])))
    designs = _Designs(offered, servers=servers[stable], kills=kills)
    return Curve(servers=servers[stable], mean_response=designs.mean_responses(), error=designs.errors())


class _Designs:
    """The waits of many stable designs of one traffic."""

    def __init__(self, offered: Traffic, *, servers: NDArray[np.int64], kills: Kills) -> None:
        self._traffic, self._servers = offered, servers
        counts = servers.astype(np.float64)
        self._waits: list[Waits | None] = [
            group_waits(offered, group=group, servers=counts[:, group]) if offered.rates[group] > 0.0 else None
            for group in (0, 1)
        ]
        ratio = work_dispersion_ratio(offered, servers0=counts[:, 0], servers1=counts[:, 1])
        self._ratio = ratio if kills == "dispersed" else np.ones(len(servers))
        self._means = [np.zeros(len(servers)), np.zeros(len(servers))]
        for group, waits in enumerate(self._waits):
            if waits is not None:
                self._means[group] = waits.mean * (self._ratio if group == 1 else 1.0)
        self._errors = relative_errors(offered, waits=self._waits, ratio=ratio, kills=kills)

    def mean_responses(self) -> dict[str, FloatArray]:
        """By class."""
        t, (first, second) = self._traffic, self._means
        responses: dict[str, FloatArray] = {}
        if t.short_rate > 0.0:
            responses["short"] = first + t.completed.mean
        if t.long_rate > 0.0:
            responses["long"] = second + t.service1.mean
        if t.killed_rate > 0.0:
            responses["killed"] = first + t.aborted.mean + second + t.killed.mean
        return {"all": self._mixed(responses)} | responses

    def errors(self) -> dict[str, FloatArray]:
        """Absolute errors of the mean responses, by class."""
        first, second = (
            np.where(np.isfinite(mean), np.where(np.isfinite(mean), mean, 0.0) * error.mean, math.inf)
            for mean, error in zip(self._means, self._errors, strict=True)
        )
        t = self._traffic
        errors = {"short": first, "long": second, "killed": first + second}
        present = {"short": t.short_rate, "long": t.long_rate, "killed": t.killed_rate}
        errors = {scope: error for scope, error in errors.items() if present[scope] > 0.0}
        return {"all": self._mixed(errors)} | errors

    def _mixed(self, values: dict[str, FloatArray]) -> FloatArray:
        t = self._traffic
        rates = {"short": t.short_rate, "long": t.long_rate, "killed": t.killed_rate}
        total = np.zeros(len(self._servers))
        for scope, value in values.items():
            total = total + rates[scope] / t.rate * value
        return total

    def delay(self, group: int) -> Delay | None:
        """The wait of a group in the first design."""
        waits = self._waits[group]
        if waits is None:
            return None
        count, mean, error = int(waits.servers[0]), float(self._means[group][0]), self._errors[group]
        probability = _wait_probability(self._traffic, waits=waits, group=group)
        if group == 1:
            probability *= min(float(self._ratio[0]), 1.0)
        finite = math.isfinite(mean)
        scv = conditional_scv(self._traffic, waits=waits, group=group) if finite else 1.0
        return Delay(
            mean=mean,
            probability=probability,
            scv=scv,
            error=float(error.mean[0]) * mean if finite else math.inf,
            probability_error=float(error.probability[0]) * probability,
            shape_error=float(error.shape[0]),
            note="" if finite else infinite_note(self._traffic, group=group, servers=count),
        )


def _wait_probability(offered: Traffic, *, waits: Waits, group: int) -> float:
    """P(W > 0), moved from Erlang's C towards the exact M/D/c where service varies less than exponentially.

    The share of the way is (1 - cs2)^(3/2): half a per cent off at most of M/G/c.
    """
    probability, load, count = float(waits.probability[0]), float(waits.load[0]), int(waits.servers[0])
    scv = offered.occupations[group].scv
    if scv >= 1.0 or count == 1 or load > _HIGHEST_LOAD:
        return probability
    service = offered.occupations[group].mean
    erlangs = erlang.erlang_c(offered_load=load * count, servers=count)
    if erlangs == 0.0:  # thousands of servers: nobody waits
        return probability
    constant = deterministic_law.wait_probability(
        arrival_rate=load * count / service, service_time=service, servers=count
    )
    return float(probability * (1.0 - (1.0 - scv) ** 1.5 * (1.0 - constant / erlangs)))
