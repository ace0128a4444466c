"""qtwin calibrate: do the intervals cover the truth as often as they say?"""

from __future__ import annotations

from typing import Annotated

import typer

from validation.commands import shared
from validation.commands.shared import AsJson, Jobs, ModelFile, Precision, Replications, Seed


def calibrate(
    file: ModelFile,
    *,
    runs: Annotated[
        int, typer.Option("--runs", metavar="N", parser=shared.whole_number, help="Whole procedures.")
    ] = 200,
    jobs: Jobs = None,
    precision: Precision = None,
    replications: Replications = None,
    reference_jobs: Annotated[
        int | None,
        typer.Option(
            "--reference-jobs",
            metavar="N",
            parser=shared.whole_number,
            help="Jobs of the long run that stands for the truth where theory has no exact answer.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option("--confidence", metavar="C", parser=shared.real_number, help="Nominal coverage.")
    ] = 0.95,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> int:
    """Coverage of the simulation's intervals: the whole procedure many times, against known answers."""
    shared.at_least(1, runs=runs, jobs=jobs, reference_jobs=reference_jobs)
    shared.at_least(2, replications=replications)
    shared.at_least(0, seed=seed)
    model = shared.open_model(file)
    from validation import calibrate as calibration
    from validation.commands.tables import measure_name, number, progress, show

    with (
        progress("calibrating", quiet=as_json) as tell,
        shared.naming(file),
        shared.options("runs", "jobs", "precision", "replications", "confidence"),
        shared.answering("calibrate", model=model, path=file, as_json=as_json),
    ):
        found = calibration.calibrate(
            model,
            runs=runs,
            jobs=jobs,
            precision=precision,
            replications=replications or 32,
            reference_jobs=reference_jobs,
            confidence=confidence,
            seed=seed,
            progress=tell,
        )
    data = shared.envelope("calibrate", **found.to_dict())
    if as_json:
        shared.emit(data)
        return 0
    rows = [
        (
            measure_name(row),
            "controls" if row["controls"] else "plain",
            f"{100 * row['coverage']:.1f} %",
            f"{100 * row['low']:.1f} - {100 * row['high']:.1f}",
            number(row["bias"], digits=2),
            number(row["half_width"], digits=3),
            number(row["factor"], digits=3),
            row["source"],
        )
        for row in data["measures"]
    ]
    title = (
        f"{file}: {model.kind()}, {found.runs} procedures of {found.jobs} jobs in {found.replications} replications, "
        f"{100 * found.confidence:g} % intervals, seed {seed}, {found.seconds:.3g} s"
    )
    columns = ("measure", "estimate", "coverage", "95 % of it", "bias", "half-width", "variance factor", "truth from")
    show(title, columns, rows)
    if found.note:
        print(f"  {found.note}")
    return 0
