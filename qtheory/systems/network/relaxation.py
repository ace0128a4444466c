"""How long a network remembers its start."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qtheory.models.network import Network
from qtheory.models.policies import Bernoulli
from qtheory.systems.network.expansion import Array, Expansion, expand
from qtheory.systems.network.split import split_of
from qtheory.systems.network.stabilizability import Stabilizability, stabilizability


def relaxation_jobs(model: Network) -> float:
    """Jobs of all classes that arrive during one relaxation time; infinite where the traffic cannot be carried.

    Under a Bernoulli policy each server is M/M/1 and relaxes in 1 / (sqrt mu - sqrt lambda)^2; the slowest server
    counts.  Else the bottleneck of the stabilizability programme counts as one: with dual prices y_n and
    p_c = least sum of y over a route of class c, the workload of jobs weighted by the prices that they still have to
    pay grows by p_c with each arrival and falls by at most y_n with each service, hence like Brownian motion reflected
    at 0 with drift sum lambda_c p_c - sum mu_n y_n = 1 - theta* and variance rate
    P = sum lambda_c p_c^2 + sum mu_n y_n^2, and relaxes in 2 P / (theta* - 1)^2 (Whitt 1989, "Planning queueing
    simulations", Management Sci. 35), which is never less than M/M/1's 1 / (sqrt mu - sqrt lambda)^2.  To this comes
    the time in which the servers of the bottleneck balance, 1 / (mu_n (1 - 1 / theta*)) of the slowest.  Servers off
    the bottleneck count as M/M/1 under the static split.  Everywhere the mean services along the longest route are
    added.

    It is a lower estimate for policies under which the network is stable up to less than theta* only, whose spare
    capacity is smaller: whether a run under them has settled shows in the run.

    >>> from qtheory.models import JSR, NetworkClass
    >>> line = NetworkClass(rate=0.25, routes=[["s1"]])
    >>> relaxation_jobs(Network(servers={"s1": 1.0}, classes=[line], policy=Bernoulli(split=[[1.0]])))  # (4 + 1) / 4
    1.25
    """
    expansion = expand(model)
    transit = max(sum(1.0 / model.servers[name] for name in route) for route in expansion.routes)
    if isinstance(model.policy, Bernoulli):
        longest = float(_alone(expansion, _flows(expansion, split_of(model))).max())
    else:
        longest = _pooled(expansion, stabilizability(model))
    return float(expansion.arrival_rates.sum()) * (longest + transit)


def _flows(expansion: Expansion, split: Sequence[Sequence[float]]) -> Array:
    """Arrival rate at each server when each class is split over its routes."""
    of_routes = expansion.arrival_rates[expansion.route_class] * np.concatenate([np.asarray(row) for row in split])
    return np.asarray(expansion.visits() @ of_routes)


def _alone(expansion: Expansion, flows: Array) -> Array:
    """Relaxation time of each server as M/M/1."""
    spare = np.sqrt(expansion.rates) - np.sqrt(flows)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(spare > 0.0, 1.0 / np.maximum(spare, 0.0) ** 2, math.inf))


def _pooled(expansion: Expansion, found: Stabilizability) -> float:
    """Relaxation time of the bottleneck, or of a slower server off it."""
    theta = found.theta_star
    if theta <= 1.0:
        return math.inf
    prices = np.array([found.duals[name] for name in expansion.servers])
    of_routes = prices @ expansion.visits()
    least = np.array([of_routes[expansion.of_class(c)].min() for c in range(expansion.arrival_rates.size)])
    variance = float(expansion.arrival_rates @ least**2 + expansion.rates @ prices**2)
    tight = prices > 0.0
    slowest = float(expansion.rates[tight].min())
    together = 2.0 * variance / (theta - 1.0) ** 2 + 1.0 / (slowest * (1.0 - 1.0 / theta))
    others = _alone(expansion, _flows(expansion, found.split))[~tight]
    return max(together, float(others.max(initial=0.0)))
