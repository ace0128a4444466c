"""Benchmarks run only when they are asked for by path: ``pytest tests/benchmarks``."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what stands in this folder unless the command line names it."""
    asked = any(Path(arg.split("::")[0]).resolve().is_relative_to(HERE) for arg in config.args)
    if not asked:
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(pytest.mark.skip(reason="benchmarks are asked for by path"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The figures that the benchmarks put beside their times, one Markdown table for each set of columns."""
    session = getattr(config, "_benchmarksession", None)
    tables: dict[tuple[str, ...], list[str]] = {}
    for bench in getattr(session, "benchmarks", ()):
        if bench.extra_info:
            cells = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in bench.extra_info.values()]
            tables.setdefault(tuple(bench.extra_info), []).append(" | ".join(["", bench.name, *cells, ""]).strip())
    for columns, rows in tables.items():
        terminalreporter.write_line("")
        for line in (f"| benchmark | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|", *rows):
            terminalreporter.write_line(line)
