"""Hyper-Erlang laws by maximum likelihood: to data, or to a law given by its quantiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp

from qtheory.models.errors import InvalidModel, NotConverged
from qtheory.queues.linear import Array
from qtheory.queues.phase_algebra import mixture
from qtheory.queues.phase_type import PhaseType, erlang


@dataclass(frozen=True, kw_only=True)
class HyperErlang:
    """A mixture of Erlang laws, with the mean log-likelihood it was found at.

    Attributes
    ----------
    weights, shapes, means : of the branches; the weights sum to 1 - atom.
    atom : P(X = 0).
    log_likelihood : mean over the positive observations.
    iterations : of the winning EM run.
    """

    weights: tuple[float, ...]
    shapes: tuple[int, ...]
    means: tuple[float, ...]
    atom: float
    log_likelihood: float
    iterations: int

    @property
    def law(self) -> PhaseType:
        """The phase-type law, of order sum of shapes."""
        parts = [erlang(shape=shape, mean=mean) for shape, mean in zip(self.shapes, self.means, strict=True)]
        mixed = mixture(weights=np.array(self.weights) / sum(self.weights), laws=parts)
        return PhaseType(alpha=(1.0 - self.atom) * mixed.alpha, generator=mixed.generator)


def hyper_erlang(
    values: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    order: int = 5,
    branches: int = 3,
    tolerance: float = 1e-8,
    iterations: int = 20_000,
) -> HyperErlang:
    """The hyper-Erlang law of `order` phases in at most `branches` branches that fits `values` best.

    Every split of the phases into branches is fitted by EM (Thümmler, Buchholz, Telek 2006, "A novel approach
    for phase-type fitting with the EM algorithm", IEEE Trans. Dependable Secure Comput. 3), the likeliest
    wins. The mean of the data is matched exactly, as every EM step does. Zeros become an atom at 0. An EM run
    ends when a step gains less than `tolerance` in mean log-likelihood; `NotConverged` if one does not
    do so in `iterations` steps.

    >>> rng = np.random.default_rng(1)
    >>> fit = hyper_erlang(rng.gamma(3.0, 1 / 3, 2000), order=3)
    >>> fit.shapes
    (3,)
    """
    data = np.asarray(values, dtype=np.float64).ravel()
    mass = np.ones(len(data)) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    if not len(data) or not (np.isfinite(data) & (data >= 0.0)).all():
        raise InvalidModel(field="values", rule="must be finite times, at least 0, and at least one of them")
    if mass.shape != data.shape or not (mass >= 0.0).all() or not 0.0 < mass.sum() < np.inf:
        raise InvalidModel(field="weights", rule="must be at least 0, one for each value, not all 0")
    if order < 1 or branches < 1:
        raise InvalidModel(field="order", rule="order and branches must be at least 1", value=(order, branches))
    positive = data > 0.0
    atom = float(mass[~positive].sum() / mass.sum())
    data, mass = data[positive], mass[positive]
    if not mass.sum() > 0.0:
        raise InvalidModel(field="values", rule="must not all be 0")
    mass = mass / mass.sum()
    mean = float(mass @ data)
    data = data / mean
    runs = [_em(data, mass, np.array(shapes), tolerance, iterations) for shapes in _splits(order, branches)]
    best = max(runs, key=lambda run: run.likelihood)
    return HyperErlang(
        weights=tuple((best.shares * (1.0 - atom)).tolist()),
        shapes=tuple(best.shapes.tolist()),
        means=tuple((best.means * mean).tolist()),
        atom=atom,
        log_likelihood=best.likelihood - float(np.log(mean)),
        iterations=best.steps,
    )


def hyper_erlang_of(
    quantile: Callable[[Array], ArrayLike], *, order: int = 5, branches: int = 3, tail: float = 1e-7
) -> HyperErlang:
    """The hyper-Erlang law nearest to a law given by its `quantile` function, in Kullback-Leibler distance.

    The law is replaced by its quantiles at Gauss-Legendre nodes, in panels that halve towards both ends down
    to probability `tail`; what lies beyond is given to the last node. The mean of the fit is that of these
    nodes: rescale it where the exact mean is known.
    """
    edges = 0.5 ** np.arange(1.0, np.ceil(-np.log2(tail)) + 1.0)
    edges = np.concatenate([[0.0], edges[::-1]])
    nodes, node_weights = np.polynomial.legendre.leggauss(4)
    width = np.diff(edges)
    low = (edges[:-1, None] + (nodes + 1.0) / 2.0 * width[:, None]).ravel()
    share = (node_weights / 2.0 * width[:, None]).ravel()
    points = np.concatenate([low, 1.0 - low[::-1]])
    values = np.asarray(quantile(points), dtype=np.float64)
    return hyper_erlang(values, weights=np.concatenate([share, share[::-1]]), order=order, branches=branches)


class _Run(NamedTuple):
    likelihood: float
    shares: Array
    means: Array
    shapes: NDArray[np.int64]
    steps: int


def _em(data: Array, mass: Array, shapes: NDArray[np.int64], tolerance: float, iterations: int) -> _Run:
    count = len(shapes)
    # Start: branches cut the sorted data into parts of equal mass.
    ranks = np.argsort(data)
    part = np.minimum((np.cumsum(mass[ranks]) * count).astype(int), count - 1)
    means = np.array(
        [
            np.average(data[ranks[part == j]], weights=mass[ranks[part == j]] + 1e-300) if (part == j).any() else 1.0
            for j in range(count)
        ]
    )
    shares = np.full(count, 1.0 / count)
    logs = np.log(data)
    before = gain = -np.inf
    for step in range(1, iterations + 1):
        rates = shapes / means
        terms = (
            np.log(shares)
            + shapes * np.log(rates)
            - gammaln(shapes)
            + np.outer(logs, shapes - 1.0)
            - np.outer(data, rates)
        )
        total = logsumexp(terms, axis=1)
        likelihood = float(mass @ total)
        if likelihood - before < tolerance:
            return _Run(likelihood, shares, means, shapes, step)
        gain, before = likelihood - before, likelihood
        parts = mass[:, None] * np.exp(terms - total[:, None])
        shares = np.maximum(parts.sum(axis=0), 1e-300)
        means = np.maximum(data @ parts / shares, 1e-300)
    raise NotConverged(
        where=f"EM fit with shapes {shapes.tolist()}",
        residual=gain,
        iterations=iterations,
        advice="raise the tolerance or lower the order",
    )


def _splits(order: int, branches: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Partitions of `order` into at most `branches` parts, largest first."""
    if order == 0:
        yield ()
    elif branches > 0:
        for first in range(min(order, largest or order), 0, -1):
            for rest in _splits(order - first, branches - 1, first):
                yield (first, *rest)
