"""The instants of jobs that have gone through a dispatcher, and the exact measures of such a path."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qtheory.measures import LEVELS, MEASURES, Key, Table, quantile_measure

Floats = NDArray[np.float64]
Members = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Exact:
    """A value that holds for the recorded path, without an interval."""

    value: float

    def row(self) -> dict[str, Any]:
        """The fields of a JSON row."""
        return {"value": self.value}


@dataclass(frozen=True, kw_only=True)
class History:
    """The instants of each job, nan where it has none: a column each."""

    arrival: Floats
    start0: Floats
    killed_at: Floats
    start1: Floats
    departure: Floats

    @cached_property
    def classes(self) -> NDArray[np.str_]:
        """`0` completed in Group 0, `1` submitted to Group 1, `r0` killed and restarted."""
        return np.where(np.isnan(self.start0), "1", np.where(np.isnan(self.killed_at), "0", "r0"))

    @cached_property
    def joined1(self) -> Floats:
        """When the job joined Queue 1."""
        return np.where(np.isnan(self.start0), self.arrival, self.killed_at)

    @cached_property
    def left0(self) -> Floats:
        """When the job left Group 0, completed or killed; nan if it never was there."""
        left = np.where(np.isnan(self.killed_at), self.departure, self.killed_at)
        return np.where(np.isnan(self.start0), math.nan, left)

    @cached_property
    def wait(self) -> Floats:
        """Time in queues, the aborted service excluded."""
        return np.nan_to_num(self.start0 - self.arrival) + np.nan_to_num(self.start1 - self.joined1)


def measures(history: History, *, servers: tuple[int, int], end: float) -> Table[Exact]:
    """Measures of the jobs that have departed by `end`, and time averages from the first arrival to `end`.

    Quantiles are the least times that at least the given share of the jobs does not exceed.
    """
    gone = history.departure <= end
    scopes = {"all": gone} | {
        scope: gone & (history.classes == kind) for scope, kind in (("short", "0"), ("long", "1"), ("killed", "r0"))
    }
    waits = {scope: history.wait[members] for scope, members in scopes.items()}
    waits["group0"] = (history.start0 - history.arrival)[gone & ~np.isnan(history.start0)]
    waits["group1"] = (history.start1 - history.joined1)[gone & ~np.isnan(history.start1)]
    rows: dict[Key, float] = {}
    for scope, members in scopes.items():
        rows |= _of_times("response", scope, (history.departure - history.arrival)[members])
    for scope, values in waits.items():
        rows |= _of_times("wait", scope, values)
        if values.size:
            rows["wait_probability", scope] = float(np.mean(values > 0))
    killed = int(np.count_nonzero(scopes["killed"]))
    for scope, count in (("group0", waits["group0"].size), ("all", int(np.count_nonzero(gone)))):
        if count:
            rows["kill_probability", scope] = killed / count
    if end - history.arrival[0] > history.arrival.size * sys.float_info.min:
        rows |= dict(_time_averages(history, servers=servers, end=end))
    order = list(MEASURES)
    return Table({key: Exact(value=rows[key]) for key in sorted(rows, key=lambda key: order.index(key[0]))})


def _of_times(kind: str, scope: str, values: Floats) -> dict[Key, float]:
    if not values.size:
        return {}
    rows: dict[Key, float] = {(f"mean_{kind}", scope): math.fsum(values) / values.size}
    for level in LEVELS:
        rows[quantile_measure(level, kind=kind), scope] = float(np.quantile(values, level, method="inverted_cdf"))
    return rows


def _time_averages(history: History, *, servers: tuple[int, int], end: float) -> Iterator[tuple[Key, float]]:
    begin = float(history.arrival[0])

    def average(first: Floats, last: Floats, members: Members | bool = True) -> float:
        """Time average of the number of stays [first, last) that are open; nan means there was none."""
        clipped = np.nan_to_num(np.minimum(last, end) - first)
        return math.fsum(np.maximum(clipped, 0.0)[np.broadcast_to(members, clipped.shape)]) / (end - begin)

    h = history
    stays: dict[str, tuple[Members | bool, Floats, Floats]] = {"all": (True, h.arrival, h.departure)}
    for scope, kind in (("short", "0"), ("long", "1"), ("killed", "r0")):
        stays[scope] = (h.classes == kind, h.arrival, h.departure)
    stays["group0"] = (~np.isnan(h.start0), h.arrival, h.left0)
    stays["group1"] = (~np.isnan(h.start1), h.joined1, h.departure)
    for scope, (members, first, last) in stays.items():
        if not np.any(members):
            continue
        yield ("mean_number", scope), average(first, last, members)
        queue0 = average(h.arrival, h.start0, members) if scope != "group1" else 0.0
        queue1 = average(h.joined1, h.start1, members) if scope != "group0" else 0.0
        yield ("mean_queue", scope), queue0 + queue1
        left = np.count_nonzero((last <= end) & np.broadcast_to(members, last.shape))
        yield ("throughput", scope), left / (end - begin)
    busy0, busy1 = average(h.start0, h.left0), average(h.start1, h.departure)
    yield ("utilisation", "all"), (busy0 + busy1) / sum(servers)
    yield ("utilisation", "group0"), busy0 / servers[0]
    yield ("utilisation", "group1"), busy1 / servers[1]
