"""The four-file layout of a test K: ``mode_K.txt para_K.txt interarrival_K.txt service_K.txt``.

`para` holds the number of servers n, n0, the time limit and, in mode `random`, the end of the simulation.  In mode
`trace`, `interarrival` has one time a line and `service` a service time and a group a line.  In mode `random`,
`interarrival` holds the rate of an exponential factor and the ends of a uniform one, and `service` holds p0, then
minimum, maximum and shape of a bounded Pareto law (Group 0), then minimum and shape of a Pareto law (Group 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from qtheory.models import BoundedPareto, Dispatcher, Exponential, Pareto, Product, Uniform
from qtheory.models.errors import InvalidModel
from validation.traces import Trace


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What the four files say: the system, and the recorded jobs or (mode `random`) the end of the simulation."""

    model: Dispatcher
    trace: Trace | None
    time_end: float | None


def read_layout(folder: Path, *, number: str) -> Layout:
    """Read test `number` in `folder`.  Raises `InvalidModel` with file, line and rule."""
    files = {kind: folder / f"{kind}_{number}.txt" for kind in ("mode", "para", "interarrival", "service")}
    mode = " ".join(_lines(files["mode"]))
    if mode not in ("trace", "random"):
        raise InvalidModel(field="mode", rule="must be trace or random", value=mode, file=str(files["mode"]))
    para = _numbers(files["para"])
    wanted = 4 if mode == "random" else 3
    if len(para) < wanted:
        rule = "must hold n, n0, the time limit" + (" and the end of the simulation" if mode == "random" else "")
        raise InvalidModel(rule=rule, value=len(para), file=str(files["para"]))
    n, n0, limit = para[:3]
    if n != int(n) or n0 != int(n0) or not 1 <= n0 < n:
        rule = "n and n0 must be whole numbers with 1 <= n0 < n"
        raise InvalidModel(field="n0", rule=rule, value=f"{n:g}, {n0:g}", file=str(files["para"]))
    servers = (int(n0), int(n - n0))
    try:
        if mode == "trace":
            trace = _recorded(files["interarrival"], files["service"], folder=folder)
            return Layout(model=recorded_model(trace, servers=servers, time_limit=limit), trace=trace, time_end=None)
        if not (math.isfinite(para[3]) and para[3] > 0):
            raise InvalidModel(field="time_end", rule="must be a finite time > 0", value=para[3])
        model = _random(files["interarrival"], files["service"], servers=servers, time_limit=limit)
        return Layout(model=model, trace=None, time_end=para[3])
    except InvalidModel as error:
        raise (error if error.file else error.at(file=str(files["para"]))) from None


def recorded_model(trace: Trace, *, servers: tuple[int, int], time_limit: float) -> Dispatcher:
    """The system that a log runs through: its laws stand in for the file's and are not sampled."""
    share = float(np.mean(trace.group == 0))
    unused = Exponential(mean=1.0)
    gaps = np.diff(trace.arrival, prepend=0.0)
    positive = float(gaps.max()) if gaps.size else 0.0
    return Dispatcher(
        servers=servers,
        time_limit=time_limit,
        short_fraction=share,
        interarrival=Exponential(mean=float(gaps.mean())) if positive > 0 else unused,
        service0=unused,
        service1=unused,
    )


def _recorded(interarrival: Path, service: Path, *, folder: Path) -> Trace:
    gaps = _numbers(interarrival)
    times, groups = [], []
    for line, text in enumerate(_lines(service), start=1):
        parts = text.split()
        if len(parts) != 2 or parts[1] not in ("0", "1"):
            rule = "must hold a service time and a group (0 or 1)"
            raise InvalidModel(field=f"line {line}", rule=rule, value=text, file=str(service))
        times.append(_number(parts[0], line=line, path=service))
        groups.append(int(parts[1]))
    if len(gaps) != len(times):
        rule = f"must have as many lines as {service.name} ({len(times)})"
        raise InvalidModel(rule=rule, value=len(gaps), file=str(interarrival))
    if not gaps:
        raise InvalidModel(rule="holds no jobs", file=str(interarrival))
    # Added one by one: pairwise summation would differ from a running clock in the last digit.
    arrival = np.array(list(accumulate(gaps)))
    return Trace(
        source=str(folder),
        arrival=arrival,
        service=np.array(times),
        group=np.array(groups, np.int64),
        used=len(times),
    )


def _random(interarrival: Path, service: Path, *, servers: tuple[int, int], time_limit: float) -> Dispatcher:
    gap, jobs = _numbers(interarrival), _numbers(service)
    if len(gap) != 3:
        rule = "must hold the arrival rate and the two ends of the uniform factor"
        raise InvalidModel(rule=rule, value=len(gap), file=str(interarrival))
    if len(jobs) != 6:
        rule = "must hold p0; minimum, maximum, shape; minimum, shape"
        raise InvalidModel(rule=rule, value=len(jobs), file=str(service))
    if gap[0] <= 0:
        raise InvalidModel(field="line 1", rule="the rate must be > 0", value=gap[0], file=str(interarrival))
    try:
        law = Product(factors=(Exponential(mean=1 / gap[0]), Uniform(low=gap[1], high=gap[2])))
    except InvalidModel as error:
        raise error.at(file=str(interarrival)) from None
    try:
        return Dispatcher(
            servers=servers,
            time_limit=time_limit,
            short_fraction=jobs[0],
            interarrival=law,
            service0=BoundedPareto(minimum=jobs[1], maximum=jobs[2], shape=jobs[3]),
            service1=Pareto(minimum=jobs[4], shape=jobs[5]),
        )
    except InvalidModel as error:
        raise error.at(file=str(service)) from None


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InvalidModel(rule=f"cannot be read ({error.strerror})", file=str(path)) from None
    except UnicodeDecodeError as error:
        raise InvalidModel(rule=f"is not UTF-8 text (byte {error.start})", file=str(path)) from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _numbers(path: Path) -> list[float]:
    return [
        _number(part, line=line, path=path) for line, text in enumerate(_lines(path), start=1) for part in text.split()
    ]


def _number(text: str, *, line: int, path: Path) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InvalidModel(field=f"line {line}", rule="must be a number", value=text, file=str(path)) from None
    if math.isnan(value) or value < 0:
        raise InvalidModel(field=f"line {line}", rule="must be a number >= 0", value=value, file=str(path))
    return value
