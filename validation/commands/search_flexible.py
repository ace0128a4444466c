"""qtwin search for partial choice: the least flexible fraction, or the fewest choices, that meet a target."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from qtheory.models import Flexible, InvalidModel, plain
from validation.commands import shared

QUESTIONS = ("fraction", "choices")


def find(
    model: Flexible,
    *,
    target: float | None,
    measure: str,
    scope: str,
    question: str,
    method: str,
    seed: int,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """The answer as a JSON object: analytic, and simulated at the design found where the system is finite."""
    from qtheory.systems.flexible.design import least_choices, least_fraction

    if target is None:
        raise InvalidModel(field="--target", rule="is required: the largest value of the measure")
    if question not in QUESTIONS:
        raise InvalidModel(field="--least", rule=f"must be one of {', '.join(QUESTIONS)}", value=question)
    best: dict[str, Any]
    safe: float | None
    with shared.options("target", "measure", "scope"):
        if question == "fraction":
            fraction = least_fraction(model, target=target, measure=measure, scope=scope, method=method)
            best, safe, value, used = (
                {"flexible_fraction": fraction.fraction},
                fraction.safe,
                fraction.value,
                fraction.method,
            )
            seen = [(0.0, fraction.without), (fraction.fraction, value), (1.0, fraction.full)]
            table = [{"flexible_fraction": at, "stable": True, **_row(found)} for at, found in seen]
            design = model.replace(**best)
        else:
            choices = least_choices(model, target=target, measure=measure, scope=scope, method=method)
            best, safe, value, used = {"choices": choices.choices}, choices.safe, choices.value, choices.method
            table = [{"choices": choices.choices, "stable": True, **_row(value)}]
            alone = choices.choices == 1
            design = model.replace(flexible_fraction=0.0) if alone else model.replace(choices=choices.choices)
    data = shared.envelope(
        "search",
        model=plain(model),
        method=used,
        status="ok",
        best=best,
        safe=safe,
        ties=[],
        table=table,
        objective={"measure": measure, "scope": scope, "target": target},
        guarantee={"confidence": 0.95 if value.error else 1.0, "indifference": 0.0},
    )
    if isinstance(design.queues, int):
        import qsim
        from validation import steer

        estimate = qsim.simulate(design, jobs=steer.simulation_jobs(design), seed=seed, executor=executor)
        if (measure, scope) in estimate.measures:
            figure = estimate[measure, scope]
            data["simulated"] = {"value": figure.value, "half_width": figure.half_width, "jobs": estimate.jobs}
    return data


def _row(value: Any) -> dict[str, float]:
    return {"analytic": value.value, "error": value.error}


def show(data: dict[str, Any], *, file: Path) -> None:
    """The answer for people."""
    from validation.commands.tables import number
    from validation.commands.tables import show as table

    (name, best), goal = next(iter(data["best"].items())), data["objective"]
    rows = [
        (f"{name} = {number(row[name])}", number(row["analytic"]), number(row["error"], digits=2))
        for row in data["table"]
    ]
    table(
        f"{file}: {goal['measure']}/{goal['scope']} at most {goal['target']:g}",
        ("design", "analytic", "+- error"),
        rows,
    )
    print(f"least {name}: {number(best)} by {data['method']}")
    if data["safe"] is None:
        print("its error leaves open whether any design meets the target")
    elif data["safe"] != best:
        print(f"with the error counted against it: {number(data['safe'])}")
    if "simulated" in data:
        seen = data["simulated"]
        print(f"simulated there: {number(seen['value'])} +- {number(seen['half_width'], digits=2)}")
