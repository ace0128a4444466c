"""Stability of the threshold policies as sympy expressions; sympy is loaded with this module only.

The symbols are `lambda1`, `lambda2`, `mu1`, `mu12`, `mu2`, all positive, and the threshold `T`, a positive integer.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import sympy

from qtheory.models.donor import Donor
from qtheory.systems.donor.rules import rule

Expression: TypeAlias = Any

LAMBDA1, LAMBDA2, MU1, MU12, MU2 = sympy.symbols("lambda1 lambda2 mu1 mu12 mu2", positive=True)
THRESHOLD = sympy.Symbol("T", integer=True, positive=True)


def loads() -> tuple[Expression, Expression]:
    """rho1 = lambda1 / mu1 and rho2 = lambda2 / mu2."""
    return LAMBDA1 / MU1, LAMBDA2 / MU2


def home_share(threshold: Expression = THRESHOLD) -> Expression:
    """F(T) = A / (A + B), the share of time that N1 < T while queue 2 never empties, for T >= 2.

    A = (1 - rho1^T) / (1 - rho1) is written as the sum of rho1^k where T is a number, so that rho1 = 1 is no
    exception; B = rho1^T / (1 + mu12 / mu1 - rho1).

    >>> sympy.simplify(home_share(2).subs({MU12: MU1, LAMBDA1: MU1}))
    2/3
    """
    rho1, _ = loads()
    if getattr(threshold, "is_Symbol", False):
        low = (1 - rho1**threshold) / (1 - rho1)
    else:
        low = sum((rho1**k for k in range(int(threshold))), sympy.Integer(0))
    high = rho1**threshold / (1 + MU12 / MU1 - rho1)
    return low / (low + high)


def lone_home_share() -> Expression:
    """F for a donor that takes lone type 1 jobs from server 1: T1(1) where mu1 < mu12."""
    return 1 / (1 + (LAMBDA1 / MU12) / (1 - LAMBDA1 / (MU1 + MU12)))


def limits(model: Donor) -> tuple[Expression, Expression]:
    """The bounds of rho1 and rho2 (exclusive) under the model's policy, as expressions in the rates.

    The policy and the order of mu1 and mu12 are taken from the model, the rates stay symbols. Queue 1 is stable iff
    rho1 is below the first bound; queue 2, given that, iff rho2 is below the second.

    >>> from qtheory.models import Donor, T1T2
    >>> first, second = limits(
    ...     Donor(arrival_rates=(1, 1), service_rates={"mu1": 2, "mu12": 1, "mu2": 3}, policy=T1T2(t1=3, t2=9)))
    >>> sympy.simplify(first - (1 + MU12 / MU1 * (1 - LAMBDA2 / MU2))), second
    (0, 1)
    """
    form = rule(model)
    one = sympy.Integer(1)
    if not form.helps:
        return one, one
    if not form.queue1_first:
        return 1 + MU12 / MU1 * (1 - LAMBDA2 / MU2), one
    if form.stays_idle:
        return 1 + MU12 / MU1, sympy.Integer(0)
    share = lone_home_share() if form.high == 1 else home_share(int(form.high))
    return 1 + MU12 / MU1, share
