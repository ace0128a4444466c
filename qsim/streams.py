"""Random streams by name, so that two designs see the same jobs and no two streams share state.

A stream is the 256-bit state of a xoshiro256++ generator, derived from (seed, replication, name) by
`numpy.random.SeedSequence`; replication k can be rerun alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The place of a name in this list is part of its seed: append, never reorder.
NAMES = (
    "arrivals",
    "class",
    "service0",
    "service1",
    "service",
    "routing",
    "ties",
    "policy",
    "events",
    "service2",
    "shadow",
    "perfect",
    "limits",
)


def stream(*, seed: int, replication: int, name: str) -> NDArray[np.uint64]:
    """The initial state (4 words) of one stream of one replication."""
    sequence = np.random.SeedSequence(entropy=seed, spawn_key=(replication, NAMES.index(name)))
    return np.asarray(sequence.generate_state(4, np.uint64), np.uint64)


def streams(*, seed: int, replication: int, names: tuple[str, ...]) -> NDArray[np.uint64]:
    """The initial states of several streams, one a row."""
    return np.stack([stream(seed=seed, replication=replication, name=name) for name in names])
