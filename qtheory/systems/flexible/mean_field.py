"""Method `mean-field`: infinitely many queues, or finitely many as if they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qtheory import laws
from qtheory.measures import LEVELS, Key, Table, quantile_measure
from qtheory.models.flexible import Flexible
from qtheory.models.laws import Exponential
from qtheory.solution import Solution, Value
from qtheory.systems.flexible import answers, fixed_point
from qtheory.systems.flexible.expansion import expansion
from qtheory.systems.flexible.positions import found, mixed
from qtheory.systems.flexible.sharing import sharing_means
from qtheory.systems.flexible.stability import check_stable
from qtheory.systems.flexible.workload import workload_law

METHOD = "mean-field"
_ROUNDING = 1e-13
_QUADRATURE = 1e-9


def solve(model: Flexible, *, at: Sequence[float] = ()) -> Solution:
    """The mean field: exact for ``queues = "infinite"``; for N queues the error is the 1/N term and what follows it.

    Covers exponential service first come first served (all measures), processor sharing (means; by class for
    exponential service only) and routing by workload with exponential service.

    Raises `Unstable` at load >= 1; `InvalidModel` for other service laws, which `phase-type` may cover.
    """
    check_stable(model)
    exponential = isinstance(model.service, Exponential)
    if model.shortest == "workload":
        answers.require_exponential(model, method=METHOD, instead="simulate routing by workload")
        rows = _workload(model, at)
    elif model.discipline == "fcfs":
        answers.require_exponential(model, method=METHOD, instead="take method='phase-type'")
        rows = _numbers(model, at)
    else:
        rows = _sharing(model, by_class=exponential)
    return Solution(model=model, method=METHOD, measures=rows)


@dataclass(frozen=True, kw_only=True)
class SizeError:
    """What the limit may be off for N queues: `number` in a queue, and P(a flexible job finds no queue `idle`)."""

    number: float
    idle: float


def size_error(model: Flexible) -> SizeError:
    """|V| / N and the error of that; 0 for infinitely many queues.

    Where the 1/N term of the model itself is not known (other laws, workload) a multiple of that of the exponential
    system takes its place, calibrated by simulations of 10 and 50 queues (loads .7 and .9, p = .2 and 1, scv 0 to 4).
    """
    if model.queues == "infinite":
        return SizeError(number=0.0, idle=0.0)
    queues = model.queues
    term = expansion(
        load=model.load,
        fraction=model.flexible_fraction,
        choices=answers.choices(model),
        distinct=answers.sampling(model) == "distinct",
    )
    idle = term.idle_change(queues=queues) + term.idle_error(queues=queues)
    if model.shortest == "number" and isinstance(model.service, Exponential):
        return SizeError(number=abs(term.coefficient) / queues + term.error(queues=queues), idle=idle)
    # Variable service widens the fluctuations as it does the wait of one queue.
    stretch = 1.25 * (max(1.0, (1.0 + laws.scv(model.service)) / 2.0) if model.discipline == "fcfs" else 1.0)
    number = stretch * (float(term.fluctuation.sum()) / queues + term.error(queues=queues))
    return SizeError(number=number, idle=stretch * idle)


def by_class(value: float, *, model: Flexible) -> dict[str, float]:
    """Errors of the mean responses by class from that of the mean number in a queue, through 1 + rho ET = ET_ded."""
    rho, p = model.load, model.flexible_fraction
    flexible = value * (1.0 / rho - (1.0 - p)) / p if p > 0.0 else value / rho
    return {"all": value / rho, "flexible": flexible, "dedicated": value}


def _values(means: fixed_point.Means, errors: dict[str, float]) -> dict[str, Value]:
    found = {"all": means.all, "flexible": means.flexible, "dedicated": means.dedicated}
    return {
        scope: Value(value=float(value), error=errors[scope] + _ROUNDING * float(value))
        for scope, value in found.items()
    }


def _numbers(model: Flexible, at: Sequence[float]) -> Table[Value]:
    rho, p, d = model.load, model.flexible_fraction, answers.choices(model)
    means = fixed_point.means(load=rho, fraction=p, choices=d)
    s = fixed_point.tails(load=rho, fraction=p, choices=d)
    classes = {"flexible": found(s**d), "dedicated": found(s)}
    off = size_error(model)
    return answers.table(
        model,
        responses=_values(means, by_class(off.number, model=model)),
        stays=[classes | {"all": mixed(classes, fraction=p)}],
        round_off=_ROUNDING,
        idle=off.idle,
        at=at,
    )


def _sharing(model: Flexible, *, by_class: bool) -> Table[Value]:
    rho, p, d = model.load, model.flexible_fraction, answers.choices(model)
    off = size_error(model).number
    if by_class:
        means = sharing_means(load=rho, fraction=p, choices=d)
        flexible = 2.0 * off / (rho * max(p, 0.05))
        return answers.table(
            model, responses=_values(means, {"all": off / rho, "flexible": flexible, "dedicated": 2.0 * off / rho})
        )
    means = fixed_point.means(load=rho, fraction=p, choices=d)
    return answers.table(
        model, responses={"all": Value(value=float(means.all), error=off / rho + _ROUNDING * float(means.all))}
    )


def _workload(model: Flexible, at: Sequence[float]) -> Table[Value]:
    rho, p, d = model.load, model.flexible_fraction, answers.choices(model)
    law = workload_law(load=rho, fraction=p, choices=d)
    means = fixed_point.Means(
        all=1.0 + law.mean_wait_all(),
        flexible=1.0 + law.mean_wait(power=d),
        dedicated=1.0 + law.mean_wait(power=1),
    )
    off = size_error(model)
    responses = _values(means, by_class(off.number, model=model))
    rows = dict(answers.table(model, responses=responses))
    unit, idle = answers.mean_service(model), answers.chance_offset(model, idle=off.idle)
    for scope, share in (("all", p), ("flexible", 1.0), ("dedicated", 0.0)):
        waiting: dict[Key, float] = {("wait_probability", scope): law.wait_tail(0.0, share=share)}
        waiting |= {("tail_response", scope, time): law.response_tail(time / unit, share=share) for time in at}
        for key, chance in waiting.items():
            error = answers.chance_error(chance, responses[scope]) + idle[scope] + _QUADRATURE * chance
            rows[key] = Value(value=chance, error=error)
        for level in LEVELS:
            for kind, quantile in (("response", law.response_quantile), ("wait", law.wait_quantile)):
                name, value = quantile_measure(level, kind=kind), unit * quantile(level, share=share)
                error = unit * answers.quantile_error(name, responses[scope]) + _QUADRATURE * value
                rows[name, scope] = Value(value=value, error=error)
    rows["wait_probability", "dedicated"] = Value(value=rho)
    return Table(rows)
