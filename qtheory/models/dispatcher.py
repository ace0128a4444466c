"""Two server groups behind one dispatcher; jobs that outrun Group 0's limit restart in Group 1's queue."""

from __future__ import annotations

from typing import Literal

from qtheory.models.base import Count, NonNegative, PositiveOrInfinite, Probability, Spec
from qtheory.models.laws import Law


class Dispatcher(Spec, frozen=True, kw_only=True, omit_defaults=True, tag="dispatcher"):
    """A job is submitted to Group 0 with probability `short_fraction`, else to Group 1.

    Group 0 kills a job that has been served for `time_limit`: it joins the back of Queue 1 at that instant and
    restarts from scratch with the same requirement.  First come first served in both, infinite queues.  The fields
    with defaults change these rules.

    Attributes
    ----------
    servers : numbers of servers (n0, n1), both at least 1.
    time_limit : service time after which Group 0 kills a job; may be infinite.  A service equal to it completes.
    short_fraction : probability that a job is submitted to Group 0.
    interarrival : law of the times between arrivals, independent of each other.
    service0, service1 : laws of the service requirement of jobs submitted to Group 0 and to Group 1.
    killed_join : where killed jobs join Queue 1: "back"; "head" (several at one instant: the earliest arrival first);
        or "low-priority": they are taken, without preemption, only when no long job waits.
    checkpoint_share : share, 0 to 1, that a killed job keeps of the work done.
    grace : a job that outran its limit is killed so much later.
    grace_completes : whether such a job works on meanwhile, and is done if that suffices; otherwise it only saves its
        state, and its server stays taken.
    limits : law of the limits of jobs submitted to Group 0, one drawn for each instead of `time_limit`; None:
        `time_limit` for all.
    """

    servers: tuple[Count, Count]
    time_limit: PositiveOrInfinite
    short_fraction: Probability
    interarrival: Law
    service0: Law
    service1: Law
    killed_join: Literal["back", "head", "low-priority"] = "back"
    checkpoint_share: Probability = 0.0
    grace: NonNegative = 0.0
    grace_completes: bool = True
    limits: Law | None = None

    @property
    def changed_rules(self) -> tuple[str, ...]:
        """Names of the fields in which the rules for killed jobs are not the plain ones; empty for those.

        >>> from qtheory.models import Exponential
        >>> one = Exponential(mean=1.0)
        >>> model = Dispatcher(
        ...     servers=(2, 3), time_limit=2.0, short_fraction=0.5, interarrival=one, service0=one, service1=one,
        ...     checkpoint_share=0.5,
        ... )
        >>> model.changed_rules
        ('checkpoint_share',)
        """
        changed = {
            "killed_join": self.killed_join != "back",
            "checkpoint_share": self.checkpoint_share > 0.0,
            "grace": self.grace > 0.0,
            "grace_completes": self.grace > 0.0 and not self.grace_completes,
            "limits": self.limits is not None,
        }
        return tuple(name for name, holds in changed.items() if holds)
