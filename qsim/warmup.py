"""Was the warm-up long enough?  The first counted jobs against the whole run.

What is left of the start shows first of all in the jobs right after the warm-up.  Some replications are run once more
for so many counted jobs as the warm-up has, and the differences between these and the whole replications, which share
their paths, are put to a t test (initialisation bias as a difference of means over the run: Schruben, Oper. Res. 30,
1982, 569-590).  Batch rules on one path such as MSER-5 need its jobs one by one, which a tally does not keep, and have
no error probability.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qsim.estimate import Figure, Sample, student
from qsim.lower import Findings
from qsim.replications import Length, Runner
from qtheory.measures import Key

#: A warm-up that is long enough is called too short with this probability.
FALSE_ALARM = 1e-4
#: Jobs that the check may simulate, as a share of those of the run.
COST = 0.1
#: Fewer replications see too little.
LEAST = 8


def check_warmup(runner: Runner, length: Length, findings: Findings, *, key: Key, jobs: int) -> dict[str, Any]:
    """The check as plain data, or nothing where it would cost more than `COST` of the run or simulate more than `jobs`.

    ``early`` is the mean of the first counted jobs relative to that of the whole, less 1, ``half_width`` that of its
    interval of confidence 1 - 1e-4, and ``enough`` says that the interval holds 0.
    """
    counted = min(max(length.warmup, 1), length.jobs // 4)
    early = Length(jobs=counted, warmup=length.warmup)
    whole = findings.samples.get(key)
    if counted == 0 or whole is None:
        return {}
    replications = min(len(whole.values), min(int(COST * runner.simulated), jobs) // early.simulated)
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
    return {
        "early": figure.value / mean,
        "half_width": half_width / abs(mean),
        "enough": bool(abs(figure.value) <= half_width),
    }
