"""The donor system exactly: closed forms where the queues do not meet, else a quasi-birth-death process.

See `chain` for the process, whose excursions are exact here to rounding (`busy_period.exact`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qtheory.models.donor import Donor
from qtheory.models.errors import InvalidModel
from qtheory.models.laws import Exponential
from qtheory.solution import Solution
from qtheory.systems.donor import busy_period
from qtheory.systems.donor.answer import Law, solution
from qtheory.systems.donor.chain import Steady, layout, steady
from qtheory.systems.donor.numbers import closed_form
from qtheory.systems.donor.rules import rule
from qtheory.systems.donor.stability import Stability, check_stable

# Rounding errors in units of the machine's, see `rounding_error`.
_ROUNDING, _ROUNDING_LOAD, _ROUNDING_SPREAD = 2e4, 2e3, 0.1


def solve(model: Donor, *, at: Sequence[float] = ()) -> Solution:
    """Every measure of the system; `error` is the bound from rounding and the transform, about 1e-12 relative.

    Raises
    ------
    Unstable : names the queue, its load and the limit under the policy.
    InvalidModel : work is not exponential, switching takes time, tail probabilities of the response are asked for,
        or thresholds are too large.
    NotConverged : a load within 1e-11 of its limit.

    >>> from qtheory.models import Donor, T1
    >>> s = solve(Donor(arrival_rates=(1.15, 0.025), policy=T1(t1=3),
    ...                 service_rates={"mu1": 1, "mu12": 1, "mu2": 0.0625}))
    >>> round(s["mean_response", "all"].value, 7)
    3.07462
    """
    check_method(model, at=at, method="exact")
    law = stationary_law(model)
    return solution(model, law=law, method="exact", error=relative_error(law))


def stationary_law(model: Donor, *, least_kept: int = 0) -> Law:
    """The stationary law of (N1, N2) of an exponential system; `least_kept` as in `chain.layout`.

    Raises `Unstable`, `InvalidModel`, `NotConverged` as `solve`.
    """
    loads = check_stable(model)
    known = closed_form(model)
    if known is not None:
        return known
    lay = layout(model, excursion=busy_period.exact, least_kept=least_kept)
    return steady(lay, load=level_load(model, loads))


def level_load(model: Donor, loads: Stability) -> float:
    """The load of the level process: of queue 2 against its limit, or of queue 1 against mu1 + mu12 (1 - rho2)."""
    return loads.rho2 / loads.limit2 if rule(model).queue1_first else loads.rho1 / loads.limit1


def relative_error(law: Law) -> float:
    """A bound of the relative error of the mean numbers: rounding, and the transform of the excursion."""
    if not isinstance(law, Steady):
        return 0.0
    return rounding_error(law) + law.layout.tail.error / (1 - law.law.core.load)


def rounding_error(law: Steady) -> float:
    """What rounding does to the mean numbers, relative.

    It grows with 1 / (1 - load), and with the time scales that the chain spans: where an excursion lasts a million
    steps, its rate of ending loses six digits beside theirs. The factors are the worst of 700 random systems that
    were solved with four different cuts, doubled.
    """
    core, lay = law.law.core, law.layout
    spread = float(np.abs(np.diag(lay.blocks(lay.start)[0])).max() / lay.tail.rates.min())
    units = _ROUNDING + _ROUNDING_LOAD / (1 - core.load) + _ROUNDING_SPREAD * spread
    return units * float(np.finfo(float).eps) + law.residual + core.residual


def check_method(model: Donor, *, at: Sequence[float], method: str) -> None:
    """Refuse what no analytic method of this system can do."""
    for field in ("work1", "work2"):
        law = getattr(model, field)
        if law != Exponential(mean=1.0):
            rule_ = f"must be exponential with mean 1 for method {method}; qsim.simulate takes any law of mean 1"
            raise InvalidModel(field=field, rule=rule_, value=law)
    if model.switching_time > 0:
        rule_ = f"must be 0 for method {method}; qsim.simulate takes any time"
        raise InvalidModel(field="switching_time", rule=rule_, value=model.switching_time)
    if at:
        rule_ = "no analytic method gives the law of the response here; qsim.simulate does"
        raise InvalidModel(field="at", rule=rule_, value=at[0])
