"""The dispatcher as arrays for its kernel, and its tallies as measures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qsim.distribution import packed, unpacked
from qsim.kernels import dispatcher as kernel
from qsim.kernels import histogram
from qsim.kernels.census import JOINED, PRESENT, SERVED
from qsim.kernels.pooled import POOLED
from qsim.kernels.random import Array, State
from qsim.lower import Findings, Options, Simulator
from qsim.lowering.dispatcher_controls import CONTROLS, POOLED_WAITS
from qsim.lowering.dispatcher_measures import CLASSES, Tally, findings
from qsim.lowering.dispatcher_path import responses
from qsim.lowering.dispatcher_start import Start, stationary_start
from qsim.lowering.dispatcher_variants import lower_variant
from qsim.sampling import Program, check_progress, program
from qsim.streams import stream
from qtheory.models.dispatcher import Dispatcher
from qtheory.models.errors import InvalidModel

__all__ = ["BATCHES", "CONTROLS", "STATIONARY", "DispatcherSimulator", "lower"]

#: Runs can be cut into batches, and can start in stationarity.
BATCHES = STATIONARY = True
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
    start: Start
    stationary: bool = False
    batches: int = 1

    def default_warmup(self, *, jobs: int) -> int:
        """A tenth of the run, and at least ten jobs a server."""
        return max(jobs // 10, 10 * sum(self.model.servers))

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> Array:
        """One replication, `jobs` a multiple of the batches; a job's draws depend on its index alone, not on servers,
        limit or warm-up.
        """

        def state(name: str) -> State:
            return stream(seed=seed, replication=replication, name=name)

        classes, batches = len(CLASSES), self.batches
        windows = np.zeros(batches)
        tally = np.zeros((batches, classes, _TALLY_COLUMNS))
        visits = np.zeros((batches, 4, _VISIT_COLUMNS))
        at = np.array(self.at, np.float64)
        tails = np.zeros((batches, classes, at.size))
        buckets = 0 if self.means_only else histogram.BUCKETS
        responses = np.zeros((batches, classes, buckets), np.int64)
        waits = np.zeros((batches, classes + 2, buckets), np.int64)
        pooled = np.zeros((batches, 2 if self.pooled else 0, _POOLED_COLUMNS))
        window = kernel.simulate(
            (*self.gap, state("arrivals")),
            state("class"),
            (*self.size0, state("service0")),
            (*self.size1, state("service1")),
            self.model.short_fraction,
            self.model.time_limit,
            *self.start.state(gap=self.gap, seed=seed, replication=replication),
            warmup,
            jobs // batches,
            at,
            windows,
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
        parts = [
            np.concatenate(
                [
                    windows[batch : batch + 1],
                    pooled[batch, :, POOLED:].ravel(),
                    tally[batch].ravel(),
                    visits[batch].ravel(),
                    tails[batch].ravel(),
                    *packed(responses[batch]),
                    *packed(waits[batch]),
                ]
            )
            for batch in range(batches)
        ]
        return np.concatenate([[part.size for part in parts], *parts])

    def path(self, *, seed: int, replication: int, jobs: int) -> Array:
        """Responses of the replication's first jobs, warm-up included."""
        return responses(
            self.model,
            gap=self.gap,
            size0=self.size0,
            size1=self.size1,
            servers=self.start.state(gap=self.gap, seed=seed, replication=replication),
            seed=seed,
            replication=replication,
            jobs=jobs,
        )

    def summarise(self, tallies: Sequence[Array]) -> Findings:
        """Measures by scope over the replications."""
        # Times beyond the largest number are inf in a tally, and their differences nan: measures left out.
        with np.errstate(invalid="ignore"):
            found = findings(self.model, [tally for flat in tallies for tally in self._batches(flat)], at=self.at)
        if self.stationary:
            # By Little's law a utilisation is the offered load of the draws, which would merely repeat its known mean.
            controlled = {key: () if key[0] == "utilisation" else names for key, names in found.controlled.items()}
            started = [f"group{group}" for group, drawn in enumerate(self.start.groups) if drawn is not None]
            found = replace(found, controlled=controlled, details={"stationary": started})
        return found

    def _batches(self, flat: Array) -> Iterator[Tally]:
        ends = np.cumsum(flat[: self.batches].astype(np.int64))
        return map(self._tally, np.split(flat[self.batches :], ends[:-1]))

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
        if self.stationary:
            # Of the jobs present at the start only the work is known: time averages are those of the jobs that arrive
            # in the window, by Little's law.
            visits[:, PRESENT:] = 0.0
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
        for option, usual in (("batches", 1), ("stationary", False)):
            if getattr(options, option) != usual:
                rule = f"does not go with {', '.join(model.changed_rules)}"
                raise InvalidModel(field=option, rule=rule, value=getattr(options, option))
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
        start=stationary_start(model) if options.stationary else Start(servers=model.servers),
        stationary=options.stationary,
        batches=options.batches,
    )
