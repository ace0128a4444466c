"""Method `exact`: closed forms without choice, two queues by a boundary value problem, up to eight between bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qtheory import laws
from qtheory.measures import LEVELS, Key, Table, quantile_measure
from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.models.flexible import Flexible
from qtheory.models.laws import Exponential
from qtheory.queues import markovian, single_server
from qtheory.queues.linear import Array
from qtheory.solution import Solution, Value
from qtheory.systems.flexible import answers
from qtheory.systems.flexible.bracket import STATES, bracket
from qtheory.systems.flexible.pair import pair_means, pair_tails, tail_terms
from qtheory.systems.flexible.positions import Stay, found, mixed
from qtheory.systems.flexible.sorted_queues import position_weights
from qtheory.systems.flexible.stability import check_stable

METHOD = "exact"
MOST_QUEUES = 8
_TAILS = 1e-10
#: Laws of more terms than this, some seconds of work, are left out with the percentiles they would give.
_MOST_TERMS = 1 << 19


def solve(model: Flexible, *, at: Sequence[float] = (), tolerance: float = 1e-9, states: int = STATES) -> Solution:
    """Exact answers.

    - flexible_fraction 0: M/G/1 queues, any law and number of queues (Pollaczek and Khinchine; ps: E[S] / (1 - rho)).
    - 2 queues, exponential: `pair`, a few milliseconds.
    - 3 to 8 queues, exponential: `bracket`; the value is its middle, the error half its width.
    - routing by workload to the shortest of all, everybody flexible, exponential: M/M/N.

    Under processor sharing lengths are the same, but only the measures of all jobs follow from them. Within 4e-5 of
    load 1 the answer for two queues holds means only.

    Parameters
    ----------
    tolerance : wanted width of the bracket of the mean response, in mean services (3 queues or more).
    states : the most states a level may have; more narrow the bracket and take longer.

    Raises `Unstable` at load >= 1 and `InvalidModel` for everything else.
    """
    check_stable(model)
    if model.flexible_fraction == 0.0:
        return Solution(model=model, method=METHOD, measures=_without_choice(model, at))
    if _is_one_queue(model):
        return Solution(model=model, method=METHOD, measures=_one_queue(model, at))
    _require_covered(model)
    assert isinstance(model.queues, int)
    weights = position_weights(queues=model.queues, choices=answers.choices(model), sampling=answers.sampling(model))
    if model.queues == 2:
        return _pair(model, weights=weights, at=at)
    return _several(model, weights=weights, at=at, tolerance=tolerance, states=states)


def covers(model: Flexible) -> bool:
    """Whether `solve` has an answer for this model."""
    return (
        model.flexible_fraction == 0.0
        or _is_one_queue(model)
        or (
            isinstance(model.service, Exponential)
            and model.shortest == "number"
            and isinstance(model.queues, int)
            and model.queues <= MOST_QUEUES
        )
    )


def _require_covered(model: Flexible) -> None:
    answers.require_exponential(model, method=METHOD, instead="take method='phase-type' or simulate")
    rule = "take method='mean-field' or simulate (exact: everybody takes the shortest of all, or nobody chooses)"
    answers.require_number(model, method=METHOD, instead=rule)
    if model.queues == "infinite" or model.queues > MOST_QUEUES:
        rule = f"must be from 2 to {MOST_QUEUES} for method {METHOD}; take method='refined' or 'mean-field'"
        raise InvalidModel(field="queues", rule=rule, value=model.queues)


def _without_choice(model: Flexible, at: Sequence[float]) -> Table[Value]:
    """Every queue an M/G/1 queue on its own."""
    rho = model.load
    if isinstance(model.service, Exponential) and model.discipline == "fcfs" and _geometric_terms(rho) <= _MOST_TERMS:
        stays = {"dedicated": found(_powers(rho))}
        responses = {"dedicated": Value(value=1.0 / (1.0 - rho))}
        if model.shortest == "number" and (model.queues == "infinite" or answers.sampling(model) == "distinct"):
            # What a flexible job would find: the shortest of d independent queues.
            power = rho ** answers.choices(model)
            stays["flexible"] = found(_powers(power))
            responses["flexible"] = Value(value=1.0 / (1.0 - power))
        stays["all"] = stays["dedicated"]
        responses = {"all": responses["dedicated"]} | responses
        return answers.table(model, responses=responses, stays=[stays], round_off=1e-13, exact=True, at=at)
    if model.discipline == "ps":
        mean = Value(value=1.0 / (1.0 - rho))
    else:
        unit, second = answers.mean_service(model), laws.moment(model.service, order=2)
        response = single_server.mean_response(arrival_rate=rho / unit, mean_service=unit, service_second_moment=second)
        infinite = "" if np.isfinite(response) else "infinite: second moment of service"
        mean = Value(value=response / unit, error=float("inf") if infinite else 0.0, note=infinite)
    return answers.table(model, responses={"all": mean, "dedicated": mean})


def _powers(ratio: float) -> Array:
    return np.asarray(ratio ** np.arange(max(_geometric_terms(ratio), 1) + 1.0))


def _geometric_terms(ratio: float) -> int:
    return math.ceil(math.log(1e-20) / math.log(ratio)) if ratio > 0.0 else 0


def _is_one_queue(model: Flexible) -> bool:
    """Least workload of all with full freedom is one central queue: a job waits for the server that is free first."""
    return (
        model.shortest == "workload"
        and model.flexible_fraction == 1.0
        and isinstance(model.queues, int)
        and answers.choices(model) == model.queues
        and answers.sampling(model) == "distinct"
        and isinstance(model.service, Exponential)
    )


def _one_queue(model: Flexible, at: Sequence[float]) -> Table[Value]:
    assert isinstance(model.queues, int)
    unit = answers.mean_service(model)
    queue: dict[str, Any] = {
        "arrival_rate": model.load * model.queues / unit,
        "mean_service": unit,
        "servers": float(model.queues),
    }
    response = Value(value=markovian.mean_response(**queue) / unit)
    rows: dict[Key, Value] = dict(answers.table(model, responses={"all": response, "flexible": response}))
    for scope in ("all", "flexible"):
        rows["wait_probability", scope] = Value(value=markovian.wait_probability(**queue))
        for level in LEVELS:
            value = markovian.response_quantile(level=level, **queue)
            rows[quantile_measure(level), scope] = Value(value=value, error=1e-10 * value)
            wait = quantile_measure(level, kind="wait")
            rows[wait, scope] = Value(value=markovian.wait_quantile(level=level, **queue))
        for time in at:
            rows["tail_response", scope, time] = Value(value=markovian.response_survival(at=time, **queue))
    return Table(rows)


def _pair(model: Flexible, *, weights: Array, at: Sequence[float]) -> Solution:
    rho, p = model.load, model.flexible_fraction
    # A share of the flexible jobs that draw the same queue throughout has no choice.
    choosing = p * float(weights[0] - weights[1])
    means = pair_means(load=rho, fraction=choosing)
    off = means.error
    flexible = 1.0 + float(weights[0]) * means.shorter + float(weights[1]) * means.longer
    lost = (off + 4e-16 * means.number) / (rho * choosing)
    responses = {
        "all": Value(value=means.number / (2.0 * rho), error=off / (2.0 * rho)),
        "flexible": Value(value=flexible, error=lost),
        "dedicated": Value(value=1.0 + means.number / 2.0, error=off / 2.0),
    }
    stays: list[dict[str, Stay]] = []
    if model.discipline == "fcfs" and tail_terms(load=rho, fraction=choosing) <= _MOST_TERMS:
        stays = [_stays(np.stack(pair_tails(load=rho, fraction=choosing)), weights=weights, fraction=p)]
    rows = _table(model, responses=responses, stays=stays, round_off=_TAILS + 10.0 * off / means.number, at=at)
    return Solution(
        model=model, method=METHOD, measures=rows, residual=off / means.number, details={"degree": means.degree}
    )


def _several(model: Flexible, *, weights: Array, at: Sequence[float], tolerance: float, states: int) -> Solution:
    rho, p, queues = model.load, model.flexible_fraction, len(weights)
    between = bracket(load=rho, fraction=p, weights=weights, tolerance=tolerance, states=states)
    low, high = between.lower.mean_number, between.upper.mean_number
    if math.isinf(high):
        raise NotConverged(
            where="upper bound of the exact method",
            residual=high,
            iterations=between.spread,
            advice=f"ask for more than {states} states, or take method='refined'",
        )
    # The upper law is settled to 1e-3 of the bracket.
    middle, half = (low + high) / 2.0, 1.002 * max(high - low, 0.0) / 2.0 + 1e-13 * high
    response, dedicated = middle / (queues * rho), 1.0 + middle / queues
    responses = {
        "all": Value(value=response, error=half / (queues * rho)),
        "flexible": Value(
            value=(response - (1.0 - p) * dedicated) / p,
            error=(half / queues * (1.0 / rho - (1.0 - p)) + 4e-16 * response) / p,
        ),
        "dedicated": Value(value=dedicated, error=half / queues),
    }
    stays = []
    if model.discipline == "fcfs":
        stays = [_stays(law.tails, weights=weights, fraction=p) for law in (between.lower, between.upper)]
    rows = _table(model, responses=responses, stays=stays, round_off=_TAILS, at=at)
    details = {
        "lower": low / (queues * rho),
        "upper": high / (queues * rho),
        "spread": between.spread,
    }
    return Solution(
        model=model, method=METHOD, measures=rows, residual=half / middle, iterations=between.spread, details=details
    )


def _stays(tails: Array, *, weights: Array, fraction: float) -> dict[str, Stay]:
    """Laws of stay from P(the i-th shortest queue holds at least k jobs)."""
    classes = {"flexible": found(weights @ tails), "dedicated": found(tails.mean(axis=0))}
    return classes | {"all": mixed(classes, fraction=fraction)}


def _table(
    model: Flexible,
    *,
    responses: Mapping[str, Value],
    stays: Sequence[Mapping[str, Stay]],
    round_off: float,
    at: Sequence[float],
) -> Table[Value]:
    if model.discipline == "ps":
        # Of one class alone the lengths tell; of two they only tell the sum.
        kept = {"all": responses["all"]}
        if model.flexible_fraction == 1.0:
            kept["flexible"] = responses["all"]
        return answers.table(model, responses=kept)
    return answers.table(model, responses=responses, stays=stays, round_off=round_off, exact=True, at=at)
