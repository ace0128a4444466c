"""From mean responses and laws of stay to the table of measures of a system of parallel queues.

Numbers present are those of the whole system; where there are infinitely many queues they are per queue, and so are
throughputs. Waits are responses less services, under processor sharing too, where `mean_queue` is what the number
present exceeds the busy servers by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from qtheory import laws
from qtheory.measures import LEVELS, Key, Table, quantile_measure
from qtheory.models.errors import InvalidModel, Unstable
from qtheory.models.flexible import Flexible
from qtheory.models.laws import Exponential
from qtheory.solution import Value
from qtheory.systems.flexible.positions import Stay

SCOPES = ("all", "flexible", "dedicated")

#: A relative error of the mean response times this is that of percentiles and tails.
QUANTILE_FACTOR = 2.0


def check_stable(model: Flexible) -> None:
    """Raise `Unstable` at load >= 1, `InvalidModel` for a law without mathematics."""
    laws.check(model)
    if not model.load < 1.0:
        raise Unstable(where="all", load=model.load)


def mean_service(model: Flexible) -> float:
    """E[S], which is positive and finite if the model means anything."""
    mean = laws.mean(model.service)
    if not 0.0 < mean < math.inf:
        raise InvalidModel(field="service", rule="must have a positive and finite mean", value=mean)
    return mean


def choices(model: Flexible) -> int:
    """d as a number."""
    if model.choices != "all":
        return model.choices
    assert isinstance(model.queues, int)  # the model refuses "all" of infinitely many
    return model.queues


def sampling(model: Flexible) -> str:
    """All queues are all queues, however they are drawn."""
    return "distinct" if model.choices == "all" else model.sampling


def require_exponential(model: Flexible, *, method: str, instead: str) -> None:
    """Refuse service laws other than exponential, by name."""
    if not isinstance(model.service, Exponential):
        rule = f"must be exponential for method {method}; {instead}"
        raise InvalidModel(field="service", rule=rule, value=model.service.kind())


def require_number(model: Flexible, *, method: str, instead: str) -> None:
    """Refuse routing by workload."""
    if model.shortest != "number":
        raise InvalidModel(
            field="shortest", rule=f"must be number for method {method}; {instead}", value=model.shortest
        )


def rates(model: Flexible) -> dict[str, float]:
    """Arrival rate by scope: of the system, or per queue where there are infinitely many."""
    count = 1 if model.queues == "infinite" else model.queues
    total = count * model.load / mean_service(model)
    p = model.flexible_fraction
    return {"all": total, "flexible": p * total, "dedicated": (1.0 - p) * total}


def table(
    model: Flexible,
    *,
    responses: Mapping[str, Value],
    stays: Sequence[Mapping[str, Stay]] = (),
    relative: float = 0.0,
    at: Sequence[float] = (),
) -> Table[Value]:
    """Every measure that follows.

    Parameters
    ----------
    responses : mean response by scope, in mean services; a scope left out is left out of the table.
    stays : laws of response and wait by scope, first come first served; two of them bracket, and
        half their difference joins the error.
    relative : relative error of what is taken from `stays`, beyond that.
    at : times for `tail_response`.
    """
    unit, rate = mean_service(model), rates(model)
    rows: dict[Key, Value] = {}
    waits: dict[str, Value] = {}
    for scope, response in responses.items():
        rows["mean_response", scope] = _scaled(response, unit)
        # The difference to 1 may go below 0 by round-off where hardly anybody waits.
        waits[scope] = Value(value=max(response.value - 1.0, 0.0), error=response.error, note=response.note)
    rows |= {("mean_wait", scope): _scaled(wait, unit) for scope, wait in waits.items()}
    if stays:
        rows |= _from_stays(stays, scopes=tuple(responses), relative=relative, unit=unit, at=at)
        rows["wait_probability", "dedicated"] = Value(value=model.load)
    for scope, response in responses.items():
        rows["mean_number", scope] = _scaled(response, rate[scope] * unit)
    for scope, wait in waits.items():
        rows["mean_queue", scope] = _scaled(wait, rate[scope] * unit)
    for scope in SCOPES:
        rows["utilisation", scope] = Value(value=rate[scope] / rate["all"] * model.load)
    for scope in SCOPES:
        rows["throughput", scope] = Value(value=rate[scope])
    return Table(rows)


def _scaled(value: Value, factor: float) -> Value:
    if factor == 0.0:
        return Value(value=0.0)
    return Value(value=value.value * factor, error=value.error * factor, note=value.note)


def _from_stays(
    brackets: Sequence[Mapping[str, Stay]], *, scopes: Sequence[str], relative: float, unit: float, at: Sequence[float]
) -> dict[Key, Value]:
    rows: dict[Key, Value] = {}

    def put(key: Key, ask: Any, factor: float = 1.0) -> None:
        found = [ask(bracket[key[1]]) * factor for bracket in brackets]
        middle = (max(found) + min(found)) / 2.0
        rows[key] = Value(value=middle, error=(max(found) - min(found)) / 2.0 + relative * middle)

    for scope in scopes:
        put(("wait_probability", scope), lambda law: law.wait_probability)
        for level in LEVELS:
            put((quantile_measure(level), scope), lambda law, level=level: law.response_quantile(level), unit)
            wait = quantile_measure(level, kind="wait")
            put((wait, scope), lambda law, level=level: law.wait_quantile(level), unit)
        for time in at:
            put(("tail_response", scope, time), lambda law, time=time: law.response_tail(time / unit))
    return rows
