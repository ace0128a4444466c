"""How many jobs are present: joint law, marginal laws and tails of (N1, N2), exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qtheory.models.donor import Donor
from qtheory.models.errors import InvalidModel
from qtheory.systems.donor.exact import check_method, stationary_law
from qtheory.systems.donor.numbers import Independent

Array = NDArray[np.float64]


def joint(model: Donor, *, n1: int, n2: int) -> Array:
    """P(N1 = i, N2 = j) for i = 0 .. n1 (rows), j = 0 .. n2 (columns), each entry to about 1e-13.

    Raises `InvalidModel`, `Unstable`, `NotConverged` as `exact.solve`.

    >>> from qtheory.models import Donor, T2
    >>> p = joint(Donor(arrival_rates=(1.0, 0.5), service_rates={"mu1": 1, "mu12": 1, "mu2": 1}, policy=T2(t2=1)),
    ...           n1=400, n2=60)
    >>> round(float(p.sum()), 9), round(float(p[:, 0].sum()), 9)
    (1.0, 0.5)
    """
    _check(model, n1=n1, n2=n2)
    law = stationary_law(model)
    if isinstance(law, Independent):
        return law.joint(n1=n1, n2=n2)
    # Each number of the phase queue that is asked for must be a phase of its own.
    phases, levels = (n1, n2) if law.layout.level_queue == 2 else (n2, n1)
    if phases >= law.layout.first + law.layout.kept:
        law = stationary_law(model, least_kept=phases + 1)
        assert not isinstance(law, Independent)
    found = law.level_rows(last_level=levels, last_phase=phases)
    return found.T if law.layout.level_queue == 2 else found


def marginal(model: Donor, *, queue: int, last: int) -> Array:
    """P(N = n) of queue 1 or 2 for n = 0 .. last.

    Raises `InvalidModel`, `Unstable`, `NotConverged` as `exact.solve`.
    """
    _check_queue(queue)
    _check(model, last=last)
    return stationary_law(model).marginal(queue=queue, last=last)


def tail(model: Donor, *, queue: int, n: int) -> float:
    """P(N > n) of queue 1 or 2, small values with full relative accuracy.

    Raises `InvalidModel`, `Unstable`, `NotConverged` as `exact.solve`.

    >>> from qtheory.models import Donor, T2
    >>> round(tail(Donor(arrival_rates=(1.0, 0.5), service_rates={"mu1": 1, "mu12": 1, "mu2": 1}, policy=T2(t2=1)),
    ...            queue=2, n=3), 9)  # M/M/1 at load 1/2
    0.0625
    """
    _check_queue(queue)
    _check(model, n=n)
    return stationary_law(model).tail(queue=queue, n=n)


def _check(model: Donor, **counts: int) -> None:
    check_method(model, at=(), method="exact")
    for name, count in counts.items():
        if count < 0:
            raise InvalidModel(field=name, rule="must be a number of jobs, 0 or more", value=count)


def _check_queue(queue: int) -> None:
    if queue not in (1, 2):
        raise InvalidModel(field="queue", rule="must be 1 or 2", value=queue)
