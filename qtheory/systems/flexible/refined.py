"""Method `refined`: the mean field and its 1/N term, exponential service."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qtheory.models.errors import InvalidModel
from qtheory.models.flexible import Flexible
from qtheory.solution import Solution, Value
from qtheory.systems.flexible import answers
from qtheory.systems.flexible.expansion import Array, expansion
from qtheory.systems.flexible.mean_field import by_class
from qtheory.systems.flexible.positions import found, mixed
from qtheory.systems.flexible.stability import check_stable

METHOD = "refined"


def solve(model: Flexible, *, at: Sequence[float] = ()) -> Solution:
    """Mean number in a queue EQ_mf + V / N, classes by ET_ded = 1 + rho ET, percentiles from lengths to order 1/N.

    Both samplings. The error is that of the next order; it is large for a handful of queues, as it must be: at N = 2
    to 5 take `exact`.

    Raises `Unstable` at load >= 1; `InvalidModel` for infinitely many queues, workload routing or other service laws.
    """
    check_stable(model)
    answers.require_exponential(model, method=METHOD, instead="take method='phase-type' or, for ps, 'mean-field'")
    answers.require_number(model, method=METHOD, instead="take method='mean-field'")
    if model.queues == "infinite":
        rule = f"must be a number for method {METHOD}; take method='mean-field'"
        raise InvalidModel(field="queues", rule=rule, value=model.queues)
    rho, p, queues = model.load, model.flexible_fraction, model.queues
    term = expansion(
        load=rho,
        fraction=p,
        choices=answers.choices(model),
        distinct=answers.sampling(model) == "distinct",
    )
    mean_queue = term.mean_queue + term.coefficient / queues
    off = term.error(queues=queues)
    errors = by_class(off, model=model)
    response = mean_queue / rho
    responses = {"all": Value(value=response, error=errors["all"])}
    details = {"mean_queue_limit": term.mean_queue, "coefficient": term.coefficient}
    if model.discipline == "ps":
        # A class's share of a shared queue depends on more than lengths: only all jobs follow.
        rows = answers.table(model, responses=responses)
        return Solution(model=model, method=METHOD, measures=rows, details=details)
    dedicated = 1.0 + mean_queue
    flexible_law = _proper(term.flexible(queues=queues))
    flexible = (response - (1.0 - p) * dedicated) / p if p > 0.0 else float(flexible_law.sum())
    responses |= {
        "flexible": Value(value=flexible, error=errors["flexible"]),
        "dedicated": Value(value=dedicated, error=errors["dedicated"]),
    }
    classes = {"flexible": found(flexible_law), "dedicated": found(_proper(term.dedicated(queues=queues)))}
    rows = answers.table(
        model,
        responses=responses,
        stays=[classes | {"all": mixed(classes, fraction=p)}],
        idle=term.idle_error(queues=queues),
        at=at,
    )
    return Solution(model=model, method=METHOD, measures=rows, details=details)


def _proper(at_least: Array) -> Array:
    """Between 0 and 1 and not increasing, which an expansion cut after 1/N may fail to be at few queues."""
    return np.asarray(np.minimum.accumulate(np.clip(at_least, 0.0, 1.0)))
