"""How much choice a target needs: the least flexible fraction, or the fewest choices, that meet it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

from qtheory._solve import solve
from qtheory.models.errors import InvalidModel
from qtheory.models.flexible import Flexible
from qtheory.solution import Value
from qtheory.systems.flexible.stability import check_stable

#: Without flexible jobs, and with all of them flexible.
_NONE, _FULL = 0.0, 1.0
_PRECISION = 1e-9
_MOST_CHOICES = 1024


@dataclass(frozen=True, kw_only=True)
class LeastFraction:
    """The least flexible fraction that meets a target.

    Attributes
    ----------
    fraction : where the measure equals the target (0 if no choice is needed).
    safe : where the measure plus its error does; None if that happens nowhere.
    value : the measure at `fraction`, with its error.
    without, full : the measure at fraction 0 and 1.
    method : the method at `fraction`.
    evaluations : systems solved.
    """

    fraction: float
    safe: float | None
    value: Value
    without: Value
    full: Value
    method: str
    evaluations: int


@dataclass(frozen=True, kw_only=True)
class LeastChoices:
    """The fewest choices that meet a target at the model's flexible fraction; 1 means that no choice is needed.

    `safe` are the fewest with which the measure plus its error does, None if no number is enough.
    """

    choices: int
    safe: int | None
    value: Value
    method: str
    evaluations: int


class _Asked:
    """The measure at a setting of the model, each setting solved once."""

    def __init__(self, model: Flexible, *, measure: str, scope: str, method: str) -> None:
        if scope not in ("all", "dedicated"):
            # What a flexible job gains may rise or fall with the number of others who choose.
            raise InvalidModel(field="scope", rule="must be all or dedicated for a design question", value=scope)
        check_stable(model)
        self.model, self.measure, self.scope, self.method = model, measure, scope, method
        self.known: dict[Any, tuple[Value, str]] = {}

    def value(self, **setting: Any) -> Value:
        key = tuple(setting.items())
        if key not in self.known:
            solution = solve(self.model.replace(**setting), method=self.method)
            if (self.measure, self.scope) not in solution.measures:
                rule = f"is not among the measures that {solution.method} gives for this system"
                raise InvalidModel(field="measure", rule=rule, value=self.measure)
            self.known[key] = solution[self.measure, self.scope], solution.method
        return self.known[key][0]

    def solved_by(self, **setting: Any) -> str:
        return self.known[tuple(setting.items())][1]


def least_fraction(
    model: Flexible, *, target: float, measure: str = "mean_response", scope: str = "all", method: str = "auto"
) -> LeastFraction:
    """The least flexible fraction with which `measure` (a mean or percentile of response or wait) is at most `target`.

    Response falls with the fraction (Akgun, Righter and Wolff 2012, "Understanding the marginal impact of customer
    flexibility", Queueing Syst. 71, 5-23), so bisection finds the one crossing; the model's own fraction is not used.

    Raises
    ------
    InvalidModel : the target is out of reach even with everybody flexible, or the measure is not known for the system.
    Unstable : load >= 1.

    >>> found = least_fraction(Flexible(queues="infinite", load=0.9, flexible_fraction=0, choices=2), target=5.0)
    >>> round(found.fraction, 3)
    0.264
    """
    asked = _Asked(model, measure=measure, scope=scope, method=method)
    without, full = asked.value(flexible_fraction=_NONE), asked.value(flexible_fraction=_FULL)
    if full.value > target:
        rule = f"is out of reach: with everybody flexible {measure} is {full.value:.6g}"
        raise InvalidModel(field="target", rule=rule, value=target)

    def crossing(wanted: float, *, cautious: bool) -> float:
        def excess(fraction: float) -> float:
            value = asked.value(flexible_fraction=fraction)
            return value.value + (value.error if cautious else 0.0) - wanted

        if excess(_NONE) <= 0.0:
            return _NONE
        root = float(brentq(excess, _NONE, _FULL, xtol=_PRECISION))
        # On the side that meets the target.
        return root if excess(root) <= 0.0 else min(root + 2.0 * _PRECISION, _FULL)

    fraction = crossing(target, cautious=False)
    safe = crossing(target, cautious=True) if full.value + full.error <= target else None
    value = asked.value(flexible_fraction=fraction)
    return LeastFraction(
        fraction=fraction,
        safe=safe,
        value=value,
        without=without,
        full=full,
        method=asked.solved_by(flexible_fraction=fraction),
        evaluations=len(asked.known),
    )


def least_choices(
    model: Flexible, *, target: float, measure: str = "mean_response", scope: str = "all", method: str = "auto"
) -> LeastChoices:
    """The fewest choices with which `measure` is at most `target`, at the model's flexible fraction.

    Raises
    ------
    InvalidModel : the target is out of reach with all queues to choose from (1024 where there are infinitely many).
    Unstable : load >= 1.

    >>> model = Flexible(queues="infinite", load=0.9, flexible_fraction=0.5, choices=2)
    >>> least_choices(model, target=3.0).choices
    3
    """
    asked = _Asked(model, measure=measure, scope=scope, method=method)
    most = model.queues if isinstance(model.queues, int) else _MOST_CHOICES

    def value(count: int) -> Value:
        if count == 1:
            return asked.value(flexible_fraction=_NONE)
        return asked.value(choices=count, sampling="distinct" if count == most else model.sampling)

    def fewest(*, cautious: bool) -> int | None:
        def meets(count: int) -> bool:
            found = value(count)
            return found.value + (found.error if cautious else 0.0) <= target

        low, high = 0, 1
        while not meets(high):
            if high == most:
                return None
            low, high = high, min(2 * high, most)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if meets(middle) else (middle, high)
        return high

    count = fewest(cautious=False)
    if count is None:
        rule = f"is out of reach: with {most} choices {measure} is {value(most).value:.6g}"
        raise InvalidModel(field="target", rule=rule, value=target)
    found = value(count)
    return LeastChoices(
        choices=count,
        safe=fewest(cautious=True),
        value=found,
        method=next(name for known, name in asked.known.values() if known is found),
        evaluations=len(asked.known),
    )
