"""The donor system as arrays for its kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qsim.distribution import packed, unpacked
from qsim.kernels import donor as kernel
from qsim.kernels import donor_policy as policies
from qsim.kernels import histogram
from qsim.kernels.random import Array, State
from qsim.lower import Findings, Options
from qsim.lowering.donor_controls import CONTROLS
from qsim.lowering.donor_measures import Tally, findings
from qsim.sampling import Program, program
from qsim.streams import stream
from qtheory.models.donor import Donor
from qtheory.models.errors import InvalidModel
from qtheory.models.laws import Exponential
from qtheory.models.policies import ADT, T1, T1T2, T2, CMu

__all__ = ["CONTROLS", "DonorSimulator", "lower", "thresholds"]

_READINGS = {"source": policies.SOURCE, "idle": policies.IDLE, "work-conserving": policies.WORK_CONSERVING}
_TIMES = kernel.UNFINISHED + 1
_COLUMNS = kernel.WAITS + 1
_EXPONENTIAL = Exponential(mean=1.0)


@dataclass(frozen=True, kw_only=True)
class DonorSimulator:
    """A donor system lowered: thresholds, laws of work as programs, everything else as it stands in the model.

    `chain` takes the jump chain, which needs exponential work and no switching time; else jobs bring their work.
    """

    model: Donor
    thresholds: policies.Thresholds
    work1: Program
    work2: Program
    chain: bool
    at: tuple[float, ...]
    means_only: bool

    def default_warmup(self, *, jobs: int) -> int:
        """A fifth of the run, and at least a thousand jobs: near its limit a policy forgets slowly."""
        return max(jobs // 5, 1000)

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> Array:
        """One replication; with work brought along, a job's draws do not depend on the policy."""

        def state(name: str) -> State:
            return stream(seed=seed, replication=replication, name=name)

        at = np.array(self.at, np.float64)
        tally, tails, times = np.zeros((2, _COLUMNS)), np.zeros((2, at.size)), np.zeros(_TIMES)
        buckets = 0 if self.means_only else histogram.BUCKETS
        responses, waits = np.zeros((2, buckets), np.int64), np.zeros((2, buckets), np.int64)
        rates, model = self.model.service_rates, self.model
        speeds = (*model.arrival_rates, rates.mu1, rates.mu12, rates.mu2)
        books = (tally, at, tails, responses, waits, np.zeros(1))
        empty = kernel.empty_state()
        patience = 4 * (warmup + jobs) + 100_000
        if self.chain:
            kernel.run_chain(state("events"), *speeds, self.thresholds, warmup, jobs, patience, empty, books, times)
        else:
            kernel.run_events(
                state("arrivals"),
                state("class"),
                (*self.work1, state("service1")),
                (*self.work2, state("service2")),
                *speeds,
                model.switching_time,
                self.thresholds,
                warmup,
                jobs,
                patience,
                empty,
                books,
                times,
            )
        return np.concatenate([times, tally.ravel(), tails.ravel(), *packed(responses), *packed(waits)])

    def summarise(self, tallies: Sequence[Array]) -> Findings:
        """Measures by scope over the replications; `details` say how often the donor changed queues."""
        return findings(self.model, [self._tally(flat) for flat in tallies], at=self.at)

    def _tally(self, flat: Array) -> Tally:
        bounds = np.cumsum([_TIMES, 2 * _COLUMNS, 2 * len(self.at)])
        times, jobs, tails, rows = np.split(flat, bounds)
        histograms = tuple(unpacked(rows))
        return Tally(
            times=times,
            jobs=jobs.reshape(2, _COLUMNS),
            tails=tails.reshape(2, len(self.at)),
            responses=histograms[:2],
            waits=histograms[2:],
        )


def lower(model: Donor, *, options: Options) -> DonorSimulator:
    """The simulator of a donor system.

    Option `chain` (True or False) asks for the jump chain or for events; by default the chain where it applies.

    Raises
    ------
    InvalidModel : a law that cannot be sampled, a time in `at` that is no time, an unknown option, `chain` for a
        system that is no Markov chain.
    """
    extra: dict[str, Any] = dict(options.extra)
    markov = model.work1 == model.work2 == _EXPONENTIAL and model.switching_time == 0
    chain = extra.pop("chain", markov)
    if not isinstance(chain, bool) or (chain and not markov):
        rule = "must be true or false; true needs exponential work of mean 1 and no switching time"
        raise InvalidModel(field="chain", rule=rule, value=chain)
    for name in extra:
        raise InvalidModel(field=name, rule="is no option of a donor system's simulation")
    for time in options.at:
        if not 0 <= time < math.inf:
            raise InvalidModel(field="at", rule="must be a finite time >= 0", value=time)
    return DonorSimulator(
        model=model,
        thresholds=thresholds(model),
        work1=program(model.work1, field="work1"),
        work2=program(model.work2, field="work2"),
        chain=chain,
        at=options.at,
        means_only=options.means_only,
    )


def thresholds(model: Donor) -> policies.Thresholds:
    """The policy as the kernel takes it: kind, up to three thresholds, reading."""
    policy = model.policy
    (c1, c2), rates = model.holding_costs, model.service_rates
    if isinstance(policy, T1):
        return _row(policies.T1, policy.t1)
    if isinstance(policy, T2):
        return _row(policies.T2, policy.t2, reading=_READINGS[policy.reading])
    if isinstance(policy, T1T2):
        return _row(policies.T1T2, policy.t1, policy.t2)
    if isinstance(policy, ADT):
        return _row(policies.ADT, policy.low, policy.high, policy.t2)
    if isinstance(policy, CMu):
        return _row(policies.T1, 1 if c1 * rates.mu12 > c2 * rates.mu2 else math.inf)
    return _row(policies.DEDICATED)


def _row(kind: int, *values: float, reading: int = 0) -> policies.Thresholds:
    whole = [policies.NEVER if math.isinf(value) else int(value) for value in values]
    return np.array([kind, *whole, *[0] * (3 - len(whole)), reading], np.int64)
