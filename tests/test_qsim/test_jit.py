"""Compiled kernels: the cache sees edits of helpers, is used again, does without a folder; code that comes with the
package is up to date and saves the compiler; twin without numba.

Each check runs a small package of kernels in processes of its own, so that nothing compiled elsewhere is met.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import qsim
from qsim.kernels import _cache, _portable

ROOT = Path(qsim.__file__).resolve().parents[1]

HELPER = """
from qsim.kernels._jit import jit

@jit
def step(x):
    return x + {}
"""

CALLER = """
from qsim.kernels._helper import step
from qsim.kernels._jit import jit

@jit
def twice(x):
    return step(step(x))
"""

SCRIPT = """
from pathlib import Path
from qsim.kernels import _cache, _caller
from qsim.kernels._caller import twice
value = twice(1.0)
(origin,) = twice.origins.values()
print(value, origin, _cache.cache_folder(Path(_caller.__file__)) or "nowhere")
"""

#: What kernels need to be compiled, kept and loaded.
MACHINERY = ("_jit.py", "_cache.py", "_native.py", "_portable.py")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the kernels' machinery with a helper and a caller of its own."""
    kernels = tmp_path / "code" / "qsim" / "kernels"
    kernels.mkdir(parents=True)
    for name in MACHINERY:
        shutil.copy(ROOT / "qsim" / "kernels" / name, kernels)
    for folder in (kernels, kernels.parent):
        (folder / "__init__.py").touch()
    (kernels / "_helper.py").write_text(HELPER.format(1))
    (kernels / "_caller.py").write_text(CALLER)
    return tmp_path / "code"


def run(package: Path, script: str = SCRIPT, **variables: str) -> list[str]:
    """What the script prints, with a home of its own and no other cache."""
    home = package.parent / "home"
    home.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG"))}
    settings = kept | {"HOME": str(home), "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"} | variables
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=settings, cwd=package, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.split()


def test_an_edited_helper_is_seen_by_its_cached_caller(package: Path) -> None:
    first, again = run(package), run(package)
    assert first[:2] == ["3.0", "compiler"]
    assert again[:2] == ["3.0", "cache"], "the second process compiles nothing"
    (package / "qsim" / "kernels" / "_helper.py").write_text(HELPER.format(10))
    edited = run(package)
    assert edited[0] == "21.0"
    assert edited[2] != first[2]
    (package / "qsim" / "kernels" / "_stranger.py").write_text(HELPER.format(5))
    assert run(package) == ["21.0", "cache", edited[2]], "a file that it does not import changes nothing"


def test_a_damaged_file_is_compiled_anew(package: Path) -> None:
    folder = Path(run(package)[2])
    (kept,) = folder.iterdir()
    kept.write_bytes(kept.read_bytes()[:-1])
    assert run(package)[:2] == ["3.0", "compiler"]
    assert run(package)[:2] == ["3.0", "cache"]


def test_no_folder_can_be_written(package: Path) -> None:
    """Every candidate is a file, in which not even root can make a folder."""
    blocked = package.parent / "blocked"
    blocked.touch()
    assert run(package, XDG_CACHE_HOME=str(blocked), NUMBA_CACHE_DIR=str(blocked), TMPDIR=str(blocked))[0] == "3.0"
    script = SCRIPT.replace(
        "from qsim.kernels import _cache, _caller\n",
        "import tempfile\ntempfile.gettempdir = lambda: '/dev/null'\nfrom qsim.kernels import _cache, _caller\n",
    )
    found = run(package, script, XDG_CACHE_HOME=str(blocked), NUMBA_CACHE_DIR=str(blocked))
    assert found == ["3.0", "compiler", "nowhere"]


def test_a_folder_asked_for_is_taken(package: Path) -> None:
    asked = package.parent / "asked"
    assert run(package, NUMBA_CACHE_DIR=str(asked))[2].startswith(str(asked))


def test_old_folders_are_removed_and_young_ones_kept(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    old, young = tmp_path / "qtwin" / "0123", tmp_path / "qtwin" / "4567"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "kernel.nbc").touch()
    os.utime(old, (1e9, 1e9))
    file = Path(_cache.__file__).with_name("servers.py")
    folder = _cache.cache_folder.__wrapped__(file)
    assert folder == tmp_path / "qtwin" / _cache.folder_name(file)
    assert _cache.source_key(file) in folder.name
    assert not old.exists()
    assert (young / "kernel.nbc").exists()


TWIN = """
import hashlib
import numpy as np
import qsim
from qsim.kernels.servers import idle_servers, serve
from qsim.lower import Options, lower
from qtheory.models import *
model = Dispatcher(
    servers=(2, 11),
    time_limit=1.5,
    short_fraction=0.6,
    interarrival=Product(factors=(Exponential(mean=0.4), Uniform(low=0.85, high=1.21))),
    service0=Mixture(
        weights=(0.5, 0.5), laws=(BoundedPareto(shape=1.9, minimum=0.5, maximum=5.7), Gamma(shape=0.6, scale=1.0))
    ),
    service1=PhaseType(alpha=(0.7, 0.2), generator=((-2.0, 1.0), (0.5, -1.0))),
)
digest = hashlib.sha256(lower(model, options=Options(at=(2.0,))).run(seed=1, replication=0, jobs=200, warmup=50))
variant = model.replace(killed_join="head", grace=0.2, limits=Uniform(low=0.5, high=2.0))
digest.update(lower(variant, options=Options()).run(seed=1, replication=0, jobs=200, warmup=50))
digest.update(qsim.perfect(model.replace(interarrival=Exponential(mean=0.4)), samples=10).workload)
for count in (3, 7):
    starts = np.empty(200)
    serve(*idle_servers(count), np.arange(200.0) / count, np.sin(np.arange(200.0)) + 1.0, 1.8, starts)
    digest.update(starts)
print(digest.hexdigest())
"""


def test_the_plain_twin_gives_the_same_bits() -> None:
    """Compiled and as plain Python: tallies and histograms of short runs, stationary draws, numbers of servers."""
    found = []
    for setting in ("0", "1"):
        settings = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": setting}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", TWIN], env=settings, capture_output=True, text=True, check=True
        )
        found.append(done.stdout)
    assert found[0] == found[1]


def test_no_model_compiles_anew() -> None:
    """One signature for everything: laws, servers, options."""
    from qsim.kernels._jit import Kernel
    from qsim.kernels.dispatcher import simulate
    from qtheory.models import Deterministic, Dispatcher, Exponential, Gamma, Mixture

    laws = (
        Exponential(mean=0.5),
        Deterministic(value=1.0),
        Mixture(weights=(0.5, 0.5), laws=(Gamma(shape=2.0, scale=1.0), Exponential(mean=1.0))),
    )
    for servers, fraction, law in zip(((1, 1), (3, 7), (20, 30)), (0.0, 0.5, 1.0), laws, strict=True):
        model = Dispatcher(
            servers=servers, time_limit=2.0, short_fraction=fraction, interarrival=laws[0], service0=law, service1=law
        )
        qsim.simulate(model, jobs=100, replications=1, warmup=0, means_only=fraction == 0.0, at=(1.0,) * len(servers))
    assert isinstance(simulate, Kernel)
    assert len(simulate.origins) == 1


EXAMPLES = """
import sys
from qsim.kernels._jit import Kernel
from qsim.kernels._translate import run_examples, used_places
run_examples()
for kernel in Kernel.known:
    for types, origin in kernel.origins.items():
        print(origin, f"{kernel.file.stem}.{kernel.name}")
print("folder", *(path.name for path in used_places()))
print("numba" in sys.modules)
"""


def test_no_simulation_waits_for_a_compiler(tmp_path: Path) -> None:
    """Every kernel that simulations call comes translated with the package; edited kernels are to be translated anew
    by ``python -m qsim.kernels._translate``."""
    settings = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", EXAMPLES]
    lines = subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout.splitlines()
    *kernels, folder, numba = lines
    assert [line for line in kernels if not line.startswith("package ")] == []
    assert len(kernels) >= 14
    assert sorted(folder.split()[1:]) == sorted(path.name for path in _portable.FOLDER.iterdir())
    assert numba == "False"


WORK = """
from qsim.kernels import _jit
from qsim.kernels.dispatcher import simulate
from qsim.lower import Options, lower
from qtheory.models import *
_jit._PATIENCE = 0.0
law = Exponential(mean=1.0)
model = Dispatcher(
    servers=(2, 7), time_limit=1.5, short_fraction=0.6, interarrival=Exponential(mean=0.3), service0=law, service1=law
)
simulator = lower(model, options=Options())
found = []
for _ in range(2):
    found.append(simulator.run(seed=1, replication=0, jobs=3000, warmup=50).tobytes())
    (code,) = simulate._codes.values()
    print(*simulate.origins.values(), code.optimised)
print(found[0] == found[1])
"""


def test_a_kernel_that_works_long_is_optimised(tmp_path: Path) -> None:
    """The code of the package, then that for this processor, with the same bits; the next process begins with it."""
    settings = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path)}

    def work() -> list[str]:
        command = [sys.executable, "-W", "error", "-c", WORK]
        return subprocess.run(command, env=settings, capture_output=True, text=True, check=True).stdout.splitlines()

    assert work() == ["package True", "package True", "True"]
    assert work() == ["cache True", "cache True", "True"]
