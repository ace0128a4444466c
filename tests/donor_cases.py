"""Shared by the tests of the donor system: its standing case, the box that needs no theory, random systems."""

from __future__ import annotations

import csv
import math
import re

import numpy as np
from reference_donor import cmu, serves
from scipy import sparse
from scipy.sparse.linalg import splu
from shared_data import SHARED

from qtheory.models import ADT, T1, T1T2, T2, CMu, Dedicated, Donor
from qtheory.models.files import plain

RATES = {"mu1": 1.0, "mu12": 1.0, "mu2": 1 / 16}
"""mu1 = mu12 = 1, mu2 = 1/16: the rates of every figure of the source."""


def standing(policy, *, rho1, rho2, rates=RATES, **fields):
    """The donor system at given loads."""
    arrivals = (rho1 * rates["mu1"], rho2 * rates["mu2"])
    return Donor(arrival_rates=arrivals, service_rates=rates, policy=policy, **fields)


def reference_policy(model):
    """The policy as the plain event simulation takes it."""
    rates = model.service_rates
    if isinstance(model.policy, CMu):
        return cmu(holding_costs=model.holding_costs, mu12=rates.mu12, mu2=rates.mu2)
    return {key: math.inf if value == "inf" else value for key, value in plain(model.policy).items()}


def box(model, *, size1, size2):
    """P(N1, N2) of the chain cut at a box, arrivals lost at its edges, from the reference policy map alone."""
    policy, rates = reference_policy(model), model.service_rates
    lambda1, lambda2 = model.arrival_rates
    start, end, speed = [], [], []

    def move(here, there, rate):
        if rate > 0:
            start.append(here[0] * size2 + here[1])
            end.append(there[0] * size2 + there[1])
            speed.append(rate)

    for n1 in range(size1):
        for n2 in range(size2):
            one, donor = serves(policy, n1, n2, mu1=rates.mu1, mu12=rates.mu12)
            if n1 + 1 < size1:
                move((n1, n2), (n1 + 1, n2), lambda1)
            if n2 + 1 < size2:
                move((n1, n2), (n1, n2 + 1), lambda2)
            if n1:
                move((n1, n2), (n1 - 1, n2), one * rates.mu1 + (donor == 1) * rates.mu12)
            if donor == 2:
                move((n1, n2), (n1, n2 - 1), rates.mu2)
    count = size1 * size2
    jumps = sparse.csc_array((speed, (start, end)), shape=(count, count))
    generator = sparse.csc_array(jumps - sparse.diags_array(np.asarray(jumps.sum(axis=1)).ravel()))
    # The balance equation of a state that is surely visited is replaced by p(state) = 1.
    pinned = min(count - 1, (min(2, size1 - 1)) * size2 + min(size2 - 1, 1))
    keep = np.arange(count) != pinned
    balance = sparse.csc_array(generator.T)
    rest = splu(sparse.csc_array(balance[keep][:, keep])).solve(-balance[keep][:, [pinned]].toarray().ravel())
    p = np.empty(count)
    p[keep], p[pinned] = rest, 1.0
    return (p / p.sum()).reshape(size1, size2)


def means(p):
    """E[N1], E[N2] of a joint law."""
    return float(p.sum(axis=1) @ np.arange(p.shape[0])), float(p.sum(axis=0) @ np.arange(p.shape[1]))


def parse_policy(text):
    """``T1T2(3;10)`` as a policy."""
    name, inside = re.fullmatch(r"(\w+)\((.*)\)", text).groups()
    values = [int(value) for value in inside.split(";")]
    return {
        "T1": lambda: T1(t1=values[0]),
        "T2": lambda: T2(t2=values[0]),
        "T1T2": lambda: T1T2(t1=values[0], t2=values[1]),
        "ADT": lambda: ADT(low=values[0], high=values[1], t2=values[2]),
    }[name]()


def published_rows():
    """(model, E[N1], E[N2], E[R]) of the table of right values, None in place of numbers where unstable."""
    if SHARED is None:
        return []
    with open(SHARED / "anchors" / "donor.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    result = []
    for row in rows:
        model = standing(parse_policy(row["policy"]), rho1=float(row["rho1"]), rho2=float(row["rho2"]))
        stable = row["E_N1"] != "unstable"
        result.append((model, tuple(float(row[k]) for k in ("E_N1", "E_N2", "E_R")) if stable else None))
    return result


def random_policy(rng):
    """One of all policies, with thresholds that are often small and sometimes infinite."""

    def threshold(most):
        return math.inf if rng.random() < 0.08 else int(rng.integers(1, most))

    low, high = sorted((threshold(7), threshold(12)))
    readings = ("source", "idle", "work-conserving")
    return [
        lambda: T1(t1=threshold(9)),
        lambda: T2(t2=threshold(8), reading=str(rng.choice(readings))),
        lambda: T1T2(t1=threshold(7), t2=threshold(8)),
        lambda: ADT(low=low, high=high, t2=threshold(7)),
        lambda: CMu(),
        lambda: Dedicated(),
    ][int(rng.choice(6, p=(0.2, 0.25, 0.25, 0.2, 0.05, 0.05)))]()


def random_model(rng, *, most=0.95):
    """A system with random rates and policy; not always stable."""
    rates = {"mu1": 1.0, "mu12": float(rng.choice((0.0, 0.4, 1.0, 2.0))), "mu2": float(10 ** rng.uniform(-1.5, 0.7))}
    rho2 = float(rng.uniform(0.05, most))
    rho1 = float(rng.uniform(0.05, most) * (1 + rates["mu12"] * (1 - rho2)))
    costs = (float(rng.uniform(0, 2)), float(rng.uniform(0, 2)))
    return standing(random_policy(rng), rho1=rho1, rho2=rho2, rates=rates, holding_costs=costs)
