"""Kernels translated in advance: intermediate code that comes with the package, so that nobody waits for a compiler.

A file of the folder `portable` holds one kernel for arguments of given types, as compressed text with a head that
names the sources it was made from; code of other sources, or for another kind of machine, is not used.
`qsim.kernels._translate` writes the files.
"""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path
from typing import NamedTuple

import llvmlite.binding as llvm

from qsim.kernels._cache import source_key
from qsim.kernels._native import machine

FOLDER = Path(__file__).with_name("portable")


class Intermediate(NamedTuple):
    """A kernel's code and the type of its result, as `qsim.kernels._native` writes types; empty for none."""

    text: str
    result: str


def place(file: Path, function: str, *, types: str) -> Path:
    """Where the code of a kernel is."""
    return FOLDER / f"{file.stem}.{function}.{hashlib.sha256(types.encode()).hexdigest()[:8]}.ll.xz"


def _head(file: Path) -> tuple[str, ...]:
    return f"; sources {source_key(file)}", f"; machine {machine()}"


def find(file: Path, function: str, *, types: str) -> Intermediate | None:
    """The code of a kernel if it is there, of these sources, for this machine, and not of a later LLVM."""
    path = place(file, function, types=types)
    if file.parent != FOLDER.parent or not path.is_file():
        return None
    sources, kind, release, result, text = lzma.decompress(path.read_bytes()).decode().split("\n", 4)
    later = int(release.removeprefix("; llvm ")) > llvm.llvm_version_info[0]
    if (sources, kind) != _head(file) or later:
        return None
    return Intermediate(text, result.removeprefix("; result").strip())


def keep(code: Intermediate, file: Path, function: str, *, types: str) -> Path:
    """Write the code of a kernel to its place."""
    head = (*_head(file), f"; llvm {llvm.llvm_version_info[0]}", f"; result {code.result}")
    path = place(file, function, types=types)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress("\n".join((*head, code.text)).encode(), preset=9 | lzma.PRESET_EXTREME))
    return path
