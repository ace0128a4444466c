"""Two queues, two servers; server 2 (the donor) helps queue 1 by a threshold policy."""

from __future__ import annotations

from qtheory.models.base import NonNegative, Positive, Spec, require
from qtheory.models.laws import Exponential, Law
from qtheory.models.policies import DonorPolicy


class ServiceRates(Spec, frozen=True, kw_only=True, tag=False):
    """Rates of service: `mu1` server 1 on type 1, `mu12` the donor on type 1, `mu2` the donor on type 2."""

    mu1: Positive
    mu12: NonNegative
    mu2: Positive


class Donor(Spec, frozen=True, kw_only=True, tag="donor"):
    """Poisson arrivals, preemptive resume, first come first served within a queue.

    A job brings an amount of work of mean 1, and the servers do `service_rates` of it per unit time.  With both
    servers on queue 1 a job stays on the server it is on; a server without a job takes the oldest one that is not in
    service; a job that the donor leaves for queue 2 returns to its place by age.

    Attributes
    ----------
    arrival_rates : (lambda1, lambda2), not both 0.
    service_rates : see `ServiceRates`.
    holding_costs : (c1, c2) per job and unit time.
    policy : which queue the donor serves.
    work1, work2 : laws of the work of a job, of mean 1; exponential unless given.
    switching_time : how long the donor needs to change queues, in which it serves nothing.  A change once begun is
        completed, then the policy is asked again.
    """

    arrival_rates: tuple[NonNegative, NonNegative]
    service_rates: ServiceRates
    holding_costs: tuple[NonNegative, NonNegative] = (1.0, 1.0)
    policy: DonorPolicy
    work1: Law = Exponential(mean=1.0)
    work2: Law = Exponential(mean=1.0)
    switching_time: NonNegative = 0.0

    def check(self) -> None:
        rule = "must not both be 0"
        require(sum(self.arrival_rates) > 0, field="arrival_rates", rule=rule, value=self.arrival_rates)
