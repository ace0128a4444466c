"""What reaches each group of servers: rates, times and offered loads, and whether the servers can carry them.

With arrival rate lambda, p0 the share submitted to Group 0, T the limit and q = P(S0 > T) (a service equal to the
limit completes):

    rho0 = lambda p0 E[min(S0, T)] / n0
    rho1 = lambda (p0 E[S0; S0 > T] + (1 - p0) E[S1]) / n1

By other rules for killed jobs a job of Group 0 is done if its S0 is at most E, else it holds its server for H and asks
S0 - s E of Group 1: E = H = T + g where the grace g may complete jobs, E = T and H = T + g where it may not, s the
share of the work kept; T is random, independent of S0, where jobs have limits of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qtheory.laws import Above, Capped, Distribution, MixtureDistribution, Shifted, Upto, check, distribution
from qtheory.models import Deterministic, Dispatcher, Unstable
from qtheory.systems.dispatcher.limits import Limits, limits_of

GROUPS = ("group0", "group1")


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is offered to the groups, however many servers they have.

    Attributes
    ----------
    rate : arrival rate lambda.
    kill_probability : q = P(S0 > E).
    short_rate, long_rate, killed_rate : rates of the classes; they sum to `rate`.
    scv : squared coefficient of variation of the times between arrivals.
    interarrival : law of the times between arrivals.
    poisson : whether arrivals are a Poisson process.
    service0, service1 : laws of the requirements.
    limits : E and H with their probabilities; E = H = T by the plain rules.
    kept : the share s of the work done that a killed job keeps.
    """

    rate: float
    kill_probability: float
    short_rate: float
    long_rate: float
    killed_rate: float
    scv: float
    interarrival: Distribution
    poisson: bool
    service0: Distribution
    service1: Distribution
    limits: Limits
    kept: float

    @property
    def time_limit(self) -> float:
        """E = H where it is the same for all jobs; there is no such number by other rules."""
        (threshold,), (hold,) = self.limits.thresholds.tolist(), self.limits.holds.tolist()
        if threshold != hold:
            raise ValueError("a job that is killed holds its server beyond its limit")
        return float(threshold)

    @property
    def rates(self) -> tuple[float, float]:
        """Arrival rates of the groups: all submitted to Group 0; killed and long jobs."""
        return self.short_rate + self.killed_rate, self.long_rate + self.killed_rate

    @cached_property
    def offered(self) -> tuple[float, float]:
        """Offered loads of the groups in servers; ``inf`` if a mean is."""
        first = 0.0 if self.rates[0] == 0.0 else self.rates[0] * self._occupation
        return first, self._killed_load + (self.long_rate * self.service1.mean if self.long_rate > 0.0 else 0.0)

    @property
    def _occupation(self) -> float:
        """E[S0; S0 <= E] + E[H; S0 > E]."""
        limits, law = self.limits, self.service0
        if limits.prompt:
            return limits.mean(law.capped_moment(1.0, limits.thresholds))
        over = law.survival(limits.thresholds)
        held = np.where(over > 0.0, limits.holds, 0.0) * over
        return limits.mean(law.partial_moment(1.0, limits.thresholds) + held)

    @cached_property
    def _killed_load(self) -> float:
        """lambda p0 E[S0 - s E; S0 > E]."""
        if self.killed_rate == 0.0:
            return 0.0
        limits, law = self.limits, self.service0
        if self.kept == 0.0:
            return self.rates[0] * limits.mean(law.tail_moment(1.0, limits.thresholds))
        over = law.survival(limits.thresholds)
        again = (1.0 - self.kept) * np.where(over > 0.0, limits.thresholds, 0.0) * over
        return self.rates[0] * limits.mean(law.excess(limits.thresholds) + again)

    @cached_property
    def killed_load_share(self) -> float:
        """Share of killed jobs in the load of Group 1."""
        if self.killed_rate == 0.0:
            return 0.0
        return self._killed_load / self.offered[1]

    @cached_property
    def dispersions(self) -> tuple[float, float]:
        """Long-run index of dispersion of the arrivals at each group.

        Thinning a renewal process of scv c2 with probability p leaves p c2 + 1 - p.  Kills are the thinning of
        the arrivals displaced by bounded times in the long run, so that for Group 1 p = 1 - p0 + p0 q.
        """
        beyond = (self.scv - 1.0) / self.rate
        return 1.0 + self.rates[0] * beyond, 1.0 + self.rates[1] * beyond

    @cached_property
    def occupation0(self) -> Distribution:
        """min(S0, T): how long a job holds a server of Group 0; H if it is killed where that is later than E."""
        if self.limits.prompt:
            limits = self.limits.some(self.limits.weights)
            return _mixed([(weight, Capped(self.service0, limit=hold)) for weight, _, hold in limits])
        parts = [(1.0 - self.kill_probability, self.completed)] if self.kill_probability < 1.0 else []
        return _mixed([*parts, (self.kill_probability, self.aborted)] if self.kill_probability > 0.0 else parts)

    @cached_property
    def completed(self) -> Distribution:
        """S0 given S0 <= E."""
        if self.kill_probability == 0.0:
            return self.service0
        limits = self.limits.some(self.limits.weights * self.service0.cdf(self.limits.thresholds))
        return _mixed([(share, Upto(self.service0, limit=threshold)) for share, threshold, _ in limits])

    @cached_property
    def _killing(self) -> list[tuple[float, float, float]]:
        """E and H of the limits that kill, each after the probability that it is met and kills."""
        return self.limits.some(self.limits.weights * self.service0.survival(self.limits.thresholds))

    @cached_property
    def aborted(self) -> Distribution:
        """H given S0 > E: how long a killed job holds a server of Group 0."""
        return _mixed([(share, distribution(Deterministic(value=hold))) for share, _, hold in self._killing])

    @cached_property
    def killed(self) -> Distribution:
        """S0 - s E given S0 > E: what a killed job asks of Group 1."""
        return _mixed([(share, self._left(limit)) for share, limit, _ in self._killing])

    @cached_property
    def killed_service(self) -> Distribution:
        """H + S0 - s E given S0 > E: the services of a killed job in both groups."""
        return _mixed([(share, Shifted(self._left(limit), by=hold)) for share, limit, hold in self._killing])

    def _left(self, limit: float) -> Distribution:
        above = Above(self.service0, limit=limit)
        return above if self.kept == 0.0 else Shifted(above, by=-self.kept * limit)

    @cached_property
    def occupation1(self) -> Distribution:
        """How long a job holds a server of Group 1: killed and long jobs mixed by their rates."""
        if self.killed_rate == 0.0:
            return self.service1
        if self.long_rate == 0.0:
            return self.killed
        return MixtureDistribution(weights=[self.killed_rate, self.long_rate], components=[self.killed, self.service1])

    @property
    def occupations(self) -> tuple[Distribution, Distribution]:
        """How long a job holds a server, by group."""
        return self.occupation0, self.occupation1


def traffic(model: Dispatcher) -> Traffic:
    """What `model` offers to its groups.  Raises `InvalidModel` for laws it cannot have.

    >>> from qtheory.models import Exponential
    >>> model = Dispatcher(
    ...     servers=(3, 4), time_limit=3.0, short_fraction=0.65, interarrival=Exponential(mean=1 / 3),
    ...     service0=Exponential(mean=1.2), service1=Exponential(mean=2.0),
    ... )
    >>> [round(load / n, 4) for load, n in zip(traffic(model).offered, model.servers)]
    [0.716, 0.6931]
    """
    check(model)
    interarrival = distribution(model.interarrival)
    service0, service1 = distribution(model.service0), distribution(model.service1)
    rate = 1.0 / interarrival.mean
    limits = limits_of(model, service=service0)
    q = limits.mean(service0.survival(limits.thresholds))
    submitted = rate * model.short_fraction
    return Traffic(
        rate=rate,
        kill_probability=q,
        short_rate=submitted * limits.mean(service0.cdf(limits.thresholds)),
        long_rate=rate * (1.0 - model.short_fraction),
        killed_rate=submitted * q,
        scv=interarrival.scv,
        interarrival=interarrival,
        poisson=is_exponential(interarrival),
        service0=service0,
        service1=service1,
        limits=limits,
        kept=model.checkpoint_share,
    )


def _mixed(parts: Sequence[tuple[float, Distribution]]) -> Distribution:
    if len(parts) == 1:
        return parts[0][1]
    return MixtureDistribution(weights=[weight for weight, _ in parts], components=[part for _, part in parts])


def is_exponential(law: Distribution) -> bool:
    """Whether the law is an exponential one, under whatever name.

    Exponential, Erlang or gamma of shape 1, Weibull of shape 1: known by P(S > t) = exp(-t / mean) at several t.
    """
    if not 0.0 < law.mean < math.inf or law.atoms[0].size:
        return False
    return all(abs(law.survival(x * law.mean) - math.exp(-x)) <= 1e-12 for x in (0.1, 0.37, 1.0, 2.3, 5.0, 11.0))


def require_stable(offered: tuple[float, float], *, servers: tuple[int, int]) -> None:
    """Raise `Unstable` with the group and its load unless each group can carry what it is offered."""
    for group, load, count in zip(GROUPS, offered, servers, strict=True):
        if not load < count:
            raise Unstable(where=group, load=load / count)
