"""Kills are more regular than a Poisson stream: what that takes from the wait of Group 1.

A server of Group 0 that is never idle kills at intervals H + Y_1 + ... + Y_N, H how long a killed job holds it (T by
the plain rules), Y a service that completed and N geometric: a renewal process of scv c2, often far below 1.  In the
long run the kills have the dispersion of the arrivals; in between the index of dispersion is w I + (1 - w) c2, w the
weight with which a queue of Group 0's load lets its input through after that time.  Kills are also long, so it is the
dispersion of work that counts.

Whitt and You (2018), Using robust queueing to expose the impact of dependence in single-server queues, Operations
Research 66, give the weight and the bound on the wait.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from qtheory._normal import tail as normal_tail
from qtheory.systems.dispatcher.loads import Traffic

FloatArray = NDArray[np.float64]
#: Times at which the bound is looked for, in units of the time at which it is reached without correction.
_TIMES = np.logspace(-6.0, 2.0, 241)


def kill_interval_scv(traffic: Traffic) -> float:
    """Squared coefficient of variation of H + sum of N completed services, N geometric with mean (1 - q) / q.

    >>> from qtheory.models import Dispatcher, Exponential
    >>> from qtheory.systems.dispatcher.loads import traffic
    >>> one = Exponential(mean=1.0)
    >>> median = Dispatcher(
    ...     servers=(1, 1), time_limit=0.6931471805599453, short_fraction=1.0,
    ...     interarrival=one, service0=one, service1=one,
    ... )
    >>> round(kill_interval_scv(traffic(median)), 2)
    0.23
    """
    q = traffic.kill_probability
    completed = 1.0 - q
    if completed == 0.0:
        return traffic.aborted.scv
    done, held = traffic.completed, traffic.aborted
    # Variance and squared mean, both times q^2: kills may be too rare for 1 / q^2.
    variance = q**2 * held.variance + completed * (q * done.variance + done.mean**2)
    return variance / (q * held.mean + completed * done.mean) ** 2


def work_dispersion_ratio(traffic: Traffic, *, servers0: FloatArray, servers1: FloatArray) -> FloatArray:
    """Wait of Group 1 over what it would be if kills had the long-run dispersion at all times; 1 without kills,
    or without a second moment of the times between arrivals.

    Work comes at variance rate V(t) = lk (vk + mk^2 I_k(t)) + ld (vd + md^2 I_d) (rates l, means m, variances v of
    kills and of long jobs), and the ratio is that of sup_t (sqrt(2 V(t) t) - d t), d the spare servers of Group 1.
    """
    killed_rate, long_rate = traffic.killed_rate, traffic.long_rate
    shape = np.broadcast(servers0, servers1).shape
    if killed_rate == 0.0 or math.isinf(traffic.scv):
        return np.ones(shape)
    killed = traffic.killed
    own = killed_rate * killed.variance
    if long_rate > 0.0:
        index = 1.0 + long_rate / traffic.rate * (traffic.scv - 1.0)
        own += long_rate * (traffic.service1.variance + traffic.service1.mean**2 * index)
    if not math.isfinite(own):
        return np.ones(shape)
    load0 = traffic.offered[0] / servers0[..., None]
    spare = servers1[..., None] - traffic.offered[1]
    weight = killed_rate * killed.mean**2
    settled = 1.0 + killed_rate / traffic.rate * (traffic.scv - 1.0)
    poisson = own + weight * settled
    time = _TIMES * poisson / (2.0 * spare**2)
    passed = _weight(traffic.rates[0] * time * (1.0 - load0) ** 2 / (load0**2 * (1.0 + traffic.occupation0.scv)))
    dispersion = passed * settled + (1.0 - passed) * kill_interval_scv(traffic)
    bound = np.sqrt(2.0 * (own + weight * dispersion) * time) - spare * time
    return np.asarray(bound.max(axis=-1) / (poisson / (2.0 * spare[..., 0])))


def _weight(t: FloatArray) -> FloatArray:
    """w(t) = 1 - (1 - c(t)) / (2t), c the correlation function of reflected Brownian motion in equilibrium."""
    root = np.sqrt(t)
    density = np.exp(-t / 2.0) / math.sqrt(2.0 * math.pi)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        correlation = 2.0 * (1.0 - 2.0 * t - t * t) * normal_tail(root) + 2.0 * root * density * (1.0 + t)
        settled = 1.0 - (1.0 - np.where(t < 1e3, correlation, 0.0)) / (2.0 * t)
    # The quotient loses its digits near 0, where w vanishes like sqrt(t).
    return np.where(t < 1e-8, 0.0, np.clip(settled, 0.0, 1.0))
