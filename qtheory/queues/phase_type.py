"""Phase-type and matrix-exponential laws: moments, distribution, transform, algebra.

A law is a start vector alpha and a matrix T: the time until a chain with sub-generator T, started by alpha,
ends. P(X > t) = alpha e^(Tt) e; the mass 1 - alpha e that never starts is an atom at 0. Where entries carry
signs no chain has, the same formulas hold: such a pair is a matrix-exponential law, and `kind` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from qtheory.models.errors import InvalidModel
from qtheory.queues.linear import Array, factor
from qtheory.queues.markov import check_square, check_subgenerator
from qtheory.queues.transient import crossing_times, propagate

Kind = Literal["phase-type", "matrix-exponential", "signed"]


@dataclass(frozen=True, eq=False, kw_only=True)
class PhaseType:
    """A phase-type law (alpha, T), or a matrix-exponential one in the same form (exits -T e).

    The constructor checks shapes and the atom only; `phase_type` and `matrix_exponential` check everything.

    >>> erlang(shape=2, mean=1.0).scv
    0.5
    """

    alpha: Array
    generator: Array

    def __post_init__(self) -> None:
        alpha = np.array(self.alpha, dtype=np.float64)
        generator = np.array(self.generator, dtype=np.float64)
        if alpha.ndim != 1 or generator.shape != (len(alpha), len(alpha)) or not len(alpha):
            raise InvalidModel(
                field="generator", rule="must be square, of the order of alpha", value=(alpha.shape, generator.shape)
            )
        mass = float(alpha.sum())
        if not -1e-9 <= mass <= 1 + 1e-9:
            raise InvalidModel(field="alpha", rule="must sum to at most 1", value=mass)
        alpha.setflags(write=False)
        generator.setflags(write=False)
        object.__setattr__(self, "alpha", alpha)
        object.__setattr__(self, "generator", generator)

    @property
    def order(self) -> int:
        """Number of phases."""
        return len(self.alpha)

    @property
    def atom(self) -> float:
        """P(X = 0)."""
        atom = 1.0 - float(self.alpha.sum())
        return atom if atom > 1e-14 else 0.0

    @cached_property
    def exits(self) -> Array:
        """Rates of ending by phase, -T e."""
        return np.asarray(-self.generator.sum(axis=1))

    @cached_property
    def kind(self) -> Kind:
        """``phase-type`` (a chain stands behind it), ``matrix-exponential`` (a density >= 0, no chain in this
        form), or ``signed`` (right moments, but the density dips below 0: use it for means, not for tails)."""
        scale = 1e-9 * float(np.abs(self.generator).max())
        off = self.generator - np.diag(np.diag(self.generator))
        if self.alpha.min() >= -1e-9 and off.min() >= -scale and self.exits.min() >= -scale:
            return "phase-type"
        return "matrix-exponential" if density_dip(self) >= -1e-9 else "signed"

    @cached_property
    def _powers(self) -> tuple[Array, ...]:
        """(-T)^-k e for k = 0 .. 5."""
        factors = factor(-self.generator, where="moments of a phase-type law")
        vectors = [np.ones(self.order)]
        for _ in range(5):
            vectors.append(factors.solve(vectors[-1]))
        return tuple(vectors)

    def moment(self, order: int) -> float:
        """E[X^k] = k! alpha (-T)^-k e for k = 0 .. 5."""
        if not 0 <= order <= 5:
            raise InvalidModel(field="order", rule="must be from 0 to 5", value=order)
        return 1.0 if order == 0 else factorial(order) * float(self.alpha @ self._powers[order])

    @property
    def mean(self) -> float:
        """E[X]."""
        return self.moment(1)

    @property
    def variance(self) -> float:
        """E[X^2] - E[X]^2."""
        return self.moment(2) - self.mean**2

    @property
    def scv(self) -> float:
        """Variance over squared mean."""
        return self.moment(2) / self.mean**2 - 1.0

    def survival(self, t: ArrayLike) -> Any:
        """P(X > t); 1 for t < 0, 1 - atom at 0. A number for a number, an array for an array."""
        return self._at(t, np.ones(self.order), before=1.0)

    def cdf(self, t: ArrayLike) -> Any:
        """P(X <= t)."""
        return 1.0 - self.survival(t)

    def density(self, t: ArrayLike) -> Any:
        """alpha e^(Tt) (-T e), the density on t > 0; 0 for t < 0."""
        return self._at(t, self.exits, before=0.0)

    def _at(self, t: ArrayLike, weights: Array, *, before: float) -> Any:
        times = np.asarray(t, dtype=np.float64)
        if np.isnan(times).any():
            raise InvalidModel(field="t", rule="must not be nan")
        flat = times.ravel()
        result = np.full(flat.shape, before)
        inside = flat >= 0.0
        finite = np.minimum(flat[inside], 1e300)
        result[inside] = propagate(start=self.alpha, generator=self.generator, times=finite) @ weights
        return result.reshape(times.shape)[()]

    def quantile(self, p: ArrayLike) -> Any:
        """Smallest t with P(X <= t) >= p, for 0 <= p <= 1 (``inf`` at 1)."""
        share = np.asarray(p, dtype=np.float64)
        if not ((share >= 0.0) & (share <= 1.0)).all():
            raise InvalidModel(field="p", rule="must be from 0 to 1", value=p)
        flat = share.ravel()
        result = np.where(flat == 1.0, np.inf, 0.0)
        inside = (flat > self.atom) & (flat < 1.0) & (1.0 - flat < self.alpha.sum())
        result[inside] = crossing_times(start=self.alpha, generator=self.generator, levels=1.0 - flat[inside])
        return result.reshape(share.shape)[()]

    def transform(self, s: ArrayLike) -> Any:
        """Laplace-Stieltjes transform E[e^(-sX)] = atom + alpha (sI - T)^-1 (-T e), s real or complex."""
        points = np.asarray(s)
        matrices = points[..., None, None] * np.eye(self.order) - self.generator
        exits = np.broadcast_to(self.exits[:, None], (*matrices.shape[:-1], 1))
        return self.atom + (np.linalg.solve(matrices, exits)[..., 0] @ self.alpha)

    def equilibrium(self) -> PhaseType:
        """The residual life seen at a random time: density P(X > t) / E[X]."""
        weights = factor(-self.generator, where="equilibrium law").solve_left(self.alpha)
        return PhaseType(alpha=weights / weights.sum(), generator=self.generator)

    def scaled(self, *, factor: float) -> PhaseType:
        """The law of factor * X."""
        if not 0.0 < factor < np.inf:
            raise InvalidModel(field="factor", rule="must be positive and finite", value=factor)
        return PhaseType(alpha=self.alpha, generator=self.generator / factor)

    def positive(self) -> PhaseType:
        """The law of X given X > 0: without the atom."""
        mass = float(self.alpha.sum())
        if not mass > 0.0:
            raise InvalidModel(field="alpha", rule="must not be all atom at 0", value=mass)
        return PhaseType(alpha=self.alpha / mass, generator=self.generator)


def phase_type(*, alpha: ArrayLike, generator: ArrayLike) -> PhaseType:
    """A phase-type law, checked: alpha >= 0 with sum <= 1, T the sub-generator of a chain that ends.

    >>> phase_type(alpha=[0.5, 0.25], generator=[[-1, 0], [0, -2]]).atom
    0.25
    """
    start = np.asarray(alpha, dtype=np.float64)
    if not (start >= -1e-12).all():
        raise InvalidModel(field="alpha", rule="must be probabilities, at least 0", value=start.tolist())
    return PhaseType(alpha=start, generator=check_subgenerator(generator))


def matrix_exponential(*, alpha: ArrayLike, generator: ArrayLike) -> PhaseType:
    """A matrix-exponential law, checked: T has its spectrum left of 0 and the density is nowhere below 0.

    The second check looks at a grid of 2000 times, at 1e-9 of the largest density.
    """
    matrix = check_square(generator, field="generator")
    values = np.linalg.eigvals(matrix)
    if not values.real.max() < 0.0:
        raise InvalidModel(
            field="generator", rule="eigenvalues must have negative real parts", value=complex(values.max())
        )
    law = PhaseType(alpha=np.asarray(alpha, dtype=np.float64), generator=matrix)
    dip = density_dip(law)
    if dip < -1e-9:
        raise InvalidModel(field="alpha", rule="the density must be at least 0 everywhere", value=dip)
    return law


def closed_by(*, alpha: Array, generator: Array, closing: Array) -> PhaseType:
    """The law with P(X > t) = alpha e^(Tt) closing, in the form where the closing vector is e."""
    scale = float(np.abs(closing).max())
    closing, alpha = closing / scale, alpha * scale
    if closing.min() > 1e-6:
        return PhaseType(alpha=alpha * closing, generator=generator * closing[None, :] / closing[:, None])
    # A vector with small or negative entries is carried to e by a rank-one change of basis.
    pivot = int(np.abs(closing).argmax())
    lift = 1.0 - closing
    start = alpha.copy()
    start[pivot] -= float(alpha @ lift)
    matrix = generator + np.outer(lift / closing[pivot], generator[pivot])
    matrix[:, pivot] -= matrix @ lift
    return PhaseType(alpha=start, generator=matrix)


def density_dip(law: PhaseType) -> float:
    """The lowest point of the density on a grid of 2000 times over 40 slow time constants, over its peak."""
    slow = 1.0 / float(np.abs(np.linalg.eigvals(law.generator).real).min())
    fast = 1.0 / float(np.abs(law.generator).sum(axis=1).max())
    times = np.concatenate([np.linspace(0.0, 10.0 * slow, 1000), np.geomspace(fast * 1e-3, 40.0 * slow, 1000)])
    density = law.density(times)
    return float(density.min() / np.abs(density).max())


def exponential(*, mean: float) -> PhaseType:
    """The exponential law."""
    return erlang(shape=1, mean=mean)


def erlang(*, shape: int, mean: float) -> PhaseType:
    """The sum of `shape` exponential phases."""
    if shape < 1:
        raise InvalidModel(field="shape", rule="must be at least 1", value=shape)
    if not 0.0 < mean < np.inf:
        raise InvalidModel(field="mean", rule="must be positive and finite", value=mean)
    rate = shape / mean
    chain = np.diag(np.full(shape - 1, rate), 1) - rate * np.eye(shape)
    return PhaseType(alpha=np.eye(shape)[0], generator=chain)


def hyperexponential(*, probabilities: ArrayLike, means: ArrayLike) -> PhaseType:
    """A mixture of exponentials."""
    return phase_type(alpha=probabilities, generator=-np.diag(1.0 / np.asarray(means, dtype=np.float64)))
