"""The figures of the reports: matplotlib figures without a display, and their SVG text."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from qsim.estimate import Estimate
from qtheory.measures import Key
from qtheory.solution import Solution
from validation._compare import Pair
from validation._search import Search

THEORY, SIMULATION, WARNING, QUIET = "#1f5fa8", "#c4561b", "#a3123a", "#8a8f98"
#: Reading order of the classes, with a colour each that survives a grey printer and colour-blind eyes.
CLASS_COLOURS = {"all": "#222222", "short": "#1f77b4", "long": "#d95f02", "killed": "#7b3294"}
CLASS_COLOURS |= {"queue1": "#1f77b4", "queue2": "#d95f02", "flexible": "#1f77b4", "dedicated": "#d95f02"}

_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "qtwin",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e6ea",
    "axes.axisbelow": True,
}


def svg(figure: Figure) -> str:
    """The figure as an SVG element that can stand inside a page; the same figure gives the same text."""
    with matplotlib.rc_context(_STYLE):
        text = io.StringIO()
        figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _figure(*, width: float = 7.0, height: float = 3.6) -> tuple[Figure, Axes]:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        axes = figure.add_subplot()
    return figure, axes


def curve(search: Search) -> Figure:
    """The objective against n0: analytic values with their errors, simulated values with their intervals."""
    figure, axes = _figure()
    with matplotlib.rc_context(_STYLE):
        known = [row for row in search.table if row.analytic is not None]
        shown = [row for row in search.table if row.simulated is not None]
        best_value = min((row.simulated for row in shown if row.simulated is not None), default=1.0)
        if known:
            axes.errorbar(
                [row.servers[0] for row in known],
                [row.analytic or 0.0 for row in known],
                yerr=[row.error or 0.0 for row in known],
                color=THEORY,
                marker="o",
                markersize=4,
                capsize=3,
                label="analytic ± error",
            )
        axes.errorbar(
            [row.servers[0] + (0.08 if known else 0.0) for row in shown],
            [row.simulated or 0.0 for row in shown],
            yerr=[row.half_width or 0.0 for row in shown],
            color=SIMULATION,
            linestyle="none" if known else "-",
            marker="s",
            markersize=4,
            capsize=3,
            label="simulated ± interval" if known else "replay of the log",
        )
        n0 = search.best["servers"][0]
        axes.axvline(n0, color=QUIET, linestyle=":", label=f"best n0 = {n0}")
        for row in search.table:
            if not row.stable:
                axes.axvspan(row.servers[0] - 0.5, row.servers[0] + 0.5, color=WARNING, alpha=0.08, linewidth=0)
        if any(not row.stable for row in search.table):
            axes.plot([], [], color=WARNING, alpha=0.2, linewidth=8, label="unstable")
        values = [v for row in search.table for v in (row.analytic, row.simulated) if v is not None]
        if max(values) > 8 * best_value:
            axes.set_yscale("log")
        axes.set_xlim(0.4, len(search.table) + 0.6)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("n0, servers of Group 0")
        goal = " + ".join(f"{weight:g} {scope}" for scope, weight in search.objective.items())
        axes.set_ylabel("objective" if len(goal) > 30 else goal)
        axes.legend(frameon=False, fontsize=9)
    return figure


def agreement(pairs: Mapping[Key, Pair]) -> Figure:
    """Each measure's relative difference (analytic - simulated) with the simulation's interval and the stated error.

    Measures that follow from others on the figure (numbers by Little's law, percentiles of waits) are left to the
    table.
    """
    left_out = ("mean_number", "mean_queue", "p50_wait", "p90_wait", "p95_wait", "p99_wait")
    leading = [(key, pair) for key, pair in pairs.items() if pair.simulated != 0 and key[0] not in left_out]
    rows = leading or [(key, pair) for key, pair in pairs.items() if pair.simulated != 0]
    figure, axes = _figure(height=0.9 + 0.21 * len(rows))
    with matplotlib.rc_context(_STYLE):
        colours = {"agree": THEORY, "inconclusive": QUIET, "disagree": WARNING}
        for place, (_, pair) in enumerate(rows):
            scale = 100 / abs(pair.simulated)
            width = pair.error * scale
            axes.barh(place, 2 * width, left=-width, height=0.62, color="#dfe8f3", linewidth=0)
            axes.errorbar(
                pair.difference * scale,
                place,
                xerr=pair.half_width * scale,
                color=colours[pair.verdict],
                marker="o",
                markersize=4,
                capsize=2,
            )
        axes.axvline(0, color="#222222", linewidth=0.8)
        axes.set_yticks(range(len(rows)), ["/".join(str(part) for part in key) for key, _ in rows])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        widths = [pair.error / abs(pair.simulated) * 100 for _, pair in rows]
        reach = [abs(p.difference) / abs(p.simulated) * 100 + p.half_width / abs(p.simulated) * 100 for _, p in rows]
        threshold = max(0.1, float(np.median(reach)) if reach else 0.1)
        axes.set_xscale("symlog", linthresh=threshold)
        axes.xaxis.set_major_locator(
            FixedLocator(_percents(threshold, reach=max([*reach, *widths], default=threshold)))
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        axes.set_xlabel("analytic - simulated, % of simulated (bar: stated error; whisker: interval)")
    return figure


def _percents(threshold: float, *, reach: float) -> list[float]:
    """Ticks of an axis that is linear up to the threshold: 0 and, both ways, powers of ten that leave room for it."""
    first, last = math.ceil(math.log10(threshold)), math.floor(math.log10(max(reach, threshold)))
    # Where no power of ten lies in between, half of what there is stands for it.
    tens = [10.0**power for power in range(first, last + 1)] or [float(f"{max(reach, threshold) / 2:.1g}")]
    return [*(-ten for ten in reversed(tens)), 0.0, *tens]


def distribution(estimate: Estimate, solution: Solution | None) -> Figure | None:
    """P(response > x) by class, simulated lines with the analytic quantiles as points; None without histograms."""
    scopes = [scope for scope in CLASS_COLOURS if scope in estimate.distributions]
    if not scopes:
        return None
    figure, axes = _figure()
    begins, known = [], False
    with matplotlib.rc_context(_STYLE):
        for scope in scopes:
            x, tail = estimate.distributions[scope].survival()
            keep = (tail > 1e-5) & (x > 0)
            axes.plot(x[keep], tail[keep], color=CLASS_COLOURS[scope], label=scope, linewidth=1.4)
            begins.append(float(x[keep][np.argmax(tail[keep] < 0.99)]) if np.any(keep) else math.inf)
            if solution is None:
                continue
            for level in (0.5, 0.9, 0.95, 0.99):
                key: Key = (f"p{100 * level:.0f}_response", scope)
                if key in solution.measures and math.isfinite(solution[key].value):
                    known = True
                    axes.plot(
                        solution[key].value, 1 - level, "o", color=CLASS_COLOURS[scope], markersize=5, fillstyle="none"
                    )
        if known:
            axes.plot([], [], "o", color="#222222", fillstyle="none", label="analytic quantile")
        axes.set_yscale("log")
        axes.set_xscale("log")
        if math.isfinite(min(begins)):
            # Hardly a job is faster than that: the curve would be a long straight line.
            axes.set_xlim(left=min(begins) / 2)
        axes.set_xlabel("response time x")
        axes.set_ylabel("P(response > x)")
        axes.legend(frameon=False, fontsize=9)
    return figure


def utilisation(pairs: Mapping[Key, Pair]) -> Figure | None:
    """Busy share per server by both roads; None where there is no such measure."""
    rows = [(key[1], pair) for key, pair in pairs.items() if key[0] == "utilisation"]
    if not rows:
        return None
    figure, axes = _figure(height=1.2 + 0.35 * len(rows))
    with matplotlib.rc_context(_STYLE):
        place = np.arange(len(rows))
        axes.barh(place - 0.18, [pair.analytic for _, pair in rows], 0.32, color=THEORY, label="analytic")
        axes.barh(place + 0.18, [pair.simulated for _, pair in rows], 0.32, color=SIMULATION, label="simulated")
        axes.set_yticks(place, [scope for scope, _ in rows])
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.axvline(1, color=WARNING, linewidth=0.8)
        axes.set_xlabel("utilisation")
        axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def burstiness(arrival: Sequence[float]) -> Figure:
    """Arrivals of a log against time, beside the straight line of a steady rate."""
    figure, axes = _figure()
    with matplotlib.rc_context(_STYLE):
        times = np.asarray(arrival, float)
        step = max(1, times.size // 2000)
        axes.plot(times[::step], np.arange(times.size)[::step], color=SIMULATION, label="the log")
        axes.plot([times[0], times[-1]], [0, times.size - 1], color=THEORY, linestyle="--", label="a steady rate")
        axes.set_xlabel("time")
        axes.set_ylabel("arrivals so far")
        axes.legend(frameon=False, fontsize=9)
    return figure


def sweep_curve(rows: Sequence[Mapping[str, Any]], *, axis: str) -> Figure:
    """The leading measure along one number; places without a steady state are shaded."""
    figure, axes = _figure()
    with matplotlib.rc_context(_STYLE):
        for part, colour, marker in (("measures", THEORY, "o"), ("simulated", SIMULATION, "s")):
            points = [(row["point"][axis], leading(row[part])) for row in rows if part in row]
            kept = [(x, found["value"], found) for x, found in points if found and found["value"] is not None]
            if kept:
                bars = [found.get("error", found.get("half_width", 0.0)) or 0.0 for _, _, found in kept]
                label = "analytic ± error" if part == "measures" else "simulated ± interval"
                axes.errorbar(
                    [x for x, _, _ in kept],
                    [y for _, y, _ in kept],
                    yerr=bars,
                    color=colour,
                    marker=marker,
                    markersize=3.5,
                    capsize=2,
                    label=label,
                )
        barred = [row["point"][axis] for row in rows if row["status"] == "unstable"]
        for x in barred:
            axes.axvline(x, color=WARNING, alpha=0.25)
        if barred:
            axes.plot([], [], color=WARNING, alpha=0.4, label="unstable")
        axes.set_xlabel(axis)
        name = next((leading(found) for row in rows if (found := row["measures"] or row.get("simulated"))), None)
        axes.set_ylabel(f"{name['measure']}/{name['scope']}" if name else "")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9)
    return figure


def leading(measures: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The row that stands for the whole answer: the cost, else the mean response, else the mean number."""
    for name in ("cost", "mean_response", "mean_number"):
        for row in measures:
            if (row["measure"], row["scope"]) == (name, "all"):
                return row
    return None
