"""From a model to an estimate: replications on threads, reduced in index order."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from time import monotonic, perf_counter
from typing import Any

from qsim import warmup as warmups
from qsim.arguments import real, times, whole
from qsim.batch_means import MOST_BATCHES, batch_means
from qsim.controls import Control, check, controlled_figures
from qsim.estimate import Estimate, Figure, Interrupted
from qsim.lower import Findings, Options, lower
from qsim.precision import LEAST_REPLICATIONS, Budgets, Outcome, Pursuit, goal, relative, so_far
from qsim.replications import Length, Record, Runner, window, workers
from qtheory.measures import Key
from qtheory.models.errors import InvalidModel
from qtheory.models.files import Model

DEFAULT_JOBS = 2_000_000
#: More than anybody runs, and safe in 64 bits.
MOST_JOBS, MOST_REPLICATIONS = 10**15, 10**6
DEFAULT_REPLICATIONS = 32
DEFAULT_JOB_BUDGET = 10_000_000_000
DEFAULT_MEMORY_BUDGET = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far a run is: jobs simulated and to be simulated (warm-ups included, as far as is planned), finished
    replications of the present length and their number planned, and the figure that its precision is about so far."""

    jobs: int
    expected: int
    replications: int
    planned: int
    figure: Callable[[], Figure | None]


#: Called in the calling thread after each finished replication.
Progress = Callable[[int, int], None]
Watch = Callable[[Standing], None]


def simulate(
    model: Model,
    *,
    jobs: int | None = None,
    precision: float | None = None,
    replications: int | None = None,
    batches: int | None = None,
    stationary: bool = False,
    seed: int = 1,
    warmup: int | None = None,
    confidence: float = 0.95,
    at: Iterable[float] = (),
    means_only: bool = False,
    controls: Iterable[Control] = (),
    job_budget: int | None = None,
    time_budget: float | None = None,
    memory_budget: int | None = None,
    check_warmup: bool | None = None,
    store: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    **extra: Any,
) -> Estimate:
    """Exact simulation of `model`: independent replications, Student intervals over them or over their batches.

    Parameters
    ----------
    model : any of the systems of `qtheory.models`.
    jobs : jobs counted after warm-up, over all replications (rounded up to whole replications and batches); None for
        2 000 000, or for as many as `precision` takes.
    precision : run until the half-width of `mean_response` of all jobs (a network: `mean_number`) is at most this
        share of its value, or a budget ends; see `qsim.precision`.
    replications : independent runs; at least 2 give intervals.  With `precision` the least number of them, at least
        16.  None for 32, or for one with `batches`.
    batches : cut the counted jobs of each replication into so many, at least 2, and take the batches for the samples
        (`qsim.batch_means`); one warm-up then serves them all.  ``details["batch_means"]`` says whether they are long
        enough.  A dispatcher's runs alone can be cut, and not with `precision`.
    stationary : start a dispatcher with Poisson arrivals with Group 0, and where no job can be killed with both groups,
        in the stationary state, drawn exactly (`qsim.perfect`); only Group 1 of the others needs a warm-up.  Time
        averages are then those of the counted jobs by Little's law.
    seed : the whole result is a function of it, whatever runs it; designs simulated with one seed see the same jobs.
    warmup : jobs a replication that are simulated but not counted; None takes a rule from the run length.
    confidence : of the intervals.
    at : times x for which `tail_response` P(response > x) is wanted.
    means_only : leave out quantiles and distributions, for speed.
    controls : quantities of the run whose means are known, by which the estimates are adjusted (`qsim.controls`);
        ``details["controls"]`` says what they did.
    job_budget : with `precision`, jobs simulated at most, trial run and warm-ups included; None for 10^10.
    time_budget : seconds after which no replication begins; those that run are waited for.
    memory_budget : with `precision`, bytes of tallies held at most; None for 2^30.
    check_warmup : whether `details["warmup_check"]` says if the warm-up was long enough (`qsim.warmup`), where it costs
        at most a tenth of the run; None: with `precision` alone.
    store : a file that keeps finished replications, made if there is none; the same run started again goes on there
        and ends with the same bits, and several processes may share it.
    threads : how many; None takes the processors at hand.
    executor : where replications run instead of own threads; the result has the same bits.
    progress : called with (finished, all) replications after each.
    watch : called with a `Standing` after each replication.
    extra : options of one kind of system.

    Raises
    ------
    InvalidModel : an option is wrong, or a law cannot be sampled, or the store is damaged or none.
    Interrupted : Ctrl-C; `estimate` holds what the finished replications say.  Those that run cannot be stopped: own
        threads are left behind, and a program that ends then waits for them.

    Examples
    --------
    The mean response of M/M/1 with rates 1/2 and 1 is 2.

    >>> from qtheory.models import Dispatcher, Exponential
    >>> model = Dispatcher(servers=(1, 1), time_limit=1.0, short_fraction=0.0, interarrival=Exponential(mean=2.0),
    ...                    service0=Exponential(mean=1.0), service1=Exponential(mean=1.0))
    >>> estimate = simulate(model, precision=0.02, seed=1)
    >>> figure = estimate["mean_response", "all"]
    >>> figure.half_width < 0.02 * figure.value, abs(figure.value - 2.0) < 0.1
    (True, True)
    """
    jobs, warmup, threads = whole("jobs", jobs), whole("warmup", warmup), whole("threads", threads)
    job_budget, memory_budget = whole("job_budget", job_budget), whole("memory_budget", memory_budget)
    precision, time_budget = real("precision", precision), real("time_budget", time_budget)
    batches, seed = whole("batches", batches), whole("seed", seed, needed=True)
    replications = whole("replications", replications)
    if replications is None:
        replications = DEFAULT_REPLICATIONS if batches is None else 1
    confidence = real("confidence", confidence, needed=True)
    checks: list[tuple[str, Any, bool, str]] = [
        ("jobs", jobs, jobs is None or 1 <= jobs <= MOST_JOBS, f"must lie between 1 and {MOST_JOBS}"),
        ("jobs", jobs, jobs is None or precision is None, "goes without precision; to limit it there is job_budget"),
        ("precision", precision, precision is None or 0 < precision < 1, "must lie between 0 and 1"),
        (
            "batches",
            batches,
            batches is None or 2 <= batches <= MOST_BATCHES,
            f"must lie between 2 and {MOST_BATCHES}",
        ),
        ("batches", batches, batches is None or precision is None, "goes without precision"),
        (
            "replications",
            replications,
            1 <= replications <= MOST_REPLICATIONS,
            f"must lie between 1 and {MOST_REPLICATIONS}",
        ),
        (
            "replications",
            replications,
            precision is None or replications >= LEAST_REPLICATIONS,
            f"must be at least {LEAST_REPLICATIONS} with precision",
        ),
        ("seed", seed, seed >= 0, "must not be negative"),
        ("warmup", warmup, warmup is None or 0 <= warmup <= MOST_JOBS, f"must lie between 0 and {MOST_JOBS}"),
        ("confidence", confidence, 0 < confidence < 1, "must lie between 0 and 1"),
        ("job_budget", job_budget, job_budget is None or job_budget >= 1, "must be at least 1"),
        ("job_budget", job_budget, job_budget is None or precision is not None, "goes with precision; else give jobs"),
        ("time_budget", time_budget, time_budget is None or time_budget > 0, "must be > 0"),
        ("memory_budget", memory_budget, memory_budget is None or memory_budget >= 1, "must be at least 1"),
        ("memory_budget", memory_budget, memory_budget is None or precision is not None, "goes with precision"),
        ("threads", threads, threads is None or threads >= 1, "must be at least 1"),
    ]
    for name, value, holds, rule in checks:
        if not holds:
            raise InvalidModel(field=name, rule=rule, value=value)
    begun, deadline = perf_counter(), None if time_budget is None else monotonic() + time_budget
    known = check(controls)
    options = Options(
        at=times(at),
        means_only=means_only,
        controls=tuple(control.name for control in known),
        batches=batches or 1,
        stationary=stationary,
        extra=extra,
    )
    simulator = lower(model, options=options)

    def skipped(counted: int) -> int:
        return simulator.default_warmup(jobs=counted) if warmup is None else warmup

    def wanted(findings: Findings) -> Figure | None:
        """The figure that a precision is about; None where the run does not determine it."""
        key = goal(model)
        alone = replace(findings, samples={k: sample for k, sample in findings.samples.items() if k == key})
        return controlled_figures(alone, controls=known, confidence=confidence)[0].get(key)

    def estimate(outcome: Outcome) -> Estimate:
        measures, adjustment = controlled_figures(outcome.findings, controls=known, confidence=confidence)
        details = _details(outcome, wanted(outcome.findings), key=goal(model), precision=precision)
        if batches is not None:
            details["batch_means"] = batch_means(outcome.findings.samples[goal(model)], batches=batches)
        return Estimate(
            model=model,
            measures=measures,
            samples=outcome.findings.samples,
            confidence=confidence,
            jobs=outcome.length.jobs * outcome.count,
            replications=outcome.count,
            seed=seed,
            warmup=outcome.length.warmup,
            seconds=perf_counter() - begun,
            status=outcome.status,
            details=details | ({"controls": adjustment} if known else {}),
            distributions=outcome.findings.distributions,
        )

    with _record(store, model, options, seed=seed) as record, workers(threads=threads, executor=executor) as pool:
        runner = Runner(
            simulator=simulator,
            seed=seed,
            pool=pool,
            record=record,
            deadline=deadline,
            window=window(threads=threads, executor=executor),
        )
        runner.report = _reporter(progress, watch, figure=wanted)
        try:
            if precision is None:
                cut = options.batches
                each = cut * -(-(jobs or DEFAULT_JOBS) // (replications * cut))
                outcome = _fixed(runner, Length(jobs=each, warmup=skipped(each)), replications=replications)
                left = MOST_JOBS
            else:
                budgets = Budgets(
                    jobs=job_budget or DEFAULT_JOB_BUDGET,
                    memory=memory_budget or DEFAULT_MEMORY_BUDGET,
                    deadline=deadline,
                )
                outcome = Pursuit(
                    runner=runner,
                    figure=wanted,
                    precision=precision,
                    budgets=budgets,
                    replications=replications,
                    warmup=skipped,
                ).carry_out()
                left = budgets.jobs - runner.simulated
            if check_warmup is None:
                check_warmup = precision is not None
            if outcome.status == "ok" and check_warmup and batches is None:
                outcome = _checked(runner, outcome, key=goal(model), jobs=left)
            return estimate(outcome)
        except KeyboardInterrupt:
            found = estimate(so_far(runner, status="interrupted")) if runner.simulated else None
            raise Interrupted(found) from None


def _record(
    store: str | os.PathLike[str] | None, model: Model, options: Options, *, seed: int
) -> AbstractContextManager[Record | None]:
    if store is None:
        return nullcontext()
    from qsim.store import open_store

    return open_store(store, model=model, options=options, seed=seed)


def _fixed(runner: Runner, length: Length, *, replications: int) -> Outcome:
    """So many replications of one length, or as many as time allows."""
    runner.run(length, indices=range(replications))
    if runner.overdue:
        return so_far(runner, status="budget", budget="time")
    findings = runner.simulator.summarise(runner.tallies(length))
    return Outcome(length=length, count=replications, findings=findings)


def _checked(runner: Runner, outcome: Outcome, *, key: Key, jobs: int) -> Outcome:
    """The outcome with what the check of its warm-up says."""
    check = warmups.check_warmup(runner, outcome.length, outcome.findings, key=key, jobs=jobs)
    details = dict(outcome.findings.details) | ({"warmup_check": check} if check else {})
    return replace(outcome, findings=replace(outcome.findings, details=details))


def _details(outcome: Outcome, figure: Figure | None, *, key: Key, precision: float | None) -> dict[str, Any]:
    details = dict(outcome.findings.details)
    if precision is not None:
        reached = relative(figure)
        details["precision"] = {
            "measure": key[0],
            "scope": key[1],
            "wanted": precision,
            "reached": reached if reached is not None and math.isfinite(reached) else None,
        }
    if outcome.budget:
        details["budget"] = outcome.budget
    return details


def _reporter(
    progress: Progress | None, watch: Watch | None, *, figure: Callable[[Findings], Figure | None]
) -> Callable[[Runner], None]:
    def report(runner: Runner) -> None:
        finished = len(runner.finished[runner.length])
        if progress is not None:
            progress(finished, runner.planned)
        if watch is not None:
            watch(
                Standing(
                    jobs=runner.simulated,
                    expected=runner.expected,
                    replications=finished,
                    planned=runner.planned,
                    figure=lambda: figure(runner.simulator.summarise(runner.tallies(runner.length))),
                )
            )

    return report
