"""Replications on threads or on any executor: what is finished is kept, whatever ends the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from qsim.lower import Simulator

Tally = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, order=True, slots=True)
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

    def write(self, length: Length, index: int, tally: Tally) -> None:
        """Keep one, all of it or nothing."""


@dataclass(kw_only=True)
class Runner:
    """Runs replications of one simulator and holds the tallies of those that are finished, by length and index.

    A replication is a function of seed, index and length alone, so where and in which order it runs does not matter.
    `deadline` is an instant of `time.monotonic`; from then on no replication begins, and those that run are waited
    for: the run is `overdue`.  `report` is called in the calling thread after each finished replication; it finds the
    `length` that is being run, how many of it are `planned`, and the jobs `expected` to have been simulated then.
    """

    simulator: Simulator
    seed: int
    pool: Executor
    record: Record | None = None
    deadline: float | None = None
    report: Callable[[Runner], None] | None = None
    finished: dict[Length, dict[int, Tally]] = field(default_factory=dict)
    overdue: bool = False
    length: Length = Length(jobs=0, warmup=0)
    planned: int = 0
    expected: int = 0

    def run(self, length: Length, *, indices: Sequence[int]) -> None:
        """Run those of these replications that are not finished yet.

        When the work raises, what has not started is cancelled.
        """
        done = self.finished.setdefault(length, {})
        missing = [index for index in indices if index not in done]
        self.length, self.planned = length, len(indices)
        self.expected = self.simulated + len(missing) * length.simulated
        if self.record is not None:
            for index, tally in self.record.read(length, missing):
                self._take(length, index, tally)
        futures = {
            self.pool.submit(
                self.simulator.run, seed=self.seed, replication=index, jobs=length.jobs, warmup=length.warmup
            ): index
            for index in missing
            if index not in done
        }
        try:
            left = None if self.deadline is None else max(0.0, self.deadline - monotonic())
            try:
                self._collect(length, futures, as_completed(futures, timeout=left))
            except TimeoutError:
                if left is None:
                    raise
                self.overdue = True
                running = [future for future in futures if not future.cancel()]
                self._collect(length, futures, as_completed(running))
        except BaseException as error:
            for future in futures:
                future.cancel()
            if isinstance(error, KeyboardInterrupt):
                self._keep(length, futures)
            raise

    @property
    def simulated(self) -> int:
        """Jobs of all finished replications, warm-ups included."""
        return sum(len(done) * length.simulated for length, done in self.finished.items())

    def tallies(self, length: Length) -> list[Tally]:
        """Finished replications of one length, in index order."""
        done = self.finished.get(length, {})
        return [done[index] for index in sorted(done)]

    def _collect(self, length: Length, futures: dict[Future[Tally], int], stream: Iterable[Future[Tally]]) -> None:
        for future in stream:
            if futures[future] not in self.finished[length]:
                tally = future.result()
                if self.record is not None:
                    self.record.write(length, futures[future], tally)
                self._take(length, futures[future], tally)

    def _keep(self, length: Length, futures: dict[Future[Tally], int]) -> None:
        """What has been finished but not been looked at yet, without a word."""
        for future, index in futures.items():
            ended = future.done() and not future.cancelled() and future.exception() is None
            if ended and index not in self.finished[length]:
                self.finished[length][index] = future.result()
                if self.record is not None:
                    self.record.write(length, index, future.result())

    def _take(self, length: Length, index: int, tally: Tally) -> None:
        self.finished[length][index] = tally
        if self.report is not None:
            self.report(self)


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
        runner = Runner(simulator=simulator, seed=seed, pool=pool)
        runner.run(length, indices=indices)
        return runner.tallies(length)


def processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
