"""Method `auto`: the best method there is for a model.

- exact where there is a closed form, and for 2 to 5 exponential queues;
- for N queues more, exponential: mean field where its error is sure to be within what is wanted, else refined;
- first come first served with another law: phase-type; processor sharing with another law, infinitely many queues, or
  routing by workload with exponential service: mean field.

The error that is wanted decides how long `exact` narrows its bracket, too. Where no method is within it, the answer
says so by its error.
"""

from __future__ import annotations

from collections.abc import Sequence

from qtheory.models.errors import InvalidModel
from qtheory.models.flexible import Flexible
from qtheory.models.laws import Exponential
from qtheory.solution import Solution
from qtheory.systems.flexible import answers, exact, fixed_point, mean_field, phase_type, refined
from qtheory.systems.flexible.stability import check_stable

MOST_EXACT = 5
DEFAULT_ERROR = 1e-4


def solve(model: Flexible, *, at: Sequence[float] = (), error: float = DEFAULT_ERROR) -> Solution:
    """The answer of the method chosen; `error` is the relative error of the mean response that would do.

    Raises `Unstable` at load >= 1; `InvalidModel` for routing by workload with other service laws, which only
    simulation answers.
    """
    if not 0.0 < error < 1.0:
        raise InvalidModel(field="error", rule="must lie between 0 and 1", value=error)
    check_stable(model)
    match choose(model, error=error):
        case "exact":
            return exact.solve(model, at=at, tolerance=error)
        case "refined":
            return refined.solve(model, at=at)
        case "phase-type":
            return phase_type.solve(model, at=at)
        case _:
            return mean_field.solve(model, at=at)


def choose(model: Flexible, *, error: float = DEFAULT_ERROR) -> str:
    """The method that `solve` takes."""
    exponential = isinstance(model.service, Exponential)
    if exact.covers(model) and (
        model.flexible_fraction == 0.0 or model.queues == "infinite" or model.queues <= MOST_EXACT
    ):
        return "exact"
    if exact.covers(model) and model.shortest == "workload":
        return "exact"
    if not exponential and model.discipline == "fcfs" and model.shortest == "number":
        return "phase-type"
    if not exponential or model.shortest == "workload" or model.queues == "infinite":
        return "mean-field"
    means = fixed_point.means(load=model.load, fraction=model.flexible_fraction, choices=answers.choices(model))
    # The number in all queues exceeds the limit by less than that of one queue with the servers of all.
    surplus = model.load**2 / (1.0 - model.load) / model.queues
    return "mean-field" if surplus <= error * model.load * means.all else "refined"
