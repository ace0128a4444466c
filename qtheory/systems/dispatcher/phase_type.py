"""The dispatcher with matrix-exponential times: Group 0 as M/ME/n0 or MAP/ME/n0, Group 1 fed by its typed kills.

Group 0's wait is that of a many-server queue with service min(S0, T). Where jobs are killed, Queue 1 is the typed
queue of `killed_queue`, so that killed and long jobs have waits of their own; where no two reductions of the kill
stream agree, it is a Poisson queue times the work-dispersion ratio of `kill_stream`, and `method` says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from qtheory.models import Dispatcher, InvalidModel, NotConverged
from qtheory.queues.fitting import two_moments
from qtheory.queues.map import ArrivalProcess, renewal
from qtheory.queues.phase_type import PhaseType
from qtheory.solution import Solution
from qtheory.systems.dispatcher import phase_type_errors as errors
from qtheory.systems.dispatcher.coverage import require_covered
from qtheory.systems.dispatcher.delay import Delay
from qtheory.systems.dispatcher.group_queues import Wait, deepest, many_server_wait
from qtheory.systems.dispatcher.interval_factor import interval_factor
from qtheory.systems.dispatcher.kill_stream import work_dispersion_ratio
from qtheory.systems.dispatcher.killed_queue import KilledQueue, killed_queue
from qtheory.systems.dispatcher.loads import Traffic, is_exponential, require_stable, traffic
from qtheory.systems.dispatcher.measures import table
from qtheory.systems.dispatcher.mgc import Curve, group_delay
from qtheory.systems.dispatcher.pieces import atom_and_rest
from qtheory.systems.dispatcher.residual_fit import service_fit
from qtheory.systems.dispatcher.stand_ins import stand_in, stand_in_remarks
from qtheory.systems.dispatcher.waits import finiteness_of_mean, infinite_note

#: States a level of a group without kills, for Poisson and for other arrivals.
_STATES, _STATES_OF_RENEWAL = 130, 260
#: Beyond so many servers the chains take minutes, and waits are rare or as `mgc` has them.
_MANY_SERVERS = 100
#: Least scv of intervals that a proper chain of few phases has.
_LEAST_SCV = 0.2
#: Phases of a fixed time in Group 0, scv of intervals below which those are not enough, and how far a step goes on.
_ORDER, _REGULAR, _CARRIED_ON = 4, 0.9, 0.5


@dataclass(frozen=True, kw_only=True)
class _Group:
    """The delay of a group, those of its classes where they differ, and what to say of the method."""

    delay: Delay | None
    apart: dict[str, Delay]
    remark: str = ""
    correlation: float = 0.0


def solve(model: Dispatcher, *, at: Sequence[float] = (), quantiles: bool = True) -> Solution:
    """All measures of one design; W1 of killed and of long jobs apart.

    Times are replaced by laws of two to five phases: three to five moments, or for heavy tails the mean, the second
    moment and the residual life over 100 means. `error` covers the truth 19 times in 20, see `phase_type_errors`.
    ``details["remarks"]`` holds what was replaced.

    Without `quantiles` those are left out: means take a fraction of the time.

    Raises `Unstable` with the overloaded group, `InvalidModel` for laws the model cannot have or rules for killed jobs
    other than a limit that grace makes longer. A group whose queue has no sound answer is that of `mgc`, with its
    error; `method` says so.

    >>> from qtheory.models import Exponential
    >>> model = Dispatcher(
    ...     servers=(3, 4), time_limit=3.0, short_fraction=0.65, interarrival=Exponential(mean=1 / 3),
    ...     service0=Exponential(mean=1.2), service1=Exponential(mean=2.0),
    ... )
    >>> round(solve(model)["mean_response", "all"].value, 2)  # simulated: 2.2940 +- .0007
    2.29
    """
    require_covered(model, method="phase-type")
    offered = _offered(model.replace(servers=(1, 1)))
    require_stable(offered.offered, servers=model.servers)
    first, second = _group(offered, model, group=0), _group(offered, model, group=1)
    measures = table(
        offered,
        servers=model.servers,
        delays=(first.delay, second.delay),
        apart=second.apart,
        correlation=second.correlation,
        at=at,
        quantiles=quantiles,
    )
    made_good = "; ".join(group.remark for group in (first, second) if group.remark)
    remarks = stand_in_remarks(offered, model)
    return Solution(
        model=model,
        method=f"phase-type ({made_good})" if made_good else "phase-type",
        measures=measures,
        details={"remarks": remarks} if remarks else {},
    )


def curve(model: Dispatcher, *, total: int) -> Curve:
    """Mean responses of all stable designs n0 + n1 = total, as `mgc.curve` gives them; the model's own `servers` do
    not matter.

    The numbers of `solve` without its quantiles, design by design: about a quarter of a second each.

    Raises `Unstable` if no design is stable.
    """
    if total < 2:
        raise InvalidModel(field="total", rule="must be at least 2", value=total)
    require_covered(model, method="phase-type")
    offered = _offered(model.replace(servers=(1, 1))).offered
    splits = [(n0, total - n0) for n0 in range(1, total)]
    stable = [split for split in splits if offered[0] < split[0] and offered[1] < split[1]]
    if not stable:
        least = min(splits, key=lambda split: max(load / count for load, count in zip(offered, split, strict=True)))
        require_stable(offered, servers=least)
    found = [solve(model.replace(servers=split), quantiles=False) for split in stable]
    scopes = [scope for measure, scope, *_ in found[0].measures if measure == "mean_response"]
    return Curve(
        servers=np.array(stable, dtype=np.int64),
        mean_response={scope: np.array([one["mean_response", scope].value for one in found]) for scope in scopes},
        error={scope: np.array([one["mean_response", scope].error for one in found]) for scope in scopes},
    )


@lru_cache(maxsize=16)
def _offered(model: Dispatcher) -> Traffic:
    """What is offered does not hang on the servers: designs of one model share it, and with it the fits of its laws."""
    return traffic(model)


def _group(offered: Traffic, model: Dispatcher, *, group: int) -> _Group:
    """By matrix-exponential times, or as `mgc` has it where those make no sound queue or take minutes."""
    if offered.rates[group] > 0.0 and model.servers[group] > _MANY_SERVERS:
        return _by_mgc(offered, model, group=group, why=f"more than {_MANY_SERVERS} servers")
    try:
        return _group1(offered, model) if group else _group0(offered, servers=model.servers[0])
    except NotConverged:
        return _by_mgc(offered, model, group=group, why="matrix-exponential times make no sound queue")


def _by_mgc(offered: Traffic, model: Dispatcher, *, group: int, why: str) -> _Group:
    delay = group_delay(offered, group=group, servers=model.servers)
    return _Group(delay=delay, apart={}, remark=f"group{group} by mgc: {why}")


def _group0(offered: Traffic, *, servers: int) -> _Group:
    if offered.rates[0] == 0.0:
        return _Group(delay=None, apart={})
    infinite = _infinite(offered, group=0, servers=servers)
    if infinite is not None:
        return _Group(delay=infinite, apart={})
    regular = not offered.poisson and offered.scv < _REGULAR and offered.kill_probability > 0.0
    rough = _occupation0(offered, order=_ORDER - 1) if regular else None
    return _pure(offered, group=0, servers=servers, service=_occupation0(offered, order=_ORDER), rough=rough)


def _occupation0(offered: Traffic, *, order: int) -> PhaseType:
    """min(S0, T), its atom at T kept apart where there is one."""
    q = offered.kill_probability
    if q == 0.0:
        return service_fit(offered.service0)
    rest = service_fit(offered.completed) if q < 1.0 else None
    return atom_and_rest(limit=offered.time_limit, share=q, rest=rest, order=order)


def _group1(offered: Traffic, model: Dispatcher) -> _Group:
    servers = model.servers[1]
    if offered.rates[1] == 0.0:
        return _Group(delay=None, apart={})
    infinite = _infinite(offered, group=1, servers=servers)
    if infinite is not None:
        return _Group(delay=infinite, apart={})
    if offered.killed_rate == 0.0:
        return _pure(offered, group=1, servers=servers, service=service_fit(offered.service1))
    found = killed_queue(offered, servers=model.servers, short_fraction=model.short_fraction)
    if found is None:
        return _dispersed(offered, model)
    return _typed(offered, found, servers=servers)


def _typed(offered: Traffic, found: KilledQueue, *, servers: int) -> _Group:
    factor = interval_factor(offered, group=1, servers=servers)
    waits = {"killed": found.killed} | ({} if found.long is None else {"long": found.long})
    waits = {name: wait.times(factor) for name, wait in waits.items()}
    rates = {"killed": offered.killed_rate, "long": offered.long_rate}
    mixed = Wait.mixed([(rates[name], wait) for name, wait in waits.items()])
    relative = errors.with_kills(offered, found=found, wait=mixed, factor=factor)
    shape = errors.shape(offered.occupations[1], wait=mixed)
    # What the correlation of the two waits of a killed job does is known to a part of itself.
    shapes = {"killed": shape + 0.15 * found.correlation, "long": shape}
    apart = {name: errors.delay(wait, relative=relative, shape_error=shapes[name]) for name, wait in waits.items()}
    group = errors.delay(mixed, relative=relative, shape_error=shape)
    return _Group(delay=group, apart=apart, correlation=found.correlation)


def _dispersed(offered: Traffic, model: Dispatcher) -> _Group:
    """The queue with Poisson kills, times the ratio by which work is less dispersed."""
    service = service_fit(offered.occupation1)
    wait, remark = _queue(offered, group=1, servers=model.servers[1], service=service)
    first, second = (np.array([float(count)]) for count in model.servers)
    ratio = float(work_dispersion_ratio(offered, servers0=first, servers1=second)[0])
    relative = 1.0 if remark else errors.dispersed(ratio=ratio, wait=wait)
    return _Group(
        delay=errors.delay(wait.times(ratio), relative=relative, shape_error=0.05),
        apart={},
        remark="; ".join(filter(None, ["group1 by work dispersion: no two reductions of its kills agree", remark])),
    )


def _pure(offered: Traffic, *, group: int, servers: int, service: PhaseType, rough: PhaseType | None = None) -> _Group:
    """The delay of a group that sees a thinning of the arrivals only.

    Behind regular arrivals what the order of a fixed time changes, from `rough` to `service`, is carried on by half.
    """
    wait, remark = _queue(offered, group=group, servers=servers, service=service)
    change = 0.0
    if rough is not None and wait.mean > 0.0:
        change = _queue(offered, group=group, servers=servers, service=rough)[0].mean / wait.mean - 1.0
        wait = wait.times(1.0 - _CARRIED_ON * min(max(change, -1.0), 1.0))
    factor = interval_factor(offered, group=group, servers=servers)
    wait = wait.times(factor)
    exponential = service.order == 1 and is_exponential(offered.occupations[group])
    relative = errors.pure(offered, group=group, servers=servers, wait=wait, exponential=exponential)
    relative += errors.unmatched(offered, wait=wait, factor=factor) + abs(change)
    exact = offered.poisson and exponential
    shape = 0.0 if exact else errors.shape(offered.occupations[group], wait=wait)
    if remark:
        relative = 1.0
    return _Group(delay=errors.delay(wait, relative=relative, shape_error=shape), apart={}, remark=remark)


def _queue(offered: Traffic, *, group: int, servers: int, service: PhaseType) -> tuple[Wait, str]:
    """M/ME/c, or MAP/ME/c fed by the thinned arrivals; and a remark where the arrivals had to be made less regular.

    Rational arrivals more regular than any chain of few phases can give negative probabilities where waits are rare.
    """
    keep, where = min(offered.rates[group] / offered.rate, 1.0), f"group{group}"

    def wait(arrivals: ArrivalProcess) -> Wait:
        states = _STATES if offered.poisson else _STATES_OF_RENEWAL // arrivals.order
        depth = deepest(servers=servers, phases=service.order, states=states)
        thinned = arrivals.thinned(keep=keep)
        return many_server_wait(arrivals=thinned, service=service, servers=servers, depth=depth, where=where)

    try:
        return wait(stand_in(offered)), ""
    except NotConverged:
        if offered.poisson:
            raise
        scv = max(offered.scv, _LEAST_SCV)
        proper = two_moments(mean=1.0 / offered.rate, scv=scv)
        return wait(renewal(proper)), f"{where} with intervals of scv {scv:.3g}: no sound answer with sharper ones"


def _infinite(offered: Traffic, *, group: int, servers: int) -> Delay | None:
    """The delay of a group whose mean wait is infinite, or None."""
    infinite, _ = finiteness_of_mean(
        offered.occupations[group], offered=offered.offered[group], servers=np.array([float(servers)])
    )
    if not infinite[0]:
        return None
    return Delay(
        mean=math.inf,
        probability=1.0,
        scv=1.0,
        error=math.inf,
        probability_error=1.0,
        shape_error=0.0,
        note=infinite_note(offered, group=group, servers=servers),
    )
