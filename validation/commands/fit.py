"""qtwin fit: a log becomes a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qtheory.models import InvalidModel, plain, save
from validation.commands import shared, tracing
from validation.commands.shared import AsJson
from validation.commands.tracing import GroupLimit, TraceFile, WidthOption


def fit(
    *,
    trace: TraceFile,
    servers: Annotated[str, typer.Option("--servers", metavar="N0,N1", help="Servers of the two groups.")],
    time_limit: Annotated[
        float,
        typer.Option("--time-limit", metavar="L", parser=shared.real_number, help="Group 0 kills a job served for L."),
    ],
    group_limit: GroupLimit = None,
    width: WidthOption = "one",
    laws: Annotated[str, typer.Option("--laws", help="parametric, or empirical: the recorded values.")] = "parametric",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="MODEL.toml", help="Write the model there.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Fit a dispatcher model to a log and say how far it is off."""
    groups = _servers(servers)
    if not time_limit > 0:
        raise InvalidModel(field="--time-limit", rule="must be a number > 0", value=time_limit)
    if laws not in ("parametric", "empirical"):
        raise InvalidModel(field="--laws", rule="must be parametric or empirical", value=laws)
    log = tracing.open_trace(trace, group_limit=group_limit, width=width, time_limit=time_limit)

    from validation import fit as fitting
    from validation.commands.tables import number, show

    found = fitting.fit(
        log, servers=groups, time_limit=time_limit, laws="empirical" if laws == "empirical" else "parametric"
    )
    if out is not None:
        save(found.model, out)
    if as_json:
        shared.emit(
            shared.envelope(
                "fit",
                model=plain(found.model),
                status="ok",
                records=log.records,
                laws=[law.to_dict() for law in found.laws],
                kill_share=dict(zip(("log", "model"), found.kill_share, strict=True)),
                autocorrelation=found.autocorrelation,
                dispersion=None if found.dispersion != found.dispersion else found.dispersion,
                notices=list(found.notices),
                file=str(out) if out else None,
            )
        )
        return 0
    tracing.say(log)
    rows = [
        (
            law.field,
            law.law.kind(),
            str(law.count),
            number(law.mean),
            number(law.scv, digits=4),
            number(law.law_scv, digits=4),
            number(law.ks, digits=3),
            number(law.ks_critical, digits=3),
        )
        for law in found.laws
    ]
    columns = ("field", "law", "values", "mean", "scv (log)", "scv (law)", "KS distance", "KS 1 %")
    show(f"{trace}: fitted laws", columns, rows)
    print(
        f"gaps: autocorrelation {found.autocorrelation:.3f}, dispersion over 100 gaps {found.dispersion:.3g} "
        "(independent gaps would give 0 and about their scv)"
    )
    print(
        f"killed share of the jobs submitted to Group 0: log {found.kill_share[0]:.4f}, model {found.kill_share[1]:.4f}"
    )
    for notice in found.notices:
        print(notice)
    if out is not None:
        print(f"model: {out}")
    else:
        import msgspec
        import tomli_w

        print(tomli_w.dumps(msgspec.to_builtins(found.model)), end="")
    return 0


def _servers(text: str) -> tuple[int, int]:
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdigit() and int(part) >= 1 for part in parts):
        raise InvalidModel(field="--servers", rule="must be two whole numbers >= 1, as in 3,4", value=text)
    return int(parts[0]), int(parts[1])
