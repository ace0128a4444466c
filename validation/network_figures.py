"""Figures of networks: the route expansion with its actual and imaginary transitions, and throughput studies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from qtheory.models import Network
from qtheory.systems.network.expansion import NOWHERE, Expansion, expand
from validation.network_study import Study

if TYPE_CHECKING:
    import networkx

#: One colour a class; transitions between duplicates of different classes have a colour of their own.
CLASS_COLOURS = ("#1f5fa8", "#c4561b", "#2e7d32", "#8a6d00", "#a3123a", "#00707a")
SHARED_COLOUR = "#7b3294"
_QUIET = "#8a8f98"
_STYLE: dict[Any, Any] = {"font.family": "sans-serif", "font.size": 10, "svg.fonttype": "none"}


def to_networkx(model: Network) -> networkx.MultiDiGraph:
    """The expanded network as a graph (needs networkx).

    Nodes: subservers by name (attributes `server`, `rate`, `klass`, `route`, `position`), and an origin and a
    destination for each class (`role`). Edges have `kind` = "actual" (along a route) or "imaginary" (between
    duplicates, both ways), and actual ones the `klass` that takes them.
    """
    import networkx

    expansion = expand(model)
    names, classes = expansion.names, [c.name for c in model.classes]
    graph = networkx.MultiDiGraph()
    for jobs in model.classes:
        graph.add_node(("origin", jobs.name), role="origin", klass=jobs.name, rate=jobs.rate)
        graph.add_node(("destination", jobs.name), role="destination", klass=jobs.name)
    for k, name in enumerate(names):
        server = expansion.servers[expansion.server[k]]
        graph.add_node(
            name,
            role="subserver",
            server=server,
            rate=model.servers[server],
            klass=classes[expansion.klass[k]],
            route=int(expansion.route[k]),
            position=int(expansion.position[k]),
        )
    for k, (name, after) in enumerate(zip(names, expansion.downstream, strict=True)):
        klass = classes[expansion.klass[k]]
        if expansion.position[k] == 0:
            graph.add_edge(("origin", klass), name, kind="actual", klass=klass)
        graph.add_edge(name, ("destination", klass) if after == NOWHERE else names[after], kind="actual", klass=klass)
        for other in expansion.duplicates(k):
            graph.add_edge(name, names[other], kind="imaginary")
    return graph


def expanded_graph(model: Network) -> Figure:
    """The expanded network: routes in parallel, solid arrows for actual transitions, dashed ones between duplicates."""
    expansion = expand(model)
    across, up = _places(expansion)
    width, height = 1.6 + 1.35 * float(across.max() + 1), 0.9 + 0.85 * len(expansion.routes)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        axes = figure.add_subplot()
        axes.set_axis_off()
        right = float(across.max()) + 1.0
        for c, jobs in enumerate(model.classes):
            colour = CLASS_COLOURS[c % len(CLASS_COLOURS)]
            level = float(up[expansion.klass == c].mean())
            _terminal(axes, 0.0, level, jobs.origin or f"S{c + 1}", colour)
            _terminal(axes, right, level, jobs.destination or f"T{c + 1}", colour)
            for k in np.flatnonzero(expansion.klass == c).tolist():
                after = expansion.downstream[k]
                here = (float(across[k]), float(up[k]))
                if expansion.position[k] == 0:
                    _arrow(axes, (0.0, level), here, colour)
                _arrow(axes, here, (right, level) if after == NOWHERE else (across[after], up[after]), colour)
        for k in range(expansion.size):
            for other in expansion.duplicates(k):
                if other > k:
                    one, two = expansion.klass[[k, other]]
                    colour = CLASS_COLOURS[one % len(CLASS_COLOURS)] if one == two else SHARED_COLOUR
                    _arrow(axes, (across[k], up[k]), (across[other], up[other]), colour, imaginary=True)
        for k, name in enumerate(expansion.names):
            box = {"boxstyle": "square,pad=0.45", "facecolor": "white", "edgecolor": "#222222"}
            axes.text(float(across[k]), float(up[k]), name, ha="center", va="center", bbox=box, zorder=3)
        axes.set_xlim(-0.4, right + 0.4)
        axes.set_ylim(float(up.min()) - 0.6, float(up.max()) + 0.6)
    return figure


def throughput(studies: Mapping[str, Study]) -> Figure:
    """Mean number of jobs against load for one or several policies, up to where each stops being stable.

    A cross marks the first load found critical or unstable, the dotted line theta*.
    """
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(7.0, 4.0))
        axes = figure.add_subplot()
        highest = max((row.number for study in studies.values() for row in study.rows if row.number), default=1.0)
        for i, (name, study) in enumerate(studies.items()):
            colour = CLASS_COLOURS[i % len(CLASS_COLOURS)]
            known = [row for row in study.rows if row.number is not None]
            axes.errorbar(
                [row.factor for row in known],
                [row.number or 0.0 for row in known],
                yerr=[row.half_width or 0.0 for row in known],
                color=colour,
                marker="o",
                markersize=4,
                capsize=2,
                label=name,
            )
            _, first = study.bracket
            if first is not None:
                axes.plot([first], [highest], color=colour, marker="x", markersize=9, linestyle="none")
        for limit in {round(study.theta_star, 12) for study in studies.values()}:
            axes.axvline(limit, color=_QUIET, linestyle=":", label=f"theta* = {limit:.4g}")
        axes.set_yscale("log")
        axes.set_xlabel("load: factor on every arrival rate (cross: first load found not stable)")
        axes.set_ylabel("mean number of jobs")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9)
    return figure


def _places(expansion: Expansion) -> tuple[np.ndarray, np.ndarray]:
    """Columns by the longest way to a server, so that duplicates stand one above the other; rows by route."""
    depth = np.zeros(len(expansion.servers))
    for _ in range(len(expansion.servers)):
        for k, after in enumerate(expansion.downstream):
            if after != NOWHERE:
                n, m = expansion.server[k], expansion.server[after]
                depth[m] = max(depth[m], depth[n] + 1)
    return 1.0 + depth[expansion.server], -expansion.route.astype(float)


def _terminal(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    ring = {"boxstyle": "circle,pad=0.35", "facecolor": "white", "edgecolor": colour}
    axes.text(x, y, text, ha="center", va="center", color=colour, bbox=ring, zorder=3)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, *, imaginary: bool = False
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="<|-|>" if imaginary else "-|>",
            linestyle="--" if imaginary else "-",
            connectionstyle="arc3,rad=0.25" if imaginary else "arc3",
            color=colour,
            mutation_scale=11,
            shrinkA=16,
            shrinkB=16,
            zorder=2,
        )
    )
