"""Replications on a running Dask cluster, as an executor like any other (extra ``dask``)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from qsim.store import made_by
from qtheory.models.errors import InvalidModel

#: Seconds to wait for a scheduler that does not answer.
PATIENCE = 5.0


@contextmanager
def dask(address: str) -> Iterator[Executor]:
    """The workers of the Dask scheduler at `address`, e.g. ``tcp://10.0.0.1:8786``.

    They must run the same versions on the same type of processor as this process, so that a result has the same bits
    wherever it is made.

    Raises
    ------
    InvalidModel : (field `scheduler`) Dask is not installed, nothing answers there, there are no workers, or they run
        something else.
    """
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        rule = f"needs Dask: install qtwin[dask] ({error})"
        raise InvalidModel(field="scheduler", rule=rule) from None
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        rule = f"cannot be reached ({_brief(error)})"
        raise InvalidModel(field="scheduler", rule=rule, value=address) from None
    try:
        _check_workers(client, address)
        yield client.get_executor()
    finally:
        client.close(timeout=PATIENCE)


def _check_workers(client: Any, address: str) -> None:
    if not client.nthreads():
        raise InvalidModel(field="scheduler", rule="has no workers", value=address)
    try:
        answers = client.run(made_by)
    except Exception as error:
        rule = f"has workers without qtwin ({_brief(error)})"
        raise InvalidModel(field="scheduler", rule=rule, value=address) from None
    here = made_by()
    for worker, there in answers.items():
        for name, value in here.items():
            if there[name] != value:
                rule = f"has a worker with other {name}: {worker} has {there[name]}, here is {value}"
                raise InvalidModel(field="scheduler", rule=rule, value=address)


def _brief(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
