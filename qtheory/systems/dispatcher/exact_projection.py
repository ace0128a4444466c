"""The arrivals at Group 1 by few phases: Group 0's chain projected on the functions that Group 1 can feel.

Group 0 does not depend on Group 1. In the joint chain, perturbed from Poisson arrivals at Group 1, its state enters
by the words theta (D - l) (s - Q)^-1 (D - l) (s' - Q)^-1 ... and (s - Q)^-1 (D - l) (s' - Q)^-1 ... e, with D the rates
of an event, l its mean rate, s the rates at which Group 1 forgets. Their span, orthonormal in the inner product
weighted by the stationary vector theta, carries a Galerkin projection of Q and D: Q is dissipative in that
product, and so is its projection, for every number of functions taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qtheory.queues.linear import Array
from qtheory.queues.map import ArrivalProcess
from qtheory.systems.dispatcher.exact_chain import MarkedChain

#: Rates s at which Group 1 is taken to forget, over 1 / mean service.
_SHIFTS = (0.03, 0.1, 0.3, 1.0, 3.0)
#: Length of the words, how many functions are carried from one length to the next, and what a longer word counts.
_LENGTH, _CARRIED, _DECAY = 4, 6, 0.5
_FLOOR = 1e-15
#: Distance of the weights from the stationary vector at which that becomes a function of its own.
_OTHER = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class Projection:
    """Projections of one chain; `time_scale` is the mean service in Group 1."""

    chain: MarkedChain
    time_scale: float

    @cached_property
    def weights(self) -> Array:
        """The stationary vector, made positive where rounding or the collocation left it otherwise."""
        theta = np.abs(self.chain.stationary)
        return np.maximum(theta, _FLOOR * float(theta.max()))

    @cached_property
    def functions(self) -> Array:
        """Columns orthonormal in the weighted product: the constant (and the stationary vector over the weights,
        where that differs), then the span of the words, by falling size."""
        theta, root = self.chain.stationary, np.sqrt(self.weights)[:, None]
        # The constant goes in untouched, so that rows sum to 0; the stationary vector only where it is another one.
        base = root / np.linalg.norm(root)
        other = theta[:, None] / root
        other = other - base @ (base.T @ other)
        if np.linalg.norm(other) > _OTHER:
            base = np.concatenate([base, other / np.linalg.norm(other)], axis=1)
        rest = self._words() * root
        for _ in range(2):
            rest = rest - base @ (base.T @ rest)
        span, scales, _ = np.linalg.svd(rest, full_matrices=False)
        return np.asarray(np.concatenate([base, span[:, scales > 1e-12 * scales[0]]], axis=1) / root)

    def _words(self) -> Array:
        chain, theta, root = self.chain, self.chain.stationary, np.sqrt(self.weights)[:, None]
        ones = np.ones_like(theta)
        rates = [float(theta @ mark.right(ones)) for mark in chain.marks]
        shifts = [(s**0.5, chain.generator.shifted(s / self.time_scale, where="group0")) for s in _SHIFTS]
        right, left = ones[:, None], theta[None, :]
        found = []
        for _ in range(_LENGTH):
            pushed = [mark.right(right) - rate * right for mark, rate in zip(chain.marks, rates, strict=True)]
            pulled = [mark.left(left) - rate * left for mark, rate in zip(chain.marks, rates, strict=True)]
            after = np.concatenate([w * solver.solve(v) for w, solver in shifts for v in pushed], axis=1)
            before = np.concatenate([w * solver.solve_left(v) for w, solver in shifts for v in pulled], axis=0)
            after = _DECAY * (after - np.outer(ones, theta @ after))
            before = _DECAY * (before - np.outer(before.sum(axis=1), theta))
            found += [after * root, before.T / root]
            right, left = _leading(after * root) / root, (_leading(before.T / root) * root).T
        return np.concatenate(found, axis=1) / root

    def arrivals(self, order: int) -> ArrivalProcess:
        """The process on the first `order` functions, in coordinates where the constant has all entries 1."""
        functions = self.functions[:, :order]
        weighted = functions * self.weights[:, None]
        whole = weighted.T @ self.chain.generator.right(functions)
        marks = [weighted.T @ mark.right(functions) for mark in self.chain.marks]
        turn = _to_ones(weighted.sum(axis=0))
        whole, *marks = (turn @ block @ turn.T for block in (whole, *marks))
        return ArrivalProcess(hidden=whole - sum(marks), marks=tuple(marks))

    def left_behind(self, order: int) -> Array:
        """Rate of kills by phase of `arrivals(order)`, each counted by the number of jobs it leaves in Group 0."""
        weighted = self.functions[:, :order] * self.weights[:, None]
        constant = weighted.sum(axis=0)
        kills = self.chain.marks[0].right(self.chain.generator.levels)
        scale = order**0.5 / float(np.linalg.norm(constant))
        return np.asarray(scale * (_to_ones(constant) @ (weighted.T @ kills)))

    @property
    def left_mean(self) -> float:
        """Mean number of jobs that a kill leaves in Group 0."""
        kill, theta, levels = self.chain.marks[0], self.chain.stationary, self.chain.generator.levels
        return float(theta @ kill.right(levels)) / float(theta @ kill.right(np.ones_like(levels)))


def _to_ones(vector: Array) -> Array:
    """The reflection that takes `vector` to a multiple of (1, ..., 1)."""
    size = len(vector)
    mirror = vector / np.linalg.norm(vector) - np.full(size, size**-0.5)
    square = float(mirror @ mirror)
    return np.eye(size) - (2.0 / square * np.outer(mirror, mirror) if square > 1e-28 else 0.0)


def _leading(vectors: Array) -> Array:
    """The few combinations of columns that carry most."""
    span, scales, _ = np.linalg.svd(vectors, full_matrices=False)
    return np.asarray((span * scales)[:, :_CARRIED])
