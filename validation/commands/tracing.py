"""Options of the subcommands that read a log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qtheory.models import InvalidModel
from validation.commands.shared import real_number

if TYPE_CHECKING:
    from validation.traces import Trace

TraceFile = Annotated[
    Path, typer.Option("--trace", metavar="T", help="The log: CSV, SWF, or a folder with --test.", show_default=False)
]
OptionalTrace = Annotated[
    Path | None, typer.Option("--trace", metavar="T", help="Search on this log itself.", show_default=False)
]
GroupLimit = Annotated[
    float | None,
    typer.Option(
        "--group-limit",
        metavar="G",
        parser=real_number,
        help="SWF: a requested time of at most G means Group 0; default the time limit.",
        show_default=False,
    ),
]
WidthOption = Annotated[
    str, typer.Option("--width", help="SWF: a parallel job is one job, is dropped, or is split (one, drop, split).")
]


def open_trace(path: Path, *, group_limit: float | None, width: str, time_limit: float) -> Trace:
    """The log, with the options checked."""
    from validation import traces

    for known in traces.WIDTHS:
        if width == known:
            break
    else:
        raise InvalidModel(field="--width", rule=f"must be one of {', '.join(traces.WIDTHS)}", value=width)
    if group_limit is not None and not group_limit >= 0:
        raise InvalidModel(field="--group-limit", rule="must be a number >= 0", value=group_limit)
    return traces.read(path, group_limit=time_limit if group_limit is None else group_limit, width=known)


def say(trace: Trace) -> None:
    """Records used and dropped, for people; on standard error, where notices belong."""
    dropped = "".join(f"; dropped {count}: {reason}" for reason, count in trace.dropped.items())
    print(f"{trace.source}: {trace.used} records used{dropped}", file=sys.stderr)
    for notice in trace.notices:
        print(notice, file=sys.stderr)
