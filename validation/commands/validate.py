"""qtwin validate: both answers side by side, with verdicts and a report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from validation.commands import shared
from validation.commands.shared import AsJson, At, Jobs, Method, NoAnswer, Out, Replications, Seed


def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Model files.", show_default=False)],
    *,
    method: Method = "auto",
    jobs: Jobs = None,
    replications: Replications = None,
    seed: Seed = 1,
    at: At = "",
    out: Out = None,
    as_json: AsJson = False,
) -> int:
    """Analytic answer and simulation side by side, a verdict for each measure."""
    shared.at_least(1, jobs=jobs)
    shared.at_least(2, replications=replications)
    shared.at_least(0, seed=seed)
    times = shared.times(at)
    models = [shared.open_model(file) for file in files]

    from qtheory._solve import require_method

    for file, model in zip(files, models, strict=True):
        with shared.naming(file):
            require_method(model, method=method, field="--method")
    from validation import report, rungs
    from validation._compare import REPLICATIONS, compare_all
    from validation.commands.tables import measure_name, number, progress, show

    if out is not None:
        report.check_folder(out)
    with progress("comparing", quiet=as_json) as tell:
        results = compare_all(
            models,
            method=method,
            jobs=jobs,
            replications=replications or REPLICATIONS,
            seed=seed,
            at=times,
            rungs=True,
            files=[str(file) for file in files],
            progress=tell,
        )
    rows = [{"file": str(file)} | result.to_dict() for file, result in zip(files, results, strict=True)]
    data = shared.envelope("validate", results=rows)
    failures = [(file, r.model, r.failure) for file, r in zip(files, results, strict=True) if r.failure is not None]
    if len(results) == 1 and failures:
        (file, model, failure) = failures[0]
        refusal = shared.refusal("validate", model=model, failure=failure) if as_json else None
        raise NoAnswer(message=f"{file}: {failure}", data=refusal and refusal | {"results": rows})
    if out is not None:
        page = report.write(out, comparisons=dict(zip(map(str, files), results, strict=True)), data=data)
        data["report"] = str(page)
    for file, result in zip(files, results, strict=True):
        if result.remark:
            print(f"{file}: nothing is judged: {result.remark}", file=sys.stderr)
    if as_json:
        if failures:
            raise NoAnswer(message="; ".join(f"{file}: {failure}" for file, _, failure in failures), data=data)
        shared.emit(data)
    else:
        for file, result in zip(files, results, strict=True):
            table = [
                (
                    measure_name(row),
                    number(row["analytic"]),
                    number(row["error"], digits=2),
                    number(row["simulated"]),
                    number(row["half_width"], digits=2),
                    number(row["z"], digits=3),
                    row["verdict"],
                )
                for row in result.to_dict()["measures"]
            ]
            title = f"{file}: {result.verdict if result.failure is None else result.failure}"
            show(title, ("measure", "analytic", "+- error", "simulated", "+- 95 %", "z", "verdict"), table)
            for line in _reasons(result.to_dict()["measures"]):
                print(f"  {line}")
            if rungs.anything_beside(result):
                show("methods side by side", *rungs.beside_simulation(result))
        if out is not None:
            print(f"report: {data['report']}")
        if failures:
            raise NoAnswer(message="; ".join(f"{file}: {failure}" for file, _, failure in failures), data=None)
    return int(any(result.verdict == "disagree" for result in results))


def _reasons(rows: list[dict[str, Any]]) -> list[str]:
    """Why measures were not found to agree: a line for each that disagrees, one for all that are not settled."""
    from validation.commands.tables import measure_name, number

    found = []
    for row in rows:
        if row["verdict"] == "disagree":
            size, error = number(row["difference"], digits=3), number(row["error"], digits=2)
            found.append(f"disagree: {measure_name(row)} by {size}, beyond its error of {error} and chance")
    open_rows = [row for row in rows if row["verdict"] == "inconclusive"]
    if open_rows:
        first = measure_name(open_rows[0])
        seen = number(open_rows[0]["detectable"], digits=2)
        others = f" and {len(open_rows) - 1} more" if len(open_rows) > 1 else ""
        found.append(f"inconclusive: {first}{others}; it would have seen a difference of {seen}: more --jobs see less")
    return found
