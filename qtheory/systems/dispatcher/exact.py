"""Small systems with phase-type laws as one Markov chain of both groups, refined until the answer settles.

Group 0 moves by ages (`ages`), a killed job brings T and the residual phase-type law of S0 to Group 1, and Queue 1
keeps the type of every job (`qtheory.queues.age`). Three orders are finite: nodes on the age of a service,
functions on the state of Group 0 that Group 1 is coupled to (`exact_projection`), and phases of the law of T plus
residual. Each is raised, and the error is the sum of the last changes: a referee for the approximations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qtheory.measures import Table
from qtheory.models import Dispatcher, InvalidModel
from qtheory.queues.map import ArrivalProcess, poisson, renewal
from qtheory.queues.phase_type import PhaseType
from qtheory.solution import Solution, Value
from qtheory.systems.dispatcher.coverage import require_covered
from qtheory.systems.dispatcher.delay import Delay
from qtheory.systems.dispatcher.exact_queues import Group1, Settled, correlation, killed_waits, settled_ages
from qtheory.systems.dispatcher.group_queues import Wait, many_server_wait
from qtheory.systems.dispatcher.loads import Traffic, is_exponential, require_stable, traffic
from qtheory.systems.dispatcher.measures import table
from qtheory.systems.dispatcher.phase_laws import exact_phases

#: Relative rounding of a queue that is solved without refinement.
_ROUNDING = 1e-9
#: What the five-moment form of a wait adds to the relative error of a quantile, and that of two waits together.
_SHAPE, _SHAPE_OF_TWO = 0.01, 0.06
_RAREST = 1e-9


@dataclass(frozen=True, kw_only=True)
class Laws:
    """The phase-type laws of a model."""

    arrivals: ArrivalProcess
    service0: PhaseType | None
    service1: PhaseType | None


def solve(model: Dispatcher, *, at: Sequence[float] = (), quantiles: bool = True) -> Solution:
    """Waits of both groups, killed and long jobs apart, with the error of the finite orders.

    Laws: exponential, erlang, hyperexponential, phase-type, and mixtures of them. Quantiles go by five
    moments of the waits, and by the correlation of the two waits of a killed job.

    Without `quantiles` those are left out: means take a fraction of the time.

    Raises `Unstable` with the overloaded group; `InvalidModel` for other laws, rules for killed jobs other
    than a limit that grace makes longer, and beyond the budget of states;
    `NotConverged` where an order that would settle the answer is out of reach.

    >>> from qtheory.models import Exponential
    >>> model = Dispatcher(
    ...     servers=(1, 1), time_limit=1.0, short_fraction=1.0, interarrival=Exponential(mean=2.0),
    ...     service0=Exponential(mean=1.0), service1=Exponential(mean=1.0),
    ... )
    >>> answer = solve(model)
    >>> m1, m2 = 1 - 2.718281828459045**-1, 2 - 4 * 2.718281828459045**-1  # moments of min(S0, 1)
    >>> round(answer["mean_wait", "group0"].value, 8) == round(0.25 * m2 / (1 - 0.5 * m1), 8)
    True
    """
    require_covered(model, method="exact")
    offered = traffic(model)
    require_stable(offered.offered, servers=model.servers)
    laws = _laws(model, offered)
    details: dict[str, int] = {}
    apart: dict[str, Delay] = {}
    first = second = None
    together = 0.0
    if offered.killed_rate > 0.0:
        assert laws.service0 is not None
        group1 = Group1.affordable(offered, residual_of=laws.service0, service1=laws.service1, servers=model.servers[1])
        ages = settled_ages(offered, arrivals=laws.arrivals, short_fraction=model.short_fraction, servers=model.servers)
        first = _delay(ages.wait)
        waits = killed_waits(group1, ages=ages)
        apart = {name: _delay(wait) for name, wait in zip(("killed", "long"), waits, strict=False)}
        apart["killed"] = replace(apart["killed"], shape_error=_SHAPE_OF_TWO)
        rates = (offered.killed_rate, offered.long_rate)
        second = _mixed(list(zip(rates, waits, strict=False)))
        together = correlation(offered, group1, ages=ages)
        states = ages.fine.chain.generator.order
        details = {"nodes": ages.order, "functions": group1.fine, "states": states}
    else:
        if laws.service0 is not None:
            first = _plain(offered, laws, group=0, servers=model.servers[0])
        if laws.service1 is not None:
            second = _plain(offered, laws, group=1, servers=model.servers[1])
    measures = table(
        offered,
        servers=model.servers,
        delays=(first, second),
        apart=apart,
        correlation=together,
        at=at,
        quantiles=quantiles,
    )
    if apart and first is not None:
        measures = _either_wait(measures, first=first, second=apart["killed"], share=offered.killed_rate / offered.rate)
    return Solution(model=model, method="exact", measures=measures, details=details)


def _laws(model: Dispatcher, offered: Traffic) -> Laws:
    arrivals = exact_phases(model.interarrival, field="interarrival")
    submitted = model.short_fraction > 0.0
    if submitted and 0.0 < offered.kill_probability < _RAREST:
        rule = f"must kill more than {_RAREST:g} of the jobs for this method: make it inf"
        raise InvalidModel(field="time_limit", rule=rule, value=model.time_limit)
    return Laws(
        arrivals=poisson(rate=offered.rate) if offered.poisson else renewal(arrivals),
        service0=exact_phases(model.service0, field="service0") if submitted else None,
        service1=exact_phases(model.service1, field="service1") if offered.long_rate > 0.0 else None,
    )


def _plain(offered: Traffic, laws: Laws, *, group: int, servers: int) -> Delay:
    """A group that sees a thinning of the arrivals and no kills: MAP/PH/c, nothing left out."""
    service = laws.service0 if group == 0 else laws.service1
    assert service is not None
    share = min(offered.rates[group] / offered.rate, 1.0)
    arrivals = laws.arrivals if share == 1.0 else laws.arrivals.thinned(keep=share)
    wait = many_server_wait(arrivals=arrivals, service=service, servers=servers, depth=servers, where=f"group{group}")
    exponential = offered.poisson and is_exponential(offered.occupations[group])
    delay = _delay(Settled(wait=wait, mean_error=_ROUNDING * wait.mean, probability_error=_ROUNDING))
    return replace(delay, shape_error=0.0) if exponential else delay


def _delay(settled: Settled) -> Delay:
    wait = settled.wait
    return Delay(
        mean=wait.mean,
        probability=min(max(wait.probability, 0.0), 1.0),
        scv=max(wait.scv, 0.05),
        error=settled.mean_error,
        probability_error=settled.probability_error,
        shape_error=_SHAPE,
        moments=wait.moments,
    )


def _mixed(parts: Sequence[tuple[float, Settled]]) -> Delay:
    total = sum(rate for rate, _ in parts)
    return _delay(
        Settled(
            wait=Wait.mixed([(rate, part.wait) for rate, part in parts]),
            mean_error=sum(rate * part.mean_error for rate, part in parts) / total,
            probability_error=sum(rate * part.probability_error for rate, part in parts) / total,
        )
    )


def _either_wait(measures: Table[Value], *, first: Delay, second: Delay, share: float) -> Table[Value]:
    """P(a killed job waits at all) with an error that leaves open how its two waits hang together.

    It lies between the larger of the two probabilities and their sum.
    """
    rows = dict(measures)
    key = ("wait_probability", "killed")
    value = rows[key].value
    low = max(first.probability, second.probability)
    high = min(first.probability + second.probability, 1.0)
    open_part = max(value - low, high - value)
    for scope, part in (("killed", 1.0), ("all", share)):
        row = rows["wait_probability", scope]
        rows["wait_probability", scope] = replace(row, error=row.error + part * open_part)
    return Table(rows)
