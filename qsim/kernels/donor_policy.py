"""What the two servers do in a state of the donor system, straight from the definitions of the policies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qsim.kernels._jit import helper

#: The donor's task.
NOTHING, HELPS, HOME = range(3)
#: Kinds of policy.
T1, T2, T1T2, ADT, DEDICATED = range(5)
#: Readings of T2.
SOURCE, IDLE, WORK_CONSERVING = range(3)
#: A threshold that is never reached.
NEVER = 2**62

#: Kind, three thresholds, reading: T1 (t1), T2 (t2), T1T2 (t1, t2), ADT (low, high, t2).
Thresholds = NDArray[np.int64]


@helper
def _t1(threshold: int, faster: bool, n1: int, n2: int) -> tuple[bool, int]:
    """T1: help from `threshold` type 1 jobs on, or from two if there is no type 2 job.

    A lone type 1 job, where the donor might help it, has one server only: the donor iff it is the faster.
    """
    if n1 >= threshold or n2 == 0:
        if n1 >= 2:
            return True, HELPS
        if n1 == 1 and faster:
            return False, HELPS
    return n1 > 0, HOME if n2 > 0 else NOTHING


@helper
def wish(thresholds: Thresholds, faster: bool, n1: int, n2: int) -> tuple[bool, int]:
    """Whether server 1 works, and the donor's task, with n1 and n2 jobs present; `faster`: mu12 > mu1."""
    kind = thresholds[0]
    if kind == T1:
        return _t1(thresholds[1], faster, n1, n2)
    if kind == ADT:
        return _t1(thresholds[1] if n2 <= thresholds[3] else thresholds[2], faster, n1, n2)
    if kind == T1T2:
        if n2 < thresholds[2]:
            return _t1(thresholds[1], faster, n1, n2)
        return n1 > 0, HOME
    if kind == T2 and n2 < thresholds[1]:
        if n1 >= 2:
            return True, HELPS
        if n2 == 0:
            return _t1(NEVER, faster, n1, n2)
        if thresholds[4] == IDLE:
            return n1 > 0, NOTHING
        if thresholds[4] == SOURCE:
            return False, HELPS if n1 == 1 else HOME
    return n1 > 0, HOME if n2 > 0 else NOTHING
