"""From a model to an analytic answer: which methods there are, and the one that is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from time import perf_counter
from typing import Any, cast

from qtheory.models.errors import InvalidModel
from qtheory.models.files import SYSTEMS, Model
from qtheory.solution import Solution

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
    """The analytic methods that exist for this kind of system, `auto` last.

    Raises `InvalidModel` for anything but a system.
    """
    if not isinstance(model, tuple(SYSTEMS.values())):
        raise InvalidModel(field="model", rule=f"must be a model of kind {', '.join(SYSTEMS)}", value=model)
    return (*METHODS[model.kind()], "auto")


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
    InvalidModel : unknown method, or a law that the method cannot use.
    """
    known = methods(model)
    if method not in known:
        raise InvalidModel(field="method", rule=f"must be one of {', '.join(known)}", value=method)
    times = tuple(float(x) for x in at)
    for x in times:
        if not (x >= 0 and math.isfinite(x)):
            raise InvalidModel(field="at", rule="must be finite times >= 0", value=x)
    start = perf_counter()
    place = METHODS[model.kind()].get(method, f"qtheory.systems.{model.kind()}.auto")
    solution = cast(Method, import_module(place).solve)(model, at=times, **options)
    return replace(solution, seconds=perf_counter() - start)
