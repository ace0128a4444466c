"""What the report says: each answer as a section with its figures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qtheory.measures import model_data
from qtheory.models import Dedicated, Donor, Exponential, Network, parse
from qtheory.models.policies import DonorPolicy
from qtheory.systems.donor.stability import policy_name
from qtheory.systems.network.expansion import expand
from validation import donor_figures, figures, network_figures, network_study, partial_choice, rungs
from validation._compare import Comparison
from validation._search import Search
from validation.commands.tables import measure_name, number
from validation.donor_design import DonorSearch
from validation.partial_choice import PartialChoice
from validation.report import Plot, Section, Table, toml
from validation.traces import Trace

#: Networks of more places than this make no picture that anybody could read.
_MOST_PLACES = 40
_SAID = {
    "agree": "Theory and simulation agree.",
    "disagree": "Theory and simulation disagree.",
    "inconclusive": "The run was too short to judge every measure.",
}


def of_comparison(name: str, comparison: Comparison) -> Section:
    """Both answers of one model side by side."""
    section = Section(title=name, verdict=comparison.verdict, model=toml(model_data(comparison.model)))
    if comparison.failure is not None:
        section.lines.append(f"No answer: {comparison.failure}.")
        return section
    solution, estimate = comparison.solution, comparison.estimate
    assert solution is not None
    assert estimate is not None
    section.lines.append(_SAID[comparison.verdict])
    section.lines.append(
        f"Analytic: {solution.method}, {solution.seconds:.3g} s. Simulation: {estimate.jobs:,} jobs in "
        f"{estimate.replications} replications after {estimate.warmup:,} jobs of warm-up each, seed {estimate.seed}, "
        f"{estimate.seconds:.3g} s, {100 * estimate.confidence:g} % intervals."
    )
    if comparison.remark:
        section.lines.append(f"Nothing is judged: {comparison.remark}.")
    section.lines += [f"{name}: {value}." for name, value in solution.details.items()]
    if isinstance(comparison.model, Network):
        section.plots = network_plots(comparison.model)
    if "stability" in estimate.details:
        section.lines.append(f"The run by itself: {estimate.details['stability']}.")
    if comparison.measures:
        plots = [
            (figures.agreement(comparison.measures), "Agreement, measure by measure."),
            (figures.distribution(estimate, solution), "Response times by class."),
            (figures.utilisation(comparison.measures), "Utilisation by both roads."),
        ]
        section.plots += [Plot(svg=figures.svg(f), caption=caption) for f, caption in plots if f is not None]
        if isinstance(comparison.model, Donor):
            section.plots += donor_plots(comparison.model, policies=(comparison.model.policy, Dedicated()))
        rows = comparison.to_dict()["measures"]
        section.tables.append(
            (
                "z counts the stated error as theory's own; detectable is the smallest true difference that this run "
                "would have called a disagreement nine times in ten.",
                Table(
                    columns=(
                        "measure",
                        "analytic",
                        "± error",
                        "simulated",
                        "± interval",
                        "difference",
                        "z",
                        "detectable",
                        "verdict",
                    ),
                    rows=[
                        (
                            measure_name(row),
                            number(row["analytic"]),
                            number(row["error"], digits=2),
                            number(row["simulated"]),
                            number(row["half_width"], digits=2),
                            number(row["difference"], digits=2),
                            number(row["z"], digits=3),
                            number(row["detectable"], digits=2),
                            row["verdict"],
                        )
                        for row in rows
                    ],
                    marks=[row["verdict"] for row in rows],
                ),
            )
        )
    if rungs.anything_beside(comparison):
        columns, cells = rungs.beside_simulation(comparison)
        caption = "Every analytic method beside the simulation, differences from it in brackets."
        section.tables.append((caption, Table(columns=columns, rows=cells)))
    return section


def of_search(search: Search, *, trace: Trace | None = None) -> Section:
    """The choice of n0."""
    n0 = search.best["servers"][0]
    section = Section(title=f"Best split: n0 = {n0}", model=toml(model_data(search.model)))
    goal = " + ".join(f"{weight:g} {scope}" for scope, weight in search.objective.items())
    guarantee = search.guarantee
    section.lines.append(f"Objective: {goal} (mean responses). Method: {search.method}, {search.seconds:.3g} s.")
    if trace is None:
        section.lines.append(
            f"With {100 * guarantee['confidence']:g} % confidence none of the {guarantee['designs']} simulated designs "
            f"is better than n0 = {n0} by more than {100 * guarantee['indifference']:.3g}\N{NO-BREAK SPACE}%"
            + ("." if guarantee["reached"] else " (the budget ended before the zone that was asked for).")
        )
    else:
        dropped = ", ".join(f"{count} {reason}" for reason, count in trace.dropped.items()) or "none"
        section.lines.append(f"{trace.used} records of the log used; dropped: {dropped}.")
        section.lines.extend(f"{notice}." for notice in trace.notices)
    if search.ties:
        names = ", ".join(f"n0 = {tie['servers'][0]}" for tie in search.ties)
        section.lines.append(f"Not separable from it: {names}.")
    section.plots.append(Plot(svg=figures.svg(figures.curve(search)), caption="The objective against n0."))
    if trace is not None and len(trace) > 2:
        plot = figures.burstiness(trace.arrival.tolist())
        section.plots.append(Plot(svg=figures.svg(plot), caption="How bursty the arrivals of the log are."))
    marks = []
    for row in search.table:
        if row.servers == search.best["servers"]:
            marks.append("best")
        elif {"servers": row.servers} in search.ties:
            marks.append("tie")
        else:
            marks.append("" if row.stable else "unstable")
    rows = [
        (
            f"{row.servers[0]} + {row.servers[1]}",
            "-" if row.load is None else f"{row.load[0]:.3f}, {row.load[1]:.3f}",
            number(row.analytic),
            number(row.error, digits=2),
            number(row.simulated),
            number(row.half_width, digits=2),
            f"{row.jobs:,}",
            mark,
        )
        for row, mark in zip(search.table, marks, strict=True)
    ]
    columns = ("n0 + n1", "loads", "analytic", "± error", "simulated", "± interval", "jobs", "")
    section.tables.append(("", Table(columns=columns, rows=rows, marks=marks)))
    return section


def of_thresholds(found: DonorSearch) -> Section:
    """The choice of a donor's thresholds."""
    name = policy_name(found.best)
    model = found.models[0].replace(policy=found.best)
    section = Section(title=f"Best policy: {name}", model=toml(model_data(model)))
    section.lines.append(f"Objective: {found.objective} {found.value:.8g}, exact, {found.seconds:.3g} s.")
    if found.ties:
        section.lines.append(f"As good: {', '.join(policy_name(policy) for policy in found.ties)}.")
    section.plots = donor_plots(model, policies=(found.best, Dedicated()))
    ranked = sorted((row for row in found.table if row.value is not None), key=lambda row: row.value or 0.0)[:25]
    rows = [(policy_name(row.policy), number(row.value, digits=8)) for row in ranked]
    section.tables.append(("The best designs.", Table(columns=("policy", found.objective), rows=rows)))
    return section


def donor_plots(model: Donor, *, policies: tuple[DonorPolicy, ...]) -> list[Plot]:
    """Which queue the donor serves, and the cost against either load."""
    plots = [Plot(svg=figures.svg(donor_figures.policy_map(model)), caption="Which queue the donor serves.")]
    if model.work1 != Exponential(mean=1.0) or model.work2 != Exponential(mean=1.0) or model.switching_time > 0:
        return plots
    loads: tuple[donor_figures.Load, ...] = ("rho1", "rho2")
    for vary in loads:
        found = donor_figures.curves(model, policies=policies, vary=vary, loads=None)
        figure = donor_figures.robustness(model, found=found, vary=vary)
        plots.append(Plot(svg=figures.svg(figure), caption=f"Cost against {vary}."))
    return plots


def network_plots(model: Network) -> list[Plot]:
    """The routes of all classes in parallel, with the places that share a server joined."""
    if expand(model).size > _MOST_PLACES:
        return []
    caption = "Route expansion: solid arrows are moves of jobs, dashed ones join the places that share a server."
    return [Plot(svg=figures.svg(network_figures.expanded_graph(model)), caption=caption)]


def of_partial_choice(study: PartialChoice) -> Section:
    """What the study of partial choice found."""
    section = Section(title=f"Partial choice among {study.choices}", lines=list(study.sentences()))
    caption = "The share of the benefit of full choice against the flexible fraction."
    section.plots.append(Plot(svg=figures.svg(partial_choice.figure(study)), caption=caption))
    columns = ("queues", "load", "road", "method", "decreasing", "convex", "share at .1")
    rows = [
        (
            str(curve.queues),
            f"{curve.load:g}",
            curve.road,
            curve.method,
            curve.shape.decreasing,
            curve.shape.convex,
            number(curve.share(0.1), digits=3) if curve.road == "analytic" else "-",
        )
        for curve in study.curves
    ]
    section.tables.append(("", Table(columns=columns, rows=rows)))
    return section


def of_sweep(data: Mapping[str, Any]) -> Section:
    """The answer along one or several numbers."""
    section = Section(title="Sweep", model=toml(data["model"]))
    rows, model = data["rows"], parse(data["model"])
    if isinstance(model, Network) and data["axes"] == ["load"] and all("simulated" in row for row in rows):
        study = network_study.of_sweep(model, rows)
        plot = network_figures.throughput({model.policy.kind(): study})
        section.plots.append(Plot(svg=figures.svg(plot), caption="Where the policy stops being stable."))
        last, first = (number(end) for end in study.bracket)
        section.lines.append(f"theta* {study.theta_star:.4g}; last load found stable {last}, first not {first}.")
    elif len(data["axes"]) == 1:
        plot = figures.sweep_curve(rows, axis=data["axes"][0])
        section.plots.append(Plot(svg=figures.svg(plot), caption=f"Along {data['axes'][0]}."))
    table = []
    for row in rows:
        point = ", ".join(f"{name} = {value:g}" for name, value in row["point"].items())
        cells = []
        for part, width in (("measures", "error"), ("simulated", "half_width")):
            found = figures.leading(row.get(part, []))
            cells += [number(found["value"]), number(found.get(width), digits=2)] if found else ["-", "-"]
        notes = [row.get("message", ""), str(row.get("stability", ""))]
        notes += [f"theta* {row['theta_star']:.4g}"] if "theta_star" in row else []
        table.append((point, *cells, ", ".join(filter(None, notes))))
    columns = ("point", "analytic", "± error", "simulated", "± interval", "")
    section.tables.append(("", Table(columns=columns, rows=table, marks=[row["status"] for row in rows])))
    return section
