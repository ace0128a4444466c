"""Replications on threads or on any executor: what is finished is kept, whatever ends the run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qsim.lower import Simulator

Tally = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Length:
    """How long every replication of one stage is: jobs counted, and jobs skipped before them."""

    jobs: int
    warmup: int

    @property
    def simulated(self) -> int:
        """Jobs simulated in one replication."""
        return self.jobs + self.warmup


class Record(Protocol):
    """Where finished replications are kept beyond this run."""

    def read(self, length: Length, indices: Sequence[int]) -> Iterator[tuple[int, Tally]]:
        """Those of these replications that are there already."""

    def write(self, length: Length, tallies: Mapping[int, Tally]) -> None:
        """Keep these, all of them or none."""


@dataclass(kw_only=True)
class Runner:
    """Runs replications of one simulator and holds the tallies of those that are finished, by length and index.

    A replication is a function of seed, index and length alone, so where and in which order it runs does not matter.
    `deadline` is an instant of `time.monotonic`; from then on no replication begins, and those that run are waited
    for: the run is `overdue`.  `report` is called in the calling thread after each finished replication; it finds the
    `length` that is being run, how many of it are `planned`, and the jobs `expected` to have been simulated then.
    At most `window` replications are in the pool's hands at a time.
    """

    simulator: Simulator
    seed: int
    pool: Executor
    record: Record | None = None
    deadline: float | None = None
    report: Callable[[Runner], None] | None = None
    finished: dict[Length, dict[int, Tally]] = field(default_factory=dict)
    overdue: bool = False
    window: int = 64
    length: Length = Length(jobs=0, warmup=0)
    planned: int = 0
    expected: int = 0

    def run(self, length: Length, *, indices: Sequence[int]) -> None:
        """Run those of these replications that are not finished yet.

        When anything is raised, what has not started is cancelled, and what is finished is kept.
        """
        done = self.finished.setdefault(length, {})
        missing = [index for index in indices if index not in done]
        self.length, self.planned = length, len(indices)
        self.expected = self.simulated + len(missing) * length.simulated
        if self.record is not None:
            for index, tally in self.record.read(length, missing):
                self._take(length, {index: tally})
        waiting = deque(index for index in missing if index not in done)
        pending: dict[Future[Tally], int] = {}
        try:
            while waiting or pending:
                while waiting and len(pending) < self.window:
                    index = waiting.popleft()
                    pending[self._submit(length, index)] = index
                ended = wait(pending, timeout=self._left(), return_when=FIRST_COMPLETED).done
                self._collect(length, ended, pending)
                if (waiting or pending) and self._left() == 0.0:
                    self.overdue = True
                    waiting.clear()
                    pending = {future: index for future, index in pending.items() if not future.cancel()}
        except BaseException as error:
            for future in pending:
                future.cancel()
            if isinstance(error, KeyboardInterrupt):
                self.report = None
                self._collect(length, [future for future in pending if _succeeded(future)], pending)
            raise

    def _submit(self, length: Length, index: int) -> Future[Tally]:
        return self.pool.submit(
            self.simulator.run, seed=self.seed, replication=index, jobs=length.jobs, warmup=length.warmup
        )

    def _left(self) -> float | None:
        """Seconds until the deadline; None without one, and once it has passed."""
        return None if self.deadline is None or self.overdue else max(0.0, self.deadline - monotonic())

    def _collect(self, length: Length, ended: Iterable[Future[Tally]], pending: dict[Future[Tally], int]) -> None:
        """Take the replications that have ended out of those that are pending, in index order."""
        found = {pending[future]: future for future in ended}
        tallies = {index: found[index].result() for index in sorted(found)}
        if tallies and self.record is not None:
            self.record.write(length, tallies)
        self._take(length, tallies)
        for future in found.values():
            del pending[future]

    @property
    def simulated(self) -> int:
        """Jobs of all finished replications, warm-ups included."""
        return sum(len(done) * length.simulated for length, done in self.finished.items())

    def tallies(self, length: Length) -> list[Tally]:
        """Finished replications of one length, in index order."""
        done = self.finished.get(length, {})
        return [done[index] for index in sorted(done)]

    def _take(self, length: Length, tallies: Mapping[int, Tally]) -> None:
        for index, tally in tallies.items():
            self.finished[length][index] = tally
            if self.report is not None:
                self.report(self)


def _succeeded(future: Future[Tally]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


@contextmanager
def workers(*, threads: int | None, executor: Executor | None) -> Iterator[Executor]:
    """The executor given, or threads of our own.

    Threads that run are waited for, except after Ctrl-C: a replication cannot be stopped midway, so it is left behind.
    """
    if executor is not None:
        yield executor
        return
    pool = ThreadPoolExecutor(threads or processors(), thread_name_prefix="qsim")
    try:
        yield pool
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def window(*, threads: int | None, executor: Executor | None) -> int:
    """Replications to hand over at a time; an executor may know (`window`) how many keep all its workers busy."""
    if executor is None:
        return max(64, 4 * (threads or processors()))
    return int(getattr(executor, "window", 128))


def run_replications(
    simulator: Simulator,
    *,
    indices: Sequence[int],
    jobs: int,
    seed: int,
    warmup: int,
    threads: int | None = None,
    executor: Executor | None = None,
) -> list[Tally]:
    """The tallies of some replications, in index order whatever the order in which they finish."""
    length = Length(jobs=jobs, warmup=warmup)
    with workers(threads=threads, executor=executor) as pool:
        runner = Runner(simulator=simulator, seed=seed, pool=pool, window=window(threads=threads, executor=executor))
        runner.run(length, indices=indices)
        return runner.tallies(length)


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
