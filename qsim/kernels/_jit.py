"""The only place that calls numba: compiled, GIL-free functions with a cache that sees every edit.

numba's own file cache looks at the file of the cached function alone, so an edited helper in another file would
stay unseen by its cached callers.  The cache folder of a kernel is therefore named by a hash of its file, of all
kernel files that this one imports, directly or not, and of the versions involved; where no folder can be written,
functions are compiled without a cache.  Folders that have not been used for a month are removed.

With ``NUMBA_DISABLE_JIT=1`` kernels run as plain Python and give the same bits.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
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


def source_key(file: Path) -> str:
    """A hash of a kernel file, of the kernel files it imports, and of the versions that compiled code depends on."""
    found, fresh = {file}, [file]
    while fresh:
        new = set(_imported(fresh.pop())) - found
        found |= new
        fresh += new
    digest = hashlib.sha256(repr((numba.__version__, np.__version__, sys.version)).encode())
    for path in sorted(found):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@functools.cache
def _imported(file: Path) -> tuple[Path, ...]:
    """The kernel files that `file` imports itself."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)]
    stems = {name.rpartition(".")[2] for name in names if name.startswith(f"{__package__}.")}
    return tuple(path for path in (file.with_name(f"{stem}.py") for stem in sorted(stems)) if path.is_file())


@functools.cache
def cache_folder(file: Path) -> Path | None:
    """A folder for the compiled kernels of a file that can be written, or None."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    asked = os.environ.get("NUMBA_CACHE_DIR")
    for base in (asked, home, os.path.join(tempfile.gettempdir(), f"qtwin-{user}")):
        if not base:
            continue
        folder = Path(base) / "qtwin" / f"{file.stem}-{source_key(file)}"
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
    """Remove folders that no process has opened for long."""
    oldest = time.time() - _KEEP_SECONDS
    for folder in current.parent.iterdir():
        try:
            if folder != current and folder.is_dir() and folder.stat().st_mtime < oldest:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # another process was quicker


def jit(function: F) -> F:
    """Compile `function` for nogil use; divisions by zero give inf or nan as in C, nothing is checked."""
    return _compiled(function, no_cfunc_wrapper=True)


def helper(function: F) -> F:
    """Compile `function` for use by other kernels only: it cannot be called from Python, and compiles faster."""
    return _compiled(function, no_cfunc_wrapper=True, no_cpython_wrapper=True)


def _compiled(function: F, **options: bool) -> F:
    if numba.config.DISABLE_JIT:
        return _as_in_c(function)
    folder = cache_folder(Path(inspect.getfile(function)))
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder) if folder else before
    try:
        compiled = numba.njit(nogil=True, cache=folder is not None, error_model="numpy", **options)(function)
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
