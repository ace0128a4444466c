"""What a histogram of times says: survival function and quantiles, with honest intervals over replications."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from qsim.estimate import Sample
from qsim.kernels.histogram import BUCKETS, Counts, bucket_of, edges, gather
from qsim.kernels.random import Array

#: From here on times are not told apart.
LARGEST = edges(BUCKETS - 1)[0]
#: A quantile needs as many observations on either side of it, or nothing is said about it.
ENOUGH = 20


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A histogram with buckets of relative width 2^-8: `counts[i]` observations in bucket `buckets[i]`, in order.

    Within a bucket the distribution function is taken as linear: where the law has a density the error of a quantile
    is far below the bucket's width, where it has an atom it is up to that width (`resolution`).  Zero is exact.
    """

    buckets: Counts
    counts: Counts

    @property
    def total(self) -> int:
        """Number of observations."""
        return int(self._reached[-1]) if self.counts.size else 0

    def survival(self) -> tuple[Array, Array]:
        """Times x, the upper edges of the buckets, and P(X > x) at them."""
        upper = np.array([edges(bucket)[1] for bucket in self.buckets.tolist()])
        return upper, 1.0 - self._reached / self.total

    def locate(self, level: float) -> tuple[int, float]:
        """Where a quantile lies: the place of its bucket and the share of the bucket below it."""
        wanted = min(max(level, 0.0), 1.0) * self.total
        place = min(int(np.searchsorted(self._reached, wanted)), self.counts.size - 1)
        return place, float((wanted - (self._reached[place] - self.counts[place])) / self.counts[place])

    def quantile(self, level: float) -> float:
        """The least time x with P(X <= x) >= level."""
        place, inside = self.locate(level)
        low, high = edges(int(self.buckets[place]))
        return low if math.isinf(high) else low + inside * (high - low)

    def beyond(self, level: float) -> bool:
        """Whether a quantile lies in one of the buckets at the ends, where times are not told apart."""
        return int(self.buckets[self.locate(level)[0]]) in (0, BUCKETS - 1)

    def reached(self, time: float) -> float:
        """The number of observations up to `time`, by the same interpolation."""
        bucket = bucket_of(time)
        place = int(np.searchsorted(self.buckets, bucket))
        before = float(self._reached[place - 1]) if place else 0.0
        if place == self.buckets.size or self.buckets[place] != bucket:
            return before
        low, high = edges(int(self.buckets[place]))
        share = 1.0 if high <= low or math.isinf(high) else (time - low) / (high - low)
        return before + share * float(self.counts[place])

    def resolution(self, time: float) -> float:
        """The width of the bucket of `time` if its count breaks with its neighbours' (an atom or an edge), else 0."""
        bucket = bucket_of(time)
        near = [self._count(b) for b in (bucket - 1, bucket, bucket + 1)]
        gap = max(near) - min(near)
        if gap < max(near) / 2 or gap < 10 * math.sqrt(max(near)):
            return 0.0
        low, high = edges(bucket)
        return high - low if math.isfinite(high) else 0.0

    @cached_property
    def _reached(self) -> Counts:
        return np.cumsum(self.counts)

    def _count(self, bucket: int) -> int:
        place = int(np.searchsorted(self.buckets, bucket))
        return int(self.counts[place]) if place < self.buckets.size and self.buckets[place] == bucket else 0


def merged(parts: Sequence[Distribution]) -> Distribution:
    """The distribution of all observations together."""
    if len(parts) == 1:
        return parts[0]
    counts = np.zeros(BUCKETS, np.int64)
    for part in parts:
        counts[part.buckets] += part.counts
    buckets = np.flatnonzero(counts > 0)
    return Distribution(buckets=buckets, counts=counts[buckets])


def quantile_samples(
    parts: Sequence[Distribution], *, levels: Sequence[float], joint: Distribution | None = None
) -> dict[float, Sample]:
    """Quantiles over replications, by linearisation about the quantile q of all observations together.

    Replication k sees the share F_k of its n_k observations up to q; to first order its own quantile is
    q + (level - F_k) / f (Bahadur, Ann. Math. Statist. 37, 1966, 577-580), and the mean of these weighted by n_k is q
    itself.  The slope 1 / f is the difference quotient of the joint quantile function over the spread of the joint
    share, so that it averages over what the data cannot resolve.  Intervals are those of the share, carried over by
    the joint quantile function: it bends most where the share is least certain, in heavy traffic.  Levels with fewer
    than `ENOUGH` observations on either side of q are left out, and those whose quantile is off the scale.  Beside an
    atom q is the middle of its bucket, the width of which widens the interval.  `joint`, if it is known, is the
    distribution of all parts together.
    """
    joint = merged(parts) if joint is None else joint
    total = joint.total
    known = [level for level in levels if total * min(level, 1 - level) >= ENOUGH and joint.quantile(level) < LARGEST]
    if not known:
        return {}
    weights = np.array([float(part.total) for part in parts])
    places, insides = zip(*(joint.locate(level) for level in known), strict=True)
    bounds, within = np.array(places), np.array(insides)
    below = np.empty((len(parts), len(known)))
    for row, part in zip(below, parts, strict=True):
        reached = np.zeros(joint.buckets.size + 1)
        reached[1 + np.searchsorted(joint.buckets, part.buckets)] = part.counts
        np.cumsum(reached, out=reached)
        row[:] = reached[bounds] + within * (reached[bounds + 1] - reached[bounds])
    samples = {}
    for level, found in zip(known, below.T, strict=True):
        shares = np.divide(found, weights, out=np.full(weights.size, level), where=weights > 0)
        centre = found.sum() / total
        spread = math.sqrt(float(np.sum((weights * (shares - centre)) ** 2))) / total
        spread = min(max(2 * spread, 1 / math.sqrt(total)), level / 2, (1 - level) / 2)
        slope = (joint.quantile(level + spread) - joint.quantile(level - spread)) / (2 * spread)
        value = joint.quantile(level)
        resolution = joint.resolution(value)
        samples[level] = Sample(
            values=(_middle(value) if resolution else value) + slope * (centre - shares),
            weights=weights,
            resolution=resolution,
            curve=partial(_along, joint, level, slope) if slope > 0 and not resolution else None,
        )
    return samples


def _middle(time: float) -> float:
    low, high = edges(bucket_of(time))
    return (low + high) / 2


def _along(joint: Distribution, level: float, slope: float, displacement: float) -> float:
    """The quantile of all observations at the level that lies a linearised displacement away."""
    return joint.quantile(level + displacement / slope)


def packed(rows: Counts) -> Iterator[Array]:
    """Each row of counts over all buckets as part of a flat tally: how many pairs follow, then (bucket, count)."""
    room = np.empty(2 * rows.shape[1])
    for row in rows:
        found = gather(row, room)
        yield np.array([found], np.float64)
        yield room[: 2 * found].copy()


def unpacked(flat: Array) -> Iterator[Distribution]:
    """The histograms that `packed` has laid end to end."""
    place = 0
    while place < flat.size:
        end = place + 1 + 2 * int(flat[place])
        pairs = flat[place + 1 : end].astype(np.int64)
        yield Distribution(buckets=pairs[0::2].copy(), counts=pairs[1::2].copy())
        place = end
