"""Markovian arrival processes, marked or not: construction, rates, counts, intervals.

A process is D0 (phase changes without an arrival) and D_1 .. D_K (with an arrival of type k); D0 + sum D_k is
the generator of the phases. Signed matrices give rational arrival processes, for which every formula here
holds too; `proper` tells the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.linear import Array, factor
from qtheory.queues.markov import check_generator, check_square, stationary, stationary_signed
from qtheory.queues.phase_algebra import kronecker_sum
from qtheory.queues.phase_type import PhaseType
from qtheory.queues.transient import propagate


@dataclass(frozen=True, eq=False, kw_only=True)
class ArrivalProcess:
    """A (marked) Markovian or rational arrival process.

    Attributes
    ----------
    hidden : D0.
    marks : (D_1, .., D_K), one for each type of arrival.

    >>> poisson(rate=2.0).rate
    2.0
    """

    hidden: Array
    marks: tuple[Array, ...]

    def __post_init__(self) -> None:
        hidden = check_square(self.hidden, field="hidden")
        marks = tuple(check_square(mark, field=f"marks.{k}") for k, mark in enumerate(self.marks))
        if not marks or any(mark.shape != hidden.shape for mark in marks):
            raise InvalidModel(field="marks", rule="must be at least one matrix of the order of D0", value=len(marks))
        sums = hidden.sum(axis=1) + sum(mark.sum(axis=1) for mark in marks)
        gap = float(np.abs(sums).max())
        if gap > 1e-8 * float(np.abs(hidden).max()):
            raise InvalidModel(field="marks", rule="rows of D0 + D1 + ... must sum to 0", value=gap)
        object.__setattr__(self, "hidden", hidden)
        object.__setattr__(self, "marks", marks)

    @property
    def order(self) -> int:
        """Number of phases."""
        return len(self.hidden)

    @cached_property
    def arrivals(self) -> Array:
        """D_1 + .. + D_K."""
        return np.asarray(sum(self.marks), dtype=np.float64)

    @cached_property
    def generator(self) -> Array:
        """D0 + D_1 + .. + D_K."""
        return self.hidden + self.arrivals

    @cached_property
    def proper(self) -> bool:
        """All rates >= 0: a Markovian process, not a signed one."""
        slack = -1e-9 * float(np.abs(self.hidden).max())
        off = self.hidden - np.diag(np.diag(self.hidden))
        return bool(off.min() >= slack and min(mark.min() for mark in self.marks) >= slack)

    @cached_property
    def phases(self) -> Array:
        """Stationary law of the phase."""
        if self.order == 1:
            return np.ones(1)
        if self.proper:
            return stationary(self.generator, field="arrival process")
        return stationary_signed(self.generator, where="arrival process")

    @cached_property
    def rates(self) -> Array:
        """Arrivals of each type per unit time."""
        return np.array([float((self.phases @ mark).sum()) for mark in self.marks])

    @property
    def rate(self) -> float:
        """Arrivals of all types per unit time."""
        return float(self.rates.sum())

    @cached_property
    def embedded(self) -> Array:
        """Law of the phase just after an arrival."""
        vector = self.phases @ self.arrivals
        return np.asarray(vector / vector.sum())

    @property
    def interval(self) -> PhaseType:
        """The stationary law of the time between arrivals."""
        return PhaseType(alpha=self.embedded, generator=self.hidden)

    def autocorrelation(self, lag: int) -> float:
        """Correlation of two intervals `lag` arrivals apart (0 if intervals are constant)."""
        if lag < 1:
            raise InvalidModel(field="lag", rule="must be at least 1", value=lag)
        factors = factor(-self.hidden, where="arrival process")
        jump = factors.solve(self.arrivals)
        means = factors.solve(np.ones(self.order))
        vector = factors.solve_left(self.embedded)
        product = float(vector @ np.linalg.matrix_power(jump, lag) @ means)
        law = self.interval
        return (product - law.mean**2) / law.variance

    @cached_property
    def _deviation(self) -> Array:
        """(e pi - Q)^-1."""
        matrix = np.outer(np.ones(self.order), self.phases) - self.generator
        return factor(matrix, where="arrival process").solve(np.eye(self.order))

    def dispersion(self, t: ArrayLike = np.inf, *, first: int | None = None, second: int | None = None) -> Any:
        """Index of dispersion of counts I(t) = Var N(t) / E N(t), in the stationary process; ``inf`` for its limit.

        Without types all arrivals are counted. With `first` (and `second`) it is the covariance of the counts of
        those types over sqrt(E N_first E N_second): with `first` alone the index of that type.
        Times far below those of the phases lose digits: the error is about 1e-16 over t times the largest rate.
        Var N(t) as in Fischer and Meier-Hellstern (1993), "The MMPP cookbook", Perform. Eval. 18, sec. 2.

        >>> float(poisson(rate=3.0).dispersion(5.0))
        1.0
        """
        one = self.arrivals if first is None else self.marks[first]
        two = one if second is None else self.marks[second]
        ones = np.ones(self.order)
        pi, deviation = self.phases, self._deviation
        rate1, rate2 = float(pi @ one @ ones), float(pi @ two @ ones)
        together = rate1 if second is None or first == second else 0.0
        slope, fall = together - 2.0 * rate1 * rate2, 0.0
        times = np.asarray(t, dtype=np.float64)
        if not (times > 0.0).all():
            raise InvalidModel(field="t", rule="must be positive", value=t)
        flat = np.minimum(times.ravel(), 1e300)
        fading = np.zeros(len(flat))
        for start, end in ((one, two), (two, one)):
            slope += float(pi @ start @ deviation @ end @ ones)
            vector, target = pi @ start, deviation @ (deviation @ (end @ ones))
            fall += float(vector @ target)
            # e^(Qt) tends to e pi; only the part that fades is propagated.
            vector = vector - vector.sum() * pi
            fading += self._faded(vector, flat) @ target + float((pi @ start).sum()) * float(pi @ target)
        value = (slope - (fall - fading) / flat) / np.sqrt(rate1 * rate2)
        return value.reshape(times.shape)[()]

    def _faded(self, vector: Array, times: Array) -> Array:
        """vector e^(Qt) for a vector of mass 0."""
        matrix = self.generator - np.outer(np.ones(self.order), self.phases) * float(np.abs(self.hidden).max())
        return propagate(start=vector, generator=matrix, times=times)

    def reversed(self) -> ArrivalProcess:
        """The same process seen backwards in time: D_k -> diag(pi)^-1 D_k' diag(pi)."""
        pi = self.phases
        if np.abs(pi).min() < 1e-300:
            raise InvalidModel(field="hidden", rule="must have no transient phases", value=pi.tolist())
        turn = [matrix.T * pi[None, :] / pi[:, None] for matrix in (self.hidden, *self.marks)]
        return ArrivalProcess(hidden=turn[0], marks=tuple(turn[1:]))

    def scaled(self, *, rate: float) -> ArrivalProcess:
        """The process run at another speed, so that its total rate is `rate`."""
        _check_rate(rate)
        speed = rate / self.rate
        return ArrivalProcess(hidden=speed * self.hidden, marks=tuple(speed * mark for mark in self.marks))

    def merged(self) -> ArrivalProcess:
        """The process with its types forgotten."""
        return ArrivalProcess(hidden=self.hidden, marks=(self.arrivals,))

    def only(self, kind: int) -> ArrivalProcess:
        """The arrivals of one type, the others hidden."""
        hidden = self.generator - self.marks[kind]
        return ArrivalProcess(hidden=hidden, marks=(self.marks[kind],))

    def split(self, *, probabilities: ArrayLike) -> ArrivalProcess:
        """Each arrival of an unmarked process gets a type of its own, type k with `probabilities[k]`.

        Probabilities that sum to less than 1 thin the process: the rest are not counted.
        """
        shares = np.asarray(probabilities, dtype=np.float64)
        if shares.ndim != 1 or not (shares >= 0.0).all() or shares.sum() > 1.0 + 1e-12:
            raise InvalidModel(
                field="probabilities", rule="must be at least 0 and sum to at most 1", value=shares.tolist()
            )
        lost = max(1.0 - float(shares.sum()), 0.0)
        marks = tuple(float(share) * self.arrivals for share in shares)
        return ArrivalProcess(hidden=self.hidden + lost * self.arrivals, marks=marks)

    def thinned(self, *, keep: float) -> ArrivalProcess:
        """Each arrival is kept with probability `keep`, the others are hidden; types stay."""
        if not 0.0 < keep <= 1.0:
            raise InvalidModel(field="keep", rule="must be above 0 and at most 1", value=keep)
        hidden = self.hidden + (1.0 - keep) * self.arrivals
        return ArrivalProcess(hidden=hidden, marks=tuple(keep * mark for mark in self.marks))


def markovian(hidden: ArrayLike, *marks: ArrayLike) -> ArrivalProcess:
    """A Markovian arrival process, checked: rates >= 0, zero row sums, one closed class, at least one arrival."""
    process = ArrivalProcess(hidden=check_square(hidden, field="hidden"), marks=tuple(map(np.asarray, marks)))
    slack = -1e-9 * float(np.abs(process.hidden).max())
    off = process.hidden - np.diag(np.diag(process.hidden))
    if off.min() < slack:
        raise InvalidModel(field="hidden", rule="off-diagonal rates must be at least 0", value=float(off.min()))
    for k, mark in enumerate(process.marks):
        if mark.min() < slack:
            raise InvalidModel(field=f"marks.{k}", rule="arrival rates must be at least 0", value=float(mark.min()))
    if not process.rate > 0.0:
        raise InvalidModel(field="marks", rule="must have a positive rate in the long run", value=process.rate)
    return process


def rational_arrivals(hidden: ArrayLike, *marks: ArrayLike) -> ArrivalProcess:
    """A rational arrival process, checked as far as it can be: rates positive, spectra left of 0.

    Raises `NotConverged` where D0 or the generator (beyond its 0) has an eigenvalue with non-negative real part:
    no such process exists. That no joint density is negative cannot be checked in finite time.
    """
    process = ArrivalProcess(hidden=check_square(hidden, field="hidden"), marks=tuple(map(np.asarray, marks)))
    worst = float(np.linalg.eigvals(process.hidden).real.max())
    beyond = np.sort(np.linalg.eigvals(process.generator).real)[:-1]
    worst = max(worst, float(beyond.max())) if len(beyond) else worst
    if not worst < 0.0 or not process.rates.min() > 0.0:
        raise NotConverged(
            where="rational arrival process", residual=worst, iterations=1, advice="use another or a lower order"
        )
    return process


def poisson(*, rate: float) -> ArrivalProcess:
    """The Poisson process."""
    _check_rate(rate)
    return ArrivalProcess(hidden=np.array([[-rate]]), marks=(np.array([[rate]]),))


def renewal(law: PhaseType) -> ArrivalProcess:
    """Independent intervals with a phase-type or matrix-exponential law without an atom."""
    if law.atom:
        raise InvalidModel(field="law", rule="must have no atom at 0", value=law.atom)
    return ArrivalProcess(hidden=law.generator, marks=(np.outer(law.exits, law.alpha),))


def mmpp(*, generator: ArrayLike, rates: ArrayLike) -> ArrivalProcess:
    """Markov-modulated Poisson process: arrivals at `rates[i]` while the chain is in state i."""
    chain = check_generator(generator)
    arrivals = np.diag(np.asarray(rates, dtype=np.float64))
    return markovian(chain - arrivals, arrivals)


def superposition(*processes: ArrivalProcess) -> ArrivalProcess:
    """Independent processes side by side; the types of all are kept, in order.

    >>> superposition(poisson(rate=1.0), poisson(rate=2.0)).rates.tolist()
    [1.0, 2.0]
    """
    return reduce(_superpose, processes)


def _superpose(first: ArrivalProcess, second: ArrivalProcess) -> ArrivalProcess:
    one, two = np.eye(first.order), np.eye(second.order)
    marks = [np.kron(mark, two) for mark in first.marks] + [np.kron(one, mark) for mark in second.marks]
    kept = tuple(np.asarray(mark, dtype=np.float64) for mark in marks)
    return ArrivalProcess(hidden=kronecker_sum(first.hidden, second.hidden), marks=kept)


def _check_rate(rate: float) -> None:
    if not 0.0 < rate < np.inf:
        raise InvalidModel(field="rate", rule="must be positive and finite", value=rate)
