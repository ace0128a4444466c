"""Every guide's examples run as written."""

from __future__ import annotations

import doctest

import pytest

from validation import library


@pytest.mark.parametrize("name", library.guides())
def test_guide(name: str) -> None:
    result = doctest.testfile(str(library.guide_path(name)), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0
