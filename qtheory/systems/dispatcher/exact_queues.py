"""The queues of both groups at rising orders, with the last changes as errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

from qtheory.models import InvalidModel, NotConverged
from qtheory.queues.age import TypedQueue, typed_queue
from qtheory.queues.fitting import rational
from qtheory.queues.map import ArrivalProcess, poisson, superposition
from qtheory.queues.multiserver_ph import map_ph_c
from qtheory.queues.occupancy import size
from qtheory.queues.phase_algebra import convolution
from qtheory.queues.phase_type import PhaseType
from qtheory.systems.dispatcher.ages import AgedService, aged_service, constant_time
from qtheory.systems.dispatcher.exact_chain import marked_chain
from qtheory.systems.dispatcher.exact_projection import Projection
from qtheory.systems.dispatcher.group_queues import Wait, many_server_wait, mean_product, waits_of
from qtheory.systems.dispatcher.loads import Traffic
from qtheory.systems.dispatcher.phase_laws import remaining

#: Most states a level of Group 0, most of its chain, and most up states of the typed queue.
LEVEL_BUDGET, CHAIN_BUDGET, QUEUE_BUDGET = 300, 40_000, 700
#: Nodes on the age: the first to try, the most, and the relative change in the wait at which more are not needed.
_FEWEST_NODES, _MOST_NODES, _SETTLED = 4, 12, 1e-5
#: Relative error of the mean occupation above which a number of nodes is not even tried.
_LOAD_GAP = 1e-4
#: Functions that carry the coupling, with one and with two streams from one process: the coarse projection, and the
#: least and the most of the fine one.
_COARSE, _LEAST, _MOST = (8, 12), (12, 18), (24, 30)
_CUT = 1e-10
#: Relative rounding, and the change at a step beyond which the answer has not settled at all.
_ROUNDING, _MOST_CHANGE = 1e-8, 0.5
_ADVICE = "use method phase-type"


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A wait, with the errors of its mean and of the probability that it is positive."""

    wait: Wait
    mean_error: float
    probability_error: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Ages:
    """Group 0 at two orders of the age: `coarse` has fewer nodes, `order` is that of `fine`."""

    wait: Settled
    coarse: Projection
    fine: Projection
    order: int


def settled_ages(
    traffic: Traffic,
    *,
    arrivals: ArrivalProcess,
    short_fraction: float,
    servers: tuple[int, int],
) -> Ages:
    """Group 0 with as many nodes on the age as settle its wait, or as the budget allows."""
    n0 = servers[0]
    own = arrivals if short_fraction == 1.0 else arrivals.thinned(keep=short_fraction)
    services: list[AgedService] = []
    waits: list[Wait] = []
    gap, order = math.inf, _FEWEST_NODES - 1
    while order <= _MOST_NODES and arrivals.order * size(servers=n0, phases=order) <= LEVEL_BUDGET:
        service = aged_service(traffic.service0, limit=traffic.time_limit, order=order)
        gap = abs(service.law.mean / traffic.occupation0.mean - 1.0)
        if gap <= _LOAD_GAP:
            services.append(service)
            waits.append(many_server_wait(arrivals=own, service=service.law, servers=n0, depth=n0, where="group0"))
        if len(waits) > 1 and abs(waits[-1].mean - waits[-2].mean) <= _SETTLED * waits[-1].mean:
            break
        order += 1
    if len(waits) < 2 and order > _MOST_NODES:
        raise NotConverged(where="group0", residual=gap, iterations=order - 1, advice=_ADVICE)
    if len(waits) < 2:
        _refuse("Group 0", LEVEL_BUDGET, arrivals.order * size(servers=n0, phases=order))
    projections = []
    highest = _highest(own, service=services[-1].law, servers=n0)
    for service in services[-2:]:
        states = (highest + 1) * arrivals.order * size(servers=n0, phases=service.law.order)
        if states > CHAIN_BUDGET:
            _refuse("Group 0", CHAIN_BUDGET, states)
        chain = marked_chain(
            arrivals=arrivals, short_fraction=short_fraction, servers=n0, service=service, highest=highest
        )
        projections.append(Projection(chain=chain, time_scale=traffic.occupation1.mean))
    last, before = waits[-1], waits[-2]
    return Ages(
        wait=Settled(
            wait=last,
            mean_error=abs(last.mean - before.mean) + _ROUNDING * last.mean,
            probability_error=abs(last.probability - before.probability) + _ROUNDING,
        ),
        coarse=projections[0],
        fine=projections[1],
        order=services[-1].law.order,
    )


def _highest(arrivals: ArrivalProcess, *, service: PhaseType, servers: int) -> int:
    """A number of jobs in Group 0 that is as good as never passed."""
    levels = map_ph_c(arrivals=arrivals, service=service, servers=servers, depth=servers, where="group0").levels
    highest = servers + 2
    while levels.tail(highest) > _CUT:
        highest += max(highest // 16, 4)
    return highest


@dataclass(frozen=True, eq=False, kw_only=True)
class Group1:
    """What Group 1 is made of: `laws` of killed jobs, plainest first, the law of long jobs, and the orders to use.

    `split` tells whether kills and long jobs come from one process; `coarse` to `fine` are numbers of functions.
    """

    laws: tuple[PhaseType, ...]
    long: PhaseType | None
    long_rate: float
    servers: int
    split: bool
    coarse: int
    fine: int

    @classmethod
    def affordable(
        cls, traffic: Traffic, *, residual_of: PhaseType, service1: PhaseType | None, servers: int
    ) -> Group1:
        """The richest within the budget.  Raises `InvalidModel` where the plainest is beyond it."""
        split = service1 is not None and not traffic.poisson
        others = service1.order if service1 else 0
        coarse, least = _COARSE[split], _LEAST[split]
        found = _killed_laws(traffic, residual_of)
        states = [size(servers=servers, phases=law.order + others) for law in found]
        if least * states[1] > QUEUE_BUDGET:
            _refuse("Group 1", QUEUE_BUDGET, least * states[1])
        return cls(
            laws=tuple(law for law, count in zip(found, states, strict=True) if coarse * count <= QUEUE_BUDGET),
            long=service1,
            long_rate=traffic.long_rate,
            servers=servers,
            split=split,
            coarse=coarse,
            fine=min(QUEUE_BUDGET // states[1], _MOST[split]),
        )

    def queue(self, projection: Projection, *, functions: int, law: PhaseType) -> TypedQueue:
        """The typed queue of killed and long jobs."""
        process, services = projection.arrivals(functions), [law]
        if self.long is not None:
            services.append(self.long)
        if self.long is not None and not self.split:
            process = superposition(process, poisson(rate=self.long_rate))
        return typed_queue(
            arrivals=process, services=services, servers=self.servers, depth=self.servers, where="group1"
        )

    def waits(self, projection: Projection, *, functions: int, law: PhaseType) -> list[Wait]:
        """Of the killed and of the long jobs."""
        return waits_of(self.queue(projection, functions=functions, law=law), where="group1")


def correlation(traffic: Traffic, group1: Group1, *, ages: Ages) -> float:
    """Correlation of the two waits of a killed job.

    A job leaves N behind in Group 0 at its kill, with E[N | W0] = l0 (W0 + T) for one server and Poisson arrivals of
    rate l0. Jobs behind it have no part in W1, so that Cov(W0, W1) = Cov(N, W1) / l0: exact there, near elsewhere.
    """
    queue = group1.queue(ages.fine, functions=group1.coarse, law=group1.laws[0])
    product = mean_product(queue, weighted=ages.fine.left_behind(group1.coarse), where="group1")
    wait, rate = waits_of(queue, where="group1")[0], float(queue.arrivals.rates[0])
    spread = math.sqrt(wait.variance * ages.wait.wait.variance)
    if not spread > 0.0:
        return 0.0
    return min(max((product / rate - wait.mean * ages.fine.left_mean) / (traffic.rates[0] * spread), 0.0), 0.95)


def killed_waits(group1: Group1, *, ages: Ages) -> tuple[Settled, ...]:
    """Waits in Queue 1 of killed and, where there are any, of long jobs: the axes combined as factors.

    The wait with the richest law of killed jobs and a coarse projection, times what a fine projection changes with a
    plainer law. Errors: the last change on each axis, and what the factor owes to the law it was taken with.
    """
    laws, coarse, fine = group1.laws, group1.coarse, group1.fine
    chosen = (laws[0], laws[1], *laws[2:][-2:])
    by_law = [group1.waits(ages.fine, functions=coarse, law=law) for law in chosen]
    nearer, finest = (
        group1.waits(ages.fine, functions=functions, law=laws[0]) for functions in ((coarse + fine) // 2, fine)
    )
    also = group1.waits(ages.fine, functions=fine, law=laws[1])
    fewer_nodes = group1.waits(ages.coarse, functions=coarse, law=laws[0])
    found = []
    for kind, best in enumerate(by_law[-1]):
        steps = (
            (best, by_law[-2][kind]),
            (finest[kind], nearer[kind]),
            (by_law[0][kind], fewer_nodes[kind]),
        )
        factors = [fined[kind].mean / base[kind].mean for fined, base in ((finest, by_law[0]), (also, by_law[1]))]
        error = sum(abs(math.log(new.mean / old.mean)) for new, old in steps)
        error += abs(math.log(factors[1] / factors[0])) + _ROUNDING
        if not error <= _MOST_CHANGE:
            raise NotConverged(where="group1", residual=error, iterations=fine, advice=_ADVICE)
        probability_error = sum(abs(new.probability - old.probability) for new, old in steps)
        probability_error += abs(also[kind].probability - by_law[1][kind].probability) + _ROUNDING
        wait = best.times(factors[1])
        found.append(Settled(wait=wait, mean_error=wait.mean * error, probability_error=probability_error))
    return tuple(found)


def _killed_laws(traffic: Traffic, residual_of: PhaseType) -> list[PhaseType]:
    """T plus the residual of S0, by more and more phases: from three moments, from five, and with T alone in stages."""
    laws = []
    for order in (2, 3):
        try:
            laws.append(rational([traffic.killed.moment(k) for k in range(1, 2 * order)]))
        except (InvalidModel, NotConverged):
            continue
    residual = remaining(residual_of, after=traffic.time_limit)
    for order in (2, 3, 4):
        law = convolution(constant_time(traffic.time_limit, order=order), residual)
        if not laws or law.order > laws[-1].order:
            laws.append(law)
    return laws


def _refuse(what: str, budget: int, states: int) -> NoReturn:
    rule = f"method exact takes up to {budget} states for {what}: use fewer servers or phases, or method phase-type"
    raise InvalidModel(field="servers", rule=rule, value=states)
