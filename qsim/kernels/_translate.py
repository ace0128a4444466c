"""Translate the kernels in advance: ``python -m qsim.kernels._translate``, to be run after an edit of a kernel.

Small examples of every kind of system are simulated without a cache; whatever had to be compiled is written to the
folder of intermediate code, and what no example has used is removed from it.  numba writes its code as it stands and
for no processor in particular: it is optimised once, in the end.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import qsim
from qsim.kernels import _portable
from qsim.kernels._jit import Kernel
from qsim.lower import Options, lower
from qtheory.models import Dispatcher, Exponential
from qtheory.models.files import parse

_LAW = Exponential(mean=1.0)
_DISPATCHER = Dispatcher(
    servers=(1, 2), time_limit=1.0, short_fraction=0.5, interarrival=_LAW, service0=_LAW, service1=_LAW
)
_DONOR = {
    "kind": "donor",
    "arrival_rates": [0.5, 0.1],
    "service_rates": {"mu1": 1.0, "mu12": 1.0, "mu2": 1.0},
    "policy": {"kind": "t1", "t1": 3},
}
_QUEUES = {"kind": "flexible", "queues": 50, "load": 0.5, "flexible_fraction": 0.5, "choices": 2}
_NETWORK = {
    "kind": "network",
    "servers": {"a": 1.0, "b": 1.0},
    "classes": [{"rate": 0.5, "routes": [["a"], ["b"]]}],
    "policy": {"kind": "jsr"},
}

#: Models whose simulation together calls every kernel.
MODELS: tuple[dict[str, Any], ...] = (
    _DONOR,
    _DONOR | {"switching_time": 1.0},
    _QUEUES,
    _QUEUES | {"choices": 3},
    _QUEUES | {"choices": "all"},
    _QUEUES | {"service": {"kind": "erlang", "shape": 2, "mean": 1.0}},
    _QUEUES | {"discipline": "ps"},
    _NETWORK,
)


def main() -> None:
    """Bring the folder of intermediate code up to date."""
    with tempfile.TemporaryDirectory() as empty:
        os.environ |= {"NUMBA_OPT": "0", "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
        os.environ |= {"XDG_CACHE_HOME": empty, "NUMBA_CACHE_DIR": empty, "NUMBA_DISABLE_JIT": "0"}
        run_examples()
    for kernel, types, code in Kernel.translations:
        path = _portable.keep(code, kernel.file, kernel.name, types=types)
        print(f"{path.name}: {path.stat().st_size} bytes for {kernel.file.stem}.{kernel.name}({types})")
    used = set(used_places())
    for path in sorted(_portable.FOLDER.iterdir()):
        if path not in used:
            path.unlink()
            print(f"{path.name}: removed")


def used_places() -> list[Path]:
    """The files of all kernels that have been called in this process."""
    return [
        _portable.place(kernel.file, kernel.name, types=types) for kernel in Kernel.known for types in kernel.origins
    ]


def run_examples() -> None:
    """Call every kernel that simulations call, with each combination of types."""
    for model in (_DISPATCHER, *map(parse, MODELS)):
        for means_only in (False, True):
            lower(model, options=Options(means_only=means_only)).run(seed=1, replication=0, jobs=64, warmup=8)
    lower(_DISPATCHER.replace(killed_join="head"), options=Options()).run(seed=1, replication=0, jobs=64, warmup=8)
    qsim.perfect(_DISPATCHER, samples=1)
    jobs = qsim.draw_jobs(_DISPATCHER, time_end=10.0)
    qsim.replay(_DISPATCHER, arrival=jobs.arrival, service=jobs.service, group=jobs.group)


if __name__ == "__main__":
    main()
