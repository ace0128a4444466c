"""Dispatchers with other rules for killed jobs, as their fields say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qsim.distribution import packed, unpacked
from qsim.kernels import dispatcher_variants as kernel
from qsim.kernels import histogram
from qsim.kernels.random import Array, State
from qsim.kernels.sampling import CONSTANT, END
from qsim.kernels.variant_jobs import BACK, HEAD, LOW_PRIORITY
from qsim.lower import Findings, Options
from qsim.lowering.dispatcher_controls import POOLED_WAITS
from qsim.lowering.dispatcher_measures import CLASSES, Tally, findings
from qsim.sampling import Program, check_progress, program
from qsim.streams import stream
from qtheory.models.dispatcher import Dispatcher
from qtheory.models.errors import InvalidModel

_JOINS = {"back": BACK, "head": HEAD, "low-priority": LOW_PRIORITY}
_KINDS, _VISIT_COLUMNS, _TALLY_COLUMNS = 4, 6, 8


@dataclass(frozen=True, kw_only=True)
class VariantSimulator:
    """A dispatcher lowered whose killed jobs follow other rules.

    Attributes
    ----------
    rules : place of killed jobs in Queue 1, share of the work kept, grace, whether it may complete a job.
    limit : program of the limits of jobs submitted to Group 0.
    """

    model: Dispatcher
    gap: Program
    size0: Program
    size1: Program
    limit: Program
    rules: kernel.Rules
    at: tuple[float, ...]
    means_only: bool

    def default_warmup(self, *, jobs: int) -> int:
        """A tenth of the run, and at least ten jobs a server."""
        return max(jobs // 10, 10 * sum(self.model.servers))

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> Array:
        """One replication on the jobs of the plain dispatcher."""
        flat, _ = self.traced(seed=seed, replication=replication, jobs=jobs, warmup=warmup, paths=0)
        return flat

    def traced(self, *, seed: int, replication: int, jobs: int, warmup: int, paths: int) -> tuple[Array, Array]:
        """One replication, and start in Group 0, kill and start in Group 1 of the first jobs; nan where none."""

        def state(name: str) -> State:
            return stream(seed=seed, replication=replication, name=name)

        classes = len(CLASSES)
        tally, visits = np.zeros((classes, _TALLY_COLUMNS)), np.zeros((_KINDS, _VISIT_COLUMNS))
        at = np.array(self.at, np.float64)
        tails, found = np.zeros((classes, at.size)), np.full((paths, 3), math.nan)
        buckets = 0 if self.means_only else histogram.BUCKETS
        responses, waits = np.zeros((classes, buckets), np.int64), np.zeros((classes + 2, buckets), np.int64)
        window = kernel.simulate(
            (*self.gap, state("arrivals")),
            state("class"),
            (*self.size0, state("service0")),
            (*self.size1, state("service1")),
            (*self.limit, state("limits")),
            self.model.short_fraction,
            self.rules,
            np.full(self.model.servers[0], -math.inf),
            np.full(self.model.servers[1], -math.inf),
            warmup,
            jobs,
            at,
            tally,
            visits,
            tails,
            responses,
            waits,
            found,
        )
        if window == math.inf:
            raise InvalidModel(
                field="interarrival", rule="has times beyond the largest number: nothing arrives any more"
            )
        parts = [np.array([window]), tally.ravel(), visits.ravel(), tails.ravel(), *packed(responses), *packed(waits)]
        return np.concatenate(parts), found

    def summarise(self, tallies: Sequence[Array]) -> Findings:
        """Measures by scope over the replications."""
        with np.errstate(invalid="ignore"):
            return findings(self.model, [self._tally(flat) for flat in tallies], at=self.at)

    def _tally(self, flat: Array) -> Tally:
        classes = len(CLASSES)
        lengths = [1, classes * _TALLY_COLUMNS, _KINDS * _VISIT_COLUMNS, classes * len(self.at)]
        window, tally, visits, tails, rows = np.split(flat, np.cumsum(lengths))
        histograms = tuple(unpacked(rows))
        return Tally(
            window=float(window[0]),
            jobs=tally.reshape(classes, _TALLY_COLUMNS),
            visits=visits.reshape(_KINDS, _VISIT_COLUMNS),
            tails=tails.reshape(classes, len(self.at)),
            responses=histograms[:classes],
            waits=histograms[classes:],
            pooled=np.zeros((0, 2)),
        )


def lower_variant(model: Dispatcher, *, options: Options) -> VariantSimulator:
    """The simulator of a dispatcher by the rules of its fields, whichever they are.

    Raises
    ------
    InvalidModel : a law that cannot be sampled, a control that only the plain rules have.
    """
    for name in options.controls:
        if name in POOLED_WAITS:
            rule = f"{name} goes with the plain rules for killed jobs only"
            raise InvalidModel(field="controls", rule=rule, value=", ".join(model.changed_rules))
    check_progress(model.interarrival, field="interarrival")
    fixed = Program(np.array([[CONSTANT, 0, 1, 0], [END, 0, 1, 0]], np.int64), np.array([model.time_limit]))
    return VariantSimulator(
        model=model,
        gap=program(model.interarrival, field="interarrival"),
        size0=program(model.service0, field="service0"),
        size1=program(model.service1, field="service1"),
        limit=fixed if model.limits is None else program(model.limits, field="limits"),
        rules=(_JOINS[model.killed_join], model.checkpoint_share, model.grace, model.grace_completes),
        at=options.at,
        means_only=options.means_only,
    )
