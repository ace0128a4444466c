"""From a model to an analytic answer: which methods there are, and the one that is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from time import perf_counter
from typing import Any, cast

from qtheory.models.dispatcher import Dispatcher
from qtheory.models.errors import InvalidModel
from qtheory.models.files import SYSTEMS, Model
from qtheory.solution import Solution
from qtheory.systems.dispatcher.coverage import require_covered, uncovered

Method = Callable[..., Solution]

#: Method -> module whose function `solve(model, at=...)` carries it out; `auto` is a method of its own.
METHODS: dict[str, dict[str, str]] = {
    "dispatcher": {
        "mmc": "qtheory.systems.dispatcher.mmc",
        "mgc": "qtheory.systems.dispatcher.mgc",
        "phase-type": "qtheory.systems.dispatcher.phase_type",
        "exact": "qtheory.systems.dispatcher.exact",
    },
    "donor": {
        "exact": "qtheory.systems.donor.exact",
        "reduction": "qtheory.systems.donor.reduction",
    },
    "flexible": {
        "exact": "qtheory.systems.flexible.exact",
        "refined": "qtheory.systems.flexible.refined",
        "mean-field": "qtheory.systems.flexible.mean_field",
        "phase-type": "qtheory.systems.flexible.phase_type",
    },
    "network": {
        "product-form": "qtheory.systems.network.product_form",
        "chain": "qtheory.systems.network.chain",
    },
}


def methods(model: Model) -> tuple[str, ...]:
    """The analytic methods for this system, `auto` last; none where a dispatcher's rules for killed jobs have none.

    Raises `InvalidModel` for anything but a system.
    """
    if not isinstance(model, tuple(SYSTEMS.values())):
        raise InvalidModel(field="model", rule=f"must be a model of kind {', '.join(SYSTEMS)}", value=model)
    known = (*METHODS[model.kind()], "auto")
    if isinstance(model, Dispatcher):
        return tuple(name for name in known if not uncovered(model, method=name))
    return known


def require_method(model: Model, *, method: str, field: str = "method") -> None:
    """Raise `InvalidModel` unless `method` is one of `methods(model)`: by `field`, or by the field that none covers."""
    known = methods(model)
    if method in known:
        return
    if isinstance(model, Dispatcher):
        # Where a model has no method at all, that is what is wrong, whatever was asked for.
        require_covered(model, method=method if known and method in METHODS["dispatcher"] else "auto")
    raise InvalidModel(field=field, rule=f"must be one of {', '.join(known)}", value=method)


def solve(model: Model, *, method: str = "auto", at: Iterable[float] = (), **options: Any) -> Solution:
    """Analytic answer for `model`.

    Parameters
    ----------
    model : any of the systems of `qtheory.models`.
    method : one of `methods(model)`; `auto` takes the best one for the model and says which in `.method`.
    at : times x for which `tail_response` P(response > x) is wanted.
    options : passed to the method. A dispatcher's know `quantiles`, false to leave those out, and its `auto` a
        `budget` in processor seconds.

    Raises
    ------
    Unstable : the system has no steady state; names the group and its load.
    NotConverged : a numerical method stopped early; gives residual and advice.
    InvalidModel : unknown method, or a law or rule that the method does not cover.
    """
    require_method(model, method=method)
    times = tuple(float(x) for x in at)
    for x in times:
        if not (x >= 0 and math.isfinite(x)):
            raise InvalidModel(field="at", rule="must be finite times >= 0", value=x)
    start = perf_counter()
    place = METHODS[model.kind()].get(method, f"qtheory.systems.{model.kind()}.auto")
    solution = cast(Method, import_module(place).solve)(model, at=times, **options)
    return replace(solution, seconds=perf_counter() - start)
