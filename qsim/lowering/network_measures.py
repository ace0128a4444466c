"""The measures of a network from the tallies of its replications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qsim.estimate import Sample
from qsim.kernels.network import Ints
from qsim.kernels.random import Array
from qtheory.measures import Key
from qtheory.models.network import Network


@dataclass(frozen=True, kw_only=True)
class Tally:
    """One replication's window: its length, sum of jobs over ticks and departures by place, ticks and services by
    server, arrivals and departures by class."""

    ticks: float
    area: Array
    moves: Array
    ticked: Array
    ended: Array
    came: Array
    left: Array


def samples(
    model: Network, tallies: Sequence[Tally], *, class_of: Ints, server_of: Ints, tick_rate: float
) -> dict[Key, Sample]:
    """Every measure; the time spent and waited per job by Little's law within the window.

    Class and whole network: jobs present over arrivals; server: over departures from it, the time of one visit.
    Servers that no job visits have no measures.
    """
    ticks = np.array([tally.ticks for tally in tallies])
    area = np.stack([tally.area for tally in tallies])
    moves = np.stack([tally.moves for tally in tallies])
    came = np.stack([tally.came for tally in tallies])
    left = np.stack([tally.left for tally in tallies])
    ended = np.stack([tally.ended for tally in tallies])
    ticked = np.stack([tally.ticked for tally in tallies])
    rates = np.array(list(model.servers.values()))
    # Busy ticks of each place: its services take 1 / rate each.
    served = moves * (tick_rate / rates[server_of])
    whole = np.ones(len(class_of), bool)
    scopes = [("all", whole, came.sum(axis=1), left.sum(axis=1))]
    scopes += [(c.name, class_of == i, came[:, i], left[:, i]) for i, c in enumerate(model.classes)]
    found: dict[str, dict[Key, Sample]] = {}

    def put(measure: str, scope: str, values: Array, weights: Array) -> None:
        if weights.sum() > 0:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(weights > 0, values / weights, 0.0)
            found.setdefault(measure, {})[measure, scope] = Sample(values=ratio, weights=weights)

    for scope, here, jobs, departures in scopes:
        present = area[:, here].sum(axis=1)
        waiting = present - served[:, here].sum(axis=1)
        put("mean_response", scope, present / tick_rate, jobs)
        put("mean_wait", scope, waiting / tick_rate, jobs)
        put("mean_number", scope, present, ticks)
        put("mean_queue", scope, waiting, ticks)
        put("throughput", scope, departures * tick_rate, ticks)
    for n, name in enumerate(model.servers):
        departures = moves[:, server_of == n].sum(axis=1)
        if departures.sum() > 0:
            present = area[:, server_of == n].sum(axis=1)
            put("mean_response", name, present / tick_rate, departures)
            put("mean_number", name, present, ticks)
            put("utilisation", name, ended[:, n], ticked[:, n])
            put("throughput", name, departures * tick_rate, ticks)
    put("utilisation", "all", (ended / rates).sum(axis=1) * (tick_rate / len(rates)), ticks)
    order = ("mean_response", "mean_wait", "mean_number", "mean_queue", "utilisation", "throughput")
    return {key: sample for measure in order for key, sample in found.get(measure, {}).items()}
