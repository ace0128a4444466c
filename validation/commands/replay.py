"""qtwin replay: a recorded log through the system, exactly."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from qtheory.models import Dispatcher, InvalidModel, plain
from validation.commands import shared, tracing
from validation.commands.shared import AsJson, Seed
from validation.commands.tracing import GroupLimit, TraceFile, WidthOption


def replay(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Model file; may be left out with --test.", show_default=False),
    ] = None,
    *,
    trace: TraceFile,
    test: Annotated[
        str, typer.Option("--test", metavar="K", help="The trace is a folder; take its test K.", show_default=False)
    ] = "",
    group_limit: GroupLimit = None,
    width: WidthOption = "one",
    seed: Seed = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the departures there.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Run a log through the system and write every departure."""
    shared.at_least(0, seed=seed)
    model = None
    if file is not None:
        opened = shared.open_model(file)
        if not isinstance(opened, Dispatcher):
            raise InvalidModel(field="kind", rule="replay needs a dispatcher", value=opened.kind(), file=str(file))
        model = opened
    elif not test:
        raise InvalidModel(field="FILE", rule="is required unless --test names a test of a folder")
    time_end = None
    if test and model is not None and model.changed_rules:
        rule = f"goes with the plain rules for killed jobs only, not with {', '.join(model.changed_rules)} of {file}"
        raise InvalidModel(field="--test", rule=rule, value=test)
    if test:
        from validation.four_files import read_layout

        layout = read_layout(trace, number=test)
        if model is not None and (model.servers, model.time_limit) != (layout.model.servers, layout.model.time_limit):
            text = f"servers {list(layout.model.servers)} and time_limit {layout.model.time_limit!r}"
            print(f"note: {trace}/para_{test}.txt overrides {file}: {text}", file=sys.stderr)
        model, log, time_end = layout.model, layout.trace, layout.time_end
        if log is None:
            from validation.recording import record

            assert time_end is not None
            log = record(model, time_end=time_end, seed=seed, source=str(trace))
    else:
        assert model is not None
        log = tracing.open_trace(trace, group_limit=group_limit, width=width, time_limit=model.time_limit)
    import qsim
    from validation import traces
    from validation.commands.tables import measure_name, number, show

    with shared.naming(file):
        replayed = qsim.replay(model, arrival=log.arrival, service=log.service, group=log.group, time_end=time_end)
    records: dict[str, Any] = log.records
    if replayed.unfinished:
        reason = f"not departed by {time_end!r}"
        records["dropped"] = records["dropped"] | {reason: replayed.unfinished}
        records["used"] -= replayed.unfinished
    if out is not None:
        traces.write_departures(out, trace=log, departure=replayed.departure, kind=replayed.classes)
    rows = replayed.measures.to_list()
    if as_json:
        departures: Any = str(out)
        if out is None:
            departures = [
                {"arrival": float(a), "departure": float(d), "class": kind}
                for a, d, kind in traces.departures(trace=log, departure=replayed.departure, kind=replayed.classes)
            ]
        shared.emit(
            shared.envelope(
                "replay",
                model=plain(model),
                method="replay",
                status="ok",
                measures=rows,
                records=records,
                notices=list(log.notices),
                departures=departures,
            )
        )
        return 0
    tracing.say(log)
    table = [(measure_name(row), number(row["value"])) for row in rows]
    show(f"{trace}: {records['used']} jobs through {list(model.servers)} servers", ("measure", "value"), table)
    if out is not None:
        print(f"departures: {out}")
    return 0
