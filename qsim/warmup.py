"""Was the warm-up long enough?  The first counted jobs against the whole run, and MSER-5 on the paths of the jobs.

What is left of the start shows first of all in the jobs right after the warm-up.  Some replications are run once more
for so many counted jobs as the warm-up has, and the differences between these and the whole replications, which share
their paths, are put to a t test (initialisation bias as a difference of means over the run: Schruben, Oper. Res. 30,
1982, 569-590).  That is the verdict, and it has an error probability.

Beside it stands where MSER-5 (White, Cobb and Spratt, Winter Simulation Conference 2000, 755-760) would end the
warm-up: the responses of the first jobs from the empty system on, averaged over the replications, are cut where the
standard error of what is left is least.  It finds short transients well, but has no error probability: beyond the end
of the transient it points at random places where services are heavy-tailed (one run in ten to one in four past a
sufficient warm-up, none where tails are light), so that it decides nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qsim.estimate import Array, Figure, Sample, student
from qsim.lower import Findings
from qsim.replications import Length, Runner
from qtheory.measures import Key

#: A warm-up that is long enough raises an alarm with this probability if the means of early jobs are normal; where they
#: are skewed, in queues near saturation and with heavy tails, up to four runs in a thousand did.  An alarm counts if
#: fresh replications confirm it.
FALSE_ALARM = 1e-4
CONFIRMED = 1e-2
#: Jobs that the check may simulate, as a share of those of the run.
COST = 0.1
#: Fewer replications see too little, and so do fewer early jobs in each.
LEAST, _EARLY = 8, 100
#: Jobs in a batch of MSER-5; jobs of a path in warm-ups, at least and at most; replications whose paths are averaged.
_BATCH, _WARMUPS, _SHORTEST, _LONGEST, _PATHS = 5, 10, 5_000, 250_000, 32


def check_warmup(runner: Runner, length: Length, findings: Findings, *, key: Key, jobs: int) -> dict[str, Any]:
    """The checks as plain data, or nothing where they would cost more than `COST` of the run, or more than `jobs`.

    ``early`` is the mean of the first counted jobs relative to that of the whole, less 1, ``half_width`` that of its
    interval of confidence 1 - 1e-4, and ``enough`` says that the interval holds 0.  ``mser5`` is the job at which
    MSER-5 ends the warm-up, where the simulator knows the path of its jobs, ``path`` the number of jobs looked at.
    """
    before = runner.simulated
    budget = min(int(COST * before), jobs)
    found = _early_jobs(runner, length, findings, key=key, jobs=budget)
    return found | _end_of_transient(runner, length, jobs=budget - runner.simulated + before) if found else {}


def _early_jobs(runner: Runner, length: Length, findings: Findings, *, key: Key, jobs: int) -> dict[str, Any]:
    counted = min(max(length.warmup, _EARLY), length.jobs // 4)
    early = Length(jobs=counted, warmup=length.warmup)
    whole = findings.samples.get(key)
    if counted == 0 or whole is None:
        return {}
    # Half of the budget is for a confirmation.
    replications = min(len(whole.values), jobs // (2 * early.simulated))
    if replications < LEAST:
        return {}
    runner.report = None
    runner.run(early, indices=range(replications))
    part = runner.simulator.summarise(runner.tallies(early)).samples.get(key)
    if runner.overdue or part is None:
        return {}
    differences = part.values - whole.values[:replications]
    figure: Figure = Sample(values=differences).figure(confidence=0.95)
    half_width = student(confidence=1 - FALSE_ALARM, degrees=replications - 1) * figure.se
    mean = float(np.mean(whole.values))
    if mean == 0 or not np.isfinite([figure.value, half_width, mean]).all():
        return {}
    enough = bool(abs(figure.value) <= half_width)
    return {
        "early": figure.value / mean,
        "half_width": half_width / abs(mean),
        "enough": enough or not _confirmed(runner, early, whole, key=key, side=figure.value),
    }


def _confirmed(runner: Runner, early: Length, whole: Sample, *, key: Key, side: float) -> bool:
    """Whether as many fresh replications show the difference too, on the same side, at a level of `CONFIRMED`.

    Skewed means give false alarms, hardly ever twice in a row.
    """
    done = len(runner.finished[early])
    fresh = range(len(whole.values), len(whole.values) + done)
    runner.run(early, indices=fresh)
    tallies = [runner.finished[early][index] for index in fresh if index in runner.finished[early]]
    part = runner.simulator.summarise(tallies).samples.get(key) if tallies else None
    if runner.overdue or part is None:
        return True
    seen, known = part.figure(confidence=0.95), whole.figure(confidence=0.95)
    difference = seen.value - known.value
    critical = student(confidence=1 - CONFIRMED, degrees=max(done - 1, 1))
    return bool(difference * side > 0 and abs(difference) > critical * np.hypot(seen.se, known.se))


def _end_of_transient(runner: Runner, length: Length, *, jobs: int) -> dict[str, Any]:
    path = getattr(runner.simulator, "path", None)
    replications = min(len(runner.finished[length]), _PATHS)
    if path is None or replications < LEAST:
        return {}
    count = min(max(_WARMUPS * length.warmup, _SHORTEST), _LONGEST, jobs // replications)
    # MSER-5 looks for the end in the first half of a path.
    if count < 2 * length.warmup or count < 2 * _BATCH:
        return {}
    futures = [
        runner.pool.submit(path, seed=runner.seed, replication=index, jobs=count) for index in range(replications)
    ]
    total = np.zeros(count)
    for future in futures:
        found = future.result()
        total = total[: found.size] + found[: total.size]
    return {"mser5": mser5(total / replications), "path": total.size} if total.size >= 2 * _BATCH else {}


def mser5(series: Array) -> int:
    """How many entries to drop from the front, a multiple of five and at most half of all.

    That is the d for which the squared standard error of what is left is least: the sum of squared deviations of the
    means of batches of five after d over the square of their number.

    >>> mser5(np.concatenate([np.zeros(100), np.tile([4.0, 6.0], 500)]))
    100
    """
    count = series.size // _BATCH
    batches = series[: _BATCH * count].reshape(count, _BATCH).mean(axis=1)
    # About the mean, so that squares do not cancel.
    batches = batches - batches.mean()
    left = np.arange(count, 0, -1)
    sums, squares = np.cumsum(batches[::-1])[::-1], np.cumsum(batches[::-1] ** 2)[::-1]
    errors = (squares - sums**2 / left) / left**2
    return _BATCH * int(np.argmin(errors[: count // 2]))
