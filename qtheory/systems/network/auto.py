"""The best analytic answer for a network: closed form, small exact chain, or what is known without either."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from qtheory.measures import Key, Table
from qtheory.models.errors import NotConverged
from qtheory.models.network import Network
from qtheory.models.policies import JSQAS, JSR, MaxWeight
from qtheory.solution import Solution, Value
from qtheory.systems.network import chain, product_form
from qtheory.systems.network.answer import check_times
from qtheory.systems.network.certificate import certificate
from qtheory.systems.network.expansion import expand
from qtheory.systems.network.stability import check_stable
from qtheory.systems.network.stabilizability import Stabilizability

#: Chains up to this size are solved unasked: about a second of work.
MOST_STATES = 60_000
PRECISION = 1e-4
#: Test functions with more linear pieces are not tried unasked.
MOST_PIECES = 60


def solve(model: Network, *, at: Sequence[float] = ()) -> Solution:
    """`product-form` where the way of a job is drawn at random, `chain` where the network is small, else `bounds`.

    `bounds` holds no steady-state measure but those that stability alone settles (throughput, and the utilisation of
    servers that every route of a class passes or none), and these only where stability is proved: under MaxWeight, and
    where a test function certifies it. `details` always hold theta*, flows, split and dual prices, and for jsr with
    dominant sharing the certificate.

    Raises
    ------
    Unstable : theta* <= 1: no policy could keep the network stable.
    InvalidModel : `at` is given.
    """
    check_times(at)
    if not product_form.obstacle(model):
        return product_form.solve(model)
    programme = check_stable(model)
    if not (isinstance(model.policy, JSQAS) and model.policy.holding == "blocking"):
        try:
            return chain.solve(model, precision=PRECISION, most_states=MOST_STATES)
        except NotConverged:
            pass  # Too large, or not stable: `method` says that the answer is of another kind.
    return _bounds(model, programme)


def _bounds(model: Network, programme: Stabilizability) -> Solution:
    details: dict[str, Any] = programme.details()
    proved = "MaxWeight is stable whenever theta* > 1" if isinstance(model.policy, MaxWeight) else ""
    if isinstance(model.policy, JSR) and model.policy.sharing == "dominant":
        details["certificate"], proved = _certified(model)
    details["stability"] = proved or "not proved: simulate"
    return Solution(
        model=model, method="bounds", measures=_settled(model) if proved else Table[Value]({}), details=details
    )


def _certified(model: Network) -> tuple[dict[str, Any], str]:
    """The certificate as plain data, and its text where it holds."""
    expansion = expand(model)
    pieces = math.prod(1 + len(route) for route in expansion.routes) - 1
    if pieces > MOST_PIECES:
        return {"text": f"no certificate sought: {pieces} linear pieces", "holds": False}, ""
    found = certificate(model)
    return found.details(), found.text if found.holds else ""


def _settled(model: Network) -> Table[Value]:
    """What holds in any steady state."""
    expansion = expand(model)
    rows: dict[Key, Value] = {}
    visits = expansion.visits()
    for n, name in enumerate(model.servers):
        shares = [visits[n, expansion.of_class(c)] for c in range(len(model.classes))]
        if all(share.min() == share.max() for share in shares):
            flow = float(np.dot([share[0] for share in shares], expansion.arrival_rates))
            if flow == 0:
                continue
            rows["utilisation", name] = Value(value=flow / model.servers[name])
            rows["throughput", name] = Value(value=flow)
    rows["throughput", "all"] = Value(value=float(expansion.arrival_rates.sum()))
    for jobs in model.classes:
        rows["throughput", jobs.name] = Value(value=jobs.rate)
    return Table(rows)
