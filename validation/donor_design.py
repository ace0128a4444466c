"""Thresholds of the donor's policy: the best for one load, or the most robust over many, by the exact solver.

One threshold is searched exhaustively. Two or three are searched by descent on the lattice from several starts, with
steps that halve, and a last look at all neighbours: the result is a local optimum in every direction, diagonals
included, and the best of those that the starts lead to.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Literal

from qtheory.models import ADT, T1, T1T2, T2, Donor, InvalidModel, Unstable, plain
from qtheory.models.policies import DonorPolicy
from qtheory.systems.donor.exact import check_method, stationary_law
from qtheory.systems.donor.stability import check_stable, policy_name

Progress = Callable[[int, int], None]
Point = tuple[int, ...]
Objective = Literal["mean", "worst-ratio"]

#: The thresholds of each family and where they are searched unless told.
BOUNDS: dict[str, dict[str, tuple[int, int]]] = {
    "t1": {"t1": (1, 60)},
    "t2": {"t2": (1, 60)},
    "t1t2": {"t1": (1, 40), "t2": (1, 150)},
    "adt": {"low": (1, 30), "high": (1, 60), "t2": (1, 60)},
}
#: Thresholds for which infinity is tried too, as the point behind the largest: T1T2(x, inf) is T1(x).
_ENDLESS = {"t1": (), "t2": (), "t1t2": ("t2",), "adt": ("high",)}
_FAMILIES: dict[str, Callable[..., DonorPolicy]] = {"t1": T1, "t2": T2, "t1t2": T1T2, "adt": ADT}


@dataclass(frozen=True, kw_only=True)
class DonorDesign:
    """One row: a policy, its exact costs at each load (None where unstable) and what the objective makes of them."""

    policy: DonorPolicy
    stable: bool
    costs: tuple[float | None, ...]
    value: float | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data; with one load `analytic` is its cost."""
        costs = list(self.costs)
        row = {"policy": plain(self.policy), "stable": self.stable, "analytic": self.value}
        return row if len(costs) == 1 else row | {"costs": costs}


@dataclass(frozen=True, kw_only=True)
class DonorSearch:
    """What the optimiser returns.

    Attributes
    ----------
    models : the loads, one model each; their own policies do not matter.
    best, ties : the best policy and those within the relative `indifference` of it.
    value : the objective at the best policy.
    references : the least cost found at each load within the family, where ratios refer to it.
    table : every design that was weighed at all loads, unstable ones included, in order of thresholds.
    """

    models: tuple[Donor, ...]
    best: DonorPolicy
    ties: tuple[DonorPolicy, ...]
    value: float
    references: tuple[float, ...]
    table: tuple[DonorDesign, ...]
    objective: Objective
    indifference: float
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "model": plain(self.models[0]),
            "method": "exact",
            "status": "ok",
            "best": {"policy": plain(self.best)},
            "ties": [{"policy": plain(policy)} for policy in self.ties],
            "value": self.value,
            "references": list(self.references),
            "loads": [list(model.arrival_rates) for model in self.models],
            "table": [design.to_dict() for design in self.table],
            "guarantee": {"confidence": 1.0, "indifference": self.indifference},
            "objective": self.objective,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        ties = ", ".join(policy_name(policy) for policy in self.ties) or "none"
        head = f"Search: best {policy_name(self.best)}, {self.objective} {self.value:.6g}, ties {ties}"
        return f"{head}, {len(self.table)} designs, {self.seconds:.3g} s"


def optimise(
    model: Donor,
    *,
    policy: str = "t1",
    bounds: Mapping[str, tuple[int, int]] | None = None,
    indifference: float = 1e-6,
    progress: Progress | None = None,
) -> DonorSearch:
    """The thresholds of least cost at the model's own load.

    Parameters
    ----------
    model : its policy does not matter.
    policy : the family: t1, t2 (in the model's own reading if it has one), t1t2, adt.
    bounds : (least, largest) by threshold; `BOUNDS` where none are given. For t2 of T1T2 and high of ADT infinity is
        tried as well.
    indifference : relative difference of costs that makes a tie.
    progress : called with (steps done, all steps).

    Raises
    ------
    InvalidModel : unknown family or threshold, or a system that the exact method does not know.
    Unstable : no policy within the bounds is stable.

    >>> standing = Donor(arrival_rates=(1.15, 0.025), policy=T1(t1=1),
    ...                  service_rates={"mu1": 1, "mu12": 1, "mu2": 0.0625})
    >>> optimise(standing, bounds={"t1": (1, 6)}).best
    T1(t1=3)
    """
    return optimise_over(
        [model], policy=policy, objective="mean", bounds=bounds, indifference=indifference, progress=progress
    )


def optimise_over(
    models: Sequence[Donor],
    *,
    policy: str = "adt",
    objective: Objective = "worst-ratio",
    weights: Sequence[float] | None = None,
    bounds: Mapping[str, tuple[int, int]] | None = None,
    indifference: float = 1e-6,
    progress: Progress | None = None,
) -> DonorSearch:
    """The thresholds that do best over several loads.

    The objective is the largest ratio of the cost to the least cost that the family reaches at the same load
    ("worst-ratio"), or the mean of the costs by `weights` ("mean"). A policy that is unstable at one of the loads
    is out. Arguments and errors as in `optimise`.
    """
    start = perf_counter()
    family = _Family(models, name=policy, bounds=bounds)
    shares = _shares(weights, count=len(models))
    alone = range(len(models)) if objective == "worst-ratio" and len(models) > 1 else range(0)
    steps = _Steps(progress, total=len(alone) + 1)
    bests = []
    for load in alone:
        bests.append(family.least(partial(family.cost, load=load), [], only=load))
        steps.done()
    references = tuple(family.cost(point, load) for point, load in zip(bests, alone, strict=True))
    known: dict[Point, float] = {}

    def value(point: Point) -> float:
        if point not in known:
            costs = [family.cost(point, load) for load in family.hardest_first]
            if objective == "worst-ratio" and len(models) > 1:
                ratios = zip(costs, family.hardest_first, strict=True)
                known[point] = max(cost / references[load] for cost, load in ratios)
            else:
                known[point] = sum(shares[load] * cost for cost, load in zip(costs, family.hardest_first, strict=True))
        return known[point]

    best = family.least(value, bests)
    steps.done()
    least = value(best)
    if math.isinf(least):
        family.raise_unstable(best)
    rows = sorted(known.items())
    return DonorSearch(
        models=tuple(models),
        best=family.at(best),
        ties=tuple(family.at(p) for p, v in rows if p != best and v <= least * (1 + indifference)),
        value=least,
        references=references or (least,) * (len(models) == 1),
        table=tuple(family.design(point, value=v) for point, v in rows),
        objective=objective,
        indifference=indifference,
        seconds=perf_counter() - start,
    )


def with_loads(
    model: Donor, *, rho1: Sequence[float] | None = None, rho2: Sequence[float] | None = None
) -> list[Donor]:
    """The model at each of the loads rho1 (or rho2) in turn, the other one kept; both given: in pairs."""
    rates = model.service_rates
    own = (model.arrival_rates[0] / rates.mu1, model.arrival_rates[1] / rates.mu2)
    count = len(rho1 if rho1 is not None else rho2 if rho2 is not None else [0])
    pairs = zip(rho1 or [own[0]] * count, rho2 or [own[1]] * count, strict=True)
    return [model.replace(arrival_rates=(one * rates.mu1, two * rates.mu2)) for one, two in pairs]


class _Steps:
    """Progress in whole searches."""

    def __init__(self, progress: Progress | None, *, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def done(self) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, self._total)


class _Family:
    """The designs of one family at all loads, with their costs remembered."""

    def __init__(self, models: Sequence[Donor], *, name: str, bounds: Mapping[str, tuple[int, int]] | None) -> None:
        if name not in BOUNDS:
            raise InvalidModel(field="policy", rule=f"must be one of {', '.join(BOUNDS)}", value=name)
        if not models:
            raise InvalidModel(field="models", rule="must hold at least one load")
        for key in bounds or {}:
            if key not in BOUNDS[name]:
                raise InvalidModel(field="bounds", rule=f"{name} has {', '.join(BOUNDS[name])}", value=key)
        for model in models:
            check_method(model, at=(), method="exact")
        self.models, self.name = models, name
        self.limits = list((BOUNDS[name] | dict(bounds or {})).values())
        for key, (low, high) in zip(BOUNDS[name], self.limits, strict=True):
            if not 1 <= low <= high:
                raise InvalidModel(field=f"bounds.{key}", rule="must be 1 <= least <= largest", value=(low, high))
        own = models[0].policy
        self.reading = {"reading": own.reading} if name == "t2" and isinstance(own, T2) else {}
        self._costs: dict[tuple[Point, int], float] = {}
        load = [m.arrival_rates[0] / m.service_rates.mu1 + m.arrival_rates[1] / m.service_rates.mu2 for m in models]
        self.hardest_first = sorted(range(len(models)), key=lambda i: -load[i])

    def at(self, point: Point) -> DonorPolicy:
        """The policy with these thresholds."""
        values = {
            key: math.inf if key in _ENDLESS[self.name] and x > last else x
            for key, x, (_, last) in zip(BOUNDS[self.name], point, self.limits, strict=True)
        }
        return _FAMILIES[self.name](**values, **self.reading)

    def allowed(self, point: Point) -> bool:
        """Within the bounds or infinite, and low at most high."""
        endless = [key in _ENDLESS[self.name] for key in BOUNDS[self.name]]
        inside = all(low <= x <= high + more for x, (low, high), more in zip(point, self.limits, endless, strict=True))
        return inside and (self.name != "adt" or point[0] <= point[1])

    def cost(self, point: Point, load: int) -> float:
        """The exact cost at a load, infinite if unstable."""
        key = (point, load)
        if key not in self._costs:
            model = self.models[load].replace(policy=self.at(point))
            try:
                n1, n2 = stationary_law(model).mean_numbers
                c1, c2 = model.holding_costs
                self._costs[key] = (c1 * n1 + c2 * n2) / sum(model.arrival_rates)
            except Unstable:
                self._costs[key] = math.inf
        return self._costs[key]

    def design(self, point: Point, *, value: float) -> DonorDesign:
        """The row of a design."""
        costs = tuple(self._costs.get((point, load), math.inf) for load in range(len(self.models)))
        finite = math.isfinite(value)
        return DonorDesign(
            policy=self.at(point),
            stable=finite,
            costs=tuple(cost if math.isfinite(cost) else None for cost in costs),
            value=value if finite else None,
        )

    def raise_unstable(self, point: Point) -> None:
        """Say why nothing is stable: the complaint about one design at the hardest load."""
        for load in self.hardest_first:
            check_stable(self.models[load].replace(policy=self.at(point)))

    def least(self, value: Callable[[Point], float], starts: Sequence[Point], *, only: int | None = None) -> Point:
        """The design of least value: all of them in one dimension, else descents."""
        if len(self.limits) == 1:
            ((low, high),) = self.limits
            return min(((x,) for x in range(low, high + 1)), key=value)
        found = [_descend(value, start, self.allowed, self.limits) for start in {*self._starts(only), *starts}]
        return min(found, key=value)

    def _starts(self, only: int | None) -> Iterator[Point]:
        """The best T1 at a load (or at the hardest) with early and late switches, and corners."""
        load = self.hardest_first[0] if only is None else only
        model, largest = self.models[load], max(self.limits[0][1], self.limits[1][1])
        single = _Family([model], name="t1", bounds={"t1": (1, largest)})
        (t1,) = single.least(lambda point: single.cost(point, 0), [])
        low, high = self.limits[0]
        clip = min(max(t1, low), high)
        if self.name == "t1t2":
            late = self.limits[1][1]
            yield from (
                (x, y) for x in {clip, max(low, clip // 2)} for y in {max(self.limits[1][0], late // 12), late + 1}
            )
            return
        top, (first, last) = self.limits[1][1], self.limits[2]
        for below, above in itertools.product((clip, max(low, clip // 2)), (t1, 2 * t1)):
            point = (min(below, above), max(min(above, top + 1), below), min(max(6, first), last))
            if self.allowed(point):
                yield point


def _descend(
    value: Callable[[Point], float],
    start: Point,
    allowed: Callable[[Point], bool],
    limits: Sequence[tuple[int, int]],
) -> Point:
    """A local minimum by steps along the axes that halve, then among all neighbours."""
    here, least = start, value(start)
    step = max(1, max(high - low for low, high in limits) // 8)
    while True:
        axes = [tuple(sign * step * (i == j) for j in range(len(start))) for i in range(len(start)) for sign in (1, -1)]
        moves = axes if step > 1 else list(itertools.product((-1, 0, 1), repeat=len(start)))
        better = None
        for move in moves:
            point = tuple(x + d for x, d in zip(here, move, strict=True))
            if allowed(point) and value(point) < least:
                better, least = point, value(point)
        if better is not None:
            here = better
        elif step == 1:
            return here
        else:
            step //= 2


def _shares(weights: Sequence[float] | None, *, count: int) -> list[float]:
    """Weights that sum to 1."""
    given = [1.0] * count if weights is None else list(weights)
    if len(given) != count or min(given) < 0 or not sum(given) > 0:
        raise InvalidModel(field="weights", rule=f"must be {count} numbers >= 0, not all 0", value=weights)
    return [weight / sum(given) for weight in given]
