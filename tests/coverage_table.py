"""How often the intervals of `qtwin simulate` cover the truth, as the table of the guide `intervals`.

``python tests/coverage_table.py [SYSTEM...]`` carries out a thousand whole procedures a system, each as long as the
command's own default, in some minutes a system on two processors; keeps what it found in tests/data/coverage.json and
writes the table into the guide.  Without a name it runs all systems.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from command_line import E

from qtheory.models import BoundedPareto, Dispatcher, Exponential, Gamma, LogNormal
from validation import steer
from validation.calibrate import calibrate

DATA = Path(__file__).parent / "data" / "coverage.json"
GUIDE = Path(__file__).parents[1] / "validation" / "guides" / "intervals.md"
BEGIN, END = "<!-- table -->", "<!-- end of table -->"
RUNS, SEED = 1000, 31
GOAL = (0.93, 0.97)
#: Of each row.
KEPT = ("measure", "scope", "controls", "coverage", "bias", "half_width", "factor", "reference", "reference_half_width")

SYSTEMS = {
    "light": E.replace(interarrival=Exponential(mean=1.0)),
    "heavy": E.replace(interarrival=Exponential(mean=1 / 3.8)),
    "heavy-tailed": Dispatcher(
        servers=(3, 5),
        time_limit=4.0,
        short_fraction=0.7,
        interarrival=Exponential(mean=0.3),
        service0=LogNormal(mean=1.0, scv=10.0),
        service1=BoundedPareto(shape=1.5, minimum=0.8, maximum=100.0),
    ),
    "kill-heavy": Dispatcher(
        servers=(4, 8),
        time_limit=1.0,
        short_fraction=0.9,
        interarrival=Exponential(mean=0.2),
        service0=Exponential(mean=1.0),
        service1=Exponential(mean=2.0),
    ),
    "renewal": E.replace(interarrival=Gamma(shape=0.25, scale=1.6)),
    "60 servers": E.replace(servers=(26, 34), interarrival=Exponential(mean=1 / 30)),
}


def measured(name: str) -> dict[str, Any]:
    """The calibration of one system as plain data."""
    model = SYSTEMS[name]
    found = calibrate(model, runs=RUNS, jobs=steer.simulation_jobs(model), seed=SEED).to_dict()
    rows = [{name: row[name] for name in KEPT} for row in found["measures"]]
    return {name: found[name] for name in ("model", "runs", "jobs", "replications", "seed")} | {"measures": rows}


def table(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The rows of the guide."""
    scopes = "all, short, long, killed"
    yield f"| system | estimate | mean response: {scopes} | p95: {scopes} | rows within | variance factors |"
    yield "|---|---|---|---|---|---|"
    for name in SYSTEMS:
        if name not in results:
            continue
        for controls in (False, True):
            rows = {
                (row["measure"], row["scope"]): row for row in results[name]["measures"] if row["controls"] == controls
            }
            if not rows:
                continue
            cells = [
                ", ".join(
                    f"{100 * rows[measure, scope]['coverage']:.1f}" for scope in ("all", "short", "long", "killed")
                )
                for measure in ("mean_response", "p95_response")
            ]
            within = sum(GOAL[0] <= row["coverage"] <= GOAL[1] for row in rows.values())
            factors = [rows[measure, "all"]["factor"] for measure in ("mean_response", "p95_response")]
            gain = ", ".join(f"{factor:.0f}" if factor >= 10 else f"{factor:.1f}" for factor in factors)
            label, kind = ("", "controls") if controls else (name, "plain")
            cells += [f"{within} of {len(rows)}", gain if controls else ""]
            yield f"| {label} | {kind} | {' | '.join(cells)} |"


def main(names: list[str]) -> None:
    results = json.loads(DATA.read_text()) if DATA.exists() else {}
    for name in names or list(SYSTEMS):
        results[name] = measured(name)
        DATA.write_text(json.dumps(results) + "\n")
        for row in results[name]["measures"]:
            mark = "" if GOAL[0] <= row["coverage"] <= GOAL[1] else "  <<<"
            kind = "controls" if row["controls"] else "plain"
            print(
                f"{name:<13} {row['measure'] + '/' + row['scope']:<24} {kind:<9} {100 * row['coverage']:.1f} "
                f"bias {row['bias']:.3f} reference {row['reference_half_width'] / row['half_width']:.3f}{mark}",
                flush=True,
            )
    before, rest = GUIDE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    GUIDE.write_text(before + "\n".join([BEGIN, *table(results), END]) + after)


if __name__ == "__main__":
    main(sys.argv[1:])
