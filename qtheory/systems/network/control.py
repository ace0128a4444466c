"""What a policy does in a state, for many states at once: entry and onward probabilities, service rates.

States are arrays of jobs by place, shape (states, places); whole or real numbers (fluid models) alike.  Chains,
drifts and fluid paths are built from these functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from qtheory.models.base import require
from qtheory.models.network import Network
from qtheory.models.policies import JSQ, JSQAS, JSR, Bernoulli, MaxWeight
from qtheory.systems.network.expansion import Array, Indices
from qtheory.systems.network.piecewise import PiecewiseLinear, default_function
from qtheory.systems.network.places import EXIT, Places, places
from qtheory.systems.network.split import split_of

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Control:
    """A policy on the places of its network.  Jobs that may join several places alike are split as `ties` says."""

    model: Network
    places: Places

    @property
    def holds(self) -> bool:
        """Whether a place may hold its jobs back."""
        return isinstance(self.model.policy, JSQAS)

    @cached_property
    def _split(self) -> tuple[Array, ...]:
        return tuple(np.array(row) for row in split_of(self.model))

    @cached_property
    def _function(self) -> PiecewiseLinear:
        policy = self.model.policy
        assert not isinstance(policy, MaxWeight)
        return default_function(self.model, **policy.weights)

    def entry(self, states: Array, *, c: int) -> Array:
        """Probabilities with which an arrival of class `c` joins each of `places.entry[c]`, shape (states, options)."""
        options = self.places.entry[c]
        policy = self.model.policy
        if isinstance(policy, Bernoulli):
            return np.broadcast_to(self._split[c], (len(states), len(options)))
        if isinstance(policy, JSR):
            sizes = self._on_routes(states)[:, self.places.expansion.of_class(c)]
        elif isinstance(policy, JSQ):
            sizes = self._at_servers(states, options)
        else:
            sizes = _jobs(states, options)
        return _least(sizes, first=policy.ties == "lowest")

    def onward(self, states: Array, *, k: int) -> Array:
        """Probabilities with which a job that leaves place `k` joins each of `places.onward[k]`."""
        options = self.places.onward[k]
        policy = self.model.policy
        if len(options) == 1:
            return np.ones((len(states), 1))
        sizes = self._at_servers(states, options) if isinstance(policy, JSQ) else _jobs(states, options)
        return _least(sizes, first=isinstance(policy, MaxWeight) or policy.ties == "lowest")

    def service(self, states: Array) -> Array:
        """The rate at which jobs leave each place, shape (states, places)."""
        rates = np.zeros(states.shape)
        ready = self._ready(states)
        for n, mu in enumerate(self.places.expansion.rates):
            here = self.places.at(n)
            if len(here):
                rates[:, here] = mu * self._shares(states, here, ready[:, here])
        return rates

    def drift(self, states: Array) -> Array:
        """Mean change of each place per unit time, shape (states, places)."""
        leaving = self.service(states)
        change = -leaving
        for c, rate in enumerate(self.places.expansion.arrival_rates):
            chosen = self.entry(states, c=c)
            for o, k in enumerate(self.places.entry[c]):
                change[:, k] += rate * chosen[:, o]
        for k in range(self.places.size):
            chosen = self.onward(states, k=k)
            for o, target in enumerate(self.places.onward[k]):
                if target != EXIT:
                    change[:, target] += leaving[:, k] * chosen[:, o]
        return change

    def _on_routes(self, states: Array) -> Array:
        """Jobs on each route."""
        starts = np.flatnonzero(self.places.expansion.position == 0)
        return np.asarray(np.add.reduceat(states, starts, axis=1))

    def _at_servers(self, states: Array, options: Indices) -> Array:
        """Jobs at the server of each option, 0 for the exit."""
        sizes = np.zeros((len(states), len(options)))
        for o, k in enumerate(options):
            if k != EXIT:
                sizes[:, o] = states[:, self.places.at(int(self.places.server[k]))].sum(axis=1)
        return sizes

    def _ready(self, states: Array) -> Mask:
        """Places that a server may work on."""
        ready = states > 0
        if isinstance(self.model.policy, MaxWeight):
            ready &= self._differentials(states) > 0
        elif self.holds:
            after = self.places.next_on_route
            held = (after != EXIT) & (_jobs(states, after) >= states)
            ready &= ~held
        return ready

    def _shares(self, states: Array, here: Indices, ready: Mask) -> Array:
        """Share of the server that each of its places `here` gets."""
        policy = self.model.policy
        if len(here) == 1:
            return ready.astype(float)
        if isinstance(policy, MaxWeight):
            return _least(np.where(ready, -self._differentials(states)[:, here], np.inf), first=True)
        if policy.sharing == "random":
            weights = np.where(ready, states[:, here], 0.0)
            total = weights.sum(axis=1, keepdims=True)
            return np.asarray(np.divide(weights, total, out=np.zeros_like(weights), where=total > 0))
        rank: Callable[[Array, Indices], Array] = {
            "longest": self._longest,
            "priority": self._priority,
            "dominant": self._dominant,
            "shortest-downstream": self._shortest_downstream,
            "largest-differential": self._largest_differential,
        }[policy.sharing]
        return _least(np.where(ready, rank(states, here), np.inf), first=False)

    def _longest(self, states: Array, here: Indices) -> Array:
        return np.negative(states[:, here])

    def _priority(self, states: Array, here: Indices) -> Array:
        policy = self.model.policy
        assert not isinstance(policy, MaxWeight)
        names = [c.name for c in self.model.classes]
        ranks = np.array([policy.order.index(names[c]) for c in self.places.klass[here]], dtype=float)
        return np.broadcast_to(ranks, (len(states), len(here)))

    def _dominant(self, states: Array, here: Indices) -> Array:
        carrying = self._function.members[self._function.best(states)]
        later = float(self.places.expansion.position.max()) + 1
        return np.where(carrying[:, here], self.places.expansion.position[here].astype(float), later)

    def _shortest_downstream(self, states: Array, here: Indices) -> Array:
        if self.places.committed:
            return _jobs(states, self.places.next_on_route[here])
        return np.asarray(states[:, here] - self._differentials(states)[:, here])

    def _largest_differential(self, states: Array, here: Indices) -> Array:
        if self.places.committed:
            return _jobs(states, self.places.next_on_route[here]) - states[:, here]
        return -self._differentials(states)[:, here]

    def _differentials(self, states: Array) -> Array:
        """Jobs of each place beyond those of the emptiest place after it."""
        least = [_jobs(states, options).min(axis=1) for options in self.places.onward]
        return np.asarray(states - np.stack(least, axis=1))


def control(model: Network) -> Control:
    """The policy of `model` as functions of the state.

    Raises `InvalidModel` for blocking, whose state is more than the jobs by place, and for an open split.
    """
    policy = model.policy
    blocking = isinstance(policy, JSQAS) and policy.holding == "blocking"
    rule = "blocking needs to know which servers are occupied; only idle is a function of the jobs by place"
    require(not blocking, field="policy.holding", rule=rule)
    if isinstance(policy, Bernoulli):
        split_of(model)
    return Control(model=model, places=places(model))


def _jobs(states: Array, options: Indices) -> Array:
    """Jobs of each option, 0 for the exit."""
    return np.asarray(np.where(options == EXIT, 0.0, states[:, options]))


def _least(sizes: Array, *, first: bool) -> Array:
    """Probabilities of joining the least size (inf: never): the first of the least, or each of them alike."""
    smallest = sizes.min(axis=1, keepdims=True)
    chosen = (sizes == smallest) & np.isfinite(sizes)
    if first:
        chosen &= np.cumsum(chosen, axis=1) == 1
    total = chosen.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(chosen, total, out=np.zeros(sizes.shape), where=total > 0))
