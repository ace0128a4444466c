"""What the donor does in each state: every policy as one rule with a switch in N2 and two thresholds in N1.

Policies after T. Osogami, "Analysis of multi-server systems via dimensionality reduction of Markov chains",
PhD thesis, Carnegie Mellon University 2005, ch. 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from qtheory.models.donor import Donor
from qtheory.models.policies import ADT, T1, T1T2, T2, CMu, Dedicated, DonorPolicy

IDLE, HELPS, AT_HOME = 0, 1, 2
"""What the donor does: nothing, serve queue 1, serve queue 2."""

INFINITY = math.inf


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The donor helps queue 1 iff N1 >= threshold(N2), where threshold is `low` for N2 < `switch`, else `high`.

    With N2 = 0 it helps iff N1 >= 2, or N1 = 1 and it is the faster server (mu1 < mu12). Elsewhere a threshold of
    1 means that the donor takes even a lone type 1 job, while server 1 idles. Where it does not help it serves
    queue 2, unless `stays_idle` and N2 < `switch`: then it serves nothing. `helps` is False for the policy that
    never helps; the other fields then mean nothing.

    The form is canonical: thresholds that give the same chain give the same rule. So `high` is finite iff the
    donor helps from some N1 on whatever N2; and `switch` is finite iff it stays at home from some N2 on, or the
    thresholds differ.
    """

    low: float
    high: float
    switch: float
    stays_idle: bool = False
    helps: bool = True

    @property
    def queue1_first(self) -> bool:
        """Whether N1 large enough always brings the donor (then N2 is what can grow without help)."""
        return self.helps and math.isfinite(self.high)


def rule(model: Donor) -> Rule:
    """The canonical rule of a model's policy.

    T1(1) is T1(2) where mu1 >= mu12; T1T2(x, 1) and T1(inf) are T2(1); ADT(a, inf, c) is T1T2(a, c + 1).

    >>> from qtheory.models import Donor, T1, T1T2, T2
    >>> standing = Donor(arrival_rates=(1.15, 0.025), service_rates={"mu1": 1, "mu12": 1, "mu2": 0.0625},
    ...                  policy=T1(t1=3))
    >>> rule(standing.replace(policy=T1T2(t1=3, t2=1))) == rule(standing.replace(policy=T2(t2=1)))
    True
    """
    policy: DonorPolicy = model.policy
    rates = model.service_rates
    lone = 1 if rates.mu1 < rates.mu12 else 2

    def first(threshold: float) -> float:
        return max(threshold, lone)

    match policy:
        case T1():
            return _canonical(low=first(policy.t1), high=first(policy.t1), switch=INFINITY)
        case T2():
            low = 1 if policy.reading == "source" else 2
            return _canonical(low=low, high=INFINITY, switch=policy.t2, stays_idle=policy.reading == "idle")
        case T1T2():
            return _canonical(low=first(policy.t1), high=INFINITY, switch=policy.t2)
        case ADT():
            return _canonical(low=first(policy.low), high=first(policy.high), switch=policy.t2 + 1)
        case CMu():
            c1, c2 = model.holding_costs
            threshold = first(1 if c1 * rates.mu12 > c2 * rates.mu2 else INFINITY)
            return _canonical(low=threshold, high=threshold, switch=INFINITY)
        case Dedicated():
            return Rule(low=INFINITY, high=INFINITY, switch=1, helps=False)
        case _:
            assert_never(policy)


def _canonical(*, low: float, high: float, switch: float, stays_idle: bool = False) -> Rule:
    if math.isinf(switch):
        high = low
    if math.isinf(low) or (switch == 1 and math.isinf(high)):
        # The donor stays at home whenever it has a job: N2 < 1 is ruled by the fate of lone jobs alone.
        return Rule(low=INFINITY, high=INFINITY, switch=1)
    if low == high and not stays_idle:
        switch = INFINITY
    return Rule(low=low, high=high, switch=switch, stays_idle=stays_idle)


def donor_at(model: Donor, *, n1: ArrayLike, n2: ArrayLike) -> NDArray[np.int8]:
    """What the donor does with n1 and n2 jobs present: `IDLE`, `HELPS` or `AT_HOME`; arrays broadcast."""
    form = rule(model)
    first, second = np.broadcast_arrays(np.asarray(n1), np.asarray(n2))
    if not form.helps:
        return np.where(second > 0, AT_HOME, IDLE).astype(np.int8)
    lone = 1 if model.service_rates.mu1 < model.service_rates.mu12 else 2
    threshold = np.where(second == 0, lone, np.where(second < form.switch, form.low, form.high))
    home = np.where((second == 0) | (form.stays_idle & (second < form.switch)), IDLE, AT_HOME)
    return np.where((first >= threshold) & (first > 0), HELPS, home).astype(np.int8)


def policy_map(model: Donor, *, n1: int, n2: int) -> NDArray[np.int8]:
    """What the donor does in the states (N1, N2), N1 = 0 .. n1 a row, N2 = 0 .. n2 a column.

    >>> from qtheory.models import Donor, T1T2
    >>> policy_map(Donor(arrival_rates=(1.15, 0.025), service_rates={"mu1": 1, "mu12": 1, "mu2": 0.0625},
    ...                  policy=T1T2(t1=3, t2=2)), n1=4, n2=3)
    array([[0, 2, 2, 2],
           [0, 2, 2, 2],
           [1, 2, 2, 2],
           [1, 1, 2, 2],
           [1, 1, 2, 2]], dtype=int8)
    """
    return donor_at(model, n1=np.arange(n1 + 1)[:, None], n2=np.arange(n2 + 1)[None, :])


def departure_rates(
    model: Donor, *, n1: ArrayLike, n2: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Rates at which type 1 and type 2 leave, and whether server 1 works, with n1 and n2 jobs present.

    Server 1 works iff N1 >= 2, or N1 = 1 and the donor has not taken the job.
    """
    donor = donor_at(model, n1=n1, n2=n2)
    first, _ = np.broadcast_arrays(np.asarray(n1), np.asarray(n2))
    server1 = first > (donor == HELPS)
    rates = model.service_rates
    return rates.mu1 * server1 + rates.mu12 * (donor == HELPS), rates.mu2 * (donor == AT_HOME), server1
