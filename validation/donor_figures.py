"""Figures of the donor system: what the donor does in each state, and cost against load with the stability limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from qtheory.models import Donor, InvalidModel, NotConverged, Unstable
from qtheory.models.policies import DonorPolicy
from qtheory.systems.donor.exact import check_method, stationary_law
from qtheory.systems.donor.rules import AT_HOME, HELPS, IDLE, donor_at
from qtheory.systems.donor.stability import largest_rho1, largest_rho2, policy_name

Load = Literal["rho1", "rho2"]

_COLOURS = {IDLE: "#f1f2f4", HELPS: "#1f5fa8", AT_HOME: "#f2b48a"}
_MEANINGS = {IDLE: "idle", HELPS: "queue 1", AT_HOME: "queue 2"}
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
}


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The cost under one policy at each load (None where there is no steady state) and the load where it ends."""

    policy: DonorPolicy
    loads: tuple[float, ...]
    costs: tuple[float | None, ...]
    limit: float

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "policy": policy_name(self.policy),
            "loads": list(self.loads),
            "costs": list(self.costs),
            "limit": self.limit,
        }


def policy_map(model: Donor, *, n1: int = 12, n2: int = 12) -> Figure:
    """Which queue the donor serves with N1 = 0 .. n1 (across) and N2 = 0 .. n2 (up) jobs present."""
    task = donor_at(model, n1=np.arange(n1 + 1)[None, :], n2=np.arange(n2 + 1)[:, None])
    figure, axes = _figure(width=7.0, height=4.6)
    with matplotlib.rc_context(_STYLE):
        colours = ListedColormap([_COLOURS[code] for code in (IDLE, HELPS, AT_HOME)])
        axes.pcolormesh(
            np.arange(n1 + 2) - 0.5,
            np.arange(n2 + 2) - 0.5,
            task,
            cmap=colours,
            vmin=-0.5,
            vmax=2.5,
            edgecolors="white",
            linewidth=1,
        )
        axes.set_xlabel("jobs in queue 1, N1")
        axes.set_ylabel("jobs in queue 2, N2")
        axes.set_title(f"{policy_name(model.policy)}: server 2 serves", loc="left")
        axes.set_aspect("equal")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        used = [code for code in (HELPS, AT_HOME, IDLE) if (task == code).any()]
        patches = [Patch(facecolor=_COLOURS[code], edgecolor="#8a8f98", label=_MEANINGS[code]) for code in used]
        axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    return figure


def curves(
    model: Donor, *, policies: Sequence[DonorPolicy], vary: Load, loads: Sequence[float] | None = None
) -> list[Curve]:
    """Exact costs under each policy with rho1 or rho2 varied, the other load kept.

    `loads`: where; by default 60 of them up to the largest limit of any policy.
    """
    if vary not in ("rho1", "rho2"):
        raise InvalidModel(field="vary", rule="must be rho1 or rho2", value=vary)
    if not policies:
        raise InvalidModel(field="policies", rule="must hold at least one policy")
    check_method(model, at=(), method="exact")
    bound = largest_rho1 if vary == "rho1" else largest_rho2
    limits = [bound(model.replace(policy=policy)) for policy in policies]
    where = tuple(loads) if loads is not None else tuple(np.linspace(0, max(limits), 62)[1:-1].tolist())
    return [
        Curve(
            policy=policy,
            loads=where,
            costs=tuple(_cost(_at(model.replace(policy=policy), vary=vary, load=load)) for load in where),
            limit=limit,
        )
        for policy, limit in zip(policies, limits, strict=True)
    ]


def robustness(model: Donor, *, found: Sequence[Curve], vary: Load) -> Figure:
    """Cost against load, a curve a policy; dotted lines mark where policies stop being stable."""
    figure, axes = _figure(width=7.0, height=4.0)
    with matplotlib.rc_context(_STYLE):
        for curve in found:
            points = [(x, y) for x, y in zip(curve.loads, curve.costs, strict=True) if y is not None]
            (line,) = axes.plot(*np.array(points or [(math.nan, math.nan)]).T, label=policy_name(curve.policy))
            axes.axvline(curve.limit, color=line.get_color(), linestyle=":", linewidth=1)
        kept = 1 if vary == "rho1" else 0
        mu = (model.service_rates.mu1, model.service_rates.mu2)[kept]
        other = model.arrival_rates[kept] / mu
        axes.set_xlabel(f"{vary}   ({'rho2' if kept else 'rho1'} = {other:.4g}; dotted: limit of stability)")
        axes.set_ylabel(_ordinate(model))
        axes.set_ylim(0, _height(found))
        axes.set_xlim(0, 1.02 * max(curve.limit for curve in found))
        axes.grid(visible=True, color="#e3e6ea")
        axes.legend(frameon=False)
    return figure


def _figure(*, width: float, height: float) -> tuple[Figure, Axes]:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.add_subplot()


def _at(model: Donor, *, vary: Load, load: float) -> Donor:
    rates, (one, two) = model.service_rates, model.arrival_rates
    return model.replace(arrival_rates=(load * rates.mu1, two) if vary == "rho1" else (one, load * rates.mu2))


def _cost(model: Donor) -> float | None:
    try:
        n1, n2 = stationary_law(model).mean_numbers
    except (Unstable, NotConverged):
        return None
    c1, c2 = model.holding_costs
    return (c1 * n1 + c2 * n2) / sum(model.arrival_rates)


def _ordinate(model: Donor) -> str:
    return "mean response time" if model.holding_costs == (1.0, 1.0) else "mean cost"


def _height(found: Sequence[Curve]) -> float:
    """Where to cut the curves off, as they all end at infinity: a little above the best at nine tenths of the loads."""
    columns = zip(*(curve.costs for curve in found), strict=True)
    least = [min(cost for cost in column if cost is not None) for column in columns if set(column) != {None}]
    return 1.2 * float(np.quantile(least, 0.9)) if least else 1.0
