"""Answers as tables on a terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qsim import Standing

#: Seconds between two looks at the half-width while a simulation runs: a look costs a summary of what is finished.
_BETWEEN_LOOKS = 0.5


def number(value: float | None, *, digits: int = 6) -> str:
    """A number for people."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, float) and math.isinf(value):
        return "infinite"
    return f"{value:.{digits}g}"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table under its title; all columns but the first and the last are numbers, set to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    last = len(columns) - 1
    for index, column in enumerate(columns):
        words = index == 0 or (index == last and not column)
        table.add_column(column, justify="left" if words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)

    class Paper(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end the process with status 1, which is a disagreement here.
            raise BrokenPipeError

    console = Paper()
    if not console.is_terminal:
        # A pipe gets whole lines, whatever their length.
        console = Paper(width=2000)
    console.print(title, style="bold", highlight=False, markup=False)
    console.print(table)


def measure_name(row: dict[str, Any]) -> str:
    """``mean_response/all``, with the time where there is one."""
    return f"{row['measure']}/{row['scope']}" + (f" > {row['at']:g}" if "at" in row else "")


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Iterator[Callable[..., None]]:
    """A progress bar on a terminal's standard error; none in a pipe.

    The function it gives takes (finished, all) and, by name, a text for what is known so far.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda finished, total, text="": None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, text="")

        def report(finished: int, total: int, text: str = "") -> None:
            bar.update(task, completed=finished, total=total, text=text)

        yield report


@contextmanager
def watching(title: str, *, quiet: bool = False) -> Iterator[Callable[[Standing], None] | None]:
    """What `qsim.simulate` takes as `watch`: jobs done, half-width and time left on a terminal; None in a pipe."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with progress(title) as report:
        looked, text = -math.inf, ""

        def watch(standing: Standing) -> None:
            nonlocal looked, text
            if standing.replications > 1 and monotonic() - looked > _BETWEEN_LOOKS:
                figure = standing.figure()
                width = math.nan if figure is None or figure.value == 0 else figure.half_width / abs(figure.value)
                looked, text = monotonic(), f"+- {100 * width:.2g} %" if math.isfinite(width) else ""
            report(standing.jobs, standing.expected, f"{standing.jobs:.3g} jobs {text}")

        yield watch
