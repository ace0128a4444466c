"""Samples over replications from what their tallies count, for the systems whose runs follow jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from qsim.distribution import ENOUGH, Distribution, quantile_samples
from qsim.estimate import Sample
from qsim.kernels.random import Array
from qtheory.measures import LEVELS, Key, quantile_measure


def ratio(events: Array, counts: Array) -> Sample:
    """A mean over jobs (or over time), weighted by what each replication saw."""
    values = np.divide(events, counts, out=np.zeros_like(events), where=counts > 0)
    return Sample(values=values, weights=counts)


def share_of(events: Array, counts: Array) -> Sample | None:
    """A probability, if both it and its complement have been seen often enough."""
    if min(events.sum(), (counts - events).sum()) < ENOUGH:
        return None
    return ratio(events, counts)


def quantiles(
    parts: Sequence[Distribution], *, scope: str, kind: str, joint: Distribution | None = None
) -> Iterator[tuple[Key, Sample]]:
    """The quantiles of a response or wait that the replications resolve; `joint` is all parts together, if known."""
    if parts:
        for level, sample in quantile_samples(parts, levels=LEVELS, joint=joint).items():
            yield (quantile_measure(level, kind=kind), scope), sample


def resolved(
    samples: Mapping[Key, Sample], distributions: Mapping[str, Distribution]
) -> tuple[dict[Key, Sample], dict[str, Distribution]]:
    """All of it, or nothing that a histogram said where responses lie beyond the histogram's ends.

    That is where the unit of time is off by many powers of ten: everything would be read as 0 or as the upper end.
    """
    if any(distribution.beyond(0.5) for distribution in distributions.values()):
        return {key: sample for key, sample in samples.items() if key[0] not in _QUANTILES}, {}
    return dict(samples), dict(distributions)


_QUANTILES = {quantile_measure(level, kind=kind) for level in LEVELS for kind in ("response", "wait")}
