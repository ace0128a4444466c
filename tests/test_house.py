"""The plan of the house: what an import may load, which way the arrows run, that public functions stay functions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("numpy", "scipy", "numba", "sympy", "matplotlib", "typer", "rich")


def fresh(code: str) -> str:
    """What `code` prints in a process of its own."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_import_qtheory_loads_nothing_heavy() -> None:
    loaded = json.loads(
        fresh(f"import json, sys, qtheory; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))")
    )
    assert loaded == []


def test_the_specification_needs_no_mathematics() -> None:
    code = "import json, sys, qtheory.models, qtheory.measures\n"
    code += f"print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    assert json.loads(fresh(code)) == []


def test_solve_loads_no_compiler_and_no_plots() -> None:
    case = ROOT / "validation/cases/dispatcher-exponential.toml"
    code = (
        "import sys; from validation import cli; status = cli.run(['solve', "
        f"{str(case)!r}, '--json']); "
        "print([status] + [m for m in ('numba', 'matplotlib', 'sympy', 'qsim') if m in sys.modules], file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert run.stderr.strip() == "[0]"


@pytest.mark.parametrize(
    ("package", "names"),
    [
        ("qtheory", ("solve", "methods", "load", "save")),
        ("qsim", ("simulate", "replay")),
        ("validation", ("compare", "search")),
    ],
)
def test_public_functions_stay_functions(package: str, names: tuple[str, ...]) -> None:
    """A module that bears the name of a public function would take its place once imported."""
    code = (
        f"import importlib, pkgutil, {package} as p\n"
        f"for name in {names}:\n"
        "    for m in pkgutil.iter_modules(p.__path__):\n"
        "        if m.name == name: importlib.import_module(p.__name__ + '.' + name)\n"
        "    for _ in range(2): assert callable(getattr(p, name)), name\n"
        "print('fine')"
    )
    assert fresh(code) == "fine"


def test_modules_stay_small() -> None:
    lines = {
        path: len(path.read_text("utf-8").splitlines())
        for package in ("qtheory", "qsim", "validation")
        for path in (ROOT / package).rglob("*.py")
    }
    assert {str(path): count for path, count in lines.items() if count > 400} == {}


def test_numba_is_called_in_one_place() -> None:
    users = [
        str(path.relative_to(ROOT))
        for package in ("qtheory", "qsim", "validation")
        for path in (ROOT / package).rglob("*.py")
        if any(line.strip().startswith(("import numba", "from numba")) for line in path.read_text("utf-8").splitlines())
    ]
    assert users == ["qsim/kernels/_jit.py"]
