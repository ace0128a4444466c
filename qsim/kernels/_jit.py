"""The only place that calls numba: compiled, GIL-free functions with a cache that sees every edit.

numba's own file cache looks at the file of the cached function alone, so an edited helper in another file would
stay unseen by its cached callers.  The cache folder is therefore named by a hash of all kernel sources and of the
versions involved; where no folder can be written, functions are compiled without a cache.  Folders of other
sources are removed when they have not been used for a month.

With ``NUMBA_DISABLE_JIT=1`` kernels run as plain Python and give the same bits.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

_KEEP_SECONDS = 30 * 86400


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
                pass
            os.utime(folder)
        except OSError:
            continue
        _prune(folder)
        return folder
    return None


def _prune(current: Path) -> None:
    """Remove folders of other kernel sources that no process has opened for long."""
    oldest = time.time() - _KEEP_SECONDS
    for folder in current.parent.iterdir():
        try:
            if folder != current and folder.is_dir() and folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # another process was quicker


_FOLDER = None if numba.config.DISABLE_JIT else cache_folder()


def jit(function: F) -> F:
    """Compile `function` for nogil use; divisions by zero give inf or nan as in C, nothing is checked."""
    return _compiled(function, no_cfunc_wrapper=True)


def helper(function: F) -> F:
    """Compile `function` for use by other kernels only: it cannot be called from Python, and compiles faster."""
    return _compiled(function, no_cfunc_wrapper=True, no_cpython_wrapper=True)


def _compiled(function: F, **options: bool) -> F:
    if numba.config.DISABLE_JIT:
        return _as_in_c(function)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_FOLDER) if _FOLDER else before
    try:
        compiled = numba.njit(nogil=True, cache=_FOLDER is not None, error_model="numpy", **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    return cast(F, compiled)


def _as_in_c(function: F) -> F:
    """The plain function, with the silent overflow of 64-bit words and divisions by zero of compiled code."""

    @functools.wraps(function)
    def quiet(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return cast(F, quiet)
