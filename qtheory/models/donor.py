"""Two queues, two servers; server 2 (the donor) helps queue 1 by a threshold policy."""

from __future__ import annotations

from qtheory.models.base import NonNegative, Positive, Spec, require
from qtheory.models.policies import DonorPolicy


class ServiceRates(Spec, frozen=True, kw_only=True, tag=False):
    """Rates of service: `mu1` server 1 on type 1, `mu12` the donor on type 1, `mu2` the donor on type 2."""

    mu1: Positive
    mu12: NonNegative
    mu2: Positive


class Donor(Spec, frozen=True, kw_only=True, tag="donor"):
    """Poisson arrivals, exponential sizes, preemptive resume.

    Attributes
    ----------
    arrival_rates : (lambda1, lambda2), not both 0.
    service_rates : see `ServiceRates`.
    holding_costs : (c1, c2) per job and unit time.
    policy : which queue the donor serves.
    """

    arrival_rates: tuple[NonNegative, NonNegative]
    service_rates: ServiceRates
    holding_costs: tuple[NonNegative, NonNegative] = (1.0, 1.0)
    policy: DonorPolicy

    def check(self) -> None:
        rule = "must not both be 0"
        require(sum(self.arrival_rates) > 0, field="arrival_rates", rule=rule, value=self.arrival_rates)
