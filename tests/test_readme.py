"""The README says what the program does: tables from the registries, examples that run, commands that exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from qtheory._solve import METHODS
from qtheory.models import LAWS
from validation import cli

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")

ABOUT = {
    "dispatcher": "two server groups; a job that outruns Group 0's time limit restarts in Group 1's queue",
    "donor": "two queues, two servers; the second helps the first by a threshold policy",
    "flexible": "parallel queues; a fraction of the customers picks the shortest of d",
    "network": "acyclic multi-class network; routing, sequencing and holding look at the state only",
}


def systems_table() -> str:
    rows = ["| kind | what it is | analytic methods |", "|---|---|---|"]
    rows += [f"| `{kind}` | {ABOUT[kind]} | {', '.join(f'`{m}`' for m in names)} |" for kind, names in METHODS.items()]
    return "\n".join(rows)


def test_the_table_of_systems_is_the_registry() -> None:
    written = README.split("<!-- systems -->\n")[1].split("\n<!-- /systems -->")[0]
    assert written == systems_table()


def test_every_law_is_named() -> None:
    assert [name for name in LAWS if f"`{name}`" not in README and name != "scipy"] == []


def test_every_command_shown_exists() -> None:
    shown = {match.group(1) for match in re.finditer(r"\bqtwin ([a-z]+)\b", README)}
    known = {command.callback.__name__ for command in cli.build().registered_commands if command.callback}
    assert shown <= known


def test_examples_run() -> None:
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0


def test_the_gate_runs_the_readme_test_command() -> None:
    command = README.split("<!-- tests -->\n```bash\n")[1].split("\n```")[0]
    assert command.endswith("pytest")
    gate = (ROOT / ".ci/run").read_text("utf-8")
    assert "<!-- tests -->" in gate
    assert "README.md" in gate
