"""What reaches each group of servers: rates, times and offered loads, and whether the servers can carry them.

With arrival rate lambda, p0 the share submitted to Group 0, T the limit and q = P(S0 > T) (a service equal to the
limit completes):

    rho0 = lambda p0 E[min(S0, T)] / n0
    rho1 = lambda (p0 E[S0; S0 > T] + (1 - p0) E[S1]) / n1
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from qtheory.laws import Above, Capped, Distribution, MixtureDistribution, Upto, check, distribution
from qtheory.models import Dispatcher, Unstable

GROUPS = ("group0", "group1")


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What is offered to the groups, however many servers they have.

    Attributes
    ----------
    rate : arrival rate lambda.
    kill_probability : q = P(S0 > T).
    short_rate, long_rate, killed_rate : rates of the classes; they sum to `rate`.
    scv : squared coefficient of variation of the times between arrivals.
    interarrival : law of the times between arrivals.
    poisson : whether arrivals are a Poisson process.
    service0, service1 : laws of the requirements.
    time_limit : T.
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
    time_limit: float

    @property
    def rates(self) -> tuple[float, float]:
        """Arrival rates of the groups: all submitted to Group 0; killed and long jobs."""
        return self.short_rate + self.killed_rate, self.long_rate + self.killed_rate

    @cached_property
    def offered(self) -> tuple[float, float]:
        """Offered loads of the groups in servers; ``inf`` if a mean is."""
        occupation = self.service0.capped_moment(1.0, self.time_limit)
        first = 0.0 if self.rates[0] == 0.0 else self.rates[0] * occupation
        killed = self.rates[0] * self.service0.tail_moment(1.0, self.time_limit) if self.killed_rate > 0.0 else 0.0
        return first, killed + (self.long_rate * self.service1.mean if self.long_rate > 0.0 else 0.0)

    @cached_property
    def killed_load_share(self) -> float:
        """Share of killed jobs in the load of Group 1."""
        if self.killed_rate == 0.0:
            return 0.0
        killed = self.rates[0] * self.service0.tail_moment(1.0, self.time_limit)
        return killed / self.offered[1]

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
        """min(S0, T): how long a job holds a server of Group 0."""
        return Capped(self.service0, limit=self.time_limit)

    @cached_property
    def completed(self) -> Distribution:
        """S0 given S0 <= T."""
        return self.service0 if self.kill_probability == 0.0 else Upto(self.service0, limit=self.time_limit)

    @cached_property
    def killed(self) -> Distribution:
        """S0 given S0 > T."""
        return Above(self.service0, limit=self.time_limit)

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
    q = service0.survival(model.time_limit)
    submitted = rate * model.short_fraction
    return Traffic(
        rate=rate,
        kill_probability=q,
        short_rate=submitted * service0.cdf(model.time_limit),
        long_rate=rate * (1.0 - model.short_fraction),
        killed_rate=submitted * q,
        scv=interarrival.scv,
        interarrival=interarrival,
        poisson=is_exponential(interarrival),
        service0=service0,
        service1=service1,
        time_limit=model.time_limit,
    )


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
