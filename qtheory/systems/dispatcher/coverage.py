"""Which analytic methods hold under which rules for killed jobs."""

from __future__ import annotations

from qtheory.models import Dispatcher, InvalidModel
from qtheory.systems.dispatcher.limits import FEW, of_few_values

#: Rules under which both groups are still many-server queues, of services and kills with other laws.
_OTHER_LAWS = frozenset({"checkpoint_share", "grace", "grace_completes", "limits"})
#: Rules that are the plain ones with a longer limit.
_LONGER_LIMIT = frozenset({"grace"})
_RULES = {
    "mmc": _OTHER_LAWS,
    "mgc": _OTHER_LAWS,
    "phase-type": _LONGER_LIMIT,
    "exact": _LONGER_LIMIT,
    "auto": _OTHER_LAWS,
}


def uncovered(model: Dispatcher, *, method: str) -> str:
    """The first field whose rule the method does not cover; empty where it covers the model.

    Where killed jobs do not join the back of Queue 1, the classes there have waits of their own, which no method knows;
    limits of many values give laws of services that no method has.
    """
    field = next((name for name in model.changed_rules if name not in _RULES[method]), "")
    return field or ("" if of_few_values(model) else "limits")


def require_covered(model: Dispatcher, *, method: str) -> None:
    """Raise `InvalidModel`, with the field, unless the method covers the model's rules for killed jobs."""
    field = uncovered(model, method=method)
    if not field:
        return
    if field == "limits" and not of_few_values(model):
        rule = f"no analytic method covers this rule with a density or more than {FEW} values; qsim simulates it"
        raise InvalidModel(field=field, rule=rule, value=model.limits)
    others = [name for name in _RULES if not uncovered(model, method=name)]
    advice = f"{', '.join(others)} do" if others else "qsim simulates it"
    who = f"method {method} does not cover this rule" if others else "no analytic method covers this rule"
    raise InvalidModel(field=field, rule=f"{who}; {advice}", value=getattr(model, field))
