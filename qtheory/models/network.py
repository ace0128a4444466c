"""Acyclic multi-class networks whose routing, sequencing and holding look at the state only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from qtheory.models.base import Positive, Spec, require
from qtheory.models.policies import NetworkPolicy


class NetworkClass(Spec, frozen=True, kw_only=True, tag=False):
    """Jobs that arrive at `rate` and take one of `routes` (lists of server names), or any path between
    `origin` and `destination` along the network's edges."""

    rate: Positive
    routes: tuple[tuple[str, ...], ...] = ()
    name: str = ""
    origin: str = ""
    destination: str = ""


class Network(Spec, frozen=True, kw_only=True, tag="network"):
    """Exponential servers, infinite buffers, Poisson classes.

    Attributes
    ----------
    servers : service rate by name.
    policy : how jobs are routed, sequenced and held.
    classes : the classes of jobs, in order.
    edges : instead of routes, the arcs of the network.
    """

    servers: Annotated[Mapping[str, Positive], Meta(min_length=1)]
    policy: NetworkPolicy
    classes: Annotated[tuple[NetworkClass, ...], Meta(min_length=1)]
    edges: tuple[tuple[str, str], ...] = ()

    def check(self) -> None:
        require("all" not in self.servers, field="servers", rule="no server may be named all")
