"""qtwin search: the best design."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer

from qtheory.models import Dispatcher, Donor, Flexible, InvalidModel
from validation.commands import search_donor, search_flexible, shared, tracing
from validation.commands.shared import AsJson, Controls, Method, ModelFile, Out, Scheduler, Seed
from validation.commands.tracing import GroupLimit, OptionalTrace, WidthOption

#: Options of a search on a log, and those of a search by model.
_OF_THE_TRACE = ("group-limit", "width")
_OF_THE_MODEL = ("method", "indifference", "confidence")
#: The kinds of systems that an option is for; the options that are not listed are for all of them.
_FOR = {
    "total": ("dispatcher",),
    "trace": ("dispatcher",),
    "group-limit": ("dispatcher",),
    "width": ("dispatcher",),
    "indifference": ("dispatcher",),
    "confidence": ("dispatcher",),
    "objective": ("dispatcher", "donor"),
    "out": ("dispatcher", "donor"),
    "method": ("dispatcher", "flexible"),
    "policy": ("donor",),
    "loads": ("donor",),
    "target": ("flexible",),
    "measure": ("flexible",),
    "scope": ("flexible",),
    "least": ("flexible",),
}


def search(
    context: typer.Context,
    file: ModelFile,
    *,
    total: Annotated[
        int | None,
        typer.Option(
            "--total",
            metavar="N",
            parser=shared.whole_number,
            help="Dispatcher: servers to be split.",
            show_default=False,
        ),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            "--objective",
            metavar="SCOPE=W,…",
            help="Dispatcher: weights on mean responses (default all=1). Donor: mean or worst-ratio.",
            show_default=False,
        ),
    ] = "",
    trace: OptionalTrace = None,
    group_limit: GroupLimit = None,
    width: WidthOption = "one",
    policy: Annotated[
        str,
        typer.Option(
            "--policy", metavar="FAMILY", help="Donor: t1, t2, t1t2 or adt (default: its own).", show_default=False
        ),
    ] = "",
    loads: Annotated[
        str,
        typer.Option(
            "--loads", metavar="F,F,…", help="Donor: be robust over these multiples of its load.", show_default=False
        ),
    ] = "",
    target: Annotated[
        float | None,
        typer.Option(
            "--target",
            metavar="X",
            parser=shared.real_number,
            help="Flexible: the measure may be this large.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[str, typer.Option("--measure", help="Flexible: a mean or percentile.")] = "mean_response",
    scope: Annotated[str, typer.Option("--scope", help="Flexible: all or dedicated.")] = "all",
    least: Annotated[str, typer.Option("--least", help="Flexible: fraction or choices.")] = "fraction",
    method: Method = "auto",
    indifference: Annotated[
        float,
        typer.Option(
            "--indifference", parser=shared.real_number, metavar="D", help="Relative difference that does not matter."
        ),
    ] = 0.001,
    confidence: Annotated[
        float, typer.Option("--confidence", parser=shared.real_number, metavar="C", help="Of the choice.")
    ] = 0.95,
    seed: Seed = 1,
    scheduler: Scheduler = None,
    controls: Controls = True,
    out: Out = None,
    as_json: AsJson = False,
) -> int:
    """The best design: a dispatcher's n0 (by model or on a log), a donor's thresholds, the choice a target needs."""
    shared.at_least(0, seed=seed)
    model = shared.open_model(file)
    _check_meant(context, kind=model.kind())
    from validation import report
    from validation.commands.tables import progress

    if isinstance(model, Donor):
        if out is not None:
            report.check_folder(out)
        with (
            progress("searching", quiet=as_json) as tell,
            shared.naming(file),
            shared.answering("search", model=model, path=file, as_json=as_json),
        ):
            thresholds = search_donor.find(model, policy=policy, loads=loads, objective=objective, progress=tell)
        data = search_donor.answer(thresholds)
        if out is not None:
            data["report"] = str(report.write(out, thresholds=thresholds, data=data))
        if as_json:
            shared.emit(data)
            return 0
        search_donor.show(thresholds, file=file)
        if out is not None:
            print(f"report: {data['report']}")
        return 0
    if isinstance(model, Flexible):
        with (
            shared.naming(file),
            shared.cluster(scheduler) as executor,
            shared.answering("search", model=model, path=file, as_json=as_json),
        ):
            answer = search_flexible.find(
                model,
                target=target,
                measure=measure,
                scope=scope,
                question=least,
                method=method,
                seed=seed,
                executor=executor,
            )
        if as_json:
            shared.emit(answer)
        else:
            search_flexible.show(answer, file=file)
        return 0
    if not isinstance(model, Dispatcher):
        raise InvalidModel(
            field="kind", rule="search knows no design question for it", value=model.kind(), file=str(file)
        )
    weights = parse_weights(objective)
    if total is None:
        raise InvalidModel(field="--total", rule="is required: how many servers to split")
    shared.at_least(2, total=total)
    from validation import _search

    if out is not None:
        report.check_folder(out)
    log = None
    names = ("objective", "indifference", "confidence")
    with progress("searching", quiet=as_json) as tell, shared.naming(file), shared.options(*names):
        if trace is not None:
            log = tracing.open_trace(trace, group_limit=group_limit, width=width, time_limit=model.time_limit)
            if not as_json:
                tracing.say(log)
            found = _search.search_trace(model, total=total, trace=log, objective=weights, progress=tell)
        else:
            with (
                shared.cluster(scheduler) as executor,
                shared.answering("search", model=model, path=file, as_json=as_json),
            ):
                found = _search.search(
                    model,
                    total=total,
                    objective=weights,
                    method=method,
                    indifference=indifference,
                    confidence=confidence,
                    seed=seed,
                    controls=controls,
                    executor=executor,
                    progress=tell,
                )
    data = shared.envelope("search", **found.to_dict())
    if out is not None:
        data["report"] = str(report.write(out, search=found, trace=log, data=data))
    if as_json:
        shared.emit(data)
        return 0
    show_search(found, title=f"{file}: {total} servers")
    if out is not None:
        print(f"report: {data['report']}")
    return 0


def _check_meant(context: typer.Context, *, kind: str) -> None:
    """Refuse options that the search of this kind of system would not look at."""

    def given(name: str) -> bool:
        source = context.get_parameter_source(name.replace("-", "_"))
        return source is not None and source.name != "DEFAULT"

    def refuse(name: str, rule: str) -> NoReturn:
        raise InvalidModel(field=f"--{name}", rule=rule, value=str(context.params[name.replace("-", "_")]))

    for name, kinds in _FOR.items():
        if kind not in kinds and given(name):
            refuse(name, f"goes with {' or '.join(kinds)} only, the model is of kind {kind}")
    with_trace = given("trace")
    for name in _OF_THE_MODEL if with_trace else _OF_THE_TRACE:
        if given(name):
            refuse(name, "goes without --trace: the log has one answer" if with_trace else "goes with --trace only")


def show_search(found: object, *, title: str) -> None:
    """The table of designs and the choice, for people."""
    from validation._search import Search
    from validation.commands.tables import number, show

    assert isinstance(found, Search)
    rows = []
    for row in found.table:
        mark = "best" if row.servers == found.best["servers"] else ""
        if {"servers": row.servers} in found.ties:
            mark = "tie"
        if not row.stable:
            mark = "unstable"
        load = "-" if row.load is None else f"{row.load[0]:.3f} {row.load[1]:.3f}"
        rows.append(
            (
                f"{row.servers[0]} + {row.servers[1]}",
                load,
                number(row.analytic),
                number(row.error, digits=2),
                number(row.simulated),
                number(row.half_width, digits=2),
                mark,
            )
        )
    show(title, ("n0 + n1", "loads", "analytic", "+- error", "simulated", "+-", ""), rows)
    goal = " + ".join(f"{weight:g} {scope}" for scope, weight in found.objective.items())
    print(f"n0 = {found.best['servers'][0]} minimises {goal} (mean response); {found.method}, {found.seconds:.3g} s")
    factor = found.guarantee.get("variance_factor", 1.0)
    if factor > 1:
        print(f"control variates: difference to the closest rival {factor:.3g} times less variable")
    if found.ties:
        names = ", ".join(f"n0 = {tie['servers'][0]}" for tie in found.ties)
        print(f"not separable from it within {100 * found.guarantee['indifference']:.3g} %: {names}")


def parse_weights(text: str) -> dict[str, float]:
    """The weights of an option such as ``short=0.83,long=0.059``."""
    weights: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, sign, number = part.partition("=")
        if name.strip() in weights:
            raise InvalidModel(field="--objective", rule="must name each scope once", value=text)
        try:
            if not sign:
                raise ValueError
            weights[name.strip()] = float(number)
        except ValueError:
            raise InvalidModel(field="--objective", rule="must be SCOPE=WEIGHT, …", value=part) from None
    if weights:
        from validation._search import check_objective

        with shared.options("objective"):
            check_objective(weights)
    return weights
