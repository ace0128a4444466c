"""Where compiled kernels are kept: folders named by a hash of everything that a kernel is made from.

The cache folder of a kernel is named by a hash of its file, of all kernel files that this one imports, directly or
not, and of the versions involved, so that no edit stays unseen.  Folders that have not been used for a month are
removed.  Where no folder can be written, kernels are compiled in each process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

_HERE = Path(__file__).parent
#: What compiles and loads kernels and says nothing about what they do.
_MACHINERY = ("_jit", "_cache", "_native", "_portable")
#: An import from this folder, names in parentheses included.
_IMPORT = re.compile(rf"^\s*(?:from|import) +{re.escape(__package__ or '')}\b[^\n(]*(?:\([^)]*\))?", re.MULTILINE)
_KEEP_SECONDS = 30 * 86400


@functools.cache
def source_key(file: Path) -> str:
    """A hash of a kernel file and of the kernel files it imports, whatever the ends of their lines."""
    found, fresh = {file}, [file]
    while fresh:
        new = set(_imported(fresh.pop())) - found
        found |= new
        fresh += new
    digest = hashlib.sha256()
    for path in sorted(found, key=lambda path: path.name):
        digest.update(path.name.encode() + b"\0" + path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()[:16]


@functools.cache
def _imported(file: Path) -> tuple[Path, ...]:
    """The kernel files that `file` imports itself, without the machinery; parsing whole files would take longer."""
    words = re.findall(r"\w+", " ".join(_IMPORT.findall(file.read_text("utf-8"))))
    paths = (_HERE / f"{stem}.py" for stem in sorted({*words} - {*_MACHINERY}))
    return tuple(path for path in paths if path.is_file())


def folder_name(file: Path) -> str:
    """The name of the cache folder of a kernel file."""
    return f"{file.stem}-{source_key(file)}-{_versions_key()}"


@functools.cache
def _versions_key() -> str:
    """A hash of the versions that compiled code depends on, read without loading the compiler, and of the machinery."""
    digest = hashlib.sha256(sys.version.encode())
    for stem in _MACHINERY:
        digest.update((_HERE / f"{stem}.py").read_bytes())
    for name in ("numba", "llvmlite"):
        package = find_spec(name)
        if package is not None and package.origin is not None:
            digest.update(Path(package.origin).with_name("_version.py").read_bytes())
    return digest.hexdigest()[:8]


@functools.cache
def cache_folder(file: Path) -> Path | None:
    """A folder for the compiled kernels of a file that can be written, or None."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    user = str(os.getuid()) if hasattr(os, "getuid") else "user"
    asked = os.environ.get("NUMBA_CACHE_DIR")
    for base in (asked, home, os.path.join(tempfile.gettempdir(), f"qtwin-{user}")):
        if not base:
            continue
        folder = Path(base) / "qtwin" / folder_name(file)
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


def read(file: Path, *, name: str) -> bytes | None:
    """What was kept under this name, if it is whole."""
    folder = cache_folder(file)
    if folder is None:
        return None
    try:
        kept = (folder / name).read_bytes()
    except OSError:
        return None
    digest, content = kept[:32], kept[32:]
    return content if hashlib.sha256(content).digest() == digest else None


def write(file: Path, content: bytes, *, name: str) -> None:
    """Keep `content` under this name, all or nothing; a full or vanished disk costs the next process its time alone."""
    folder = cache_folder(file)
    if folder is None:
        return
    try:
        handle, draft = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as out:
            out.write(hashlib.sha256(content).digest() + content)
        os.replace(draft, folder / name)
    except OSError:
        return
