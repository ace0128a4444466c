"""The drift of a smoothed test function, state by state on a lattice.

The raw drift of a piecewise-linear V is positive where pieces tie: a jump up is felt by each of them, a jump down by
all or none. The smooth V_tau(x) = tau log sum_i exp(w_i . x / tau) averages the pieces that are within about tau of V,
and its drift

    (L V_tau)(x) = sum over the jumps y of x of rate(x -> y) (V_tau(y) - V_tau(x))

tends to that of the leading piece away from the ties and to mixtures near them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from qtheory.models.base import require
from qtheory.models.network import Network
from qtheory.systems.network.control import Control, control
from qtheory.systems.network.expansion import Array, expand
from qtheory.systems.network.piecewise import PiecewiseLinear, default_function
from qtheory.systems.network.places import EXIT
from qtheory.systems.network.stabilizability import with_static_split

#: Lattices with more states than this are refused.
MOST_STATES = 3_000_000
_BLOCK = 20_000


@dataclass(frozen=True, kw_only=True)
class SmoothedDrift:
    """Drift of the smoothed test function on a lattice.

    Attributes
    ----------
    worst, at : largest drift among states with at least `beyond` jobs, and the state where it occurs.
    positive : share of those states in which the drift is not negative.
    states : how many there are.
    largest_positive : most jobs in a state of the lattice with a drift that is not negative, 0 if there is none.
    """

    worst: float
    at: tuple[int, ...]
    positive: float
    states: int
    largest_positive: int


def smoothed_drift(
    model: Network,
    *,
    levels: Sequence[int],
    tau: float = 1.0,
    beyond: int = 1,
    function: PiecewiseLinear | None = None,
) -> SmoothedDrift:
    """Drift of tau log-sum-exp of the pieces at every state whose subservers hold numbers of jobs out of `levels`.

    A finite lattice proves nothing by itself: it shows where a test function fails, or how large the exceptional
    set around the origin is. Policies that commit jobs to routes only.

    Raises `InvalidModel` for a policy without route expansion, more than 3e6 states, or an empty choice of states.
    """
    require(tau > 0, field="tau", rule="must be > 0", value=tau)
    require(len(levels) > 0 and min(levels) >= 0, field="levels", rule="must be numbers of jobs >= 0")
    model = with_static_split(model)
    policy = control(model)
    rule = "decides after every service: its places are no subservers, on which V is defined"
    require(policy.places.committed, field="policy", rule=rule, value=model.policy.kind())
    size = expand(model).size
    count = len(levels) ** size
    rule = f"{len(levels)} levels on {size} subservers make more than {MOST_STATES} states"
    require(count <= MOST_STATES, field="levels", rule=rule, value=count)
    function = default_function(model) if function is None else function
    worst, at, positive, states, largest = -math.inf, np.zeros(size), 0, 0, 0
    for block in _lattice(np.array(sorted(set(levels)), float), size=size):
        chosen = block[block.sum(axis=1) >= beyond]
        if len(chosen) == 0:
            continue
        drift = generator_drift(policy, function, chosen, tau=tau)
        best = int(drift.argmax())
        if drift[best] > worst:
            worst, at = float(drift[best]), chosen[best]
        failing = drift >= 0
        positive += int(failing.sum())
        states += len(chosen)
        if failing.any():
            largest = max(largest, int(chosen[failing].sum(axis=1).max()))
    require(states > 0, field="beyond", rule="leaves no state of the lattice", value=beyond)
    return SmoothedDrift(
        worst=worst,
        at=tuple(int(jobs) for jobs in at),
        positive=positive / states,
        states=states,
        largest_positive=largest,
    )


def generator_drift(policy: Control, function: PiecewiseLinear, states: Array, *, tau: float) -> Array:
    """(L V_tau)(x) for each row x of `states`."""
    heights = states @ function.weights.T / tau
    base = logsumexp(heights, axis=1)
    # A jump moves every piece by the same amount whatever the state.
    steps = function.weights / tau
    where = policy.places
    drift = np.zeros(len(states))

    def jump(flow: Array, move: Array) -> None:
        nonlocal drift
        moving = flow > 0
        drift[moving] += flow[moving] * tau * (logsumexp(heights[moving] + move, axis=1) - base[moving])

    for c, rate in enumerate(where.expansion.arrival_rates):
        chosen = policy.entry(states, c=c)
        for o, k in enumerate(where.entry[c]):
            jump(rate * chosen[:, o], steps[:, k])
    service = policy.service(states)
    for k in range(where.size):
        chosen = policy.onward(states, k=k)
        for o, target in enumerate(where.onward[k]):
            gained = steps[:, target] if target != EXIT else 0.0
            jump(service[:, k] * chosen[:, o], gained - steps[:, k])
    return drift


def _lattice(levels: Array, *, size: int) -> Iterator[Array]:
    """All vectors with entries out of `levels`, in blocks."""
    count = len(levels) ** size
    for start in range(0, count, _BLOCK):
        index = np.arange(start, min(start + _BLOCK, count))
        yield np.stack([levels[index // len(levels) ** j % len(levels)] for j in range(size)], axis=1)
