"""Study `partial-choice`: what the wait owes to the share of jobs that may choose, by both roads.

The claims of Akgun, Righter and Wolff, "The power of partial power of two choices", are that E[W](p) is decreasing and
convex in the flexible fraction p and that a small p has nearly all the benefit. The first is checked on a grid, exactly
where the answer is exact and statistically, with the power stated, where it is simulated. The second depends on the
load, and the study says how.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import qsim
import qtheory
from qtheory.models import Flexible
from validation.power import critical_value, detectable_shift

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Queues = int | Literal["infinite"]
Verdict = Literal["holds", "fails", "not refuted", "undecided"]

LOADS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
SIMULATED_LOADS = (0.7, 0.9)
SMALL = 0.1
_FEW_CHOICES = 8
_FALSE_ALARM = 1e-6
_POWER = 0.9
#: Jobs of each simulated point.
JOBS = 8_000_000


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Whether a curve is decreasing and convex.

    Attributes
    ----------
    decreasing, convex : exact: "holds" or "fails" where differences exceed their errors, else "undecided"; simulated:
        "not refuted" or "fails".
    steepest_rise, sharpest_bend : the largest first difference and the smallest second difference over the grid, the
        latter per square of the step, in the units of the benefit E[W](0) - E[W](1).
    unseen_rise, unseen_bend : the violation of that size that a simulated curve would have shown with probability .9;
        0 for an exact curve.
    """

    decreasing: Verdict
    convex: Verdict
    steepest_rise: float
    sharpest_bend: float
    unseen_rise: float = 0.0
    unseen_bend: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Curve:
    """E[W] against the flexible fraction for one system, by one road."""

    queues: Queues
    load: float
    choices: int
    road: Literal["analytic", "simulated"]
    method: str
    fractions: tuple[float, ...]
    waits: tuple[float, ...]
    errors: tuple[float, ...]
    shape: Shape

    def share(self, fraction: float) -> float:
        """The share of the benefit of full freedom that `fraction` has: (E[W](0) - E[W](p)) / (E[W](0) - E[W](1))."""
        at = float(np.interp(fraction, self.fractions, self.waits))
        return (self.waits[0] - at) / (self.waits[0] - self.waits[-1])

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "queues": self.queues,
            "load": self.load,
            "choices": self.choices,
            "road": self.road,
            "method": self.method,
            "fractions": list(self.fractions),
            "mean_wait": list(self.waits),
            "error": list(self.errors),
            "share": [self.share(p) for p in self.fractions],
            "decreasing": self.shape.decreasing,
            "convex": self.shape.convex,
            "steepest_rise": self.shape.steepest_rise,
            "sharpest_bend": self.shape.sharpest_bend,
            "unseen_rise": self.shape.unseen_rise,
            "unseen_bend": self.shape.unseen_bend,
        }


@dataclass(frozen=True, kw_only=True)
class PartialChoice:
    """The study's result."""

    curves: tuple[Curve, ...]
    choices: int

    @property
    def analytic(self) -> tuple[Curve, ...]:
        return tuple(curve for curve in self.curves if curve.road == "analytic")

    @property
    def simulated(self) -> tuple[Curve, ...]:
        return tuple(curve for curve in self.curves if curve.road == "simulated")

    @property
    def refuted(self) -> tuple[Curve, ...]:
        """Curves that are not decreasing or not convex."""
        return tuple(curve for curve in self.curves if "fails" in (curve.shape.decreasing, curve.shape.convex))

    def shares(self, *, queues: Queues, fraction: float = SMALL) -> dict[float, float]:
        """Share of the full benefit at a small fraction, by load."""
        return {curve.load: curve.share(fraction) for curve in self.analytic if curve.queues == queues}

    def sentences(self) -> tuple[str, ...]:
        """What the study found, in words and numbers."""
        found = [_on_shape(self.analytic, exact=True)]
        if self.simulated:
            found.append(_on_shape(self.simulated, exact=False))
        for queues in dict.fromkeys(curve.queues for curve in self.analytic):
            shares = self.shares(queues=queues)
            numbers = ", ".join(f"{100 * share:.0f} % at load {load:g}" for load, share in shares.items())
            found.append(
                f"A fraction of {SMALL:g} flexible jobs has this share of the benefit of full choice among "
                f"{self.choices}, {_system(queues)}: {numbers}."
            )
            (low, least), (high, most) = min(shares.items()), max(shares.items())
            if low < high:
                found.append(
                    f"The share that so small a fraction has depends on the load, {_system(queues)}: "
                    f"{100 * least:.0f} % at {low:g}, {100 * most:.0f} % at {high:g}."
                )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "choices": self.choices,
            "curves": [curve.to_dict() for curve in self.curves],
            "findings": list(self.sentences()),
        }


def study(
    *,
    loads: Sequence[float] = LOADS,
    queues: Sequence[Queues] | None = None,
    choices: int = 2,
    points: int = 41,
    simulated_loads: Sequence[float] = SIMULATED_LOADS,
    simulated_queues: Sequence[int] | None = None,
    simulated_points: int = 5,
    jobs: int = JOBS,
    replications: int = 32,
    seed: int = 1,
    threads: int | None = None,
) -> PartialChoice:
    """E[W](p) on grids of `points` fractions, analytic for every load and number of queues, simulated for some.

    Simulated fractions share their random numbers (jobs, classes, queues looked at), so that differences between them
    are far more precise than the waits themselves. Takes about a minute with the default arguments on two processors.

    By default infinitely many queues are taken, and two where two choices make them exact at once; simulated are
    `choices` and 10 queues.
    """
    systems: Sequence[Queues] = queues or (("infinite", 2) if choices == 2 else ("infinite",))
    if simulated_queues is None:
        simulated_queues = sorted({choices, max(10, choices)})
    fractions = np.linspace(0.0, 1.0, points)
    curves = [
        _analytic(queues=count, load=load, choices=choices, fractions=fractions) for count in systems for load in loads
    ]
    grid = np.linspace(0.0, 1.0, simulated_points)
    for count in simulated_queues:
        for load in simulated_loads:
            model = Flexible(queues=count, load=load, flexible_fraction=0.0, choices=choices)
            curves.append(
                _simulated(
                    model,
                    fractions=grid,
                    jobs=jobs,
                    replications=replications,
                    seed=seed,
                    threads=threads,
                    comparisons=4 * len(simulated_queues) * len(simulated_loads) * simulated_points,
                )
            )
    return PartialChoice(curves=tuple(curves), choices=choices)


def _analytic(*, queues: Queues, load: float, choices: int, fractions: Array) -> Curve:
    solutions = [
        qtheory.solve(Flexible(queues=queues, load=load, flexible_fraction=float(p), choices=choices))
        for p in fractions
    ]
    values = [solution["mean_wait", "all"] for solution in solutions]
    waits, errors = np.array([v.value for v in values]), np.array([v.error for v in values])
    return Curve(
        queues=queues,
        load=load,
        choices=choices,
        road="analytic",
        method=solutions[-1].method,
        fractions=tuple(fractions.tolist()),
        waits=tuple(waits.tolist()),
        errors=tuple(errors.tolist()),
        shape=exact_shape(fractions, waits, errors),
    )


def exact_shape(fractions: Array, waits: Array, errors: Array) -> Shape:
    """The shape of a curve known within `errors`, on an even grid.

    >>> exact_shape(np.array([0.0, 0.5, 1.0]), np.array([3.0, 1.5, 1.0]), np.zeros(3)).convex
    'holds'
    """
    benefit = waits[0] - waits[-1]
    rises, bends = np.diff(waits), np.diff(waits, 2)
    rise_errors = errors[1:] + errors[:-1] + 4e-16 * waits[0]
    bend_errors = errors[2:] + 2.0 * errors[1:-1] + errors[:-2] + 8e-16 * waits[0]
    step = float(fractions[1] - fractions[0])
    return Shape(
        decreasing=_decided(-rises, rise_errors),
        convex=_decided(bends, bend_errors),
        steepest_rise=float(rises.max() / benefit),
        sharpest_bend=float(bends.min() / benefit / step**2),
    )


def _decided(positive: Array, errors: Array) -> Verdict:
    """Whether numbers known within errors are all positive."""
    if np.all(positive > errors):
        return "holds"
    return "fails" if np.any(positive < -errors) else "undecided"


def _simulated(
    model: Flexible,
    *,
    fractions: Array,
    jobs: int,
    replications: int,
    seed: int,
    threads: int | None,
    comparisons: int,
) -> Curve:
    runs = []
    assert isinstance(model.choices, int)
    # Job by job random numbers go with the jobs, whatever the fraction; that kernel looks at a few queues only.
    kernel = "jobs" if model.choices <= _FEW_CHOICES else "events"
    for p in fractions:
        estimate = qsim.simulate(
            model.replace(flexible_fraction=float(p)),
            jobs=jobs,
            replications=replications,
            seed=seed,
            threads=threads,
            means_only=True,
            kernel=kernel,
        )
        runs.append(estimate.samples["mean_wait", "all"].values)
    waits = np.stack(runs, axis=1)
    mean, se = waits.mean(axis=0), waits.std(axis=0, ddof=1) / math.sqrt(replications)
    critical = critical_value(false_alarm=_FALSE_ALARM / comparisons, degrees=replications - 1)
    return Curve(
        queues=model.queues,
        load=model.load,
        choices=model.choices,
        road="simulated",
        method=f"{replications} replications of {-(-jobs // replications)} jobs",
        fractions=tuple(fractions.tolist()),
        waits=tuple(mean.tolist()),
        errors=tuple(se.tolist()),
        shape=simulated_shape(fractions, waits, critical=critical),
    )


def simulated_shape(fractions: Array, waits: Array, *, critical: float) -> Shape:
    """The shape of a curve from replications (a row each), on an even grid.

    A rise or a bend downwards is called when its mean over replications exceeds `critical` standard errors.
    """
    count = len(waits)
    benefit = float((waits[:, 0] - waits[:, -1]).mean())
    seen = detectable_shift(critical=critical, degrees=count - 1, power=_POWER)

    def tested(violations: Array) -> tuple[Verdict, float, float]:
        mean = violations.mean(axis=0)
        se = violations.std(axis=0, ddof=1) / math.sqrt(count)
        verdict: Verdict = "fails" if np.any(mean > critical * se) else "not refuted"
        return verdict, float(mean.max() / benefit), float((seen * se).max() / benefit)

    step = float(fractions[1] - fractions[0])
    decreasing, rise, unseen_rise = tested(np.diff(waits, axis=1))
    convex, bend, unseen_bend = tested(-np.diff(waits, 2, axis=1))
    return Shape(
        decreasing=decreasing,
        convex=convex,
        steepest_rise=rise,
        sharpest_bend=-bend / step**2,
        unseen_rise=unseen_rise,
        unseen_bend=unseen_bend / step**2,
    )


def _on_shape(curves: Sequence[Curve], *, exact: bool) -> str:
    refuted = [c for c in curves if "fails" in (c.shape.decreasing, c.shape.convex)]
    if refuted:
        names = ", ".join(f"{_system(c.queues)} at load {c.load:g}" for c in refuted)
        return f"E[W](p) is not decreasing and convex for {names}."
    points = len(curves[0].fractions)
    if exact:
        sure = [c for c in curves if (c.shape.decreasing, c.shape.convex) == ("holds", "holds")]
        rest = "" if len(sure) == len(curves) else ", undecided within the error on the others"
        grids = f"{len(sure)} of {len(curves)} grids of {points} fractions"
        return f"E[W](p) is strictly decreasing and convex on {grids}{rest}."
    rise, bend = max(c.shape.unseen_rise for c in curves), max(c.shape.unseen_bend for c in curves)
    return (
        f"{len(curves)} simulated curves of {points} fractions do not refute it; at a false-alarm rate of "
        f"{_FALSE_ALARM:g} for all of them, a rise by {100 * rise:.2g} % of the benefit between neighbours or a "
        f"curvature of -{bend:.2g} of it would have been seen with probability {_POWER:g}."
    )


def _system(queues: Queues) -> str:
    return "infinitely many queues" if queues == "infinite" else f"{queues} queues"


def figure(result: PartialChoice) -> Figure:
    """The share of the full benefit against p: a line a load, a panel a system, points where it is simulated."""
    from matplotlib.figure import Figure

    systems = list(dict.fromkeys(curve.queues for curve in result.analytic))
    drawing = Figure(figsize=(4.6 * len(systems), 4.0), layout="constrained")
    panels = drawing.subplots(1, len(systems), sharey=True, squeeze=False)[0]
    loads = sorted({curve.load for curve in result.analytic})
    colours = {load: f"C{index}" for index, load in enumerate(loads)}
    for panel, queues in zip(panels, systems, strict=True):
        for curve in result.analytic:
            if curve.queues == queues:
                shares = [curve.share(p) for p in curve.fractions]
                panel.plot(curve.fractions, shares, color=colours[curve.load], label=f"{curve.load:g}")
        for curve in result.simulated:
            if curve.queues == queues and curve.load in colours:
                shares = [curve.share(p) for p in curve.fractions]
                panel.plot(curve.fractions, shares, "o", color=colours[curve.load], markersize=4)
        panel.axvline(SMALL, color="0.6", linewidth=0.8, linestyle=":")
        panel.set_title(_system(queues), fontsize=10)
        panel.set_xlabel("flexible fraction p")
        panel.set_ylim(0.0, 1.02)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("share of the full benefit")
    panels[-1].legend(title="load", frameon=False, loc="lower right")
    return drawing
