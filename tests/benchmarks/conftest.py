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
