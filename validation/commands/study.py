"""qtwin study: experiments that check the claims of a paper by both roads."""

from __future__ import annotations

from typing import Annotated

import typer

from qtheory.models import InvalidModel
from validation.commands import shared
from validation.commands.shared import AsJson, Jobs, Out, Seed

STUDIES = ("partial-choice",)


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(STUDIES)}.")],
    *,
    choices: Annotated[
        int, typer.Option("--choices", metavar="D", parser=shared.whole_number, help="Queues that a flexible job sees.")
    ] = 2,
    jobs: Jobs = None,
    seed: Seed = 1,
    out: Out = None,
    as_json: AsJson = False,
) -> int:
    """Is the wait decreasing and convex in the flexible fraction, and what does a small fraction buy?"""
    if name not in STUDIES:
        raise InvalidModel(field="NAME", rule=f"must be one of {', '.join(STUDIES)}", value=name)
    if choices < 2:
        raise InvalidModel(field="--choices", rule="must be at least 2", value=choices)
    shared.at_least(1, jobs=jobs)
    shared.at_least(0, seed=seed)
    from validation import partial_choice, report

    if out is not None:
        report.check_folder(out)
    found = partial_choice.study(choices=choices, seed=seed, jobs=jobs or partial_choice.JOBS)
    data = shared.envelope("study", study=name, status="ok", **found.to_dict())
    if out is not None:
        data["report"] = str(report.write(out, study=found, data=data))
    if as_json:
        shared.emit(data)
        return 0
    for sentence in found.sentences():
        print(sentence)
    if out is not None:
        print(f"report: {data['report']}")
    return 0
