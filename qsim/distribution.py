"""What a histogram of times says: survival function and quantiles, with honest intervals over replications."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qsim.estimate import Sample
from qsim.kernels.histogram import BUCKETS, edges
from qsim.kernels.random import Array

Counts = NDArray[np.int64]

#: A quantile needs as many observations on either side of it, or nothing is said about it.
ENOUGH = 20


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A histogram with buckets of relative width 2^-9: `counts[i]` observations from bucket `first` + i.

    Times in bucket 0 are read as 0.  Within a bucket the distribution function is taken as linear: where the law has
    a density the error of a quantile is far below the bucket's width, where it has an atom it is up to that width.
    """

    first: int
    counts: Counts

    @property
    def total(self) -> int:
        """Number of observations."""
        return int(self.counts.sum())

    def survival(self) -> tuple[Array, Array]:
        """Times x, the upper edges of the buckets, and P(X > x) at them."""
        tail = 1.0 - np.cumsum(self.counts) / self.total
        return self._edges()[1:], np.maximum(tail, 0.0)

    def quantile(self, level: float) -> float:
        """The least time x with P(X <= x) >= level."""
        reached = np.cumsum(self.counts)
        wanted = min(max(level, 0.0), 1.0) * float(reached[-1])
        bucket = min(int(np.searchsorted(reached, wanted)), self.counts.size - 1)
        inside = self.counts[bucket]
        share = (wanted - (reached[bucket] - inside)) / inside if inside else 1.0
        low, high = self._edges()[bucket : bucket + 2]
        return float(low) if math.isinf(high) else float(low + share * (high - low))

    def reached(self, time: float) -> float:
        """The number of observations up to `time`, by the same interpolation."""
        bounds = self._edges()
        bucket = int(np.searchsorted(bounds, time, side="left")) - 1
        if bucket < 0:
            return float(self.counts[0]) if self.first == 0 else 0.0
        if bucket >= self.counts.size:
            return float(self.total)
        low, high = bounds[bucket : bucket + 2]
        share = 1.0 if high <= low or math.isinf(high) else (time - low) / (high - low)
        return float(self.counts[:bucket].sum() + share * self.counts[bucket])

    def resolution(self, time: float) -> float:
        """The width of the bucket of `time` if its count breaks with its neighbours' (an atom or an edge), else 0."""
        bounds = self._edges()
        bucket = min(max(int(np.searchsorted(bounds, time, side="left")) - 1, 0), self.counts.size - 1)
        near = [self.counts[k] if 0 <= k < self.counts.size else 0 for k in (bucket - 1, bucket, bucket + 1)]
        gap = max(near) - min(near)
        if gap < max(near) / 2 or gap < 10 * math.sqrt(max(near)):
            return 0.0
        return float(bounds[bucket + 1] - bounds[bucket])

    def _edges(self) -> Array:
        bounds = edges(self.first, self.first + self.counts.size)
        if self.first == 0:
            bounds[:2] = 0.0
        if self.first + self.counts.size == BUCKETS:
            bounds[-1] = math.inf
        return bounds


def merged(parts: Sequence[Distribution]) -> Distribution:
    """The distribution of all observations together."""
    kept = [part for part in parts if part.counts.size]
    if not kept:
        return Distribution(first=0, counts=np.zeros(0, np.int64))
    first = min(part.first for part in kept)
    counts = np.zeros(max(part.first + part.counts.size for part in kept) - first, np.int64)
    for part in kept:
        counts[part.first - first : part.first - first + part.counts.size] += part.counts
    return Distribution(first=first, counts=counts)


def quantile_sample(parts: Sequence[Distribution], *, level: float) -> Sample | None:
    """A quantile over replications, by linearisation about the quantile q of all observations together.

    Replication k sees the share F_k of its n_k observations up to q; to first order its own quantile is
    q + (level - F_k) / f (Bahadur, Ann. Math. Statist. 37, 1966, 577-580), and the mean of these weighted by n_k is q
    itself.  The slope 1 / f is the difference quotient of the joint quantile function over the spread of the joint
    share, so that it averages over what the data cannot resolve.  None with fewer than `ENOUGH` observations on
    either side of q.
    """
    joint = merged(parts)
    total = joint.total if joint.counts.size else 0
    if total * min(level, 1 - level) < ENOUGH:
        return None
    value = joint.quantile(level)
    weights = np.array([float(part.counts.sum()) for part in parts])
    reached = np.array([part.reached(value) if part.counts.size else 0.0 for part in parts])
    shares = np.divide(reached, weights, out=np.full(weights.size, level), where=weights > 0)
    centre = reached.sum() / total
    spread = math.sqrt(float(np.sum((weights * (shares - centre)) ** 2))) / total
    spread = min(max(2 * spread, 1 / math.sqrt(total)), level / 2, (1 - level) / 2)
    slope = (joint.quantile(level + spread) - joint.quantile(level - spread)) / (2 * spread)
    return Sample(values=value + slope * (centre - shares), weights=weights, resolution=joint.resolution(value))


def packed(rows: Counts) -> Iterator[Array]:
    """Each row of counts over all buckets as (first bucket used, number of buckets, counts), for flat tallies."""
    for row in rows:
        used = np.flatnonzero(row)
        first, end = (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)
        yield np.array([first, end - first], np.float64)
        yield row[first:end].astype(np.float64)


def unpacked(flat: Array) -> Iterator[Distribution]:
    """The histograms that `packed` has laid end to end."""
    place = 0
    while place < flat.size:
        first, size = int(flat[place]), int(flat[place + 1])
        yield Distribution(first=first, counts=flat[place + 2 : place + 2 + size].astype(np.int64))
        place += 2 + size
