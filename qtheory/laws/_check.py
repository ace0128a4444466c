"""What the fields of a model cannot know of its laws: whether they exist and have the means that are needed."""

from __future__ import annotations

import math

import msgspec

from qtheory.laws._distribution import distribution
from qtheory.models import laws
from qtheory.models.base import Spec
from qtheory.models.errors import InvalidModel

#: Laws of times between arrivals; without a finite mean there is no rate.
_ARRIVALS = frozenset({"interarrival"})
#: Means between which fifth moments fit into double precision.
_SMALLEST, _LARGEST = 1e-60, 1e60
#: Laws of amounts of work, in units that the service rates of the model refer to.
_WORK = frozenset({"work1", "work2"})


def check(model: Spec) -> None:
    """Raise `InvalidModel`, with the path of the field, for a law that the model cannot have.

    Refused are scipy laws that do not exist, have wrong parameters or take negative values; times that are
    always 0; times between arrivals of infinite mean; finite means outside [1e-60, 1e60], whose powers double precision
    does not hold; and amounts of work whose mean is not 1.

    >>> from qtheory.models import Flexible, Scipy
    >>> law = Scipy(name="norm")
    >>> try:
    ...     check(Flexible(queues=2, load=0.5, flexible_fraction=0.5, choices=2, service=law))
    ... except InvalidModel as error:
    ...     print(error)
    service.name: must be a law on [0, inf); the support of norm begins at -inf, got norm
    """
    known = tuple(laws.LAWS.values())
    for field in msgspec.structs.fields(type(model)):
        law = getattr(model, field.name)
        if isinstance(law, known):
            _check_law(law, field=field.name)
        elif field.name == "time_limit" and law < _SMALLEST:
            raise InvalidModel(field=field.name, rule=f"must be at least {_SMALLEST:g}", value=law)


def _check_law(law: Spec, *, field: str) -> None:
    try:
        known = distribution(law)
    except InvalidModel as error:
        raise error.at(prefix=field) from None
    if known.support[1] == 0.0:
        raise InvalidModel(field=field, rule="must not be always 0", value=law)
    if field in _ARRIVALS and not math.isfinite(known.mean):
        raise InvalidModel(field=field, rule="must have a finite mean", value=law)
    if not (_SMALLEST <= known.mean <= _LARGEST or known.mean == math.inf):
        rule = f"must have a mean from {_SMALLEST:g} to {_LARGEST:g}; choose another unit of time"
        raise InvalidModel(field=field, rule=rule, value=known.mean)
    if field in _WORK and not abs(known.mean - 1) <= 1e-9:
        rule = f"must have mean 1 (it is {known.mean:.9g}); how fast work is done is said by service_rates"
        raise InvalidModel(field=field, rule=rule, value=law)
