"""What the subcommands share: options, loading, one JSON object on standard output, refusals."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import qtheory
from qtheory.models import InvalidModel, Model, NotConverged, Unstable, load, plain

SCHEMA = "qtwin/1"
_MOST = 10**15

ModelFile = Annotated[Path, typer.Argument(metavar="FILE", help="Model file, TOML or JSON.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        help="Analytic method. dispatcher: mmc, mgc, phase-type, exact; donor: exact, reduction; flexible: exact, "
        "refined, mean-field, phase-type; network: product-form, chain. auto takes one and says which.",
    ),
]
At = Annotated[
    str, typer.Option("--at", metavar="X,Y", help="Times for P(response > x), separated by commas.", show_default=False)
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write the report there.", show_default=False)]


def whole_number(text: str | int) -> int:
    """A whole number as people write it: 1000000, 1_000_000 or 1e6 (or a default, already a number)."""
    if isinstance(text, int):
        return text
    try:
        value = float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None
    if not math.isfinite(value) or value != int(value):
        raise typer.BadParameter(f"{text!r} is not a whole number")
    return int(text) if text.lstrip("+-").isdigit() else int(value)


def real_number(text: str | float) -> float:
    """A number (or a default, already one); nan is none."""
    try:
        value = float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number") from None
    if math.isnan(value):
        raise typer.BadParameter(f"{text!r} is not a number")
    return value


Seed = Annotated[int, typer.Option("--seed", metavar="S", parser=whole_number, help="Seed of the whole simulation.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        parser=whole_number,
        help="Jobs counted after warm-up, over all replications; by default some seconds of work.",
        show_default=False,
    ),
]
Replications = Annotated[
    int | None,
    typer.Option(
        "--replications",
        metavar="K",
        parser=whole_number,
        help="Independent replications, 32 by default.",
        show_default=False,
    ),
]
Precision = Annotated[
    float | None,
    typer.Option(
        "--precision",
        metavar="R",
        parser=real_number,
        help="Run until the half-width of mean_response/all (a network: mean_number/all) is this share of it.",
        show_default=False,
    ),
]
JobBudget = Annotated[
    int | None,
    typer.Option(
        "--job-budget",
        metavar="N",
        parser=whole_number,
        help="With --precision: jobs simulated at most, warm-ups included.",
        show_default=False,
    ),
]
TimeBudget = Annotated[
    float | None,
    typer.Option(
        "--time-budget",
        metavar="SECONDS",
        parser=real_number,
        help="No replication begins after so long.",
        show_default=False,
    ),
]
StoreFile = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="FILE",
        help="Keep finished replications there; go on where a run stopped.",
        show_default=False,
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="Simulate on this Dask cluster.", show_default=False),
]
Controls = Annotated[
    bool,
    typer.Option(
        "--controls/--no-controls",
        help="Narrow the intervals by control variates, whose means are from theory.",
    ),
]
Batches = Annotated[
    int | None,
    typer.Option(
        "--batches",
        metavar="B",
        parser=whole_number,
        help="Batch means: one replication unless told otherwise, cut into so many batches.",
        show_default=False,
    ),
]
Stationary = Annotated[
    bool,
    typer.Option(
        "--stationary",
        help="Start a dispatcher's Group 0, and Group 1 where no job is killed, in their stationary states.",
    ),
]
Warmup = Annotated[
    int | None,
    typer.Option(
        "--warmup", metavar="W", parser=whole_number, help="Jobs a replication not counted.", show_default=False
    ),
]


class NoAnswer(Exception):
    """A refusal that ends the command with status 3: what to say, and the JSON object that says it."""

    def __init__(self, *, message: str, data: dict[str, Any] | None) -> None:
        super().__init__(message)
        self.message, self.data = message, data


def open_model(path: Path) -> Model:
    """The model of a file, its laws checked.  Raises `InvalidModel` that names the file."""
    from validation import steer

    model = load(path)
    with naming(path):
        return steer.check(model)


@contextmanager
def naming(path: Path | None) -> Iterator[None]:
    """Complaints about a model name the file it came from; those about an option stand for themselves."""
    try:
        yield
    except InvalidModel as error:
        known = path is None or error.file or error.field.startswith("--")
        raise (error if known else error.at(file=str(path))) from None


@contextmanager
def options(*names: str) -> Iterator[None]:
    """Complaints of a function about one of these arguments name the option it came from."""
    try:
        yield
    except InvalidModel as error:
        if error.field in names:
            name = error.field.replace("_", "-")
            raise InvalidModel(field=f"--{name}", rule=error.rule, value=error.value) from None
        raise


@contextmanager
def cluster(address: str | None) -> Iterator[Executor | None]:
    """The Dask cluster at `address` as an executor; None where no address is given."""
    if address is None:
        yield None
        return
    from qsim import executors

    # Dask logs what it then raises; a complaint is one line.
    logging.disable(logging.CRITICAL)
    with options("scheduler"), executors.dask(address) as executor:
        yield executor


def at_least(minimum: int, **values: int | None) -> None:
    """Each count given must reach `minimum`, and none is more than anybody can run."""
    for name, value in values.items():
        if value is not None and value < minimum:
            raise InvalidModel(field=f"--{name}", rule=f"must be at least {minimum}", value=value)
        if value is not None and value > _MOST:
            raise InvalidModel(field=f"--{name}", rule=f"must be at most {_MOST}", value=value)


def times(text: str, *, name: str = "at") -> tuple[float, ...]:
    """The numbers of an option such as ``--at 1,2.5``."""
    try:
        values = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise InvalidModel(field=f"--{name}", rule="must be numbers separated by commas", value=text) from None
    if not all(value >= 0 and math.isfinite(value) for value in values):
        raise InvalidModel(field=f"--{name}", rule="must be finite times >= 0", value=text)
    return values


@contextmanager
def answering(command: str, *, model: Model, path: Path | None, as_json: bool) -> Iterator[None]:
    """Unstable systems and methods that did not converge end the command with status 3 and their JSON object."""
    try:
        with naming(path):
            yield
    except (Unstable, NotConverged) as failure:
        message = f"{path}: {failure}" if path else str(failure)
        raise NoAnswer(
            message=message, data=refusal(command, model=model, failure=failure) if as_json else None
        ) from None


def refusal(command: str, *, model: Model, failure: Unstable | NotConverged) -> dict[str, Any]:
    """The JSON object of a refusal."""
    from validation._compare import failure_fields

    return envelope(command, model=plain(model), **failure_fields(failure), measures=[])


def envelope(command: str, **fields: Any) -> dict[str, Any]:
    """A JSON answer with schema, version and command in front."""
    return {"schema": SCHEMA, "version": qtheory.__version__, "command": command, **fields}


def emit(data: Mapping[str, Any]) -> None:
    """One JSON object on standard output; a number that JSON cannot hold is an error of ours, never a token."""
    print(json.dumps(data, allow_nan=False))
