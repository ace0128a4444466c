"""qtwin simulate: exact simulation with intervals."""

from __future__ import annotations

from typing import Annotated

import typer

from validation.commands import shared
from validation.commands.shared import AsJson, At, Jobs, ModelFile, Replications, Seed, Warmup


def simulate(
    file: ModelFile,
    *,
    jobs: Jobs = None,
    replications: Replications = None,
    warmup: Warmup = None,
    seed: Seed = 1,
    at: At = "",
    allow_unstable: Annotated[
        bool, typer.Option("--allow-unstable", help="Run a system that has no steady state all the same.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Exact simulation; every number with its confidence interval."""
    shared.at_least(1, jobs=jobs, replications=replications)
    shared.at_least(0, seed=seed, warmup=warmup)
    wanted = shared.times(at)
    model = shared.open_model(file)
    from validation import steer

    if not allow_unstable:
        with shared.answering("simulate", model=model, path=file, as_json=as_json):
            steer.check_stable(model)
    import qsim
    from qsim._simulate import DEFAULT_REPLICATIONS
    from validation.commands.tables import measure_name, number, progress, show

    count = jobs or steer.simulation_jobs(model)
    runs = replications or min(DEFAULT_REPLICATIONS, count)
    skipped = steer.warmup(model, jobs=-(-count // runs)) if warmup is None else warmup
    with progress("simulating", quiet=as_json) as report, shared.naming(file):
        estimate = qsim.simulate(
            model, jobs=count, replications=runs, seed=seed, warmup=skipped, at=wanted, progress=report
        )
    data = estimate.to_dict()
    if as_json:
        shared.emit(shared.envelope("simulate", **data))
        return 0
    percent = f"{100 * estimate.confidence:g} %"
    rows = [
        (measure_name(row), number(row["value"]), number(row.get("half_width"), digits=2)) for row in data["measures"]
    ]
    title = (
        f"{file}: {model.kind()}, {estimate.jobs} jobs in {estimate.replications} replications, seed {seed}, "
        f"{estimate.seconds:.3g} s"
    )
    show(title, ("measure", "value", f"+- {percent}"), rows)
    for name in ("stability", "slope", "exponent"):
        if name in data:
            print(f"  {name}: {data[name]}")
    return 0
