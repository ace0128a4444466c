"""Group 0 of a dispatcher in its stationary state, drawn exactly: no warm-up, no bias."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from qsim.kernels.perfect import Service, sample_workloads
from qsim.kernels.random import Array, State
from qsim.restricted_mean import restricted_mean
from qsim.sampling import program
from qsim.size_biased import thinning
from qsim.streams import stream
from qtheory.models.dispatcher import Dispatcher
from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.models.laws import Exponential

_PATIENCE = 5_000_000


@dataclass(frozen=True, kw_only=True)
class Stationary:
    """Independent draws of what stands in Group 0 at an arbitrary instant.

    Attributes
    ----------
    workload : one draw a row, the work that each server still has to do if no more jobs come, in increasing order.
        The servers that are busy are those with work; a server's work includes that of waiting jobs it will take.
    traced : how far back in time each draw had to be traced.
    """

    workload: Array
    traced: Array

    @property
    def wait(self) -> Array:
        """The wait of a job that arrives now, which is that of an arbitrary job: the least of the workloads."""
        least: Array = self.workload[:, 0]
        return least

    @property
    def busy(self) -> Array:
        """How many servers are busy."""
        count: Array = np.sum(self.workload > 0, axis=1, dtype=np.float64)
        return count


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """What draws the stationary workloads of one M/G/c queue: `rate` and `load` are those of one server."""

    group: str
    servers: int
    rate: float
    load: float
    mean_service: float
    service: Service

    def draw(self, state: State, *, samples: int) -> Stationary:
        """So many draws; raises `NotConverged` where one met five million jobs at one server."""
        workload, traced = np.empty((samples, self.servers)), np.empty(samples)
        horizon = 4 * self.mean_service / (1 - self.load)
        if sample_workloads(self.service, self.rate, self.load, horizon, _PATIENCE, state, workload, traced) < samples:
            advice = "the load is too near 1, or the variance of the services is infinite or huge"
            raise NotConverged(where=self.group, residual=math.nan, iterations=_PATIENCE, advice=advice)
        return Stationary(workload=workload, traced=traced)


def perfect(model: Dispatcher, *, samples: int, seed: int = 1, mean_service: float | None = None) -> Stationary:
    """Exact draws of the stationary workloads of Group 0: M/G/c with services min(S0, time_limit).

    By dominated coupling from the past (S. B. Connor and W. S. Kendall, Adv. Appl. Probab. 47, 2015, 1039-1063,
    algorithm 2): the draws have the stationary law itself, whatever the load.  The cost of one grows with the
    relaxation time, that is with servers / (1 - load)^2.  Group 1 has no such sampler: kills reorder jobs of two
    laws, so that the systems between which it would have to lie are not ordered.

    Parameters
    ----------
    model : its arrivals must be Poisson; Group 1 plays no part.  M/G/c itself is ``short_fraction=1.0``,
        ``time_limit=inf``.  A grace that completes jobs is a longer limit.
    samples : how many draws.
    seed : the draws are a function of it.
    mean_service : E[min(S0, time_limit)], needed only where it is not known here (a product cut at a limit).

    Raises
    ------
    InvalidModel : other arrivals, a law without a sampler of services in progress (a finite limit always gives one),
        a grace only to save, limits of the jobs' own.
    Unstable : Group 0 has no stationary state.
    NotConverged : a draw met five million jobs at one server: its load is too near 1, or services have no variance.

    Examples
    --------
    In M/M/2 with rates 1 and 1 a job waits with probability 1/3.

    >>> law = Exponential(mean=1.0)
    >>> model = Dispatcher(servers=(2, 1), time_limit=math.inf, short_fraction=1.0, interarrival=law, service0=law,
    ...                    service1=law)
    >>> draws = perfect(model, samples=20_000, seed=1)
    >>> bool(abs((draws.wait > 0).mean() - 1 / 3) < 0.02)
    True
    """
    if samples < 1:
        raise InvalidModel(field="samples", rule="must be at least 1", value=samples)
    if seed < 0:
        raise InvalidModel(field="seed", rule="must not be negative", value=seed)
    return sampler(model, mean_service=mean_service).draw(
        stream(seed=seed, replication=0, name="perfect"), samples=samples
    )


def sampler(model: Dispatcher, *, group: int = 0, mean_service: float | None = None) -> Sampler:
    """The sampler of Group 0, or of Group 1 where no job can be killed; raises as `perfect` does."""
    if not isinstance(model.interarrival, Exponential):
        raise InvalidModel(field="interarrival", rule="must be exponential", value=model.interarrival.kind())
    fraction = 1 - model.short_fraction if group else model.short_fraction
    if fraction == 0:
        raise InvalidModel(field="short_fraction", rule=f"gives Group {group} no jobs", value=model.short_fraction)
    servers, limit, law, field = model.servers[1], math.inf, model.service1, "service1"
    if group == 0:
        for name in ("limits", "grace_completes"):
            if name in model.changed_rules:
                rule = "gives services that perfect does not know; qsim.simulate does"
                raise InvalidModel(field=name, rule=rule, value=getattr(model, name))
        servers, limit, law, field = model.servers[0], model.time_limit + model.grace, model.service0, "service0"
    mean = mean_service
    if mean is None:
        mean = restricted_mean(law, limit=limit, field=field)
    if not mean > 0:
        raise InvalidModel(field="mean_service", rule="must be positive", value=mean)
    rate = fraction / model.interarrival.mean / servers
    load = rate * mean
    if not load < 1:
        raise Unstable(where=f"group{group}", load=load)
    whole, bound = thinning(law, limit=limit, field=field)
    service = (*program(law, field=field), *program(whole, field=field), limit, bound)
    return Sampler(group=f"group{group}", servers=servers, rate=rate, load=load, mean_service=mean, service=service)
