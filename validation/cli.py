"""The command ``qtwin``: assembles the subcommands and turns every error into one line and an exit status."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

import qtheory
from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from validation.commands.shared import NoAnswer

DONE, DISAGREE, WRONG_INPUT, NO_ANSWER, INTERRUPTED = 0, 1, 2, 3, 130


#: The subcommands in the order of the help; each is the function of its name in the module of its name.
COMMANDS = (
    "solve", "simulate", "validate", "search", "replay", "fit", "sweep", "study", "calibrate",
    "cases", "schema", "guide", "demo",
)  # fmt: skip


def _show_version(asked: bool) -> None:
    if asked:
        print(f"qtwin {qtheory.__version__}")
        raise typer.Exit


def build(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The command with these subcommands."""
    app = typer.Typer(
        name="qtwin",
        help="Queueing systems answered twice: an analytic value and an exact simulation, side by side.",
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    app.callback()(_common)  # also makes it a group where it has one subcommand only
    for name in names:
        app.command()(getattr(import_module(f"validation.commands.{name}"), name))
    return app


def _common(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


def needed(arguments: Sequence[str]) -> Sequence[str]:
    """The subcommand that is called, or all where help or a complaint has to know them: loading all takes longer."""
    called = arguments[:1]
    return called if called and called[0] in COMMANDS else COMMANDS


def run(arguments: list[str]) -> int:
    """Carry out one command line and return its exit status."""
    try:
        _check_own_package()
        status = build(needed(arguments))(arguments, prog_name="qtwin", standalone_mode=False)
        sys.stdout.flush()
        # Typer makes this status of Ctrl-C; a simulation has then said what was finished.
        return _fail("interrupted", status=status) if status == INTERRUPTED else int(status or DONE)
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
    except (BrokenPipeError, SystemExit):
        # The reader has gone (head, less): nothing is left to say, and nothing went wrong. Typer makes an end with
        # status 1 of it, which is a disagreement here.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def main() -> None:
    """Entry point of the command."""
    # The blocks are small: a second BLAS thread costs more than it brings. Read when NumPy is loaded, hence here.
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # A request to end counts as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status = run(sys.argv[1:])
    if status == INTERRUPTED:
        # Threads may still be at work on replications that nobody waits for.
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)


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
