"""qtwin schema: the JSON Schema of a model file."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from qtheory.models import files


def schema(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="dispatcher, donor, flexible or network.")],
) -> int:
    """JSON Schema of the model files of one kind of system."""
    print(json.dumps(files.schema(kind), indent=2))
    return 0
