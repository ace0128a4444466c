"""Routing by workload with exponential service: the mean field in closed form.

A flexible job joins the least loaded of d queues. With F(w) = P(workload > w) and arrivals at rate
Phi = rho [(1 - p) F + p F^d] to queues of workload above w, level crossings give F' = Phi(F) - F, hence

    F(w) = [b/a + (rho^(1-d) - b/a) e^((d-1) a w)]^(1/(1-d)),    a = 1 - rho (1 - p),  b = rho p.

p = 1 is LL(d) of Hellemans and Van Houdt (2018), "On the power-of-d-choices with least loaded server selection",
Proc. ACM Meas. Anal. Comput. Syst. 2(2), art. 27. A dedicated job waits for longer than w with probability F, a
flexible one with F^d. Times are in units of the mean service.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import hyp2f1

from qtheory.systems.flexible.fixed_point import check


@dataclass(frozen=True, kw_only=True)
class WorkloadLaw:
    """The wait of each class; `power` is 1 for dedicated, d for flexible jobs."""

    load: float
    fraction: float
    choices: int

    @property
    def _rates(self) -> tuple[float, float]:
        return 1.0 - self.load * (1.0 - self.fraction), self.load * self.fraction

    def tail(self, w: float) -> float:
        """F(w) = P(workload > w).

        >>> WorkloadLaw(load=0.5, fraction=0.0, choices=2).tail(2.0) == 0.5 * math.exp(-1.0)
        True
        """
        a, b = self._rates
        power = self.choices - 1
        # rho^(1-d) e^((d-1)aw) taken out, so that nothing overflows.
        shrunk = self.load * math.exp(-a * w)
        return float(shrunk / (1.0 + b / a * (shrunk**power - self.load**power)) ** (1.0 / power))

    def mean_wait(self, *, power: int) -> float:
        """Integral of F^power over w for power 1 or d, with x = F as variable a hypergeometric function."""
        a, b = self._rates
        d = self.choices
        order = power / (d - 1.0)
        ratio = b / a * self.load ** (d - 1)
        return float(self.load**power / (a * power) * hyp2f1(1.0, order, order + 1.0, ratio))

    def mean_wait_all(self) -> float:
        """The wait of all jobs."""
        flexible, dedicated = self.mean_wait(power=self.choices), self.mean_wait(power=1)
        return self.fraction * flexible + (1.0 - self.fraction) * dedicated

    def wait_tail(self, w: float, *, share: float) -> float:
        """P(wait > w) of a mixture with a share of flexible jobs."""
        f = self.tail(w)
        return (1.0 - share) * f + share * f**self.choices

    def response_tail(self, t: float, *, share: float) -> float:
        """P(wait + service > t) = e^(-t) + integral of P(wait > w) e^(w-t) over [0, t]."""
        inner = quad(lambda w: self.wait_tail(w, share=share) * math.exp(w - t), 0.0, t, epsabs=1e-13, epsrel=1e-11)
        return math.exp(-t) + float(inner[0])

    def wait_quantile(self, level: float, *, share: float) -> float:
        """The least w with P(wait <= w) >= level."""
        least = 1.0 - level
        if self.wait_tail(0.0, share=share) <= least:
            return 0.0
        highest = -math.log(least) / self._rates[0] * self.choices + 1.0
        while self.wait_tail(highest, share=share) > least:
            highest *= 2.0
        return float(brentq(lambda w: self.wait_tail(w, share=share) - least, 0.0, highest, xtol=1e-13, rtol=1e-14))

    def response_quantile(self, level: float, *, share: float) -> float:
        """The t with P(response <= t) = level."""
        least = 1.0 - level
        highest = self.wait_quantile(level, share=share) - math.log(least) + 1.0
        while self.response_tail(highest, share=share) > least:
            highest *= 2.0
        return float(brentq(lambda t: self.response_tail(t, share=share) - least, 0.0, highest, xtol=1e-11, rtol=1e-12))


def workload_law(*, load: float, fraction: float, choices: int) -> WorkloadLaw:
    """The law for one system, arguments checked.

    >>> law = workload_law(load=0.9, fraction=1.0, choices=2)  # rho P(wait) = rho^2, the flow into waiting
    >>> round(law.wait_tail(0.0, share=1.0), 12)
    0.81
    """
    check(load=load, fraction=fraction, choices=choices)
    return WorkloadLaw(load=load, fraction=fraction, choices=choices)
