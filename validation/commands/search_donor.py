"""qtwin search for a donor: the thresholds of its policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtheory.models import Donor, InvalidModel
from validation.commands import shared

if TYPE_CHECKING:
    from validation.donor_design import DonorSearch, Objective

OBJECTIVES = ("mean", "worst-ratio")


def find(model: Donor, *, policy: str, loads: str, objective: str, progress: Callable[..., None]) -> DonorSearch:
    """The best thresholds of a family of policies, at the model's own load or over multiples of it."""
    from validation.donor_design import BOUNDS, optimise, optimise_over

    own = model.policy.kind()
    family = policy or (own if own in BOUNDS else "t1")
    if family not in BOUNDS:
        raise InvalidModel(field="--policy", rule=f"must be one of {', '.join(BOUNDS)}", value=family)
    if objective not in ("", *OBJECTIVES):
        raise InvalidModel(field="--objective", rule=f"must be one of {', '.join(OBJECTIVES)}", value=objective)
    factors = shared.times(loads, name="loads")
    if not factors:
        return optimise(model, policy=family, progress=progress)
    models = [model.replace(arrival_rates=tuple(factor * rate for rate in model.arrival_rates)) for factor in factors]
    chosen: Objective = "mean" if objective == "mean" else "worst-ratio"
    return optimise_over(models, policy=family, objective=chosen, progress=progress)


def show(found: DonorSearch, *, file: Path) -> None:
    """The choice and the designs near it, for people."""
    from qtheory.systems.donor.stability import policy_name
    from validation.commands import tables

    ranked = sorted((row for row in found.table if row.value is not None), key=lambda row: row.value or 0.0)[:20]
    rows = [
        (
            policy_name(row.policy),
            tables.number(row.value, digits=8),
            *(tables.number(cost, digits=8) for cost in (row.costs if len(row.costs) > 1 else ())),
        )
        for row in ranked
    ]
    loads = [f"load {i + 1}" for i in range(len(found.models))] if len(found.models) > 1 else []
    tables.show(f"{file}: best of {len(found.table)} designs", ("policy", found.objective, *loads), rows)
    unstable = sum(not row.stable for row in found.table)
    print(f"{policy_name(found.best)} is best: {found.objective} {found.value:.8g}; exact, {found.seconds:.3g} s")
    if unstable:
        print(f"{unstable} designs were unstable")
    if found.ties:
        print(f"as good within {found.indifference:g}: {', '.join(policy_name(policy) for policy in found.ties)}")


def answer(found: DonorSearch) -> dict[str, Any]:
    """The JSON object."""
    return shared.envelope("search", **found.to_dict())
