"""A model along one or several of its numbers, by one road or both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import qsim
import qtheory
from qtheory.models import InvalidModel, Model, Network, NotConverged, Unstable, parse, plain
from qtheory.systems.network.scaling import with_load
from qtheory.systems.network.stabilizability import stabilizability
from validation import steer
from validation._compare import failure_fields


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One number of the model that is varied: a dotted path, or `load` for every arrival rate at once."""

    path: str
    values: tuple[float, ...]


def parse_axis(text: str) -> Axis:
    """An axis such as ``servers.0=1:9:9`` (start, end, how many) or ``time_limit=1,2,5`` (values)."""
    path, sign, span = text.partition("=")
    if not sign or not path.strip():
        raise InvalidModel(field="--vary", rule="must be PATH=START:END:COUNT or PATH=VALUE,…", value=text)
    try:
        if ":" in span:
            start, end, count = span.split(":")
            number = int(count)
            if number < 1:
                raise ValueError
            low, high = float(start), float(end)
            step = (high - low) / (number - 1) if number > 1 else 0.0
            values = tuple(high if i == number - 1 and i else low + i * step for i in range(number))
        else:
            values = tuple(float(part) for part in span.split(","))
    except ValueError:
        raise InvalidModel(field="--vary", rule="must be PATH=START:END:COUNT or PATH=VALUE,…", value=text) from None
    if any(math.isnan(value) for value in values):
        raise InvalidModel(field="--vary", rule="must not hold nan", value=text)
    return Axis(path=path.strip(), values=values)


def at_point(model: Model, point: Mapping[str, float]) -> Model:
    """The model with the numbers of `point` put in.  Raises `InvalidModel` for an unknown path or a bad value."""
    data = plain(model)
    for path in point:
        if path not in data and path in model.__struct_fields__:
            data[path] = getattr(model, path)  # left out of plain data where it is the default
    for path, value in point.items():
        if path == "load" and model.kind() != "flexible":
            data = _scaled(model, data, factor=value)
        else:
            _put(data, path=path, value=value)
    return parse(data)


def _put(data: dict[str, Any], *, path: str, value: float) -> None:
    *way, last = path.split(".")
    try:
        holder: Any = data
        for step in way:
            holder = holder[_key(holder, step)]
        key = _key(holder, last)
        old = holder[key]
    except (KeyError, IndexError, TypeError):
        raise InvalidModel(field="--vary", rule="names no number of this model", value=path) from None
    if isinstance(old, bool) or not (isinstance(old, (int, float)) or old == "inf"):
        raise InvalidModel(field="--vary", rule="names no number of this model", value=path)
    # Counts stay counts; a fraction of a server is the model's to refuse.
    holder[key] = int(value) if isinstance(old, int) and value == int(value) else value


def _key(holder: Any, step: str) -> int | str:
    if isinstance(holder, list):
        if not step.isdigit():
            raise KeyError(step)
        return int(step)
    return step


def _scaled(model: Model, data: dict[str, Any], *, factor: float) -> dict[str, Any]:
    """Every arrival rate times `factor`."""
    if not factor > 0:
        raise InvalidModel(field="--vary", rule="load must be > 0", value=factor)
    if model.kind() == "donor":
        return data | {"arrival_rates": [factor * rate for rate in data["arrival_rates"]]}
    if isinstance(model, Network):
        return plain(with_load(model, factor=factor))
    stretched = {"kind": "product", "factors": [data["interarrival"], {"kind": "deterministic", "value": 1 / factor}]}
    if data["interarrival"]["kind"] == "exponential":
        stretched = {"kind": "exponential", "mean": data["interarrival"]["mean"] / factor}
    return data | {"interarrival": stretched}


def points(axes: Sequence[Axis]) -> Iterator[dict[str, float]]:
    """Every combination, the last axis fastest."""
    for values in itertools.product(*(axis.values for axis in axes)):
        yield {axis.path: value for axis, value in zip(axes, values, strict=True)}


def rows(
    model: Model,
    axes: Sequence[Axis],
    *,
    method: str = "auto",
    simulate: bool = False,
    jobs: int | None = None,
    seed: int = 1,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """One row a point: `point`, `status` and measures; a point without a steady state says why and has none.

    A design that no analytic method covers is refused, or simulated only where `simulate` asks for that.
    """
    grid = list(points(axes))
    designs = [steer.check(at_point(model, point)) for point in grid]
    found = []
    for done, (point, design) in enumerate(zip(grid, designs, strict=True), start=1):
        row = _row(point, design, method=method, simulate=simulate, jobs=jobs, seed=seed, executor=executor)
        found.append(row)
        if progress is not None:
            progress(done, len(grid))
    return found


def _row(
    point: dict[str, float],
    design: Model,
    *,
    method: str,
    simulate: bool,
    jobs: int | None,
    seed: int,
    executor: Executor | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {"point": point, "status": "ok", "measures": []}
    if isinstance(design, Network):
        row["theta_star"] = stabilizability(design).theta_star
    try:
        if simulate and not qtheory.methods(design):
            steer.check_stable(design)
            row["message"] = "no analytic method"
        else:
            solution = qtheory.solve(design, method=method)
            row |= {"method": solution.method, "measures": solution.measures.to_list()}
    except (Unstable, NotConverged) as failure:
        row |= failure_fields(failure) | {"message": str(failure)}
    if simulate and (row["status"] == "ok" or isinstance(design, Network)):
        count = jobs or steer.simulation_jobs(design)
        warmup = steer.warmup(design, jobs=-(-count // 32))
        estimate = qsim.simulate(design, jobs=count, seed=seed, warmup=warmup, executor=executor)
        row["simulated"] = estimate.measures.to_list()
        row |= estimate.details
    return row
