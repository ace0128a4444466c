"""When parallel queues have a steady state: every one is offered less than it can serve."""

from __future__ import annotations

from qtheory import laws
from qtheory.models.errors import Unstable
from qtheory.models.flexible import Flexible


def check_stable(model: Flexible) -> None:
    """Raise `Unstable` at load >= 1; choice balances the queues but takes no work away.

    `InvalidModel` for a service law without mathematics.
    """
    laws.check(model)
    if not model.load < 1.0:
        raise Unstable(where="all", load=model.load)
