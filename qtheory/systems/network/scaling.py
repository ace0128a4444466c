"""The same network under more or less traffic."""

from __future__ import annotations

from qtheory.models.base import require
from qtheory.models.network import Network


def with_load(model: Network, *, factor: float) -> Network:
    """`model` with every arrival rate multiplied by `factor` > 0.

    >>> from qtheory.models import JSR, NetworkClass
    >>> model = Network(servers={"s1": 1.0}, classes=[NetworkClass(rate=0.5, routes=[["s1"]])], policy=JSR())
    >>> with_load(model, factor=1.5).classes[0].rate
    0.75
    """
    require(factor > 0, field="factor", rule="must be > 0", value=factor)
    return model.replace(classes=tuple(c.replace(rate=factor * c.rate) for c in model.classes))
