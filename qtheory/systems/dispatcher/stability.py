"""Whether a dispatcher has a steady state."""

from __future__ import annotations

from qtheory.models import Dispatcher
from qtheory.systems.dispatcher.loads import require_stable, traffic


def check_stable(model: Dispatcher) -> None:
    """Raise `Unstable`, naming the group and its load, unless both groups can carry what they are offered."""
    require_stable(traffic(model).offered, servers=model.servers)
