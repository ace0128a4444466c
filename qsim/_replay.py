"""What would have become of recorded jobs: the kernel's recursion on given arrivals, requirements and groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qsim.kernels.passes import serve_both
from qsim.kernels.servers import idle_servers, serve
from qsim.recorded import Exact, Floats, History, measures
from qtheory.measures import Key, Table
from qtheory.models.dispatcher import Dispatcher
from qtheory.models.errors import InvalidModel

Groups = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Recorded jobs and what became of them, in input order.

    Attributes
    ----------
    model : servers, time limit and rules for killed jobs are used, nothing else.
    service, group : as given.  A killed job that keeps a share of its work needs less in Group 1.
    history : every job's instants (arrival, starts, kill, departure by the rules, whenever it is), nan where none.
    departure : nan for a job that has not departed by the end of the replay.
    classes : `0` completed in Group 0, `1` submitted to Group 1, `r0` killed and restarted.
    unfinished : jobs without a departure.
    measures : exact values for the jobs that departed; time averages run from the first arrival to the last
        departure (or the end of the replay).
    """

    model: Dispatcher
    service: Floats
    group: Groups
    history: History
    departure: Floats
    classes: list[str]
    unfinished: int
    measures: Table[Exact]

    @property
    def arrival(self) -> Floats:
        """Arrival instants, as given."""
        return self.history.arrival

    @property
    def wait(self) -> Floats:
        """Time in queues, the aborted service excluded."""
        return self.history.wait

    def __getitem__(self, key: Key) -> Exact:
        return self.measures[key]

    def __repr__(self) -> str:
        n0, n1 = self.model.servers
        lines = [f"Replay of {self.departure.size} jobs through [{n0}, {n1}] servers, {self.unfinished} unfinished"]
        lines += [f"  {'/'.join(map(str, key)):<28} {row.value:>14.6g}" for key, row in self.measures.items()]
        return "\n".join(lines)


def replay(
    model: Dispatcher,
    *,
    arrival: ArrayLike,
    service: ArrayLike,
    group: ArrayLike,
    time_end: float | None = None,
) -> Replay:
    """Serve recorded jobs by the rules of the dispatcher; exact, ties included.

    At one instant servers free themselves and take the head of their queue, then killed jobs join Queue 1 (several:
    by original arrival), then jobs arrive in input order; a service equal to the limit completes.

    Parameters
    ----------
    model : its servers, time limit, checkpoint share and grace are used; its laws and short fraction are not.
    arrival : instants, in order.
    service : requirements, at least 0.
    group : 0 or 1, the group a job is submitted to.
    time_end : where the replay ends; jobs that have not departed by then count as unfinished.  None: at the last
        departure.

    Raises
    ------
    InvalidModel : no jobs, columns of different length, arrivals out of order, a negative or infinite number,
        another group; killed jobs that do not join the back of Queue 1, or limits of the jobs' own.

    Examples
    --------
    >>> from qtheory.models import Dispatcher, Exponential
    >>> law = Exponential(mean=1.0)
    >>> model = Dispatcher(servers=(1, 2), time_limit=3.0, short_fraction=0.5, interarrival=law, service0=law,
    ...                    service1=law)
    >>> run = replay(model, arrival=[2, 10, 11], service=[5, 4, 2], group=[1, 0, 0])
    >>> run.departure.tolist(), run.classes
    ([7.0, 17.0, 15.0], ['1', 'r0', '0'])
    """
    for name in ("killed_join", "limits"):
        if name in model.changed_rules:
            rule = "is a rule that replay does not know; qsim.simulate does"
            raise InvalidModel(field=name, rule=rule, value=getattr(model, name))
    arrivals, services, groups = _columns(arrival, service, group)
    history = _recursion(model, arrivals, services, groups)
    end = float(history.departure.max()) if time_end is None else float(time_end)
    gone = history.departure <= end
    return Replay(
        model=model,
        service=services,
        group=groups,
        history=history,
        departure=np.where(gone, history.departure, math.nan),
        classes=history.classes.tolist(),
        unfinished=int(np.count_nonzero(~gone)),
        measures=measures(history, servers=model.servers, end=end),
    )


def _columns(arrival: ArrayLike, service: ArrayLike, group: ArrayLike) -> tuple[Floats, Floats, Groups]:
    arrivals, services = np.array(arrival, np.float64), np.array(service, np.float64)
    groups = np.array(group)
    if arrivals.size == 0:
        raise InvalidModel(field="arrival", rule="must have at least one job")
    for name, column in (("arrival", arrivals), ("service", services), ("group", groups)):
        if column.shape != (arrivals.size,):
            raise InvalidModel(field=name, rule=f"must be a column of {arrivals.size} numbers", value=column.shape)
        _first_wrong(name, ~np.isfinite(column.astype(np.float64)), "must be finite", column)
    _first_wrong("arrival", np.diff(arrivals, prepend=arrivals[0]) < 0, "must be in order", arrivals)
    _first_wrong("service", services < 0, "must not be negative", services)
    with np.errstate(over="ignore"):
        # No stay is longer than what arrives first and last and is served in between, and a sum has one stay a job.
        sums = arrivals.size * (np.abs(arrivals).max() + 2 * services.sum())
    if not np.isfinite(sums):
        longest = max(float(np.abs(arrivals).max()), float(services.max()))
        raise InvalidModel(field="service", rule="sums overflow; choose another unit of time", value=longest)
    _first_wrong("group", (groups != 0) & (groups != 1), "must be 0 or 1", groups)
    return arrivals, services, groups.astype(np.int64)


def _first_wrong(name: str, wrong: NDArray[np.bool_], rule: str, column: NDArray[Any]) -> None:
    if wrong.any():
        place = int(np.argmax(wrong))
        raise InvalidModel(field=f"{name}.{place}", rule=rule, value=column[place].item())


def _recursion(model: Dispatcher, arrivals: Floats, services: Floats, groups: Groups) -> History:
    first, second = np.flatnonzero(groups == 0), np.flatnonzero(groups == 1)
    nothing = np.full(arrivals.size, math.nan)
    start0, killed_at, start1 = nothing.copy(), nothing.copy(), nothing.copy()
    limit, starts = model.time_limit + (model.grace if model.grace_completes else 0.0), np.empty(first.size)
    killed = first[services[first] > limit]
    holds = services.copy()
    holds[killed] = model.time_limit + model.grace
    serve(*idle_servers(model.servers[0]), arrivals[first], holds[first], math.inf, starts)
    start0[first] = starts
    killed_at[killed] = start0[killed] + holds[killed]
    work = services.copy()
    work[killed] -= model.checkpoint_share * limit

    restarts, starts = np.empty(killed.size), np.empty(second.size)
    serve_both(
        *idle_servers(model.servers[1]),
        *(killed_at[killed], work[killed], restarts),
        *(arrivals[second], services[second], starts),
    )
    start1[killed], start1[second] = restarts, starts
    departure = np.where(np.isnan(start1), start0, start1) + work
    return History(arrival=arrivals, start0=start0, killed_at=killed_at, start1=start1, departure=departure)
