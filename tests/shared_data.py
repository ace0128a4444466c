"""Where the right values and recorded logs stand that are not part of the project (or None)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_PLACE = Path(os.environ.get("QTWIN_SHARED", Path(__file__).resolve().parents[2] / "shared"))
SHARED: Path | None = _PLACE if _PLACE.is_dir() else None

needs_shared = pytest.mark.skipif(SHARED is None, reason="the shared reference data is not beside the project")
