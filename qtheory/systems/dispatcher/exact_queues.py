"""The queues of both groups at rising orders, with the last changes as errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qtheory.models import InvalidModel, NotConverged
from qtheory.queues.fitting import rational
from qtheory.queues.map import ArrivalProcess, poisson, superposition
from qtheory.queues.multiserver_ph import map_ph_c
from qtheory.queues.occupancy import size
from qtheory.queues.phase_algebra import convolution
from qtheory.queues.phase_type import PhaseType
from qtheory.systems.dispatcher.ages import AgedService, aged_service, constant_time
from qtheory.systems.dispatcher.exact_chain import marked_chain
from qtheory.systems.dispatcher.exact_projection import Projection
from qtheory.systems.dispatcher.group_queues import Wait, many_server_wait, typed_waits
from qtheory.systems.dispatcher.loads import Traffic
from qtheory.systems.dispatcher.phase_laws import remaining

#: Most states a level of Group 0, most of its chain, and most up states of the typed queue.
LEVEL_BUDGET, CHAIN_BUDGET, QUEUE_BUDGET = 400, 60_000, 900
#: Nodes on the age: the first to try, the most, and the relative change in the wait at which more are not needed.
_FEWEST_NODES, _MOST_NODES, _SETTLED = 4, 12, 1e-6
#: Relative error of the mean occupation above which a number of nodes is not even tried.
_LOAD_GAP = 1e-4
#: Functions that carry the coupling: in the coarse and in the fine projection.
_COARSE, _FINE = (8, 12), (12, 18)
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
    states: int
    servers: int


@dataclass(frozen=True, kw_only=True)
class KilledWaits:
    """Waits in Queue 1 of the killed and, where there are any, of the long jobs."""

    waits: tuple[Settled, ...]
    functions: int


def settled_ages(
    traffic: Traffic, *, arrivals: ArrivalProcess, short_fraction: float, servers: tuple[int, int]
) -> Ages:
    """Group 0 with as many nodes on the age as settle its wait, or as the budget allows."""
    n0 = servers[0]
    own = arrivals if short_fraction == 1.0 else arrivals.thinned(keep=short_fraction)

    def affordable(order: int) -> bool:
        return arrivals.order * size(servers=n0, phases=order) <= LEVEL_BUDGET

    if not affordable(_FEWEST_NODES):
        _refuse("Group 0", LEVEL_BUDGET, arrivals.order * size(servers=n0, phases=_FEWEST_NODES))
    services: list[AgedService] = []
    waits: list[Wait] = []
    gap, order = math.inf, 0
    for order in range(_FEWEST_NODES - 1, _MOST_NODES + 1):
        if not affordable(order):
            break
        service = aged_service(traffic.service0, limit=traffic.time_limit, order=order)
        gap = abs(service.law.mean / traffic.occupation0.mean - 1.0)
        if gap > _LOAD_GAP:
            continue
        services.append(service)
        waits.append(many_server_wait(arrivals=own, service=services[-1].law, servers=n0, depth=n0, where="group0"))
        if len(waits) > 2 and abs(waits[-1].mean - waits[-2].mean) <= _SETTLED * waits[-1].mean:
            break
    if len(services) < 2:
        raise NotConverged(where="group0", residual=gap, iterations=order, advice=_ADVICE)
    queue = map_ph_c(arrivals=own, service=services[-1].law, servers=n0, depth=n0, where="group0")
    highest = n0 + 2
    while queue.levels.tail(highest) > _CUT:
        highest += max(highest // 16, 4)
    projections = []
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
        states=projections[1].chain.generator.order,
        servers=servers[1],
    )


def killed_waits(traffic: Traffic, *, ages: Ages, residual_of: PhaseType, service1: PhaseType | None) -> KilledWaits:
    """Group 1: the finest affordable answer on each axis, the axes combined as factors on a plain one."""
    split = len(ages.fine.chain.marks) > 1
    coarse, fine = (orders[split] for orders in (_COARSE, _FINE))
    most = QUEUE_BUDGET // coarse
    laws = [
        law
        for law in _killed_laws(traffic, residual_of)
        if size(servers=ages.servers, phases=law.order + (service1.order if service1 else 0)) <= most
    ]
    if len(laws) < 2:
        phases = 3 + (service1.order if service1 else 0)
        _refuse("Group 1", QUEUE_BUDGET, coarse * size(servers=ages.servers, phases=phases))

    def waits(projection: Projection, functions: int, law: PhaseType) -> list[Wait]:
        process = projection.arrivals(functions)
        if service1 is not None and not split:
            process = superposition(process, poisson(rate=traffic.long_rate))
        services = [law] if service1 is None else [law, service1]
        return typed_waits(
            arrivals=process, services=services, servers=ages.servers, depth=ages.servers, where="group1"
        )

    plain = waits(ages.fine, coarse, laws[0])
    richest = waits(ages.fine, coarse, laws[-1])
    richer = waits(ages.fine, coarse, laws[-2]) if len(laws) > 2 else plain
    finer = waits(ages.fine, fine, laws[0])
    coarser = waits(ages.coarse, coarse, laws[0])
    found = []
    for kind, base in enumerate(plain):
        steps = ((richest[kind], richer[kind]), (finer[kind], base), (base, coarser[kind]))
        error = sum(abs(math.log(new.mean / old.mean)) for new, old in steps)
        if not error <= _MOST_CHANGE:
            raise NotConverged(where="group1", residual=error, iterations=len(laws), advice=_ADVICE)
        wait = richest[kind].times(finer[kind].mean / base.mean)
        found.append(
            Settled(
                wait=wait,
                mean_error=wait.mean * (error + _ROUNDING),
                probability_error=sum(abs(new.probability - old.probability) for new, old in steps) + _ROUNDING,
            )
        )
    return KilledWaits(waits=tuple(found), functions=fine)


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


def _refuse(what: str, budget: int, states: int) -> None:
    rule = f"method exact takes up to {budget} states for {what}: use fewer servers or phases, or method phase-type"
    raise InvalidModel(field="servers", rule=rule, value=states)
