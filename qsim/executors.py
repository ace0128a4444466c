"""Replications on a running Dask cluster, as an executor like any other (extra ``dask``)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from threading import Thread
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
    InvalidModel : (field `scheduler`) Dask is not installed, nothing answers there, there are no workers, they run
        something else, or the cluster is lost during the work.
    """
    try:
        from distributed import KilledWorker
    except ModuleNotFoundError as error:
        rule = f"needs Dask: install the extra qtwin[dask] ({error})"
        raise InvalidModel(field="scheduler", rule=rule) from None
    client = _connected(address)
    try:
        _check_workers(client, address)
        yield client.get_executor()
    except (KilledWorker, CancelledError, OSError) as error:
        raise _refused(address, "was lost", error) from None
    finally:
        client.close(timeout=PATIENCE)


def _connected(address: str) -> Any:
    from distributed import Client
    from distributed.comm.addressing import parse_address, parse_host_port

    client: Any = Client.__new__(Client)
    try:
        # A client tries for as long as it may where nobody listens; a socket knows at once.
        scheme, place = parse_address(address)
        if scheme in ("tcp", "tls"):
            socket.create_connection(parse_host_port(place), timeout=PATIENCE).close()
        _in_time(lambda: client.__init__(address, timeout=0.8 * PATIENCE, set_as_default=False))
    except Exception as error:
        # Whatever listens there need not be a scheduler.  The half-made client must not try to say goodbye to it.
        client.status = "closed"
        raise _refused(address, "cannot be reached", error) from None
    return client


def _in_time(work: Callable[[], object]) -> None:
    """Do something that may never come back, for `PATIENCE` seconds; raises TimeoutError after them."""
    done: Future[object] = Future()

    def attempt() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    Thread(target=attempt, daemon=True).start()
    done.result(timeout=PATIENCE)


def _check_workers(client: Any, address: str) -> None:
    if not client.nthreads():
        raise InvalidModel(field="scheduler", rule="has no workers", value=address)
    try:
        answers = client.run(made_by)
    except Exception as error:
        raise _refused(address, "has workers that do not know qtwin", error) from None
    here = made_by()
    for worker, there in answers.items():
        for name, value in here.items():
            if there.get(name) != value:
                rule = f"has a worker with other {name}: {worker} has {there.get(name)}, here is {value}"
                raise InvalidModel(field="scheduler", rule=rule, value=address)


def _refused(address: str, rule: str, error: BaseException) -> InvalidModel:
    cause = " ".join(f"{type(error).__name__} {error}".split())
    return InvalidModel(field="scheduler", rule=f"{rule} ({cause[:200]})", value=address)
