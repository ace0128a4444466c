"""The check that comes before any steady-state measure: can the traffic be carried at all?"""

from __future__ import annotations

from qtheory.models.errors import Unstable
from qtheory.models.network import Network
from qtheory.systems.network.stabilizability import Stabilizability, stabilizability

#: theta* within so much of 1 counts as 1: the programme is solved to about this accuracy.
_AT_ONE = 1e-9


def check_stable(model: Network) -> Stabilizability:
    """The answer of the stabilizability programme; raises `Unstable` if theta* <= 1.

    theta* > 1 is necessary under every policy and sufficient under the good ones only: whether this model's policy
    keeps the network stable is another question.
    """
    found = stabilizability(model)
    if found.theta_star > 1 + _AT_ONE:
        return found
    cut = found.bottleneck
    where = cut[0] if len(cut) == 1 else "all"
    servers = ", ".join(f"{name} ({found.duals[name]:.4g})" for name in cut)
    detail = (
        f"{where} is unstable: no policy can carry this traffic, at most theta* = {found.theta_star:.6g} times of it "
        f"(must be above 1); load {found.load:.6g} on the bottleneck {servers}"
    )
    raise Unstable(where=where, load=found.load, detail=detail)
