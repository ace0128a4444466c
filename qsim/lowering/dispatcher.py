"""The dispatcher as arrays for its kernel, and its tallies as measures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qsim.distribution import packed, unpacked
from qsim.kernels import dispatcher as kernel
from qsim.kernels import histogram
from qsim.kernels.census import JOINED, PRESENT, SERVED
from qsim.kernels.pooled import POOLED
from qsim.kernels.random import Array, State
from qsim.kernels.servers import idle_servers
from qsim.lower import Findings, Options, Simulator
from qsim.lowering.dispatcher_controls import CONTROLS, POOLED_WAITS
from qsim.lowering.dispatcher_measures import CLASSES, Tally, findings
from qsim.lowering.dispatcher_variants import lower_variant
from qsim.sampling import Program, check_progress, program
from qsim.streams import stream
from qtheory.models.dispatcher import Dispatcher
from qtheory.models.errors import InvalidModel

__all__ = ["CONTROLS", "DispatcherSimulator", "lower"]

_VISIT_COLUMNS = 6
_TALLY_COLUMNS = 8
_POOLED_COLUMNS = 3


@dataclass(frozen=True, kw_only=True)
class DispatcherSimulator:
    """A dispatcher lowered: laws as programs, everything else as it stands in the model."""

    model: Dispatcher
    gap: Program
    size0: Program
    size1: Program
    at: tuple[float, ...]
    means_only: bool
    pooled: bool = False

    def default_warmup(self, *, jobs: int) -> int:
        """A tenth of the run, and at least ten jobs a server."""
        return max(jobs // 10, 10 * sum(self.model.servers))

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> Array:
        """One replication; a job's draws depend on its index alone, not on servers, limit or warm-up."""

        def state(name: str) -> State:
            return stream(seed=seed, replication=replication, name=name)

        classes = len(CLASSES)
        tally = np.zeros((classes, _TALLY_COLUMNS))
        visits = np.zeros((4, _VISIT_COLUMNS))
        at = np.array(self.at, np.float64)
        tails = np.zeros((classes, at.size))
        buckets = 0 if self.means_only else histogram.BUCKETS
        responses = np.zeros((classes, buckets), np.int64)
        waits = np.zeros((classes + 2, buckets), np.int64)
        pooled = np.zeros((2 if self.pooled else 0, _POOLED_COLUMNS))
        window = kernel.simulate(
            (*self.gap, state("arrivals")),
            state("class"),
            (*self.size0, state("service0")),
            (*self.size1, state("service1")),
            self.model.short_fraction,
            self.model.time_limit,
            *idle_servers(self.model.servers[0]),
            *idle_servers(self.model.servers[1]),
            warmup,
            jobs,
            at,
            tally,
            visits,
            tails,
            responses,
            waits,
            pooled,
            1.0 / np.array(self.model.servers, np.float64),
        )
        if window == math.inf:
            raise InvalidModel(
                field="interarrival", rule="has times beyond the largest number: nothing arrives any more"
            )
        return np.concatenate(
            [
                [window],
                pooled[:, POOLED:].ravel(),
                tally.ravel(),
                visits.ravel(),
                tails.ravel(),
                *packed(responses),
                *packed(waits),
            ]
        )

    def summarise(self, tallies: Sequence[Array]) -> Findings:
        """Measures by scope over the replications."""
        # Times beyond the largest number are inf in a tally, and their differences nan: measures left out.
        with np.errstate(invalid="ignore"):
            return findings(self.model, [self._tally(flat) for flat in tallies], at=self.at)

    def _tally(self, flat: Array) -> Tally:
        classes = len(CLASSES)
        groups = 2 if self.pooled else 0
        lengths = [1, 2 * groups, classes * _TALLY_COLUMNS, 4 * _VISIT_COLUMNS, classes * len(self.at)]
        window, pooled, tally, visits, tails, rows = np.split(flat, np.cumsum(lengths))
        visits = visits.reshape(4, _VISIT_COLUMNS)
        tally = tally.reshape(classes, _TALLY_COLUMNS)
        # What the class totals say already: the visits of jobs that visit one group once.
        for kind, row in ((kernel.SHORT0, kernel.SHORT), (kernel.LONG1, kernel.LONG)):
            count, response, wait = tally[row, : kernel.WAIT + 1]
            visits[kind, :PRESENT] = count, wait, response - wait
        killed = visits[kernel.KILLED0]
        if killed[JOINED] > 0:
            killed[SERVED] = killed[JOINED] * self.model.time_limit
        histograms = tuple(unpacked(rows))
        return Tally(
            window=float(window[0]),
            jobs=tally,
            visits=visits,
            tails=tails.reshape(classes, len(self.at)),
            responses=histograms[:classes],
            waits=histograms[classes:],
            pooled=pooled.reshape(groups, 2),
        )


def lower(model: Dispatcher, *, options: Options) -> Simulator:
    """The simulator of a dispatcher; other rules for killed jobs have a kernel of their own (`dispatcher_variants`).

    Raises
    ------
    InvalidModel : a law that cannot be sampled, a time in `at` that is no time, an unknown option.
    """
    for time in options.at:
        if not 0 <= time < math.inf:
            raise InvalidModel(field="at", rule="must be a finite time >= 0", value=time)
    for name in options.extra:
        raise InvalidModel(field=name, rule="is no option of a dispatcher's simulation")
    if model.changed_rules:
        return lower_variant(model, options=options)
    check_progress(model.interarrival, field="interarrival")
    return DispatcherSimulator(
        model=model,
        gap=program(model.interarrival, field="interarrival"),
        size0=program(model.service0, field="service0"),
        size1=program(model.service1, field="service1"),
        at=options.at,
        means_only=options.means_only,
        pooled=any(name in options.controls for name in POOLED_WAITS),
    )
