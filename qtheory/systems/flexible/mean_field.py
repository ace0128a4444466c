"""Method `mean-field`: infinitely many queues, or finitely many as if they were."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qtheory import laws
from qtheory.measures import LEVELS, Key, Table, quantile_measure
from qtheory.models.errors import InvalidModel
from qtheory.models.flexible import Flexible
from qtheory.models.laws import Exponential
from qtheory.solution import Solution, Value
from qtheory.systems.flexible import answers, fixed_point
from qtheory.systems.flexible.expansion import expansion
from qtheory.systems.flexible.positions import Stay, found, mixed
from qtheory.systems.flexible.sharing import sharing_means
from qtheory.systems.flexible.workload import WorkloadLaw, workload_law

METHOD = "mean-field"
_ROUNDING = 1e-13


def solve(model: Flexible, *, at: Sequence[float] = ()) -> Solution:
    """The mean field: exact for ``queues = "infinite"``; for N queues the error is the 1/N term and what follows it.

    Covers exponential service first come first served (all measures), processor sharing (means; by class for
    exponential service only) and routing by workload with exponential service.

    Raises `Unstable` at load >= 1; `InvalidModel` for other service laws, which `phase-type` may cover.
    """
    answers.check_stable(model)
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


def size_error(model: Flexible) -> float:
    """What the mean number per queue of the limit may be off for N queues: |V| / N and the error of that.

    0 for infinitely many queues; without the 1/N term of the model itself (other laws, workload) a multiple of that of
    the exponential system.
    """
    if model.queues == "infinite":
        return 0.0
    term = expansion(
        load=model.load,
        fraction=model.flexible_fraction,
        choices=answers.choices(model),
        distinct=answers.sampling(model) == "distinct",
    )
    queues = model.queues
    if model.shortest == "number" and isinstance(model.service, Exponential):
        return abs(term.coefficient) / queues + term.error(queues=queues)
    # Variable service widens the fluctuations as it does the wait of one queue.
    stretch = max(1.0, (1.0 + laws.scv(model.service)) / 2.0) if model.discipline == "fcfs" else 1.0
    return stretch * (float(term.fluctuation.sum()) / queues + term.error(queues=queues))


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
        responses=_values(means, by_class(off, model=model)),
        stays=[classes | {"all": mixed(classes, fraction=p)}],
        relative=answers.QUANTILE_FACTOR * off / (rho * means.all) + _ROUNDING,
        at=at,
    )


def _sharing(model: Flexible, *, by_class: bool) -> Table[Value]:
    rho, p, d = model.load, model.flexible_fraction, answers.choices(model)
    off = size_error(model)
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
    rows = dict(answers.table(model, responses=_values(means, by_class(off, model=model))))
    relative = answers.QUANTILE_FACTOR * off / (rho * means.all) + 1e-9
    return Table(rows | _workload_rows(law, unit=answers.mean_service(model), relative=relative, at=at))


def _workload_rows(
    law: WorkloadLaw, *, unit: float, relative: float, at: Sequence[float]
) -> dict[Key, Value]:
    rows: dict[Key, Value] = {}
    for scope, share in (("all", law.fraction), ("flexible", 1.0), ("dedicated", 0.0)):
        found: dict[Key, float] = {("wait_probability", scope): law.wait_tail(0.0, share=share)}
        for level in LEVELS:
            found[quantile_measure(level), scope] = unit * law.response_quantile(level, share=share)
            found[quantile_measure(level, kind="wait"), scope] = unit * law.wait_quantile(level, share=share)
        for time in at:
            found["tail_response", scope, time] = law.response_tail(time / unit, share=share)
        rows |= {key: Value(value=value, error=relative * value) for key, value in found.items()}
    return rows


__all__ = ["METHOD", "by_class", "size_error", "solve"]
