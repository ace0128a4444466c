"""The report: one self-contained HTML page with embedded figures, Markdown and JSON beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

import qtheory
from qtheory.models.errors import InvalidModel
from qtheory.models.files import write_text

if TYPE_CHECKING:
    from validation._compare import Comparison
    from validation._search import Search
    from validation.donor_design import DonorSearch
    from validation.partial_choice import PartialChoice
    from validation.traces import Trace

NAME = "report"


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts; `marks` gives each row a class, e.g. its verdict."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    marks: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A figure as SVG text and what it shows."""

    svg: str
    caption: str


@dataclass(kw_only=True)
class Section:
    """A part of the page: heading, a verdict, paragraphs, figures, tables and the model as TOML."""

    title: str
    verdict: str = ""
    lines: list[str] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    tables: list[tuple[str, Table]] = field(default_factory=list)
    model: str = ""


def check_folder(folder: Path) -> None:
    """Make the folder, or say that it cannot be written before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidModel(field="--out", rule=f"cannot be made ({error.strerror})", value=str(folder)) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidModel(field="--out", rule="cannot be written to", value=str(folder))


def write(
    folder: Path,
    *,
    data: Mapping[str, Any],
    comparisons: Mapping[str, Comparison] | None = None,
    search: Search | None = None,
    thresholds: DonorSearch | None = None,
    study: PartialChoice | None = None,
    sweep: Mapping[str, Any] | None = None,
    trace: Trace | None = None,
) -> Path:
    """Write ``report.html``, ``report.md`` and ``report.json`` into `folder`; returns the path of the page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from validation import sections

    parts: list[Section] = []
    if search is not None:
        parts.append(sections.of_search(search, trace=trace))
    if thresholds is not None:
        parts.append(sections.of_thresholds(thresholds))
    if study is not None:
        parts.append(sections.of_partial_choice(study))
    for name, comparison in (comparisons or {}).items():
        parts.append(sections.of_comparison(name, comparison))
    if sweep is not None:
        parts.append(sections.of_sweep(sweep))
    environment = Environment(
        loader=PackageLoader("validation", "templates"),
        autoescape=lambda name: bool(name and name.endswith(".html.j2")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    context = {"sections": parts, "version": qtheory.__version__, "command": data["command"]}
    check_folder(folder)
    pages = {
        f"{NAME}.html": environment.get_template("report.html.j2").render(context),
        f"{NAME}.md": environment.get_template("report.md.j2").render(context),
        f"{NAME}.json": json.dumps(data, indent=1, allow_nan=False) + "\n",
    }
    for name, text in pages.items():
        write_text(folder / name, text)
    return folder / f"{NAME}.html"


def toml(data: Mapping[str, Any]) -> str:
    """Plain data as TOML text for the page; infinities as TOML knows them."""
    return tomli_w.dumps(_infinite(data))


def _infinite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _infinite(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_infinite(item) for item in value]
    return float("inf") if value == "inf" else value
