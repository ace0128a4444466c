"""How renewal arrivals, of which each is kept with some probability, change the wait of many servers.

Exact for exponential service: the GI/M/c queue fed by the thinned renewal process, beside M/M/c at the same load.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qtheory._lazy import special
from qtheory.laws import Distribution
from qtheory.models import NotConverged
from qtheory.queues import erlang, renewal

FloatArray = NDArray[np.float64]
_STEPS = 200


@dataclass(frozen=True, kw_only=True)
class RenewalFactors:
    """Mean wait and P(W > 0) over their values with Poisson arrivals, by number of servers."""

    wait: FloatArray
    probability: FloatArray


def renewal_factors(
    *,
    interarrival: Distribution,
    keep: float,
    mean_service: float,
    service_scv: float,
    servers: FloatArray,
) -> RenewalFactors:
    """What the arrivals do to the wait in GI/G/c, arrivals kept with probability `keep`, scv c2 = keep c2 + 1 - keep.

    With X the ratio of the exact waits of GI/M/c and M/M/c, z = (c2 + cs2) / (1 + cs2) and z1 = (c2 + 1) / 2 the
    heavy-traffic factors for this service law and for an exponential one, the factor is X^(log z / log z1) for
    c2 < 1 and X z / z1 above 1: exact for exponential service and in heavy traffic.  The probability of waiting
    moves from GI/M/c to GI/G/c by the ratio of `renewal.wait_probability_factor`. Times between arrivals without a
    second moment make these limits, X 2 / (1 + cs2) for the wait and that of GI/M/c for the probability.

    Raises `NotConverged` if the root of GI/M/c is not found.
    """
    offered = keep * mean_service / interarrival.mean
    scv = keep * interarrival.scv + 1.0 - keep
    exact = exponential_service(interarrival=interarrival, keep=keep, mean_service=mean_service, servers=servers)
    service_scv = min(service_scv, 1e6)
    if math.isinf(scv):
        return RenewalFactors(wait=exact.wait * 2.0 / (1.0 + service_scv), probability=exact.probability)
    heavy, heavy1 = (scv + service_scv) / (1.0 + service_scv), (scv + 1.0) / 2.0
    if abs(scv - 1.0) < 1e-9:
        wait = exact.wait
    elif scv < 1.0:
        wait = exact.wait ** (np.log(max(heavy, 1e-12)) / np.log(heavy1))
    else:
        wait = exact.wait * heavy / heavy1
    ours, theirs = (
        renewal.wait_probability_factor(offered_load=offered, servers=servers, arrival_scv=scv, service_scv=cs2)
        for cs2 in (service_scv, 1.0)
    )
    moved = np.where(np.asarray(theirs) > 0.0, np.asarray(ours) / np.where(np.asarray(theirs) > 0.0, theirs, 1.0), 1.0)
    return RenewalFactors(wait=wait, probability=exact.probability * moved)


def exponential_service(
    *, interarrival: Distribution, keep: float, mean_service: float, servers: FloatArray
) -> RenewalFactors:
    """GI/M/c over M/M/c, both exact, for thinned renewal arrivals.

    phi(s) is the transform of the kept times, k f(s) / (1 - (1 - k) f(s)) with f that of the given ones; sigma the
    root of sigma = phi(c mu (1 - sigma)) below 1; phi_j = phi(j mu), C_j the product of phi_i / (1 - phi_i):

        D = 1 / (1/(1 - sigma) + sum_(j<=c) binom(c, j) (c (1 - phi_j) - j) / (C_j (1 - phi_j) (c (1 - sigma) - j)))

    P(W > 0) = D / (1 - sigma) and E[W] = D / (c mu (1 - sigma)^2).

    Takacs (1962), Introduction to the Theory of Queues, ch. 2, theorem 3; Gross and Harris (1998), sec. 5.3.2.
    """
    offered = keep * mean_service / interarrival.mean
    wait, probability = by_transform(
        transform_rest(interarrival), keep=keep, mean_service=mean_service, servers=servers
    )
    waits = np.asarray(erlang.erlang_c(offered_load=offered, servers=servers))
    return RenewalFactors(wait=wait / (waits * mean_service / (servers - offered)), probability=probability / waits)


def by_transform(
    rest: Callable[[FloatArray], FloatArray], *, keep: float, mean_service: float, servers: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """E[W] and P(W > 0) of GI/M/c from `rest`, 1 - f(s) of the times between arrivals, as in `exponential_service`."""

    def kept(s: FloatArray) -> FloatArray:
        """1 - phi(s)."""
        left = rest(s)
        return np.asarray(left / (keep + (1.0 - keep) * left))

    free = _root(kept, servers=servers / mean_service)  # 1 - sigma
    most = int(servers.max())
    j = np.arange(1.0, most + 1.0)
    gap = kept(j / mean_service)  # 1 - phi_j
    log_c = np.cumsum(np.log1p(-gap) - np.log(gap))
    sums = np.empty_like(servers)
    step = max(1, 2_000_000 // most)
    for i in range(0, servers.size, step):
        sums[i : i + step] = _sum(servers[i : i + step, None], free[i : i + step, None], j=j, gap=gap, log_c=log_c)
    d = 1.0 / (1.0 / free + sums)
    return d * mean_service / (servers * free**2), d / free


def transform_rest(law: Distribution) -> Callable[[FloatArray], FloatArray]:
    """1 - f(s) of a law, which keeps its digits at small s."""
    points, weights = _points(law)
    return lambda s: np.asarray(-np.expm1(-s[..., None] * points) @ weights)


def _points(law: Distribution) -> tuple[FloatArray, FloatArray]:
    """Points and weights whose sums stand for expectations: the atoms and a Gauss sum over the density."""
    table = law.tabulated()
    points, weights = table.atoms
    if table.density_share > 1e-15:
        more, shares = table.nodes()
        points, weights = np.append(points, more), np.append(weights, shares)
    # The mean decides where the root lies when the load is high: make it exact.
    return points * (law.mean / float(points @ weights)), weights


def _root(kept: Callable[[FloatArray], FloatArray], *, servers: FloatArray) -> FloatArray:
    """1 - sigma by bisection in its logarithm: x = kept(c mu x), the positive root; `servers` is c mu."""
    low, high = np.full_like(servers, 1e-12), np.ones_like(servers)
    for _ in range(_STEPS):
        middle = np.sqrt(low * high)
        above = kept(servers * middle) > middle  # concave in x: above the diagonal up to the root
        low, high = np.where(above, middle, low), np.where(above, high, middle)
        if np.all(high - low <= 1e-14 * high):
            return np.sqrt(low * high)
    residual = float(np.max(high / low - 1.0))
    raise NotConverged(where="GI/M/c root", residual=residual, iterations=_STEPS, advice="lower the load")


def _sum(count: FloatArray, free: FloatArray, *, j: FloatArray, gap: FloatArray, log_c: FloatArray) -> FloatArray:
    """The sum over j <= c in D, its terms (all positive) as exponentials of logarithms."""
    inside = j <= count
    rest = np.where(inside, count - j, 0.0)
    log_binomial = special.gammaln(count + 1.0) - special.gammaln(j + 1.0) - special.gammaln(rest + 1.0)
    # Both differences vanish together where j = c (1 - sigma); a nudge gives the limit to some eight digits.
    nudged = np.where(np.abs(count * free - j) < 1e-8 * j, count * free * (1.0 + 1e-7), count * free)
    ratio = np.abs((count * gap - j) / (nudged - j))
    with np.errstate(divide="ignore", over="ignore"):
        terms = np.exp(log_binomial - log_c - np.log(gap) + np.log(ratio))
    return np.asarray(np.where(inside, terms, 0.0).sum(axis=1))
