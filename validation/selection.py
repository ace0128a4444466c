"""Picking the best of several simulated designs under common random numbers.

Rounds of replications, doubled each time; after each, paired differences to the best so far either separate a design
from it or place it within the indifference zone.  Every round and every pair takes its share of the error
probability (Bonferroni), so the whole choice keeps its confidence.  Values and differences are adjusted by control
variates where their means are given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from qsim.controls import Control, Regression, adjust, deviations, regression
from qsim.estimate import Figure, Sample
from qsim.lower import Findings, Options, Simulator, lower
from qsim.replications import run_replications
from qtheory.measures import Key
from qtheory.models.files import Model

Floats = NDArray[np.float64]

FIRST_ROUND = 32
ROUNDS = 8


@dataclass(kw_only=True)
class Contender:
    """One design in the race.

    `values[k]` is its objective in replication k, `controls` the deviations of its controls from their means by name,
    the most useful first, and `figure` the estimate of its objective, `factor` times less variable than without them.
    """

    model: Model
    simulator: Simulator
    known: tuple[Control, ...] = ()
    tallies: list[Floats] = field(default_factory=list)
    values: Floats = field(default_factory=lambda: np.empty(0))
    controls: dict[str, Floats] = field(default_factory=dict)
    figure: Figure = field(default_factory=lambda: Figure(value=math.nan, half_width=math.nan, se=math.nan))
    factor: float = 1.0
    beaten: bool = False
    jobs: int = 0

    @property
    def mean(self) -> float:
        """The estimate of the objective."""
        return self.figure.value


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The outcome: contenders in the order given, the best one's place, the places not separable from it.

    `zone` is the indifference zone reached, relative to the best value: with the stated confidence no contender is
    better than the best by more than it.  `reached` says whether that is the zone asked for.  `factor` is the variance
    factor of control variates in the difference to the closest rival.
    """

    contenders: tuple[Contender, ...]
    best: int
    ties: tuple[int, ...]
    confidence: float
    zone: float
    reached: bool
    factor: float = 1.0


def select(
    models: Sequence[Model],
    *,
    objective: Mapping[Key, float],
    jobs: int,
    warmup: int,
    seed: int,
    confidence: float,
    indifference: float,
    max_jobs: int,
    controls: Sequence[Sequence[Control]] = (),
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Choice:
    """Simulate the designs on the same jobs until the best one is separated or the rest is indifferent.

    Parameters
    ----------
    models : the designs.
    objective : weights by (measure, scope); smaller is better.
    jobs : jobs counted in each replication.
    warmup : jobs skipped in each replication: the most that any design wants, so that all count the same jobs.
    seed : of the streams, which all designs share.
    confidence : of the whole choice.
    indifference : a relative difference that does not matter.
    max_jobs : budget over all designs; when it ends, `Choice.zone` says what was reached.
    controls : known means of each design's controls.
    executor : where replications run instead of threads of this process.
    """
    means = [tuple(known) for known in controls] or [()] * len(models)
    contenders = [_contender(model, known=known) for model, known in zip(models, means, strict=True)]
    share = (1 - confidence) / (ROUNDS * max(1, len(models) - 1))
    spent = 0
    for level in range(ROUNDS):
        wanted = FIRST_ROUND * 2**level
        alive = [contender for contender in contenders if not contender.beaten]
        cost = sum((wanted - len(c.tallies)) * jobs for c in alive)
        if level > 0 and spent + cost > max_jobs:
            break
        for done, contender in enumerate(alive):
            _run(contender, replications=wanted, jobs=jobs, warmup=warmup, seed=seed, executor=executor)
            _estimate(contender, objective, confidence=confidence)
            if progress is not None:
                progress(level * len(models) + done + 1, ROUNDS * len(models))
        spent += cost
        best = min(alive, key=lambda c: c.mean)
        zone, factor, closest = 0.0, best.factor, math.inf
        for rival in alive:
            if rival is best:
                continue
            gap, gain = _difference(rival, best, confidence=1 - share)
            low = gap.value - gap.half_width
            rival.beaten = low > 0
            if not rival.beaten:
                zone = max(zone, -low / abs(best.mean))
            if gap.value < closest:
                closest, factor = gap.value, gain
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
        factor=factor,
    )


def _run(
    contender: Contender, *, replications: int, jobs: int, warmup: int, seed: int, executor: Executor | None
) -> None:
    contender.tallies += run_replications(
        contender.simulator,
        indices=range(len(contender.tallies), replications),
        jobs=jobs,
        seed=seed,
        warmup=warmup,
        executor=executor,
    )
    contender.jobs = len(contender.tallies) * jobs


def _contender(model: Model, *, known: tuple[Control, ...]) -> Contender:
    options = Options(means_only=True, controls=tuple(control.name for control in known))
    return Contender(model=model, simulator=lower(model, options=options), known=known)


def _estimate(contender: Contender, weights: Mapping[Key, float], *, confidence: float) -> None:
    findings = contender.simulator.summarise(contender.tallies)
    contender.values = combined(findings.samples, weights)
    contender.controls = _controls(findings, weights, known=contender.known)
    contender.figure, contender.factor = _adjusted(
        contender.values, regression(contender.controls), confidence=confidence
    )


def _controls(findings: Findings, weights: Mapping[Key, float], *, known: Sequence[Control]) -> dict[str, Floats]:
    """The controls that go with any measure of the objective, the most useful ones of each measure first."""
    usable, _ = deviations(findings.controls, known)
    turns = zip_longest(*(findings.controlled.get(key, ()) for key in weights))
    names = dict.fromkeys(name for turn in turns for name in turn if name in usable)
    return {name: usable[name] for name in names}


def _difference(rival: Contender, best: Contender, *, confidence: float) -> tuple[Figure, float]:
    """Rival less best on the same jobs, with the controls of both; those that are the same for both count once."""
    controls: dict[str, Floats] = {}
    for name in rival.controls:
        controls[f"rival {name}"] = rival.controls[name]
        if name in best.controls:
            controls[f"best {name}"] = best.controls[name]
    return _adjusted(rival.values - best.values, regression(controls), confidence=confidence)


def _adjusted(values: Floats, controls: Regression | None, *, confidence: float) -> tuple[Figure, float]:
    """The mean of values over replications, adjusted where there is something to adjust with, and the factor gained."""
    sample = Sample(values=values)
    plain = sample.figure(confidence=confidence)
    adjusted = adjust(sample, controls, confidence=confidence)
    if adjusted is None:
        return plain, 1.0
    return adjusted, (plain.se / adjusted.se) ** 2


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
