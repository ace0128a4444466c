"""qtwin sweep: the answer along one or several numbers of the model."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from qtheory.models import InvalidModel, plain
from validation.commands import shared
from validation.commands.shared import AsJson, Jobs, Method, ModelFile, Out, Scheduler, Seed


def sweep(
    file: ModelFile,
    *,
    vary: Annotated[
        list[str],
        typer.Option(
            "--vary",
            metavar="PATH=A:B:N",
            help="A number and its values, as interarrival.mean=0.2:0.4:5; may be repeated. load scales all arrivals.",
            show_default=False,
        ),
    ],
    simulate: Annotated[bool, typer.Option("--simulate", help="Simulate each point as well.")] = False,
    method: Method = "auto",
    jobs: Jobs = None,
    seed: Seed = 1,
    scheduler: Scheduler = None,
    out: Out = None,
    as_json: AsJson = False,
) -> int:
    """Solve (and simulate) the model at every point of a grid."""
    import qtheory
    from qtheory._solve import require_method
    from validation import sweep as sweeping

    shared.at_least(1, jobs=jobs)
    shared.at_least(0, seed=seed)
    model = shared.open_model(file)
    axes = [sweeping.parse_axis(text) for text in vary]
    if len({axis.path for axis in axes}) != len(axes):
        raise InvalidModel(field="--vary", rule="must name each number once", value=", ".join(vary))
    if not simulate or qtheory.methods(model):
        with shared.naming(file):
            require_method(model, method=method, field="--method")
    from validation import report
    from validation.commands.tables import progress, show

    if out is not None:
        report.check_folder(out)
    with (
        shared.naming(file),
        shared.cluster(scheduler) as executor,
        progress("sweeping", quiet=as_json) as tell,
    ):
        rows = sweeping.rows(
            model, axes, method=method, simulate=simulate, jobs=jobs, seed=seed, executor=executor, progress=tell
        )
    data = shared.envelope("sweep", model=plain(model), status="ok", axes=[axis.path for axis in axes], rows=rows)
    if out is not None:
        data["report"] = str(report.write(out, sweep=data, data=data))
    if as_json:
        shared.emit(data)
        return 0
    table = []
    for row in rows:
        point = ", ".join(f"{name}={value:g}" for name, value in row["point"].items())
        table.append((point, *(_told(row[part]) for part in ("measures", "simulated") if part in row), _said(row)))
    columns = ("point", "mean response", *(["simulated"] if any("simulated" in row for row in rows) else []), "")
    width = len(columns)
    show(f"{file}: sweep", columns, [(*row[:-1], *[""] * (width - len(row)), row[-1]) for row in table])
    if out is not None:
        print(f"report: {data['report']}")
    return 0


def _told(measures: list[dict[str, Any]]) -> str:
    """The mean response of all jobs, or the mean number where there is none, with its error or half-width."""
    from validation.commands.tables import number

    for name in ("mean_response", "mean_number"):
        for row in measures:
            if (row["measure"], row["scope"]) == (name, "all"):
                within = number(row.get("error", row.get("half_width")), digits=2)
                return f"{number(row['value'])} +- {within}"
    return "-"


def _said(row: dict[str, Any]) -> str:
    parts = [row["message"] if "message" in row else row.get("method", "")]
    if "theta_star" in row:
        parts.append(f"theta* {row['theta_star']:.4g}")
    if "stability" in row:
        parts.append(str(row["stability"]))
    return ", ".join(filter(None, parts))
