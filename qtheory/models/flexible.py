"""Parallel queues; a fraction of the customers picks the shortest of d, the rest has no choice."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from qtheory.models.base import Positive, Probability, Spec, require
from qtheory.models.laws import Exponential, Law
from qtheory.models.policies import Ties

AtLeastTwo = Annotated[int, Meta(ge=2)]


class Flexible(Spec, frozen=True, kw_only=True, tag="flexible"):
    """`queues` single-server queues with Poisson arrivals of rate load / mean service each.

    Attributes
    ----------
    queues : how many, or "infinite" for the mean-field limit.
    load : utilisation of each server.
    flexible_fraction : share p of the customers who choose; the others take one queue uniformly.
    choices : how many queues d a flexible customer samples, or "all".
    sampling : d distinct queues, or d draws with replacement.
    ties : how a tie for the shortest is broken.
    shortest : by number of jobs or by workload.
    discipline : first come first served or processor sharing.
    service : law of the service time.
    """

    queues: AtLeastTwo | Literal["infinite"]
    load: Positive
    flexible_fraction: Probability
    choices: AtLeastTwo | Literal["all"]
    sampling: Literal["distinct", "replacement"] = "distinct"
    ties: Ties = "random"
    shortest: Literal["number", "workload"] = "number"
    discipline: Literal["fcfs", "ps"] = "fcfs"
    service: Law = Exponential(mean=1.0)

    def check(self) -> None:
        if isinstance(self.queues, int) and isinstance(self.choices, int) and self.sampling == "distinct":
            rule = f"must not exceed queues ({self.queues}) when distinct queues are sampled"
            require(self.choices <= self.queues, field="choices", rule=rule, value=self.choices)
        if self.discipline == "ps":
            rule = "must be number when the discipline is ps"
            require(self.shortest == "number", field="shortest", rule=rule, value=self.shortest)
        if self.queues == "infinite":
            rule = "must be a number when queues is infinite"
            require(self.choices != "all", field="choices", rule=rule, value=self.choices)
