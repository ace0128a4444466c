"""The measures of parallel queues from the tallies of their replications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsim.distribution import Distribution, merged
from qsim.estimate import Sample
from qsim.kernels import flexible as kernel
from qsim.kernels import flexible_chain as chain
from qsim.kernels.histogram import Counts
from qsim.kernels.random import Array
from qsim.lower import Findings
from qsim.lowering.flexible_controls import chain_controls, controls_of, job_controls
from qsim.lowering.samples import quantiles, ratio, resolved, share_of
from qtheory.measures import MEASURES, Key
from qtheory.models.flexible import Flexible


@dataclass(frozen=True, kw_only=True)
class JobsTally:
    """One replication job by job: rows by class as the kernels name their columns; dedicated first."""

    window: Array
    times: Array
    jobs: Array
    tails: Array
    seen: Array
    responses: tuple[Distribution, ...]
    waits: tuple[Distribution, ...]


@dataclass(frozen=True, kw_only=True)
class ChainTally:
    """One replication of the jump chain: steps and what was found, as its kernel names columns and rows."""

    steps: Array
    sums: Array
    found: Counts


def scopes(model: Flexible) -> dict[str, tuple[int, ...]]:
    """Classes that have jobs, and the rows they stand in."""
    p = model.flexible_fraction
    classes: dict[str, tuple[int, ...]] = {"all": (kernel.DEDICATED, kernel.FLEXIBLE)}
    if p > 0.0:
        classes["flexible"] = (kernel.FLEXIBLE,)
    if p < 1.0:
        classes["dedicated"] = (kernel.DEDICATED,)
    return classes


def job_findings(model: Flexible, tallies: Sequence[JobsTally], *, at: Sequence[float], name: str) -> Findings:
    """Samples from job-by-job runs.

    Left out is what the run has not determined: probabilities and quantiles that rest on fewer than 20 events, and
    means over jobs where counted jobs never left (an unstable system); `details` say how many.  `details` also hold
    P(a queue chosen at random holds at least k jobs), k = 0, 1, ..., as arrivals saw it.
    """
    windows = np.stack([tally.window for tally in tallies])
    times = np.stack([tally.times for tally in tallies])
    jobs = np.stack([tally.jobs for tally in tallies])
    tails = np.stack([tally.tails for tally in tallies])
    samples = dict(_time_averages(model, windows, times))
    unfinished = int(windows[:, kernel.UNFINISHED].sum())
    distributions: dict[str, Distribution] = {}
    if unfinished == 0:
        for scope, rows in scopes(model).items():
            picked = list(rows)
            samples |= dict(_over_jobs(model, jobs[:, picked].sum(axis=1), scope))
            samples |= dict(_tails(tails[:, picked].sum(axis=1), jobs[:, picked, kernel.COUNT].sum(axis=1), scope, at))
            responses = [merged([tally.responses[row] for row in rows]) for tally in tallies if tally.responses]
            samples |= dict(quantiles(responses, scope=scope, kind="response"))
            joint = merged(responses) if responses else None
            if joint is not None and joint.counts.size:
                distributions[scope] = joint
            waits = [merged([tally.waits[row] for row in rows]) for tally in tallies if tally.waits]
            if model.discipline == "fcfs":
                samples |= dict(quantiles(waits, scope=scope, kind="wait"))
    samples, distributions = resolved(samples, distributions)
    seen = np.sum([tally.seen for tally in tallies], axis=0)
    details: dict[str, Any] = {"kernel": name, "queue_length_tail": _lengths(seen)}
    if unfinished:
        details["unfinished"] = unfinished
    known = {} if unfinished else job_controls(model, jobs=jobs, windows=windows)
    return Findings(
        samples=_ordered(samples),
        distributions=distributions,
        details=details,
        controls=known,
        controlled={key: controls_of(key) for key in samples} if known else {},
    )


def chain_findings(model: Flexible, tallies: Sequence[ChainTally], *, mean: float) -> Findings:
    """Samples from runs of the jump chain, `mean` the mean service.

    A job that finds k others stays for k + 1 exponential services, so the mean response of a class is that of k + 1
    over its arrivals; that of all jobs follows from the time average of the number present by Little's law.
    """
    steps = np.stack([tally.steps for tally in tallies]).astype(float)
    found = np.stack([tally.found for tally in tallies]).astype(float)
    sums = np.stack([tally.sums for tally in tallies]).astype(float)
    assert isinstance(model.queues, int)
    queues, load, p = model.queues, model.load, model.flexible_fraction
    rate = queues * load / mean
    counts = found.sum(axis=2)
    number = steps[:, chain.AREA] / steps[:, chain.STEPS]
    busy = 1.0 - ratio(found[:, chain.IDLE, 0], counts[:, chain.IDLE]).values
    weights = steps[:, chain.STEPS]
    samples: dict[Key, Sample] = {
        ("mean_response", "all"): Sample(values=number / rate, weights=weights),
        ("mean_wait", "all"): Sample(values=number / rate - mean, weights=weights),
        ("mean_number", "all"): Sample(values=number, weights=weights),
        ("mean_queue", "all"): Sample(values=number - queues * busy, weights=weights),
        ("utilisation", "all"): Sample(values=busy, weights=counts[:, chain.IDLE]),
        ("throughput", "all"): Sample(
            values=steps[:, chain.LEFT] / weights * queues * (1.0 + load) / mean, weights=weights
        ),
    }
    arrivals = {
        "all": (chain.DEDICATED, chain.FLEXIBLE),
        "flexible": (chain.FLEXIBLE,),
        "dedicated": (chain.DEDICATED,),
    }
    for scope in scopes(model):
        rows = list(arrivals[scope])
        total = counts[:, rows].sum(axis=1)
        share = share_of(total - found[:, rows, 0].sum(axis=1), total)
        if share is not None:
            samples["wait_probability", scope] = share
        if scope != "all":
            wait = ratio(mean * sums[:, rows].sum(axis=1), total)
            part = rate * (p if scope == "flexible" else 1.0 - p)
            samples["mean_response", scope] = Sample(values=wait.values + mean, weights=total)
            samples["mean_wait", scope] = wait
            samples["mean_number", scope] = Sample(values=part * (wait.values + mean), weights=total)
            samples["mean_queue", scope] = Sample(values=part * wait.values, weights=total)
    details = {"kernel": "chain", "queue_length_tail": _lengths(found[:, chain.IDLE].sum(axis=0))}
    return Findings(
        samples=_ordered(samples),
        details=details,
        controls=chain_controls(model, steps=steps, counts=counts, mean=mean),
        controlled={key: controls_of(key) for key in samples},
    )


def _time_averages(model: Flexible, windows: Array, times: Array) -> Iterator[tuple[Key, Sample]]:
    assert isinstance(model.queues, int)
    window = windows[:, kernel.WINDOW]
    for scope, rows in scopes(model).items():
        picked = list(rows)
        present, waiting, left = (times[:, picked, column].sum(axis=1) for column in range(3))
        yield ("mean_number", scope), ratio(present, window)
        yield ("throughput", scope), ratio(left, window)
        if model.discipline == "fcfs":
            yield ("mean_queue", scope), ratio(waiting, window)
            yield ("utilisation", scope), ratio((present - waiting) / model.queues, window)
        elif scope == "all":
            # Nobody waits where all share: what counts is how far the number present exceeds the busy servers.
            busy = windows[:, kernel.BUSY]
            yield ("mean_queue", scope), ratio(present - busy, window)
            yield ("utilisation", scope), ratio(busy / model.queues, window)


def _over_jobs(model: Flexible, jobs: Array, scope: str) -> Iterator[tuple[Key, Sample]]:
    count = jobs[:, kernel.COUNT]
    if count.sum() == 0:
        return
    yield ("mean_response", scope), ratio(jobs[:, kernel.RESPONSE], count)
    yield ("mean_wait", scope), ratio(jobs[:, kernel.WAIT], count)
    share = share_of(jobs[:, kernel.WAITED], count)
    if share is not None and model.discipline == "fcfs":
        yield ("wait_probability", scope), share


def _tails(tails: Array, counts: Array, scope: str, at: Sequence[float]) -> Iterator[tuple[Key, Sample]]:
    for place, time in enumerate(at):
        share = share_of(tails[:, place], counts)
        if share is not None:
            yield ("tail_response", scope, time), share


def _lengths(seen: Array) -> list[float]:
    """P(at least k), k = 0, 1, ..., while it has been seen."""
    tail = np.cumsum(seen[::-1])[::-1]
    return [float(value) for value in tail[tail > 0] / max(tail[0], 1.0)]


def _ordered(samples: dict[Key, Sample]) -> dict[Key, Sample]:
    order = list(MEASURES)
    return dict(sorted(samples.items(), key=lambda item: order.index(item[0][0])))


__all__ = ["ChainTally", "JobsTally", "chain_findings", "job_findings", "scopes"]
