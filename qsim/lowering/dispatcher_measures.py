"""The measures of a dispatcher from the tallies of its replications."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qsim.distribution import ENOUGH, Distribution, merged
from qsim.estimate import Sample
from qsim.kernels.census import JOINED, PRESENT, QUEUED, SERVED, STAY_LEFT, WAIT_LEFT
from qsim.kernels.dispatcher import (
    COUNT,
    KILLED,
    KILLED0,
    KILLED1,
    LONG,
    LONG1,
    RESPONSE,
    SHORT,
    SHORT0,
    WAIT,
    WAIT0,
    WAIT1,
    WAITED,
    WAITED0,
    WAITED1,
    WAITS0,
    WAITS1,
)
from qsim.kernels.random import Array
from qsim.lower import Findings
from qsim.lowering.dispatcher_controls import control_samples, controls_of
from qsim.lowering.samples import quantiles, ratio, resolved, share_of
from qtheory.measures import MEASURES, Key
from qtheory.models import Dispatcher

CLASSES = {"short": SHORT, "long": LONG, "killed": KILLED}

#: Visits of which a scope's stays consist, and those whose end is a departure from the scope.
_STAYS = {
    "all": (SHORT0, LONG1, KILLED0, KILLED1),
    "short": (SHORT0,),
    "long": (LONG1,),
    "killed": (KILLED0, KILLED1),
    "group0": (SHORT0, KILLED0),
    "group1": (LONG1, KILLED1),
}
_DEPARTURES = _STAYS | {"all": (SHORT0, LONG1, KILLED1), "killed": (KILLED1,)}

#: The parts of a scope's waits: class, column of waits, column of jobs that waited, histogram of waits.
_WAITS = {
    "all": ((SHORT, WAIT, WAITED, SHORT), (LONG, WAIT, WAITED, LONG), (KILLED, WAIT, WAITED, KILLED)),
    "short": ((SHORT, WAIT, WAITED, SHORT),),
    "long": ((LONG, WAIT, WAITED, LONG),),
    "killed": ((KILLED, WAIT, WAITED, KILLED),),
    "group0": ((SHORT, WAIT, WAITED, SHORT), (KILLED, WAIT0, WAITED0, WAITS0)),
    "group1": ((LONG, WAIT, WAITED, LONG), (KILLED, WAIT1, WAITED1, WAITS1)),
}


@dataclass(frozen=True, kw_only=True)
class Tally:
    """One replication: `jobs` by class and `visits` by kind as the kernel names their columns.

    `pooled` has one row (jobs, waits) for each group served by one fast server, or none.
    """

    window: float
    jobs: Array
    visits: Array
    tails: Array
    responses: tuple[Distribution, ...]
    waits: tuple[Distribution, ...]
    pooled: Array


def findings(model: Dispatcher, tallies: Sequence[Tally], *, at: Sequence[float]) -> Findings:
    """Samples by measure and scope.

    Left out is what the run has not determined: classes without jobs, and probabilities, waits and quantiles that
    rest on fewer than 20 events, whose interval would say too little.
    """
    jobs = np.stack([tally.jobs for tally in tallies])
    visits = np.stack([tally.visits for tally in tallies])
    window = np.array([tally.window for tally in tallies])
    samples = dict(_means(jobs)) | dict(_waits(jobs))
    samples |= dict(_tails(jobs, np.stack([tally.tails for tally in tallies]), at))
    samples |= dict(_time_averages(model, visits, window))
    samples |= dict(_kills(model, jobs))
    distributions = {}
    if any(part.counts.size for tally in tallies for part in tally.responses):
        for scope, rows in _response_rows().items():
            parts = [merged([tally.responses[row] for row in rows]) for tally in tallies]
            joint = merged(parts)
            samples |= dict(quantiles(parts, scope=scope, kind="response", joint=joint))
            if joint.counts.size:
                distributions[scope] = joint
        for scope, pieces in _WAITS.items():
            parts = [merged([tally.waits[piece[3]] for piece in pieces]) for tally in tallies]
            samples |= dict(quantiles(parts, scope=scope, kind="wait"))
    samples, distributions = resolved(samples, distributions)
    order = list(MEASURES)
    ordered = dict(sorted(samples.items(), key=lambda item: order.index(item[0][0])))
    return Findings(
        samples=ordered,
        distributions=distributions,
        controls=control_samples(
            jobs=jobs,
            window=window,
            pooled=np.stack([tally.pooled for tally in tallies]),
            aborted=visits[:, KILLED0, SERVED],
        ),
        controlled={key: controls_of(key) for key in ordered},
    )


def _response_rows() -> dict[str, tuple[int, ...]]:
    return {"all": tuple(CLASSES.values())} | {scope: (row,) for scope, row in CLASSES.items()}


def _means(jobs: Array) -> Iterator[tuple[Key, Sample]]:
    for scope, rows in _response_rows().items():
        yield ("mean_response", scope), ratio(_sum(jobs, rows, RESPONSE), _sum(jobs, rows, COUNT))


def _sum(jobs: Array, rows: Sequence[int], column: int) -> Array:
    total: Array = jobs[:, list(rows), column].sum(axis=1)
    return total


def _waits(jobs: Array) -> Iterator[tuple[Key, Sample]]:
    for scope, pieces in _WAITS.items():
        counts = sum((jobs[:, piece[0], COUNT] for piece in pieces), np.zeros(len(jobs)))
        waited = sum((jobs[:, piece[0], piece[2]] for piece in pieces), np.zeros(len(jobs)))
        waits = sum((jobs[:, piece[0], piece[1]] for piece in pieces), np.zeros(len(jobs)))
        if waited.sum() >= ENOUGH:
            yield ("mean_wait", scope), ratio(waits, counts)
        share = share_of(waited, counts)
        if share is not None:
            yield ("wait_probability", scope), share


def _tails(jobs: Array, tails: Array, at: Sequence[float]) -> Iterator[tuple[Key, Sample]]:
    for place, time in enumerate(at):
        for scope, rows in _response_rows().items():
            share = share_of(tails[:, list(rows), place].sum(axis=1), _sum(jobs, rows, COUNT))
            if share is not None:
                yield ("tail_response", scope, time), share


def _time_averages(model: Dispatcher, visits: Array, window: Array) -> Iterator[tuple[Key, Sample]]:
    queue = visits[:, :, QUEUED] + visits[:, :, WAIT_LEFT]
    busy = visits[:, :, SERVED] + visits[:, :, STAY_LEFT] - visits[:, :, WAIT_LEFT]
    ended = visits[:, :, JOINED] + visits[:, :, PRESENT]

    def over(kinds: Sequence[int], values: Array) -> Array:
        total: Array = values[:, list(kinds)].sum(axis=1)
        return total

    for scope, kinds in _STAYS.items():
        if over(kinds, ended).sum() < ENOUGH:
            continue
        yield ("mean_number", scope), ratio(over(kinds, queue + busy), window)
        if over(kinds, queue).sum() > 0:
            yield ("mean_queue", scope), ratio(over(kinds, queue), window)
        yield ("throughput", scope), ratio(over(_DEPARTURES[scope], ended), window)
    servers = {"all": sum(model.servers), "group0": model.servers[0], "group1": model.servers[1]}
    for scope, count in servers.items():
        yield ("utilisation", scope), ratio(over(_STAYS[scope], busy) / count, window)


def _kills(model: Dispatcher, jobs: Array) -> Iterator[tuple[Key, Sample]]:
    killed = jobs[:, KILLED, COUNT]
    submitted0 = killed + jobs[:, SHORT, COUNT]
    rule: Callable[[Array, Array], Sample | None] = share_of
    if model.time_limit == np.inf and model.limits is None:
        rule = ratio
    for scope, counts in (("group0", submitted0), ("all", submitted0 + jobs[:, LONG, COUNT])):
        sample = rule(killed, counts)
        if sample is not None:
            yield ("kill_probability", scope), sample
