"""The command ``qtwin``: assembles the subcommands and turns every error into one line and an exit status."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import typer

from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from validation.commands.shared import NoAnswer

DONE, DISAGREE, WRONG_INPUT, NO_ANSWER, INTERRUPTED = 0, 1, 2, 3, 130


def build() -> typer.Typer:
    """The command with all its subcommands."""
    from validation.commands.cases import cases
    from validation.commands.demo import demo
    from validation.commands.fit import fit
    from validation.commands.guide import guide
    from validation.commands.replay import replay
    from validation.commands.schema import schema
    from validation.commands.search import search
    from validation.commands.simulate import simulate
    from validation.commands.solve import solve
    from validation.commands.study import study
    from validation.commands.sweep import sweep
    from validation.commands.validate import validate

    app = typer.Typer(
        name="qtwin",
        help="Queueing systems answered twice: an analytic value and an exact simulation, side by side.",
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    for command in (solve, simulate, validate, search, replay, fit, sweep, study, cases, schema, guide, demo):
        app.command()(command)
    return app


def run(arguments: list[str]) -> int:
    """Carry out one command line and return its exit status."""
    try:
        _check_own_package()
        status = build()(arguments, prog_name="qtwin", standalone_mode=False)
        sys.stdout.flush()
        return int(status or DONE)
    except InvalidModel as error:
        return _fail(str(error), status=WRONG_INPUT)
    except NoAnswer as refusal:
        if refusal.data is not None:
            print(json.dumps(refusal.data, allow_nan=False), flush=True)
        return _fail(refusal.message, status=NO_ANSWER)
    except (Unstable, NotConverged) as failure:
        return _fail(str(failure), status=NO_ANSWER)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", status=INTERRUPTED)
    except typer.Exit as done:
        return done.exit_code
    except typer.TyperException as error:
        return _fail(error.format_message(), status=WRONG_INPUT)
    except BrokenPipeError:
        # The reader has gone (head, less): nothing is left to say, and nothing went wrong.
        sys.stderr.close()
        return DONE


def main() -> None:
    """Entry point of the command."""
    # The blocks are small: a second BLAS thread costs more than it brings. Read when NumPy is loaded, hence here.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.exit(run(sys.argv[1:]))


def _fail(message: str, *, status: int) -> int:
    print("qtwin: " + " ".join(message.split()), file=sys.stderr, flush=True)
    return status


def _check_own_package() -> None:
    """`validation` is a name that others use too: a stranger's package must not answer in our place."""
    places = {name: find_spec(name) for name in ("qtheory", "qsim", "validation")}
    folders = {Path(spec.origin).resolve().parents[1] for spec in places.values() if spec and spec.origin}
    if len(folders) != 1 or None in places.values():
        found = ", ".join(sorted(str(folder) for folder in folders))
        raise InvalidModel(rule="qtheory, qsim and validation must come from one installation", value=found)
