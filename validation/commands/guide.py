"""qtwin guide: the pages that explain a system and how to work with it."""

from __future__ import annotations

from typing import Annotated

import typer

from validation import library


def guide(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Which page.", show_default=False)] = "",
) -> int:
    """The guides: their names, or one page."""
    if name:
        print(library.guide_path(name).read_text("utf-8"), end="")
        return 0
    for page in library.guides():
        title = library.guide_path(page).read_text("utf-8").splitlines()[0].lstrip("# ")
        print(f"{page:<14} {title}")
    return 0
