"""The method taken when none is named: the best whose expected time fits the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from qtheory.models import Dispatcher, InvalidModel, NotConverged
from qtheory.solution import Solution
from qtheory.systems.dispatcher import mgc
from qtheory.systems.dispatcher.coverage import require_covered, uncovered
from qtheory.systems.dispatcher.loads import Traffic, traffic

#: Processor seconds that an answer may be expected to take where nothing is said: those of `mgc`.
BUDGET = 0.1
#: Relative error of a mean wait that counts as none.
_EXACT = 1e-6


def solve(model: Dispatcher, *, at: Sequence[float] = (), quantiles: bool = True, budget: float = BUDGET) -> Solution:
    """`phase-type` where `expected_seconds` fits into `budget` (processor seconds), else `mgc`.

    `mgc` also where it is exact, and where `phase-type` does not converge or cover the rules for killed jobs.
    `Solution.method` says which was taken and ``details["choice"]`` why, unless the default budget left no choice.

    Raises `Unstable`, and `InvalidModel` and `NotConverged` as `mgc` does.
    """
    if not budget >= 0.0:
        raise InvalidModel(field="budget", rule="must be at least 0", value=budget)
    if budget <= BUDGET:
        return mgc.solve(model, at=at, quantiles=quantiles)
    require_covered(model, method="auto")
    why = _against_phase_type(model, budget=budget)
    if not why:
        phase_type = import_module("qtheory.systems.dispatcher.phase_type")
        try:
            return _told(phase_type.solve(model, at=at, quantiles=quantiles), f"phase-type: fits {budget:g} s")
        except NotConverged as failure:
            why = f"phase-type did not converge ({failure})"
    return _told(mgc.solve(model, at=at, quantiles=quantiles), f"mgc: {why}")


def _against_phase_type(model: Dispatcher, *, budget: float) -> str:
    """Why `mgc` is to be taken; empty where it is not."""
    field = uncovered(model, method="phase-type")
    if field:
        return f"phase-type does not cover {field}"
    quick = mgc.solve(model, quantiles=False)["mean_wait", "all"]
    if quick.error <= _EXACT * quick.value:
        return "exact here"
    expected = expected_seconds(traffic(model), servers=model.servers)
    return f"phase-type would take about {expected:.2g} s" if expected > budget else ""


def expected_seconds(offered: Traffic, *, servers: tuple[int, int]) -> float:
    """Processor seconds that `phase-type` is expected to take, its quantiles included.

    0.1 + 0.03 sqrt(n0) + 0.06 sqrt(n1) for Poisson arrivals, three times the last term for others: within a factor
    of two on 51 systems of 1 to 60 servers.
    """
    slope = 0.06 if offered.poisson else 0.18
    return 0.1 + 0.03 * math.sqrt(servers[0]) + slope * math.sqrt(servers[1])


def _told(solution: Solution, choice: str) -> Solution:
    return replace(solution, details={**solution.details, "choice": choice})
