"""Which donor systems have a steady state, in closed form.

With m = mu12 / mu1, under a rule that brings the donor to queue 1 from N1 = T on, whatever N2 (T1, and ADT with
T = high): queue 1 is stable iff rho1 < 1 + m, and then queue 2 iff rho2 < F(T), the share of time that N1 < T
while queue 2 never empties,

    F(T) = A / (A + B),   A = (1 - rho1^T) / (1 - rho1),   B = rho1^T / (1 + m - rho1).

Under the other rules that help (T2, T1T2 with finite t2) queue 1 is stable iff rho1 < 1 + m (1 - rho2) and queue 2
iff rho2 < 1 (Osogami 2005, theorems 14 and 18).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.optimize import brentq

from qtheory.models.donor import Donor
from qtheory.models.errors import Unstable
from qtheory.models.laws import Exponential
from qtheory.models.policies import ADT, T1, T1T2, T2, CMu, Dedicated, DonorPolicy
from qtheory.systems.donor.rules import Rule, rule


@dataclass(frozen=True, kw_only=True)
class Stability:
    """Loads rho1 = lambda1 / mu1, rho2 = lambda2 / mu2 and what each queue can carry (exclusive).

    `limit1` bounds rho1 as far as queue 1 itself is concerned; `limit2` bounds rho2 at this rho1.
    """

    rho1: float
    rho2: float
    limit1: float
    limit2: float

    @property
    def queue1(self) -> bool:
        """Whether queue 1 is stable."""
        return self.rho1 < self.limit1 or self.rho1 == 0

    @property
    def queue2(self) -> bool:
        """Whether queue 2 is stable."""
        return self.rho2 < self.limit2 or self.rho2 == 0

    @property
    def stable(self) -> bool:
        """Whether both queues are stable."""
        return self.queue1 and self.queue2


def home_share(*, threshold: float, rho1: float, m: float) -> float:
    """F(T): the share of time the donor spends at home while queue 2 never empties, for rho1 < 1 + m.

    A threshold of 1 means that the donor takes lone jobs at rate mu12 while server 1 idles: then
    F = 1 / (1 + (rho1 / m) / (1 - rho1 / (1 + m))).

    >>> [round(home_share(threshold=t, rho1=1.15, m=1.0), 6) for t in (2, 3, 19, math.inf)]
    [0.580159, 0.65995, 0.840472, 0.85]
    """
    if rho1 == 0:
        return 1.0
    if rho1 >= 1 + m:
        return 0.0
    if threshold == 1:
        return 1 / (1 + (rho1 / m) / (1 - rho1 / (1 + m))) if m > 0 else 0.0
    excess = rho1 - 1
    if excess == 0:
        odds = 1 / threshold
    else:
        # rho1^T / A without overflow: the exponent is cut where its exponential leaves double range.
        exponent = -math.log1p(excess) * threshold
        odds = -excess / math.expm1(min(exponent, 700.0))
    return 1 / (1 + odds / (1 + m - rho1))


def stability(model: Donor) -> Stability:
    """The loads of a model and their limits under its policy.

    F(T) rests on exponential work of type 1 and a donor that changes queues at once. Where that does not hold, the
    limits are those that no policy can exceed, rho1 < 1 + m (1 - rho2) and rho2 < 1: necessary, and under T1 and
    ADT not sufficient.
    """
    rates = model.service_rates
    rho1, rho2 = model.arrival_rates[0] / rates.mu1, model.arrival_rates[1] / rates.mu2
    m = rates.mu12 / rates.mu1
    form = rule(model)
    if not form.helps:
        limit1, limit2 = 1.0, 1.0
    elif _has_home_share(model, form):
        limit1, limit2 = 1 + m, _limit2(form, rho1=rho1, m=m)
    else:
        limit1, limit2 = 1 + m * (1 - rho2), 1.0
    return Stability(rho1=rho1, rho2=rho2, limit1=limit1, limit2=limit2)


def _limit2(form: Rule, *, rho1: float, m: float) -> float:
    if form.stays_idle:
        return 0.0
    return home_share(threshold=form.high, rho1=rho1, m=m)


def _has_home_share(model: Donor, form: Rule) -> bool:
    """Whether F(T) decides; the law of the type 2 work has no say in it."""
    return form.queue1_first and isinstance(model.work1, Exponential) and model.switching_time == 0


def check_stable(model: Donor) -> Stability:
    """The loads of a stable model; raises `Unstable` with the limit otherwise.

    >>> from qtheory.models import Donor, T1
    >>> check_stable(Donor(arrival_rates=(1.15, 0.04375), policy=T1(t1=3),
    ...                      service_rates={"mu1": 1, "mu12": 1, "mu2": 0.0625}))
    Traceback (most recent call last):
    ...
    qtheory.models.errors.Unstable: queue 2 is unstable under T1(3): rho2 = 0.70, limit 0.659950
    """
    found = stability(model)
    checks = [(1, found.queue1, found.rho1, found.limit1), (2, found.queue2, found.rho2, found.limit2)]
    # A limit of queue 1 that depends on rho2 would mislead where rho2 itself is too large: queue 2 comes first there.
    for queue, stable, load, limit in checks if found.rho2 < 1 else reversed(checks):
        if not stable:
            detail = f"queue {queue} is unstable under {policy_name(model.policy)}: "
            detail += f"rho{queue} = {_digits(load)}, limit {max(limit, 0.0):.6f}"
            raise Unstable(where=f"queue{queue}", load=load, limit=limit, detail=detail)
    return found


def largest_rho2(model: Donor) -> float:
    """The least upper bound of the loads rho2 at which the whole system is stable, rho1 kept; 0 if there is none."""
    found = stability(model)
    form, m = rule(model), model.service_rates.mu12 / model.service_rates.mu1
    if not form.helps:
        return 1.0 if found.rho1 < 1 else 0.0
    if _has_home_share(model, form):
        return found.limit2
    if found.rho1 < 1:
        return 1.0
    return max(0.0, 1 - (found.rho1 - 1) / m) if m > 0 else 0.0


def largest_rho1(model: Donor) -> float:
    """The least upper bound of the loads rho1 at which the whole system is stable, rho2 kept; 0 if there is none.

    Under T1(T), where `stability` knows F(T), it is the root of F(T) = rho2, a polynomial equation of degree T.
    """
    found = stability(model)
    form, m = rule(model), model.service_rates.mu12 / model.service_rates.mu1
    rho2 = found.rho2
    if not _has_home_share(model, form):
        return max(0.0, found.limit1) if rho2 < 1 else 0.0
    if rho2 == 0:
        return 1 + m
    if rho2 >= 1 or form.stays_idle:
        return 0.0

    def slack(rho1: float) -> float:
        return home_share(threshold=form.high, rho1=rho1, m=m) - rho2

    return float(brentq(slack, 0.0, 1 + m, xtol=1e-15, rtol=8.9e-16))


def policy_name(policy: DonorPolicy) -> str:
    """The policy as papers write it, e.g. ``T1T2(3, 10)``."""
    match policy:
        case T1():
            return f"T1({policy.t1})"
        case T2():
            reading = "" if policy.reading == "source" else f", {policy.reading}"
            return f"T2({policy.t2}{reading})"
        case T1T2():
            return f"T1T2({policy.t1}, {policy.t2})"
        case ADT():
            return f"ADT({policy.low}, {policy.high}, {policy.t2})"
        case CMu():
            return "c-mu"
        case Dedicated():
            return "dedicated"


def _digits(load: float) -> str:
    """Six significant digits, at least two of them after the point."""
    text = f"{load:.6g}"
    return f"{load:.2f}" if "e" not in text and float(f"{load:.2f}") == float(text) else text
