"""The two answers side by side, with a verdict for each measure and its power."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal

import qsim
import qtheory
from qsim.estimate import Estimate
from qtheory.measures import Key, json_row, model_data
from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.models.files import Model
from qtheory.solution import Solution
from validation import steer
from validation.power import critical_value, detectable_shift

Verdict = Literal["agree", "disagree", "inconclusive"]

#: Chance that a whole call finds a disagreement where there is none.
FALSE_ALARM = 1e-6
#: Replications of a comparison; fewer than 32 make the test blunt.
REPLICATIONS = 64
#: Added to the seed for the pilot that sets the length of a comparison.
PILOT_SEED = 2**61


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """One measure by both roads.

    With d = analytic - simulated and se the simulation's standard error, z = sign(d) max(0, |d| - error) / se.
    `detectable` is the smallest true |d| that this run would have called a disagreement with probability 0.9.
    """

    analytic: float
    error: float
    simulated: float
    half_width: float
    difference: float
    z: float
    detectable: float
    verdict: Verdict

    @property
    def value(self) -> float:
        """The analytic value (what a table of pairs is sorted and shown by)."""
        return self.analytic

    def row(self) -> dict[str, Any]:
        """The fields of a JSON row."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What `compare` returns: pairs by (measure, scope), the verdict of the whole, and the answers behind them.

    `status` is "ok", or "unstable" or "not-converged" with `failure` saying why; then there are no pairs.
    Where replications were too short to forget that they began empty, `needed` says how many jobs their warm-up takes,
    and nothing is judged.
    `rungs` holds the solution of every analytic method that answered, by name; slow ones only where asked for.
    """

    model: Model
    verdict: Verdict
    measures: Mapping[Key, Pair]
    solution: Solution | None = None
    estimate: Estimate | None = None
    rungs: Mapping[str, Solution] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    status: str = "ok"
    failure: Unstable | NotConverged | None = None
    needed: int | None = None
    seconds: float = 0.0

    @property
    def remark(self) -> str:
        """Why a run that was made judges nothing; empty where it judges."""
        if self.needed is None or self.estimate is None:
            return ""
        return (
            f"replications of {-(-self.estimate.jobs // self.estimate.replications):,} jobs have not forgotten their "
            f"start: a warm-up takes {self.needed:,} jobs here, ask for as many --jobs times the replications"
        )

    def __getitem__(self, key: Key) -> Pair:
        return self.measures[key]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data for JSON."""
        data: dict[str, Any] = {
            "model": model_data(self.model),
            "status": self.status,
            "verdict": self.verdict,
            "measures": [json_row(key, pair.row()) for key, pair in self.measures.items()],
            "methods": self._methods(),
            "seconds": self.seconds,
        }
        if self.remark:
            data["note"] = self.remark
        if self.failure is not None:
            data |= failure_fields(self.failure)
        return data

    def _methods(self) -> dict[str, Any]:
        methods: dict[str, Any] = {}
        if self.solution is not None:
            methods["analytic"] = {"method": self.solution.method, "seconds": self.solution.seconds}
            if self.solution.details:
                methods["analytic"]["details"] = dict(self.solution.details)
        if self.estimate is not None:
            run = self.estimate.to_dict()
            names = (
                "jobs",
                "replications",
                "seed",
                "warmup",
                "confidence",
                "seconds",
                "stability",
                "slope",
                "exponent",
            )
            methods["simulation"] = {name: run[name] for name in names if name in run}
        if self.rungs or self.refused:
            methods["rungs"] = {
                name: {"method": rung.method, "seconds": rung.seconds, "measures": rung.measures.to_list()}
                for name, rung in self.rungs.items()
            } | {name: {"refused": why} for name, why in self.refused.items()}
        return methods

    def __repr__(self) -> str:
        lines = [f"Comparison of {self.model.kind()}: {self.verdict}"]
        for key, pair in self.measures.items():
            name = "/".join(str(part) for part in key)
            lines.append(
                f"  {name:<28} {pair.analytic:>12.6g} +- {pair.error:<8.2g} {pair.simulated:>12.6g} "
                f"+- {pair.half_width:<8.2g} {pair.verdict}"
            )
        return "\n".join(lines)


def failure_fields(failure: Unstable | NotConverged) -> dict[str, Any]:
    """Status, place and load of a refusal, as they stand in JSON."""
    if isinstance(failure, Unstable):
        load = failure.load if math.isfinite(failure.load) else None
        return {"status": "unstable", "where": failure.where, "load": load}
    return {"status": "not-converged", "where": failure.where, "load": None}


def compare(
    model: Model,
    *,
    method: str = "auto",
    jobs: int | None = None,
    replications: int = REPLICATIONS,
    seed: int = 1,
    at: Iterable[float] = (),
    rungs: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Solve and simulate `model` and judge every measure that both answers hold.

    Parameters
    ----------
    model : the system.
    method : the analytic method that is put to the test.
    jobs : jobs counted over all replications; None takes the default for this kind of system.
    replications : independent runs, at least 2; 32 or more keep the test sharp.
    seed : of the simulation.
    at : times for `tail_response`.
    rungs : also solve by every other method and keep the answers.
    progress : called with (finished, all) replications.

    Raises
    ------
    Unstable, NotConverged, InvalidModel : as `qtheory.solve` and `qsim.simulate` do.
    """
    (result,) = compare_all(
        [model], method=method, jobs=jobs, replications=replications, seed=seed, at=at, rungs=rungs, progress=progress
    )
    if result.failure is not None:
        raise result.failure
    return result


def compare_all(
    models: Sequence[Model],
    *,
    method: str = "auto",
    jobs: int | None = None,
    replications: int = REPLICATIONS,
    seed: int = 1,
    at: Iterable[float] = (),
    rungs: bool = False,
    files: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> list[Comparison]:
    """Compare several models; the false-alarm rate of 1e-6 is shared by the measures of the whole call.

    A model without an answer gives a `Comparison` with `failure`; wrong input raises, and names the model's file
    where `files` are given.
    """
    if replications < 2:
        raise InvalidModel(field="replications", rule="must be at least 2 to compare", value=replications)
    times = tuple(at)
    total = replications * len(models)
    drafts = []
    for index, model in enumerate(models):

        def report(finished: int, _: int, before: int = index * replications) -> None:
            if progress is not None:
                progress(before + finished, total)

        try:
            draft = _answers(
                model,
                method=method,
                jobs=jobs,
                replications=replications,
                seed=seed,
                at=times,
                rungs=rungs,
                progress=report,
            )
        except InvalidModel as error:
            raise (error.at(file=files[index]) if files and not error.file else error) from None
        drafts.append(draft)
    count = sum(len(_shared(draft)) for draft in drafts)
    return [_judged(draft, tests=count) for draft in drafts]


def _answers(
    model: Model,
    *,
    method: str,
    jobs: int | None,
    replications: int,
    seed: int,
    at: tuple[float, ...],
    rungs: bool,
    progress: Callable[[int, int], None],
) -> Comparison:
    start = perf_counter()
    try:
        model = steer.check(model)
        solution = qtheory.solve(model, method=method, at=at)
    except (Unstable, NotConverged) as failure:
        return Comparison(
            model=model, verdict="inconclusive", measures={}, status=failure_fields(failure)["status"], failure=failure
        )
    others, refused = _rungs(model, taken=solution, asked=method, at=at) if rungs else ({}, {})
    wanted = jobs or _long_enough(model, solution, replications=replications, seed=seed)
    estimate = qsim.simulate(
        model,
        jobs=wanted,
        replications=replications,
        seed=seed,
        warmup=steer.warmup(model, jobs=-(-wanted // replications)),
        at=at,
        progress=progress,
    )
    return Comparison(
        model=model,
        verdict="inconclusive",
        measures={},
        solution=solution,
        estimate=estimate,
        rungs=others,
        refused=refused,
        needed=steer.unsettled(model, warmup=estimate.warmup),
        seconds=perf_counter() - start,
    )


def _long_enough(model: Model, solution: Solution, *, replications: int, seed: int) -> int:
    """Jobs after which the test should be able to judge every measure, within an eighth and four times the default.

    A pilot on streams of its own gives the standard errors; the run that is judged never sees its jobs.
    """
    usual = steer.comparison_jobs(model)
    if not solution.measures:
        return usual
    count = max(usual // 8, replications)
    pilot = qsim.simulate(
        model,
        jobs=count,
        replications=replications,
        seed=seed + PILOT_SEED,
        warmup=steer.warmup(model, jobs=-(-count // replications)),
    )
    keys = [key for key in solution.measures if key in pilot.measures]
    critical = critical_value(false_alarm=FALSE_ALARM / max(len(keys), 1), degrees=replications - 1)
    shift = detectable_shift(critical=critical, degrees=replications - 1, power=0.9)
    factor = 1.0
    for key in keys:
        value, figure = solution.measures[key], pilot.measures[key]
        room = max(value.error, 0.02 * abs(figure.value) - value.error)
        if room > 0 and math.isfinite(room) and math.isfinite(figure.se):
            factor = max(factor, 1.3 * (shift * figure.se / room) ** 2)
    return int(min(count * factor, 4 * usual))


def _rungs(
    model: Model, *, taken: Solution, asked: str, at: tuple[float, ...]
) -> tuple[dict[str, Solution], dict[str, str]]:
    """The answer of every method that takes seconds at most; the reason where one refuses."""
    found: dict[str, Solution] = {}
    refused: dict[str, str] = {}
    for name in qtheory.methods(model):
        if name == "auto" or (name in steer.SLOW_METHODS and name not in (asked, taken.method)):
            continue
        if name in (asked, taken.method):
            found[name] = taken
            continue
        try:
            found[name] = qtheory.solve(model, method=name, at=at)
        except (InvalidModel, NotConverged) as reason:
            refused[name] = str(reason)
    return found, refused


def _shared(draft: Comparison) -> list[Key]:
    """The measures that both answers hold and that a test can judge."""
    if draft.solution is None or draft.estimate is None or draft.needed is not None:
        return []
    simulated = draft.estimate.measures
    return [
        key
        for key, value in draft.solution.measures.items()
        if key in simulated
        and math.isfinite(value.value)
        and math.isfinite(value.error)
        and math.isfinite(simulated[key].se)
    ]


def _judged(draft: Comparison, *, tests: int) -> Comparison:
    keys = _shared(draft)
    if not keys:
        return draft
    assert draft.solution is not None
    assert draft.estimate is not None
    degrees = draft.estimate.replications - 1
    critical = critical_value(false_alarm=FALSE_ALARM / tests, degrees=degrees)
    shift = detectable_shift(critical=critical, degrees=degrees, power=0.9)
    pairs: dict[Key, Pair] = {}
    for key in keys:
        value, figure = draft.solution.measures[key], draft.estimate.measures[key]
        difference = value.value - figure.value
        excess = max(0.0, abs(difference) - value.error)
        # Where every replication gives the same number, round-off is all the scatter there is; two zeros have none.
        scale = max(abs(value.value), abs(figure.value))
        se = max(figure.se, 1e-12 * scale, sys.float_info.min if scale else 0.0)
        z = math.copysign(excess / se, difference) if excess > 0 else 0.0
        detectable = value.error + shift * se
        verdict: Verdict = "agree"
        if abs(z) > critical:
            verdict = "disagree"
        elif detectable > max(2 * value.error, 0.02 * abs(figure.value)):
            verdict = "inconclusive"
        pairs[key] = Pair(
            analytic=value.value,
            error=value.error,
            simulated=figure.value,
            half_width=figure.half_width,
            difference=difference,
            z=z,
            detectable=detectable,
            verdict=verdict,
        )
    verdicts = {pair.verdict for pair in pairs.values()}
    overall: Verdict = next(v for v in ("disagree", "inconclusive", "agree") if v in verdicts)
    return Comparison(
        model=draft.model,
        verdict=overall,
        measures=pairs,
        solution=draft.solution,
        estimate=draft.estimate,
        rungs=draft.rungs,
        refused=draft.refused,
        seconds=draft.seconds,
    )
