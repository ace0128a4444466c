"""qtwin cases: the bundled model files."""

from __future__ import annotations

from typing import Annotated

import typer

from validation import library
from validation.commands import shared
from validation.commands.shared import AsJson


def cases(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Print this case's file.", show_default=False)] = "",
    *,
    as_json: AsJson = False,
) -> int:
    """The bundled cases: their names, or the file of one."""
    if name:
        print(library.case_path(name).read_text("utf-8"), end="")
        return 0
    rows = [
        {"name": case, "path": str(library.case_path(case)), "about": library.about(case)} for case in library.cases()
    ]
    if as_json:
        shared.emit(shared.envelope("cases", cases=rows))
        return 0
    from validation.commands.tables import show

    show("bundled cases", ("name", ""), [(row["name"], row["about"]) for row in rows])
    return 0
