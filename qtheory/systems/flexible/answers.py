"""From mean responses and laws of stay to the table of measures of a system of parallel queues.

Numbers present are those of the whole system; where there are infinitely many queues they are per queue, and so are
throughputs. Waits are responses less services, under processor sharing too, where `mean_queue` is what the number
present exceeds the busy servers by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from qtheory import laws
from qtheory.measures import LEVELS, Key, Table, quantile_measure
from qtheory.models.errors import InvalidModel
from qtheory.models.flexible import Flexible
from qtheory.models.laws import Exponential
from qtheory.solution import Value
from qtheory.systems.flexible.positions import Stay

SCOPES = ("all", "flexible", "dedicated")
_CHANCES = ("wait_probability", "tail_response")

#: A p-quantile may be off by this times the error of the mean and log(1 / (1 - p)), but at least once the error.
_QUANTILE = 2.0
#: A probability may be off by this times the relative error of the mean response.
_CHANCE = 2.0


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
    round_off: float = 0.0,
    exact: bool = False,
    idle: float = 0.0,
    at: Sequence[float] = (),
) -> Table[Value]:
    """Every measure that follows.

    Parameters
    ----------
    responses : mean response by scope, in mean services; a scope left out is left out of the table.
    stays : laws of response and wait by scope, first come first served. Two of them bracket: the value is their middle
        and half their difference the error.
    round_off : relative round-off of what is taken from `stays`.
    exact : whether `stays` are exact (or bracket); else they are as good as the mean, and the errors of what is taken
        from them follow from that of the mean (`quantile_error`, `chance_error`).
    idle : what P(a flexible job finds no idle queue) may be off, for an approximation.
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
    for scope, response in responses.items():
        off = chance_offset(model, idle=idle)[scope]
        for key, values in _ask(stays, scope=scope, unit=unit, at=at).items():
            middle = (max(values) + min(values)) / 2.0
            error = (max(values) - min(values)) / 2.0 + round_off * middle
            if not exact:
                if key[0] in _CHANCES:
                    error += chance_error(middle, response) + off
                else:
                    error += quantile_error(key[0], response) * unit
            rows[key] = Value(value=middle, error=error)
    if ("wait_probability", "dedicated") in rows:
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


def quantile_error(measure: str, response: Value) -> float:
    """Error of a quantile from that of the mean: the tail moves by as much at each e-fold."""
    level = float(measure[1:3]) / 100.0
    return _QUANTILE * response.error * max(1.0, -math.log(1.0 - level))


def chance_error(chance: float, response: Value) -> float:
    """Error of a probability from that of the mean response."""
    return _CHANCE * chance * response.error / response.value


def chance_offset(model: Flexible, *, idle: float) -> dict[str, float]:
    """What `idle` means to the scopes: a dedicated job always waits with probability rho."""
    return {"all": model.flexible_fraction * idle, "flexible": idle, "dedicated": 0.0}


def _scaled(value: Value, factor: float) -> Value:
    if factor == 0.0:
        return Value(value=0.0)
    return Value(value=value.value * factor, error=value.error * factor, note=value.note)


def _ask(
    stays: Sequence[Mapping[str, Stay]], *, scope: str, unit: float, at: Sequence[float]
) -> dict[Key, list[float]]:
    """What each law says of a scope, by measure."""
    found: dict[Key, list[float]] = {}
    for stay in stays:
        law = stay[scope]
        said: dict[Key, float] = {("wait_probability", scope): law.wait_probability}
        for level in LEVELS:
            said[quantile_measure(level), scope] = unit * law.response_quantile(level)
        for level in LEVELS:
            said[quantile_measure(level, kind="wait"), scope] = unit * law.wait_quantile(level)
        for time in at:
            said["tail_response", scope, time] = law.response_tail(time / unit)
        for key, value in said.items():
            found.setdefault(key, []).append(value)
    return found
