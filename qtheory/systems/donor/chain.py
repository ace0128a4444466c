"""The donor system as a quasi-birth-death process without a cut.

One queue is the level. Of the other, the phase queue, the numbers below a threshold K are kept; beyond it the donor
does the same whatever the level, so an excursion from K - 1 and back is a busy period of M/M/1, independent of what
the level does meanwhile, and stands as a few exponential phases (see `busy_period`):

- rules that bring the donor from some N1 on: level N2, phase queue 1, excursions with service rate mu1 + mu12;
- rules that keep it at home from some N2 on: level N1, phase queue 2, excursions with service rate mu2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qtheory.models.donor import Donor
from qtheory.models.errors import InvalidModel
from qtheory.queues.qbd_levels import Level, LevelLaw, attach_boundary, stationary_levels
from qtheory.systems.donor.busy_period import Mixture
from qtheory.systems.donor.numbers import GeometricTail
from qtheory.systems.donor.passage import helped_passages
from qtheory.systems.donor.rules import AT_HOME, HELPS, departure_rates, donor_at, rule

Array = NDArray[np.float64]

_LARGEST_ORDER = 1500
_LARGEST_STORE = 40_000_000  # numbers kept: boundary levels times order squared


class Excursion(Protocol):
    """A law for the busy period of M/M/1 with given rates."""

    def __call__(self, *, arrival: float, service: float) -> Mixture: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Layout:
    """How states (N1, N2) stand as (level, phase).

    Attributes
    ----------
    model : the system.
    level_queue : 1 or 2, the queue that is the level; the other one is the phase queue.
    rates : arrival rates of the level and of the phase queue.
    first : the smallest number in the phase queue (above 0 for `T2` with reading "idle" only).
    kept : K - first, how many numbers of the phase queue are phases of their own.
    helped : where the level is N1, how many of them bring the donor to queue 1 once N1 is large.
    start : from this level on all levels look alike.
    tail : the busy period beyond the kept numbers.
    ratio : by which P(phase queue = n) falls from n = K - 1 on, exactly.
    """

    model: Donor
    level_queue: int
    rates: tuple[float, float]
    first: int
    kept: int
    helped: int
    start: int
    tail: Mixture
    ratio: float

    @property
    def order(self) -> int:
        """How many phases a level has."""
        return self.kept + len(self.tail.rates)

    def alike(self, level: int) -> int:
        """The level by which `level` can be represented."""
        return min(level, 2) if level < self.start else self.start

    def states(self, level: int) -> tuple[Array, Array]:
        """(n1, n2) of the phases at a level; all phases of the excursion stand as the number K."""
        numbers = self.first + np.minimum(np.arange(self.order), self.kept)
        levels = np.full(self.order, level)
        return (numbers, levels) if self.level_queue == 2 else (levels, numbers)

    def blocks(self, level: int) -> tuple[Array, Array]:
        """The blocks (local, down) of a level; the way up is the arrival rate of the level queue times I."""
        n1, n2 = self.states(level)
        leave1, leave2, _ = departure_rates(self.model, n1=n1, n2=n2)
        out, shift = (leave2, leave1) if self.level_queue == 2 else (leave1, leave2)
        kept, (level_rate, phase_rate) = self.kept, self.rates
        local = np.zeros((self.order, self.order))
        inner = np.arange(kept - 1)
        local[inner, inner + 1] = phase_rate
        local[inner + 1, inner] = shift[1:kept]
        local[kept - 1, kept:] = phase_rate * self.tail.weights
        local[kept:, kept - 1] = self.tail.rates
        np.fill_diagonal(local, -(local.sum(axis=1) + level_rate + out))
        return local, np.diag(out)


@dataclass(frozen=True, eq=False, kw_only=True)
class Steady:
    """The stationary law over the levels of a layout."""

    layout: Layout
    law: LevelLaw

    @cached_property
    def groups(self) -> dict[int, Array]:
        """P(level in the group, phase) by the level that represents the group."""
        sums = {self.layout.start: self.law.phases}
        for n, vector in enumerate(self.law.boundary):
            key = self.layout.alike(n)
            sums[key] = sums.get(key, 0.0) + vector
        return sums

    @cached_property
    def phases(self) -> Array:
        """P(phase) over all levels."""
        return np.asarray(sum(self.groups.values()))

    @cached_property
    def phase_number(self) -> GeometricTail:
        """The law of the number in the phase queue."""
        lay = self.layout
        return GeometricTail(head=self.phases[: lay.kept], ratio=lay.ratio, first=lay.first)

    @property
    def mean_numbers(self) -> tuple[float, float]:
        """E[N1], E[N2]."""
        level, phase = self.law.mean, self.phase_number.mean
        return (phase, level) if self.layout.level_queue == 2 else (level, phase)

    def marginal(self, *, queue: int, last: int) -> Array:
        """P(N = n) of queue 1 or 2 for n = 0 .. last."""
        law = self.law if queue == self.layout.level_queue else self.phase_number
        return law.probabilities(last)

    def tail(self, *, queue: int, n: int) -> float:
        """P(N > n) of queue 1 or 2."""
        return (self.law if queue == self.layout.level_queue else self.phase_number).tail(n)

    def level_rows(self, *, last_level: int, last_phase: int) -> Array:
        """P(level = i, phase queue = j) for i = 0 .. last_level, j = 0 .. last_phase, all of them kept."""
        first, kept = self.layout.first, self.layout.kept
        rows = np.zeros((last_level + 1, last_phase + 1))
        vector = self.law.first
        for n in range(last_level + 1):
            if n > self.law.start:
                vector = vector @ self.law.core.rate
            here = self.law.boundary[n] if n < self.law.start else vector
            width = min(kept, last_phase + 1 - first)
            rows[n, first : first + width] = here[:width]
        return rows

    @cached_property
    def busy_shares(self) -> tuple[float, float, float]:
        """P(server 1 works), P(donor helps), P(donor is at home)."""
        shares = np.zeros(3)
        for level, vector in self.groups.items():
            n1, n2 = self.layout.states(level)
            donor = donor_at(self.layout.model, n1=n1, n2=n2)
            shares += [vector @ (n1 > (donor == HELPS)), vector @ (donor == HELPS), vector @ (donor == AT_HOME)]
        server1, helps, home = shares.tolist()
        return server1, helps, home

    @cached_property
    def residual(self) -> float:
        """How far flows are from balance: relative, the larger of both queues and of the excursions' mass."""
        lay, rates = self.layout, self.layout.model.service_rates
        server1, helps, home = self.busy_shares
        lambda1, lambda2 = lay.model.arrival_rates
        p, r = self.phases, lay.ratio
        beyond = float(p[lay.kept - 1]) * r / (1 - r)
        return max(
            abs(rates.mu1 * server1 + rates.mu12 * helps - lambda1) / lambda1,
            abs(rates.mu2 * home - lambda2) / lambda2,
            abs(float(p[lay.kept :].sum()) - beyond),
        )


def layout(model: Donor, *, excursion: Excursion, least_kept: int = 0) -> Layout:
    """The layout of a stable model under a policy that helps, both arrival rates positive.

    `excursion` makes the law of the busy period; `least_kept` asks for more numbers of the phase queue as phases of
    their own (for joint distributions). Raises `InvalidModel` when thresholds make the chain too large.
    """
    form, rates = rule(model), model.service_rates
    lambda1, lambda2 = model.arrival_rates
    if form.queue1_first:
        level_queue, rising, service = 2, (lambda2, lambda1), rates.mu1 + rates.mu12
        beyond, start = max(form.high, 2), form.switch if math.isfinite(form.switch) else 1
        first = 0
    else:
        level_queue, rising, service = 1, (lambda1, lambda2), rates.mu2
        beyond, start = form.switch, max(form.low, 2) if math.isfinite(form.low) else 2
        first = int(form.switch) - 1 if form.stays_idle else 0
    kept = int(max(beyond, least_kept)) - first
    if kept > _LARGEST_ORDER or start * kept * kept > _LARGEST_STORE:
        raise InvalidModel(
            field="policy",
            rule=f"its thresholds make {start:.0f} levels of more than {kept} phases, too many to solve: use inf",
            value=model.policy,
        )
    return Layout(
        model=model,
        level_queue=level_queue,
        rates=rising,
        first=first,
        kept=kept,
        helped=int(beyond) - first,
        start=int(start),
        tail=excursion(arrival=rising[1], service=service),
        ratio=rising[1] / service,
    )


def steady(lay: Layout, *, load: float) -> Steady:
    """Solve a layout; `load` is the load of the level process, below 1.  Raises `NotConverged` from the solver."""
    up = np.diag(np.full(lay.order, lay.rates[0]))

    @cache
    def blocks(n: int) -> tuple[Array, Array]:
        return lay.blocks(n)

    @cache
    def level(n: int) -> Level:
        local, down = blocks(n)
        return Level(up=up, local=local, down=down if n > 0 else None)

    local, down = blocks(lay.start)
    boundary = [level(lay.alike(n)) for n in range(lay.start)]
    where = f"queue{lay.level_queue}"
    if lay.level_queue == 2:
        law = stationary_levels(boundary, up=up, local=local, down=down, where=where, load=load)
        return Steady(layout=lay, law=law)
    core = helped_passages(
        local=local,
        down=down,
        helped=lay.helped,
        level_rate=lay.rates[0],
        phase_rate=lay.rates[1],
        service=lay.model.service_rates.mu1 + lay.model.service_rates.mu12,
        load=load,
    )
    law = attach_boundary(boundary, core=core, local=local + up @ core.passage, entry=down, where=where)
    return Steady(layout=lay, law=law)
