"""qtwin simulate: exact simulation with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qtheory.models import InvalidModel, Model, Network
from validation.commands import shared
from validation.commands.shared import (
    AsJson,
    At,
    Batches,
    Controls,
    JobBudget,
    Jobs,
    ModelFile,
    Precision,
    Replications,
    Scheduler,
    Seed,
    Stationary,
    StoreFile,
    TimeBudget,
    Warmup,
)

if TYPE_CHECKING:
    from qsim import Estimate

_DONE, _INTERRUPTED = 0, 130


def simulate(
    file: ModelFile,
    *,
    jobs: Jobs = None,
    precision: Precision = None,
    replications: Replications = None,
    batches: Batches = None,
    warmup: Warmup = None,
    stationary: Stationary = False,
    seed: Seed = 1,
    at: At = "",
    job_budget: JobBudget = None,
    time_budget: TimeBudget = None,
    store: StoreFile = None,
    scheduler: Scheduler = None,
    controls: Controls = True,
    allow_unstable: Annotated[
        bool, typer.Option("--allow-unstable", help="Run a system that has no steady state all the same.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Exact simulation; every number with its confidence interval."""
    shared.at_least(1, jobs=jobs, replications=replications)
    shared.at_least(0, seed=seed, warmup=warmup)
    if jobs is not None and precision is not None:
        raise InvalidModel(
            field="--jobs", rule="goes without --precision; to limit it there is --job-budget", value=jobs
        )
    wanted = shared.times(at)
    model = shared.open_model(file)
    if allow_unstable and precision is not None and not isinstance(model, Network):
        raise InvalidModel(field="--allow-unstable", rule="goes with --jobs: only a steady state has a precision")
    from validation import steer

    if not allow_unstable:
        with shared.answering("simulate", model=model, path=file, as_json=as_json):
            steer.check_stable(model)
    import qsim
    from validation.commands.tables import watching

    runs = 1 if batches is not None and replications is None else replications
    options = _length(model, jobs=jobs, precision=precision, replications=runs, warmup=warmup, stationary=stationary)
    known = steer.controls(model) if controls and not allow_unstable else ()
    status = _DONE
    names = ("precision", "job_budget", "time_budget", "replications", "batches", "stationary", "store", "at")
    try:
        with (
            shared.naming(file),
            shared.options(*names),
            shared.cluster(scheduler) as executor,
            watching("simulating", quiet=as_json) as watch,
        ):
            estimate = qsim.simulate(
                model,
                **options,
                batches=batches,
                stationary=stationary,
                seed=seed,
                at=wanted,
                controls=known,
                check_warmup=not allow_unstable,
                job_budget=job_budget,
                time_budget=time_budget,
                store=store,
                executor=executor,
                watch=watch,
            )
    except qsim.Interrupted as stop:
        if stop.estimate is None:
            return _INTERRUPTED
        estimate, status = stop.estimate, _INTERRUPTED
    note = "" if allow_unstable else steer.remark(model, warmup=estimate.warmup, stationary=stationary)
    if as_json:
        shared.emit(shared.envelope("simulate", **estimate.to_dict(), **({"note": note} if note else {})))
    else:
        _show(estimate, file=file)
        if note:
            print(f"  {note}")
    return status


def _length(
    model: Model,
    *,
    jobs: int | None,
    precision: float | None,
    replications: int | None,
    warmup: int | None,
    stationary: bool,
) -> dict[str, Any]:
    """How long to run, as `qsim.simulate` takes it; warm-ups come from the analytic side unless they are given."""
    from qsim._simulate import DEFAULT_REPLICATIONS
    from validation import steer

    if precision is not None:
        skipped = steer.warmup(model, jobs=None, stationary=stationary) if warmup is None else warmup
        return {"precision": precision, "replications": replications or DEFAULT_REPLICATIONS, "warmup": skipped}
    count = jobs or steer.simulation_jobs(model)
    runs = replications or min(DEFAULT_REPLICATIONS, count)
    skipped = steer.warmup(model, jobs=-(-count // runs), stationary=stationary) if warmup is None else warmup
    return {"jobs": count, "replications": runs, "warmup": skipped}


def _show(estimate: Estimate, *, file: Path) -> None:
    from validation.commands.tables import measure_name, number, show

    data = estimate.to_dict()
    controls = data.get("controls", {"known": (), "adjusted": ()})
    factors = {measure_name(row): row["factor"] for row in controls["adjusted"]}
    rows = []
    for row in data["measures"]:
        name = measure_name(row)
        half_width, factor = number(row.get("half_width"), digits=2), number(factors.get(name), digits=3)
        rows.append((name, number(row["value"]), half_width, *([factor] if factors else [])))
    cut = f" of {data['batch_means']['batches']} batches" if "batch_means" in data else ""
    runs = f"{estimate.replications} replication{'s' if estimate.replications != 1 else ''}{cut}"
    begun = f", {' and '.join(data['stationary'])} stationary from the start" if "stationary" in data else ""
    title = (
        f"{file}: {estimate.model.kind()}, {estimate.jobs} jobs in {runs}{begun}, "
        f"seed {estimate.seed}, {estimate.seconds:.3g} s"
    )
    columns = ("measure", "value", f"+- {100 * estimate.confidence:g} %", *(["variance factor"] if factors else []))
    show(title, columns, rows)
    if data.get("stability") in ("unstable", "critical"):
        print("  no measures: the run shows no steady state")
    known = [f"{row['name']} {row['z']:.2f}" for row in controls["known"] if "z" in row]
    if known:
        print(f"  controls, with z of their sample means against the known ones: {', '.join(known)}")
    for row in controls["known"]:
        if "note" in row:
            print(f"  control {row['name']}: {row['note']}")
    if "stability" in data:
        print(f"  stability: {data['stability']}, slope {data['slope']:.3g}, exponent {data['exponent']:.3g}")
    if "precision" in data:
        goal = data["precision"]
        reached = "no interval" if goal["reached"] is None else f"{goal['reached']:.2g}"
        print(f"  precision of {goal['measure']}/{goal['scope']}: {reached}, wanted {goal['wanted']:g}")
    if "enough" in data.get("batch_means", {}):
        found = data["batch_means"]
        verdict = "long enough" if found["enough"] else "too short for their intervals"
        told = f"autocorrelation of their means {found['autocorrelation']:.2g}, independent ones stay below"
        print(f"  batches {verdict}: {told} {found['bound']:.2g}")
    if "warmup_check" in data:
        print(f"  {_warmup(data['warmup_check'], jobs=estimate.warmup)}")
    if estimate.status != "ok":
        ended = f" ({data['budget']})" if "budget" in data else ""
        print(f"  status: {estimate.status}{ended}")


def _warmup(check: dict[str, Any], *, jobs: int) -> str:
    """What was found out about the warm-up, as a line."""
    early = f"the first jobs counted differ by {100 * check['early']:.2g} % +- {100 * check['half_width']:.2g} %"
    if check["enough"] and abs(check["early"]) > check["half_width"]:
        early += ", which fresh replications do not confirm"
    said = f"warm-up of {jobs} jobs a replication {'enough' if check['enough'] else 'too short'}: {early}"
    return f"{said}; MSER-5 would drop {check['mser5']} of {check['path']}" if "mser5" in check else said
