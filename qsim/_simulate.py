"""From a model to an estimate: replications on threads, reduced in index order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qsim.estimate import Estimate, figures
from qsim.lower import Options, Simulator, lower
from qtheory.models.errors import InvalidModel
from qtheory.models.files import Model

DEFAULT_JOBS = 2_000_000
DEFAULT_REPLICATIONS = 32

#: Called after each finished replication with (finished, all).
Progress = Callable[[int, int], None]


def simulate(
    model: Model,
    *,
    jobs: int = DEFAULT_JOBS,
    replications: int = DEFAULT_REPLICATIONS,
    seed: int = 1,
    warmup: int | None = None,
    confidence: float = 0.95,
    at: Iterable[float] = (),
    means_only: bool = False,
    threads: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    **extra: Any,
) -> Estimate:
    """Exact simulation of `model`: independent replications, Student intervals over them.

    Parameters
    ----------
    model : any of the systems of `qtheory.models`.
    jobs : jobs counted after warm-up, over all replications (rounded up to a multiple of `replications`).
    replications : independent runs; at least 2 give intervals.
    seed : the whole result is a function of it, whatever runs it; designs simulated with one seed see the same jobs.
    warmup : jobs a replication that are simulated but not counted; None takes a rule from the run length.
    confidence : of the intervals.
    at : times x for which `tail_response` P(response > x) is wanted.
    means_only : leave out quantiles and distributions, for speed.
    threads : how many; None takes the processors at hand.
    executor : where replications run instead of own threads; the result has the same bits.
    progress : called with (finished, all) replications.
    extra : options of one kind of system.

    Raises
    ------
    InvalidModel : an option is wrong, or a law cannot be sampled.

    Examples
    --------
    The mean response of M/M/1 with rates 1/2 and 1 is 2.

    >>> from qtheory.models import Dispatcher, Exponential
    >>> model = Dispatcher(servers=(1, 1), time_limit=1.0, short_fraction=0.0, interarrival=Exponential(mean=2.0),
    ...                    service0=Exponential(mean=1.0), service1=Exponential(mean=1.0))
    >>> estimate = simulate(model, jobs=200_000, seed=1)
    >>> abs(estimate["mean_response", "all"].value - 2.0) < 0.1
    True
    """
    checks: list[tuple[str, Any, bool, str]] = [
        ("jobs", jobs, jobs >= 1, "must be at least 1"),
        ("replications", replications, replications >= 1, "must be at least 1"),
        ("seed", seed, seed >= 0, "must not be negative"),
        ("warmup", warmup, warmup is None or warmup >= 0, "must not be negative"),
        ("confidence", confidence, 0 < confidence < 1, "must lie between 0 and 1"),
        ("threads", threads, threads is None or threads >= 1, "must be at least 1"),
    ]
    for name, value, holds, rule in checks:
        if not holds:
            raise InvalidModel(field=name, rule=rule, value=value)
    start = perf_counter()
    times = tuple(float(x) for x in at)
    simulator = lower(model, options=Options(at=times, means_only=means_only, extra=extra))
    each = -(-jobs // replications)
    skipped = simulator.default_warmup(jobs=each) if warmup is None else warmup
    tallies = run_replications(
        simulator,
        indices=range(replications),
        jobs=each,
        seed=seed,
        warmup=skipped,
        threads=threads,
        executor=executor,
        progress=progress,
    )
    findings = simulator.summarise(tallies)
    return Estimate(
        model=model,
        measures=figures(findings.samples, confidence=confidence),
        samples=findings.samples,
        confidence=confidence,
        jobs=each * replications,
        replications=replications,
        seed=seed,
        warmup=skipped,
        seconds=perf_counter() - start,
        details=findings.details,
        distributions=findings.distributions,
    )


def run_replications(
    simulator: Simulator,
    *,
    indices: Sequence[int],
    jobs: int,
    seed: int,
    warmup: int,
    threads: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> list[NDArray[np.float64]]:
    """The tallies of some replications, in index order whatever the order in which they finish.

    `progress` is called in the calling thread.  When anything is raised, what has not started is cancelled and what
    runs is waited for.
    """
    pool = nullcontext(executor) if executor is not None else ThreadPoolExecutor(threads or processors())
    with pool as workers:
        assert workers is not None
        futures = [
            workers.submit(simulator.run, seed=seed, replication=index, jobs=jobs, warmup=warmup) for index in indices
        ]
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if progress is not None:
                    progress(done, len(futures))
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
