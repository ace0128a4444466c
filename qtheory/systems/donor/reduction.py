"""The donor system by dimensionality reduction: excursions beyond the threshold as a few phases.

The method of T. Osogami, "Analysis of multi-server systems via dimensionality reduction of Markov chains", PhD
thesis, Carnegie Mellon University 2005: the states beyond the threshold become a phase-type busy period. Under
rules that bring the donor from some N1 on, phases match moments: two of them three moments, more of them where the
answer has not settled. Under rules that keep it at home from some N2 on, queue 1 feels more of the busy period than
its moments (two phases err by up to a percent), so that its transform is matched instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from qtheory.models.donor import Donor
from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.solution import Solution
from qtheory.systems.donor import busy_period
from qtheory.systems.donor.answer import solution
from qtheory.systems.donor.chain import Steady, layout, steady
from qtheory.systems.donor.exact import check_method, level_load, rounding_error
from qtheory.systems.donor.numbers import closed_form
from qtheory.systems.donor.rules import rule
from qtheory.systems.donor.stability import check_stable

_PHASES = (2, 3, 5, 8, 12, 17, 24, 32)
_SETTLED = 1e-6  # relative change of the mean numbers from one count of phases to the next
_PRECISION = 22.0  # of the transform: exp(-22) = 3e-10


def solve(model: Donor, *, at: Sequence[float] = (), phases: int | None = None) -> Solution:
    """Every measure of the system; `details` say how many phases stand for the busy period and the moments matched.

    `phases` fixes their number and matches 2 phases - 1 moments under every rule; `error` then is the change from
    one phase fewer. Without it, `error` is the last change, or ten times the error of the transform on s >= 0, which
    covered the truth in each of some hundred random systems.

    Raises
    ------
    Unstable, InvalidModel : as the exact method.
    InvalidModel : `phases` is not a whole number from 1 on.
    NotConverged : the answer has not settled with 32 phases.

    >>> from qtheory.models import Donor, T1
    >>> s = solve(Donor(arrival_rates=(1.15, 0.025), policy=T1(t1=3),
    ...                 service_rates={"mu1": 1, "mu12": 1, "mu2": 0.0625}))
    >>> round(s["mean_response", "all"].value, 6), s.details["phases"]
    (3.07462, 3)
    """
    check_method(model, at=at, method="reduction")
    if phases is not None and not (isinstance(phases, int) and phases >= 1):
        raise InvalidModel(field="phases", rule="must be a whole number from 1 on", value=phases)
    loads = check_stable(model)
    known = closed_form(model)
    if known is not None:
        return solution(model, law=known, method="reduction", error=0.0)
    load = level_load(model, loads)

    def matched(count: int) -> Steady:
        return steady(layout(model, excursion=partial(busy_period.matching, phases=count)), load=load)

    if phases is not None:
        law = matched(phases)
        error = _change(matched(max(1, phases - 1)), law) if phases > 1 else 1.0
        return solution(
            model, law=law, method="reduction", error=error + rounding_error(law), details=_details(phases, law)
        )
    if not rule(model).queue1_first:
        law = steady(layout(model, excursion=partial(busy_period.exact, precision=_PRECISION)), load=load)
        error = 10 * float(np.exp(-_PRECISION)) + rounding_error(law)
        details = {"phases": len(law.layout.tail.rates)}
        return solution(model, law=law, method="reduction", error=error, details=details)
    before, change = matched(_PHASES[0]), 1.0
    for count in _PHASES[1:]:
        law = matched(count)
        change = _change(before, law)
        if change <= _SETTLED:
            error = change + rounding_error(law)
            return solution(model, law=law, method="reduction", error=error, details=_details(count, law))
        before = law
    raise NotConverged(
        where="reduction", residual=change, iterations=len(_PHASES), advice="take method exact, which has no such limit"
    )


def _change(one: Steady, two: Steady) -> float:
    """Largest relative difference of the mean numbers."""
    pairs = zip(one.mean_numbers, two.mean_numbers, strict=True)
    return max(abs(a - b) / b for a, b in pairs)


def _details(phases: int, law: Steady) -> dict[str, int]:
    return {"phases": len(law.layout.tail.rates), "moments": 2 * phases - 1}
