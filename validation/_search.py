"""The best number of Group 0 servers: ranked by theory, decided by simulation or on a recorded log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import qsim
import qtheory
from qsim.arguments import whole
from qtheory.measures import Key, model_data
from qtheory.models import Dispatcher, InvalidModel, Model, NotConverged, Unstable
from validation import steer
from validation.selection import Choice, select
from validation.traces import Trace

#: Designs that are always simulated, however clear the theory's ranking.
LEAST_CONTENDERS = 3
#: Designs that are simulated at most.
MOST_CONTENDERS = 16


@dataclass(frozen=True, kw_only=True)
class Design:
    """One row of the table.  `analytic` and `simulated` are None where there is no such number."""

    servers: tuple[int, int]
    stable: bool
    load: tuple[float, float] | None = None
    analytic: float | None = None
    error: float | None = None
    simulated: float | None = None
    half_width: float | None = None
    variance_factor: float | None = None
    jobs: int = 0
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        data: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data["servers"] = list(self.servers)
        data["load"] = [x if math.isfinite(x) else None for x in self.load] if self.load else None
        return {name: value for name, value in data.items() if value != "" and (name != "load" or value is not None)}


@dataclass(frozen=True, kw_only=True)
class Search:
    """What `search` returns.

    Attributes
    ----------
    best : the searched fields of the best design, e.g. ``{"servers": (4, 6)}``.
    ties : the designs that could not be told from it within the indifference zone.
    table : one row a design, unstable ones included.
    guarantee : `confidence` and the relative `indifference` reached; `reached` says whether that was the zone asked
        for, `designs` how many were simulated, `variance_factor` what control variates gained in the difference to the
        closest rival.
    objective : weights on mean responses by scope.
    analytic_best : what the analytic ranking alone would have picked.
    """

    model: Model
    best: dict[str, Any]
    ties: tuple[dict[str, Any], ...]
    table: tuple[Design, ...]
    guarantee: dict[str, Any]
    objective: dict[str, float]
    method: str
    analytic_best: dict[str, Any] | None = None
    seconds: float = 0.0
    records: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        data: dict[str, Any] = {
            "model": model_data(self.model),
            "method": self.method,
            "status": "ok",
            "best": _plain(self.best),
            "ties": [_plain(tie) for tie in self.ties],
            "table": [design.to_dict() for design in self.table],
            "guarantee": self.guarantee,
            "objective": self.objective,
            "seconds": self.seconds,
        }
        if self.analytic_best is not None:
            data["analytic_best"] = _plain(self.analytic_best)
        if self.records:
            data["records"] = self.records
        return data

    def __repr__(self) -> str:
        lines = [f"Search: best {self.best}, ties {list(self.ties)}, {self.method}, {self.seconds:.3g} s"]
        for design in self.table:
            lines.append(f"  {design.servers} analytic {design.analytic} simulated {design.simulated}")
        return "\n".join(lines)


def _plain(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}


def _total(total: Any) -> int:
    found = whole("total", total, needed=True)
    if found < 2:
        raise InvalidModel(field="total", rule="must be at least 2", value=total)
    return found


def check_objective(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Weights on the mean responses of all, short, long and killed; all jobs where none are given."""
    if not weights:
        return {"all": 1.0}
    if not isinstance(weights, Mapping):
        raise InvalidModel(field="objective", rule="must map scopes to weights", value=weights)
    for scope, weight in weights.items():
        known = ("all", "short", "long", "killed")
        if scope not in known:
            raise InvalidModel(field="objective", rule=f"scopes are {', '.join(known)}", value=scope)
        if not (math.isfinite(weight) and weight >= 0):
            raise InvalidModel(field="objective", rule="weights must be finite numbers >= 0", value=weight)
    if not any(weights.values()):
        raise InvalidModel(field="objective", rule="some weight must be > 0", value=0.0)
    return {scope: float(weight) for scope, weight in weights.items() if weight > 0}


def search(
    model: Dispatcher,
    *,
    total: int,
    objective: Mapping[str, float] | None = None,
    method: str = "auto",
    indifference: float = 0.001,
    confidence: float = 0.95,
    jobs: int = 200_000,
    max_jobs: int = 2_000_000_000,
    seed: int = 1,
    controls: bool = True,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Search:
    """The split of `total` servers with the smallest weighted mean response.

    The analytic side ranks every stable n0; those that its errors cannot rule out are simulated on the same jobs
    until the best is separated from each other one or is within the indifference zone of it.

    Parameters
    ----------
    model : its `servers` only give the shape.
    total : servers to be split, at least 2.
    objective : weights on the mean responses of `all`, `short`, `long`, `killed`; all jobs by default.
    method : analytic method of the ranking; `auto` is `mgc`, and `phase-type` takes about a quarter of a second a
        design.  Where killed jobs do not join the back of Queue 1 there is none, and up to sixteen stable designs are
        simulated.
    indifference : relative difference that does not matter.
    confidence : of the choice among the simulated designs.
    jobs : jobs counted in each replication.
    max_jobs : budget of the simulation over all designs.
    seed : of the streams that all designs share.
    controls : whether estimates are adjusted by control variates; `variance_factor` says what they gained.
    executor : where replications run instead of threads of this process.

    Raises
    ------
    InvalidModel : wrong options, or an objective over a class without jobs, or too many designs that nothing ranks.
    Unstable : no split is stable; names the group that is overloaded in the least loaded one.
    """
    total = _total(total)
    for name, value in (("indifference", indifference), ("confidence", confidence)):
        if not 0 < value < 1:
            raise InvalidModel(field=name, rule="must lie between 0 and 1", value=value)
    start = perf_counter()
    jobs, max_jobs = whole("jobs", jobs, needed=True), whole("max_jobs", max_jobs, needed=True)
    seed = whole("seed", seed, needed=True)
    for name, value, least in (("jobs", jobs, 1), ("max_jobs", max_jobs, 1), ("seed", seed, 0)):
        if value < least:
            raise InvalidModel(field=name, rule=f"must be at least {least}", value=value)
    weights = check_objective(objective)
    designs = [model.replace(servers=(n0, total - n0)) for n0 in range(1, total)]
    rows, used = _rank(designs, weights=weights, method=method)
    contenders = _contenders(rows)
    choice = select(
        [designs[i] for i in contenders],
        objective={("mean_response", scope): weight for scope, weight in weights.items()},
        jobs=jobs,
        warmup=max(steer.warmup(designs[i], jobs=jobs) or jobs // 10 for i in contenders),
        seed=seed,
        confidence=confidence,
        indifference=indifference,
        max_jobs=max_jobs,
        executor=executor,
        controls=[steer.controls(designs[i]) for i in contenders] if controls else (),
        progress=progress,
    )
    for place, i in enumerate(contenders):
        rows[i] = _with_simulation(rows[i], choice, place)
    finite = [row for row in rows if row.analytic is not None]
    return Search(
        model=model,
        best={"servers": rows[contenders[choice.best]].servers},
        ties=tuple({"servers": rows[contenders[i]].servers} for i in choice.ties),
        table=tuple(rows),
        guarantee={
            "confidence": confidence,
            "indifference": choice.zone,
            "reached": choice.reached,
            "designs": len(contenders),
            "variance_factor": choice.factor,
        },
        objective=weights,
        method=f"{used}, then simulation under common random numbers",
        analytic_best={"servers": min(finite, key=lambda row: row.analytic or 0.0).servers} if finite else None,
        seconds=perf_counter() - start,
    )


def _with_simulation(row: Design, choice: Choice, place: int) -> Design:
    contender = choice.contenders[place]
    return Design(
        servers=row.servers,
        stable=True,
        load=row.load,
        analytic=row.analytic,
        error=row.error,
        simulated=contender.mean,
        half_width=contender.figure.half_width,
        variance_factor=contender.factor,
        jobs=contender.jobs,
        note=row.note,
    )


def _rank(designs: list[Dispatcher], *, weights: Mapping[str, float], method: str) -> tuple[list[Design], str]:
    """Every design with its analytic objective; raises `Unstable` when none is stable.

    Where no method covers the rules for killed jobs all stable designs are open; too many of them are refused.
    """
    from qtheory.systems.dispatcher.coverage import require_covered
    from qtheory.systems.dispatcher.loads import require_stable, traffic

    unranked = not qtheory.methods(designs[0])
    if unranked and method != "auto":
        require_covered(designs[0], method=method)
    keys: dict[str, Key] = {scope: ("mean_response", scope) for scope in weights}
    rows: list[Design] = []
    used: dict[str, None] = {}
    failures: list[Unstable] = []
    # One method for all designs: errors of different ones do not cancel in differences.
    chosen = "mgc" if method == "auto" else method
    offered0, offered1 = traffic(designs[0]).offered
    for design in designs:
        load = (offered0 / design.servers[0], offered1 / design.servers[1])
        try:
            if unranked:
                require_stable((offered0, offered1), servers=design.servers)
                rows.append(Design(servers=design.servers, stable=True, load=load, note="no analytic method"))
                continue
            solution = qtheory.solve(design, method=chosen, quantiles=False)
        except Unstable as failure:
            failures.append(failure)
            rows.append(Design(servers=design.servers, stable=False, load=load, note=str(failure)))
            continue
        except NotConverged as failure:
            rows.append(Design(servers=design.servers, stable=True, load=load, note=str(failure)))
            continue
        used[solution.method] = None
        for scope, key in keys.items():
            if key not in solution.measures:
                rule = f"no job is {scope} in this model: give it no weight"
                raise InvalidModel(field="objective", rule=rule, value=scope)
        value = sum(weight * solution[keys[scope]].value for scope, weight in weights.items())
        error = sum(weight * solution[keys[scope]].error for scope, weight in weights.items())
        note = next((solution[key].note for key in keys.values() if solution[key].note), "")
        finite = math.isfinite(value)
        rows.append(
            Design(
                servers=design.servers,
                stable=True,
                load=load,
                analytic=value if finite else None,
                error=error if finite else None,
                note=note,
            )
        )
    if not any(row.stable for row in rows):
        raise min(failures, key=lambda failure: failure.load)
    count = sum(row.stable for row in rows)
    if unranked and count > MOST_CONTENDERS:
        field = designs[0].changed_rules[0]
        rule = f"leaves no analytic method to choose the {MOST_CONTENDERS} of {count} stable designs to be simulated"
        raise InvalidModel(field=field, rule=rule, value=getattr(designs[0], field))
    return rows, "no ranking" if unranked else " and ".join(used) or chosen


def _contenders(rows: list[Design]) -> list[int]:
    """The designs that the analytic errors cannot rule out, and never fewer than the three best."""
    ranked = sorted((row.analytic, i) for i, row in enumerate(rows) if row.analytic is not None)
    unknown = [i for i, row in enumerate(rows) if row.stable and row.analytic is None]
    if not ranked:
        return unknown[:MOST_CONTENDERS]
    best_high = min((rows[i].analytic or 0.0) + 2 * (rows[i].error or 0.0) for _, i in ranked)
    open_ = [i for value, i in ranked if value - 2 * (rows[i].error or 0.0) <= best_high]
    chosen = list(dict.fromkeys(open_[:MOST_CONTENDERS] + [i for _, i in ranked[:LEAST_CONTENDERS]]))
    return sorted(chosen)


def search_trace(
    model: Dispatcher,
    *,
    total: int,
    trace: Trace,
    objective: Mapping[str, float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Search:
    """The split of `total` servers that would have served a recorded log best: every n0 replays it exactly.

    Raises `InvalidModel` for wrong options or an objective over a class without jobs.
    """
    total = _total(total)
    start = perf_counter()
    weights = check_objective(objective)
    rows = []
    for n0 in range(1, total):
        replayed = qsim.replay(
            model.replace(servers=(n0, total - n0)),
            arrival=trace.arrival,
            service=trace.service,
            group=trace.group,
        )
        value = 0.0
        for scope, weight in weights.items():
            key: Key = ("mean_response", scope)
            if key not in replayed.measures:
                raise InvalidModel(
                    field="objective", rule=f"no job of the log is {scope}: give it no weight", value=scope
                )
            value += weight * replayed.measures[key].value
        busy = replayed.measures
        load = (busy["utilisation", "group0"].value, busy["utilisation", "group1"].value)
        rows.append(
            Design(servers=(n0, total - n0), stable=True, load=load, simulated=value, half_width=0.0, jobs=len(trace))
        )
        if progress is not None:
            progress(n0, total - 1)
    least = min(row.simulated or 0.0 for row in rows)
    best, *ties = [row for row in rows if row.simulated == least]
    return Search(
        model=model,
        best={"servers": best.servers},
        ties=tuple({"servers": row.servers} for row in ties),
        table=tuple(rows),
        guarantee={"confidence": 1.0, "indifference": 0.0, "reached": True, "designs": len(rows)},
        objective=weights,
        method="replay of the log",
        seconds=perf_counter() - start,
        records=trace.records,
    )
