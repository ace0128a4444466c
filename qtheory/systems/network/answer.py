"""From jobs and departures by place to the measures of a network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qtheory.measures import Key, Table
from qtheory.models.base import require
from qtheory.models.network import Network
from qtheory.solution import Value
from qtheory.systems.network.expansion import Array
from qtheory.systems.network.places import Places

#: Less traffic than this share of all arrivals is round-off.
_NONE = 1e-12


def check_times(at: Sequence[float]) -> None:
    """A network has means only: raise `InvalidModel` if tail probabilities are asked for."""
    rule = "tail_response is not known for a network; its measures are means"
    require(len(at) == 0, field="at", rule=rule, value=list(at))


def measures(model: Network, where: Places, *, number: Array, departures: Array, error: float = 0.0) -> Table[Value]:
    """All measures from the mean number of jobs and the departure rate of each place.

    `error` bounds what a truncation takes from any mean number of jobs. Response and waiting times follow by Little's
    law, waiting being the time that a job is not in service; a server's response time is that of one visit. Servers
    that no job visits have no measures.
    """
    klass, server = where.klass, where.server
    arrivals = where.expansion.arrival_rates
    busy = departures / where.rates
    rows: dict[Key, Value] = {}
    scopes = [("all", np.ones(where.size, bool), float(arrivals.sum()))]
    scopes += [(c.name, klass == i, float(arrivals[i])) for i, c in enumerate(model.classes)]
    for scope, here, rate in scopes:
        jobs = float(number[here].sum())
        waiting = max(jobs - float(busy[here].sum()), 0.0)
        rows["mean_response", scope] = Value(value=jobs / rate, error=_ratio_error(jobs, rate, error))
        rows["mean_wait", scope] = Value(value=waiting / rate, error=_ratio_error(waiting, rate, error))
        rows["mean_number", scope] = Value(value=jobs, error=error)
        rows["mean_queue", scope] = Value(value=waiting, error=error)
        rows["throughput", scope] = Value(value=rate, error=min(error, rate))
    for n, name in enumerate(model.servers):
        here = server == n
        rate = float(departures[here].sum())
        # Visits that do not exceed the error (of a truncation, or of rounding) may be none at all.
        if rate > max(error, 1e-12 * float(arrivals.sum())):
            jobs = float(number[here].sum())
            rows["mean_response", name] = Value(value=jobs / rate, error=_ratio_error(jobs, rate, error))
            rows["mean_number", name] = Value(value=jobs, error=error)
            rows["utilisation", name] = Value(value=float(busy[here].sum()), error=min(error, 1.0))
            rows["throughput", name] = Value(value=rate, error=min(error, rate))
    share = float(busy.sum()) / len(model.servers)
    rows["utilisation", "all"] = Value(value=share, error=min(error, 1.0))
    order = ("mean_response", "mean_wait", "mean_number", "mean_queue", "utilisation", "throughput")
    return Table({key: rows[key] for name in order for key in rows if key[0] == name})


def _ratio_error(part: float, rate: float, error: float) -> float:
    return (error + part / rate * min(error, rate)) / rate if error > 0 else 0.0
