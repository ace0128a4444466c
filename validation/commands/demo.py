"""qtwin demo: the bundled case through validate and search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from validation.commands import shared
from validation.commands.shared import AsJson, Jobs, Seed

CASE = "dispatcher-design"
TOTAL = 10
OBJECTIVE = {"short": 0.83, "long": 0.059}


def demo(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the report goes.")] = Path("qtwin-report"),
    jobs: Jobs = None,
    seed: Seed = 1,
    as_json: AsJson = False,
) -> int:
    """The bundled design problem: validate it, find the best n0, write the report."""
    shared.at_least(1, jobs=jobs)
    shared.at_least(0, seed=seed)
    from qtheory.models import Dispatcher
    from validation import _search, library, report
    from validation._compare import compare
    from validation.commands.search import show_search
    from validation.commands.tables import progress

    report.check_folder(out)
    path = library.case_path(CASE)
    model = shared.open_model(path)
    assert isinstance(model, Dispatcher)
    with progress("comparing", quiet=as_json) as tell:
        comparison = compare(model, jobs=jobs, seed=seed, rungs=True, progress=tell)
    with progress("searching", quiet=as_json) as tell:
        found = _search.search(model, total=TOTAL, objective=OBJECTIVE, seed=seed, progress=tell)
    data = shared.envelope(
        "demo", case=CASE, results=[{"file": f"{CASE}.toml"} | comparison.to_dict()], search=found.to_dict()
    )
    page = report.write(out, comparisons={f"{CASE}.toml": comparison}, search=found, data=data)
    data["report"] = str(page)
    if as_json:
        shared.emit(data)
        return 0
    counts = {
        name: sum(p.verdict == name for p in comparison.measures.values())
        for name in ("agree", "inconclusive", "disagree")
    }
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    print(f"{CASE}: theory and simulation on {len(comparison.measures)} measures: {told}")
    show_search(found, title=f"{CASE}: {TOTAL} servers")
    print(f"report: {page}")
    return 0
