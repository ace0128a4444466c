"""The laws of a model that are phase-type as they stand, as phase-type laws."""

from __future__ import annotations

import numpy as np

from qtheory.models import Erlang, Exponential, Hyperexponential, InvalidModel, Mixture
from qtheory.models import PhaseType as PhaseTypeLaw
from qtheory.models.laws import Law
from qtheory.queues import phase_algebra, phase_type
from qtheory.queues.phase_type import PhaseType
from qtheory.queues.transient import propagate


def exact_phases(law: Law, *, field: str) -> PhaseType:
    """`law` without any fitting.

    Raises `InvalidModel` naming `field` unless it is exponential, erlang, hyperexponential or phase-type without an
    atom at 0, or a mixture of such.

    >>> from qtheory.models import Erlang
    >>> exact_phases(Erlang(shape=3, mean=2.0), field="service0").order
    3
    """
    if isinstance(law, Exponential):
        return phase_type.exponential(mean=law.mean)
    if isinstance(law, Erlang):
        return phase_type.erlang(shape=law.shape, mean=law.mean)
    if isinstance(law, Hyperexponential):
        used = [(p, mean) for p, mean in zip(law.probabilities, law.means, strict=True) if p > 0.0]
        return phase_type.hyperexponential(probabilities=[p for p, _ in used], means=[mean for _, mean in used])
    if isinstance(law, PhaseTypeLaw):
        found = phase_type.phase_type(alpha=law.alpha, generator=law.generator)
        if found.atom > 1e-9:
            raise InvalidModel(field=f"{field}.alpha", rule="must sum to 1 for this method", value=1.0 - found.atom)
        return found.positive()
    if isinstance(law, Mixture):
        parts = [(w, exact_phases(part, field=field)) for w, part in zip(law.weights, law.laws, strict=True) if w > 0.0]
        return phase_algebra.mixture(weights=[w for w, _ in parts], laws=[part for _, part in parts])
    rule = "must be exponential, erlang, hyperexponential, phase-type or a mixture of them: use method phase-type"
    raise InvalidModel(field=field, rule=rule, value=law.kind())


def remaining(law: PhaseType, *, after: float) -> PhaseType:
    """The law of X - t given X > t."""
    state = propagate(start=law.alpha, generator=law.generator, times=np.array([after]))[0]
    return PhaseType(alpha=state / state.sum(), generator=law.generator)
