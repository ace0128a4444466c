"""Picking the best of several simulated designs under common random numbers.

Rounds of replications, doubled each time; after each, paired differences to the best so far either separate a design
from it or place it within the indifference zone.  Every round and every pair takes its share of the error
probability (Bonferroni), so the whole choice keeps its confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from qsim.estimate import Sample, student
from qsim.lower import Options, Simulator, lower
from qsim.replications import run_replications
from qtheory.measures import Key
from qtheory.models.files import Model

Floats = NDArray[np.float64]

FIRST_ROUND = 32
ROUNDS = 8


@dataclass(kw_only=True)
class Contender:
    """One design in the race: `values[k]` is its objective in replication k."""

    model: Model
    simulator: Simulator
    tallies: list[Floats] = field(default_factory=list)
    values: Floats = field(default_factory=lambda: np.empty(0))
    beaten: bool = False
    jobs: int = 0

    @property
    def mean(self) -> float:
        """The estimate of the objective."""
        return float(self.values.mean())


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The outcome: contenders in the order given, the best one's place, the places not separable from it.

    `zone` is the indifference zone reached, relative to the best value: with the stated confidence no contender is
    better than the best by more than it.  `reached` says whether that is the zone asked for.
    """

    contenders: tuple[Contender, ...]
    best: int
    ties: tuple[int, ...]
    confidence: float
    zone: float
    reached: bool


def select(
    models: Sequence[Model],
    *,
    objective: Mapping[Key, float],
    jobs: int,
    warmup: Sequence[int],
    seed: int,
    confidence: float,
    indifference: float,
    max_jobs: int,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """Simulate the designs on the same jobs until the best one is separated or the rest is indifferent.

    Parameters
    ----------
    models : the designs.
    objective : weights by (measure, scope); smaller is better.
    jobs : jobs counted in each replication.
    warmup : jobs skipped in each replication, by design.
    seed : of the streams, which all designs share.
    confidence : of the whole choice.
    indifference : a relative difference that does not matter.
    max_jobs : budget over all designs; when it ends, `Choice.zone` says what was reached.
    """
    options = Options(means_only=True)
    contenders = [Contender(model=model, simulator=lower(model, options=options)) for model in models]
    share = (1 - confidence) / (ROUNDS * max(1, len(models) - 1))
    spent = 0
    for level in range(ROUNDS):
        wanted = FIRST_ROUND * 2**level
        alive = [contender for contender in contenders if not contender.beaten]
        cost = sum((wanted - len(c.tallies)) * jobs for c in alive)
        if level > 0 and spent + cost > max_jobs:
            break
        for done, contender in enumerate(alive):
            _run(contender, replications=wanted, jobs=jobs, warmup=warmup[contenders.index(contender)], seed=seed)
            contender.values = _objective(contender, objective)
            if progress is not None:
                progress(level * len(models) + done + 1, ROUNDS * len(models))
        spent += cost
        best = min(alive, key=lambda c: c.mean)
        zone = 0.0
        for rival in alive:
            if rival is best:
                continue
            low = _lower_bound(rival.values - best.values, share=share)
            rival.beaten = low > 0
            if not rival.beaten:
                zone = max(zone, -low / abs(best.mean))
        if zone <= indifference or len(models) == 1:
            break
    place = contenders.index(best)
    ties = tuple(i for i, c in enumerate(contenders) if not c.beaten and i != place)
    return Choice(
        contenders=tuple(contenders),
        best=place,
        ties=ties,
        confidence=confidence,
        zone=max(zone, indifference),
        reached=zone <= indifference,
    )


def _run(contender: Contender, *, replications: int, jobs: int, warmup: int, seed: int) -> None:
    indices = range(len(contender.tallies), replications)
    contender.tallies += run_replications(contender.simulator, indices=indices, jobs=jobs, seed=seed, warmup=warmup)
    contender.jobs = len(contender.tallies) * jobs


def _objective(contender: Contender, weights: Mapping[Key, float]) -> Floats:
    samples = contender.simulator.summarise(contender.tallies).samples
    return combined(samples, weights)


def combined(samples: Mapping[Key, Sample], weights: Mapping[Key, float]) -> Floats:
    """The objective of each replication; its mean over replications is the sum of the ratio estimates.

    Each measure enters as its ratio estimate plus the replication's weighted residual, so that class counts that
    vary between replications bias nothing.
    """
    total: Floats | float = 0.0
    for key, weight in weights.items():
        sample = samples[key]
        counts = np.ones_like(sample.values) if sample.weights is None else sample.weights
        values = np.where(counts > 0, sample.values, 0.0)
        mean = float(np.average(values, weights=counts))
        total = total + weight * (mean + counts * (values - mean) / counts.mean())
    return np.asarray(total, float)


def _lower_bound(differences: Floats, *, share: float) -> float:
    reach = student(confidence=1 - share, degrees=differences.size - 1) * float(differences.std(ddof=1))
    return float(differences.mean()) - reach / math.sqrt(differences.size)


def half_width(values: Floats, *, confidence: float) -> float:
    """The Student half-width of a design's own objective."""
    return student(confidence=confidence, degrees=values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
