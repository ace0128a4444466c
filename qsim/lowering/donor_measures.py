"""The measures of a donor system from the tallies of its replications."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsim.distribution import ENOUGH, Distribution, merged
from qsim.estimate import Sample
from qsim.kernels.donor import (
    AT_HOME,
    CHANGES,
    CHANGING,
    COUNT,
    HELPED,
    LEFT1,
    LEFT2,
    ONE_BUSY,
    PRESENT1,
    PRESENT2,
    RESPONSE,
    UNFINISHED,
    WAIT,
    WAITS,
    WINDOW,
)
from qsim.kernels.random import Array
from qsim.lower import Findings
from qsim.lowering.donor_controls import control_samples, controls_of
from qsim.lowering.samples import quantiles, ratio, resolved, share_of
from qtheory.measures import MEASURES, Key
from qtheory.models.donor import Donor

_SCOPES = {"all": (0, 1), "queue1": (0,), "queue2": (1,)}


@dataclass(frozen=True, kw_only=True)
class Tally:
    """One replication: `times` and `jobs` (a row a type) as the kernel names their columns, tails, histograms."""

    times: Array
    jobs: Array
    tails: Array
    responses: tuple[Distribution, ...]
    waits: tuple[Distribution, ...]


def findings(model: Donor, tallies: Sequence[Tally], *, at: Sequence[float]) -> Findings:
    """Samples by measure and scope.

    Waiting is presence without being served, in however many pieces. Left out is what the run has not determined:
    probabilities, waits and quantiles that rest on fewer than 20 events, and what is a mean over jobs where counted
    jobs never departed (an unstable system) - `details` then say how many.
    """
    jobs, times = np.stack([tally.jobs for tally in tallies]), np.stack([tally.times for tally in tallies])
    unfinished = int(times[:, UNFINISHED].sum())
    samples = dict(_time_averages(model, times))
    distributions = {}
    if unfinished == 0:
        samples |= dict(_over_jobs(jobs)) | dict(_tails(jobs, np.stack([t.tails for t in tallies]), at))
        for scope, rows in _SCOPES.items():
            parts = [merged([tally.responses[row] for row in rows]) for tally in tallies if tally.responses]
            samples |= dict(quantiles(parts, scope=scope, kind="response"))
            joint = merged(parts)
            if joint.counts.size:
                distributions[scope] = joint
            parts = [merged([tally.waits[row] for row in rows]) for tally in tallies if tally.waits]
            samples |= dict(quantiles(parts, scope=scope, kind="wait"))
    samples, distributions = resolved(samples, distributions)
    order = list(MEASURES)
    ordered = dict(sorted(samples.items(), key=lambda item: order.index(item[0][0])))
    known = {} if unfinished else control_samples(model, jobs=jobs, times=times)
    return Findings(
        samples=ordered,
        distributions=distributions,
        details=_details(times, unfinished),
        controls=known,
        controlled={key: controls_of(key) for key in ordered} if known else {},
    )


def _details(times: Array, unfinished: int) -> dict[str, Any]:
    """Changes of the donor from one queue to the other: how many, per unit time with standard error, time lost."""
    window = times[:, WINDOW]
    rate = Sample(values=times[:, CHANGES] / window, weights=window).figure(confidence=0.95)
    details = {
        "switches": int(times[:, CHANGES].sum()),
        "switch_rate": rate.value,
        "switch_rate_half_width": rate.half_width if math.isfinite(rate.half_width) else None,
        "switching_share": float(times[:, CHANGING].sum() / window.sum()),
    }
    return details | ({"unfinished": unfinished} if unfinished else {})


def _over_jobs(jobs: Array) -> Iterator[tuple[Key, Sample]]:
    for scope, rows in _SCOPES.items():
        total = jobs[:, list(rows)].sum(axis=1)
        if total[:, COUNT].sum() == 0:
            continue
        yield ("mean_response", scope), ratio(total[:, RESPONSE], total[:, COUNT])
        if total[:, WAITS].sum() >= ENOUGH:
            yield ("mean_wait", scope), ratio(total[:, WAIT], total[:, COUNT])
        share = share_of(total[:, WAITS], total[:, COUNT])
        if share is not None:
            yield ("wait_probability", scope), share


def _tails(jobs: Array, tails: Array, at: Sequence[float]) -> Iterator[tuple[Key, Sample]]:
    for place, time in enumerate(at):
        for scope, rows in _SCOPES.items():
            share = share_of(tails[:, list(rows), place].sum(axis=1), jobs[:, list(rows), COUNT].sum(axis=1))
            if share is not None:
                yield ("tail_response", scope, time), share


def _time_averages(model: Donor, times: Array) -> Iterator[tuple[Key, Sample]]:
    window = times[:, WINDOW]
    n1, n2 = times[:, PRESENT1], times[:, PRESENT2]
    one, helped, home = times[:, ONE_BUSY], times[:, HELPED], times[:, AT_HOME]
    waiting1, waiting2 = n1 - one - helped, n2 - home
    columns = {
        "mean_number": {"all": n1 + n2, "queue1": n1, "queue2": n2},
        "mean_queue": {"all": waiting1 + waiting2, "queue1": waiting1, "queue2": waiting2},
        "utilisation": {"all": (one + helped + home) / 2, "queue1": one, "queue2": helped + home},
        "throughput": {"all": times[:, LEFT1] + times[:, LEFT2], "queue1": times[:, LEFT1], "queue2": times[:, LEFT2]},
    }
    for measure, scopes in columns.items():
        for scope, values in scopes.items():
            yield (measure, scope), ratio(values, window)
    (c1, c2), total = model.holding_costs, sum(model.arrival_rates)
    yield ("cost", "all"), ratio((c1 * n1 + c2 * n2) / total, window)
