"""Laws of the numbers of jobs in closed form, where the two queues do not meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qtheory.models.donor import Donor
from qtheory.systems.donor.rules import HELPS, Rule, departure_rates, donor_at, rule

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class GeometricTail:
    """P(N = n) = head[n - first] up to the last entry of `head`, from which on it falls by `ratio` a job."""

    head: Array
    ratio: float
    first: int = 0

    @property
    def last(self) -> int:
        """The number that the last entry of `head` belongs to."""
        return self.first + len(self.head) - 1

    @property
    def mean(self) -> float:
        """E[N]."""
        r = self.ratio
        inner = float(self.head @ np.arange(self.first, self.last + 1))
        return inner + float(self.head[-1]) * (self.last * r / (1 - r) + r / (1 - r) ** 2)

    def probabilities(self, last: int) -> Array:
        """P(N = n) for n = 0 .. last."""
        n = np.arange(last + 1)
        place = np.clip(n - self.first, 0, len(self.head) - 1)
        beyond = np.maximum(n - self.last, 0)
        return np.where(n < self.first, 0.0, self.head[place] * self.ratio**beyond)

    def tail(self, n: int) -> float:
        """P(N > n)."""
        if n >= self.last:
            return float(self.head[-1]) * self.ratio ** (n + 1 - self.last) / (1 - self.ratio)
        inner = float(self.head[max(n + 1 - self.first, 0) :].sum())
        return inner + float(self.head[-1]) * self.ratio / (1 - self.ratio)


@dataclass(frozen=True, eq=False, kw_only=True)
class Independent:
    """Two independent numbers of jobs; `busy_shares` as in `chain.Steady`."""

    n1: GeometricTail
    n2: GeometricTail
    busy_shares: tuple[float, float, float]
    residual: float = 0.0

    @property
    def mean_numbers(self) -> tuple[float, float]:
        """E[N1], E[N2]."""
        return self.n1.mean, self.n2.mean

    def marginal(self, *, queue: int, last: int) -> Array:
        """P(N = n) of queue 1 or 2 for n = 0 .. last."""
        return (self.n1, self.n2)[queue - 1].probabilities(last)

    def tail(self, *, queue: int, n: int) -> float:
        """P(N > n) of queue 1 or 2."""
        return (self.n1, self.n2)[queue - 1].tail(n)

    def joint(self, *, n1: int, n2: int) -> Array:
        """P(N1 = i, N2 = j) for i = 0 .. n1, j = 0 .. n2."""
        return np.outer(self.n1.probabilities(n1), self.n2.probabilities(n2))


def closed_form(model: Donor) -> Independent | None:
    """The law of a stable model whose queues do not meet: one arrival rate 0, or a donor that never helps."""
    form, rates = rule(model), model.service_rates
    lambda1, lambda2 = model.arrival_rates
    if form.helps and lambda1 > 0 and lambda2 > 0:
        return None
    home = _single(arrival=lambda2, service=rates.mu2, first=_least(form) if lambda2 > 0 else 0)
    if not form.helps or lambda1 == 0:
        alone = _single(arrival=lambda1, service=rates.mu1, first=0)
        return Independent(n1=alone, n2=home, busy_shares=(lambda1 / rates.mu1, 0.0, lambda2 / rates.mu2))
    # Without type 2 jobs N1 is a birth-death process of rate mu1 + mu12 from two jobs on.
    lone, both = max(rates.mu1, rates.mu12), rates.mu1 + rates.mu12
    ratio = lambda1 / both
    weights = np.array([1.0, lambda1 / lone])
    n1 = GeometricTail(head=weights / (1 + weights[1] / (1 - ratio)), ratio=ratio)
    p0, p1 = n1.head
    _, _, server1 = departure_rates(model, n1=[0, 1], n2=[0, 0])
    helps = donor_at(model, n1=[0, 1], n2=[0, 0]) == HELPS
    many = 1 - float(p0) - float(p1)
    shares = (float(p1) * float(server1[1]) + many, float(p1) * float(helps[1]) + many, 0.0)
    return Independent(n1=n1, n2=home, busy_shares=shares)


def _single(*, arrival: float, service: float, first: int) -> GeometricTail:
    """M/M/1 that is never served at or below `first` jobs."""
    load = arrival / service
    return GeometricTail(head=np.array([1 - load]), ratio=load, first=first)


def _least(form: Rule) -> int:
    """The number of type 2 jobs below which the donor never goes home."""
    return int(form.switch) - 1 if form.stays_idle else 0
