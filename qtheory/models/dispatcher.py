"""Two server groups behind one dispatcher; jobs that outrun Group 0's limit restart in Group 1's queue."""

from __future__ import annotations

from qtheory.models.base import Count, PositiveOrInfinite, Probability, Spec
from qtheory.models.laws import Law


class Dispatcher(Spec, frozen=True, kw_only=True, tag="dispatcher"):
    """A job is submitted to Group 0 with probability `short_fraction`, else to Group 1.

    Group 0 kills a job that has been served for `time_limit`: it joins the back of Queue 1 at that instant and
    restarts from scratch with the same requirement.  First come first served in both, infinite queues.

    Attributes
    ----------
    servers : numbers of servers (n0, n1), both at least 1.
    time_limit : service time after which Group 0 kills a job; may be infinite.  A service equal to it completes.
    short_fraction : probability that a job is submitted to Group 0.
    interarrival : law of the times between arrivals, independent of each other.
    service0, service1 : laws of the service requirement of jobs submitted to Group 0 and to Group 1.
    """

    servers: tuple[Count, Count]
    time_limit: PositiveOrInfinite
    short_fraction: Probability
    interarrival: Law
    service0: Law
    service1: Law
