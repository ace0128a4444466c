"""From a model to a simulator: arrays and constants that the kernels of its kind take.

Each system has one module `qsim.lowering.<kind>` whose function ``lower(model, *, options)`` gives a `Simulator`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from qsim.estimate import Sample
from qtheory.measures import Key
from qtheory.models.errors import InvalidModel
from qtheory.models.files import Model


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What a run may ask of a simulator beyond the model.

    `at`: times for tail probabilities; `means_only`: leave out quantiles and what else costs time;
    `controls`: names of the control variates whose means the caller knows, so that a kernel keeps what they need;
    `stationary`: start in the stationary state instead of empty;
    `batches`: parts into which the counted jobs of a replication are cut, each of which is a sample;
    `extra`: options of one kind of system, checked by its lowering.
    """

    at: tuple[float, ...] = ()
    means_only: bool = False
    controls: tuple[str, ...] = ()
    batches: int = 1
    stationary: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the replications together say.

    `controls` are samples of quantities whose means may be known, by name; `controlled` are the names of those that
    go with a measure, the most useful first.
    """

    samples: Mapping[Key, Sample]
    distributions: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    controls: Mapping[str, Sample] = field(default_factory=dict)
    controlled: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)


class Simulator(Protocol):
    """A model lowered to arrays; `run` holds no state between calls and releases the GIL while it works."""

    def default_warmup(self, *, jobs: int) -> int:
        """Warm-up (jobs a replication) by a rule from the run length, for callers who give none."""

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> NDArray[np.float64]:
        """One replication's tally: a flat array, the same bits wherever it is run."""

    def summarise(self, tallies: Sequence[NDArray[np.float64]]) -> Findings:
        """Samples by measure from the tallies of all replications, in index order."""


def lower(model: Model, *, options: Options) -> Simulator:
    """The simulator of this model.

    Raises
    ------
    InvalidModel : the model or an option is wrong, or a control is none that the kind of system has.
    """
    module = import_module(f"qsim.lowering.{model.kind()}")
    names = getattr(module, "control_names", None)
    known: Sequence[str] = getattr(module, "CONTROLS", ()) if names is None else names(model)
    for name in options.controls:
        if name not in known:
            rule = f"known are {', '.join(known)}"
            raise InvalidModel(field="controls", rule=rule, value=name)
    for name, wanted, known_here, rule in (
        ("batches", options.batches > 1, "BATCHES", "are cut from a dispatcher's runs alone"),
        ("stationary", options.stationary, "STATIONARY", "is a start that dispatchers alone have"),
    ):
        if wanted and not getattr(module, known_here, False):
            raise InvalidModel(field=name, rule=rule)
    return cast(Simulator, module.lower(model, options=options))
