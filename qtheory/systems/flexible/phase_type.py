"""Method `phase-type`: first come first served with any service law that phases can follow, in the mean field."""

from __future__ import annotations

from collections.abc import Sequence

from qtheory import laws
from qtheory.models.errors import InvalidModel
from qtheory.models.flexible import Flexible
from qtheory.models.laws import Erlang, Exponential, Hyperexponential, Law, PhaseType
from qtheory.queues import fitting
from qtheory.queues import phase_type as phases
from qtheory.solution import Solution, Value
from qtheory.systems.flexible import answers
from qtheory.systems.flexible.mean_field import by_class, size_error
from qtheory.systems.flexible.phase_fixed_point import phase_law
from qtheory.systems.flexible.positions import mixed
from qtheory.systems.flexible.stability import check_stable

METHOD = "phase-type"
_FIT = 0.05
_WIDEST = 64


def solve(model: Flexible, *, at: Sequence[float] = ()) -> Solution:
    """M(k)/PH/1 queues at their fixed point; all measures.

    Exponential, Erlang, hyperexponential and phase-type laws are taken as they are; other laws with a finite second
    moment are replaced by a phase-type law of the same two moments, which the method's name and 5 % of the wait in
    the error tell. For N queues the error is a multiple of the 1/N term of the exponential system.

    Raises `Unstable` at load >= 1; `InvalidModel` for processor sharing (`mean-field`, insensitive), routing by
    workload, infinite variance and phase-type laws with an atom at 0.
    """
    check_stable(model)
    answers.require_number(model, method=METHOD, instead="simulate routing by workload")
    if model.discipline != "fcfs":
        rule = f"must be fcfs for method {METHOD}; under ps take method='mean-field', which holds for every service law"
        raise InvalidModel(field="discipline", rule=rule, value=model.discipline)
    service = representation(model.service)
    fitted = service is None
    law = phase_law(
        load=model.load,
        fraction=model.flexible_fraction,
        choices=answers.choices(model),
        service=two_moments(model.service) if service is None else service,
    )
    off = size_error(model)
    errors = by_class(off.number, model=model)
    means = {"all": law.means.all, "flexible": law.means.flexible, "dedicated": law.means.dedicated}
    responses = {
        scope: Value(value=mean, error=errors[scope] + (_FIT * (mean - 1.0) if fitted else 0.0) + 1e-10 * mean)
        for scope, mean in means.items()
    }
    classes = {scope: law.stay(flexible=scope == "flexible") for scope in ("flexible", "dedicated")}
    rows = answers.table(
        model,
        responses=responses,
        stays=[classes | {"all": mixed(classes, fraction=model.flexible_fraction)}],
        idle=off.idle,
        at=at,
    )
    name = f"{METHOD} (two moments of the {model.service.kind()} law)" if fitted else METHOD
    return Solution(model=model, method=name, measures=rows, residual=law.residual, iterations=len(law.tails) - 1)


def representation(law: Law) -> phases.PhaseType | None:
    """The law in phases, or None if it has none of its own.

    >>> from qtheory.models import Erlang
    >>> representation(Erlang(shape=2, mean=1.0)).scv
    0.5
    """
    match law:
        case Exponential():
            return phases.exponential(mean=law.mean)
        case Erlang() if law.shape <= _WIDEST:
            return phases.erlang(shape=law.shape, mean=law.mean)
        case Hyperexponential():
            return phases.hyperexponential(probabilities=law.probabilities, means=law.means)
        case PhaseType():
            found = phases.phase_type(alpha=law.alpha, generator=law.generator)
            if found.atom > 0.0:
                rule = "must sum to 1 for method phase-type: services of length 0 are not covered"
                raise InvalidModel(field="service.alpha", rule=rule, value=law.alpha)
            return found
    return None


def two_moments(law: Law) -> phases.PhaseType:
    """A phase-type law of the same mean and scv (an Erlang of 64 stages where the scv is below 1/64)."""
    scv = laws.scv(law)
    if not scv < float("inf"):
        raise InvalidModel(
            field="service", rule="must have a finite variance for method phase-type; simulate it", value=law.kind()
        )
    return fitting.two_moments(mean=laws.mean(law), scv=max(scv, 1.0 / _WIDEST))
