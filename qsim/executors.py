"""Replications on a running Dask cluster, as an executor like any other (extra ``dask``)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from functools import partial
from threading import Thread
from typing import Any, TypeVar

from qsim.store import made_by
from qtheory.models.errors import InvalidModel

T = TypeVar("T")

#: Seconds to wait for a scheduler that does not answer.
PATIENCE = 5.0


class Cluster(Executor):
    """Work for the workers of a Dask client; `window` pieces at a time keep them busy.

    The client's own executor asks the scheduler for every cancellation and stumbles over results that come meanwhile;
    here what is cancelled is released, and the scheduler forgets what nobody holds.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.window = max(64, 4 * sum(client.nthreads().values()))

    def submit(self, function: Callable[..., T], /, *args: Any, **arguments: Any) -> Future[T]:
        """`function(*args, **arguments)` on a worker."""
        outer: Future[T] = Future()
        inner = self.client.submit(partial(function, *args, **arguments), pure=False)

        async def relay() -> None:
            try:
                (result,) = await self.client.gather([inner], asynchronous=True)
            except BaseException as error:
                if outer.set_running_or_notify_cancel():
                    outer.set_exception(error)
            else:
                # From here on it cannot be cancelled.
                if outer.set_running_or_notify_cancel():
                    outer.set_result(result)

        self.client.loop.add_callback(relay)
        outer.add_done_callback(lambda _: inner.release())
        return outer


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
        raise InvalidModel(field="scheduler", rule=rule, value=address) from None
    client = _connected(address)
    try:
        _check_workers(client, address)
        yield Cluster(client)
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
