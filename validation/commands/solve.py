"""qtwin solve: the analytic answer."""

from __future__ import annotations

from typing import Annotated

import typer

from validation.commands import shared
from validation.commands.shared import AsJson, At, Method, ModelFile


def solve(
    file: ModelFile,
    *,
    method: Method = "auto",
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            metavar="SECONDS",
            parser=shared.real_number,
            help="Dispatcher, method auto: processor time that a better method may be expected to take.",
            show_default=False,
        ),
    ] = None,
    at: At = "",
    as_json: AsJson = False,
) -> int:
    """Analytic answer with an error for every number."""
    import qtheory
    from qtheory._solve import require_method

    wanted = shared.times(at)
    model = shared.open_model(file)
    with shared.naming(file):
        require_method(model, method=method, field="--method")
    if budget is not None and (model.kind() != "dispatcher" or method != "auto"):
        raise qtheory.InvalidModel(field="--budget", rule="goes with a dispatcher and method auto", value=budget)
    options = {} if budget is None else {"budget": budget}
    with shared.options("at", "budget"), shared.answering("solve", model=model, path=file, as_json=as_json):
        solution = qtheory.solve(model, method=method, at=wanted, **options)
    data = solution.to_dict()
    if as_json:
        shared.emit(shared.envelope("solve", **data))
        return 0
    from validation.commands.tables import measure_name, number, show

    rows = [
        (measure_name(row), number(row["value"]), number(row["error"], digits=2), row.get("note", ""))
        for row in data["measures"]
    ]
    title = f"{file}: {model.kind()} by {solution.method}, {solution.seconds:.3g} s"
    show(title, ("measure", "value", "+- error", ""), rows)
    for name, value in data.get("details", {}).items():
        print(f"  {name}: {value}")
    return 0
