"""The only place that calls numba: compiled, GIL-free functions with a cache that sees every edit.

numba's own file cache looks at the file of the cached function alone, so an edited helper in another file would
stay unseen by its cached callers.  The cache folder is therefore named by a hash of all kernel sources and of the
versions involved; where no folder can be written, functions are compiled without a cache.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])


def source_key() -> str:
    """A hash of every kernel source and of the versions that a compiled kernel depends on."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    versions = (numba.__version__, np.__version__, sys.version)
    digest.update(repr(versions).encode())
    return digest.hexdigest()[:16]


def cache_folder() -> Path | None:
    """A folder for compiled kernels that can be written, or None."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    asked = os.environ.get("NUMBA_CACHE_DIR")
    for base in (asked, home, os.path.join(tempfile.gettempdir(), f"qtwin-{user}")):
        if not base:
            continue
        folder = Path(base) / "qtwin" / source_key()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError:
            continue
    return None


_FOLDER = cache_folder()


def jit(function: F, *, inline: bool = False) -> F:
    """Compile `function` for nogil use; divisions by zero give inf or nan as in C, nothing is checked."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_FOLDER) if _FOLDER else before
    try:
        compiled = numba.njit(
            nogil=True, cache=_FOLDER is not None, error_model="numpy", inline="always" if inline else "never"
        )(function)
    finally:
        numba.config.CACHE_DIR = before
    return cast(F, compiled)
