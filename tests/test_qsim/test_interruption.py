"""Ctrl-C: what is finished is given, nobody waits for the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import qsim
from qsim.estimate import Sample
from qsim.lower import Findings
from qsim.lowering.dispatcher import DispatcherSimulator
from qsim.replications import Length, Runner, workers
from qtheory.models import Dispatcher, Exponential

E = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=2.0),
)


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[int, int], bool]], None]]:
    """Hold back the replications (index, jobs) that a rule picks until the test is over."""
    gate = threading.Event()
    run = DispatcherSimulator.run

    def install(rule: Callable[[int, int], bool]) -> None:
        def held(self, *, seed: int, replication: int, jobs: int, warmup: int) -> np.ndarray:
            if rule(replication, jobs):
                gate.wait(60)
            return run(self, seed=seed, replication=replication, jobs=jobs, warmup=warmup)

        monkeypatch.setattr(DispatcherSimulator, "run", held)

    yield install
    gate.set()


def stop_after(count: int):
    """A progress function that is interrupted, as Ctrl-C would, when so many replications are finished."""

    def progress(finished: int, _: int) -> None:
        if finished == count:
            raise KeyboardInterrupt

    return progress


def test_an_interrupted_run_gives_what_is_finished(hold) -> None:
    """The first five replications in one thread are those of a plain run of five."""
    options = {"seed": 2, "warmup": 100, "threads": 1}
    whole = qsim.simulate(E, jobs=50_000, replications=5, **options)
    hold(lambda index, jobs: index >= 5)
    begin = time.monotonic()
    for count in (5, 3):
        with pytest.raises(qsim.Interrupted) as stop:
            qsim.simulate(E, jobs=80_000, replications=8, progress=stop_after(count), **options)
        estimate = stop.value.estimate
        assert estimate is not None
        assert estimate.status == "interrupted"
        assert count <= estimate.replications <= 5
        assert estimate.jobs == 10_000 * estimate.replications
        if count == 5:
            assert estimate.measures.to_list() == whole.measures.to_list()
    assert time.monotonic() - begin < 30


def test_an_interrupted_run_is_an_interrupt_to_callers_that_know_nothing() -> None:
    with pytest.raises(KeyboardInterrupt):
        qsim.simulate(E, jobs=80_000, replications=8, progress=stop_after(1))


def test_a_precise_run_gives_its_best_length(hold) -> None:
    """Interrupted when a longer length has one replication: the trial run, which has an interval, counts."""

    def watch(standing: qsim.Standing) -> None:
        if standing.jobs > 32 * 4505:
            raise KeyboardInterrupt

    hold(lambda index, jobs: jobs > 4096 and index > 0)
    with pytest.raises(qsim.Interrupted) as stop:
        qsim.simulate(E, precision=0.003, watch=watch, threads=1)
    estimate = stop.value.estimate
    assert (estimate.status, estimate.replications, estimate.jobs) == ("interrupted", 32, 32 * 4096)
    assert estimate.details["precision"]["reached"] > 0.003


class Slow:
    """A simulator whose first replication is quick and whose others wait for `gate`."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> np.ndarray:
        if replication:
            self.gate.wait(60)
        return np.array([float(replication)])

    def default_warmup(self, *, jobs: int) -> int:
        return 0

    def summarise(self, tallies: Sequence[np.ndarray]) -> Findings:
        return Findings(samples={("mean_response", "all"): Sample(values=np.concatenate(list(tallies)))})


def test_nobody_waits_for_replications_that_run() -> None:
    slow = Slow()

    def report(runner: Runner) -> None:
        raise KeyboardInterrupt

    def run() -> None:
        with workers(threads=2, executor=None) as pool:
            runner.pool = pool
            runner.run(Length(jobs=1, warmup=0), indices=range(50))

    runner, begin = Runner(simulator=slow, seed=1, pool=ThreadPoolExecutor(1), report=report), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert time.monotonic() - begin < 30
    assert not slow.gate.is_set()
    assert sum(len(done) for done in runner.finished.values()) == 1
    slow.gate.set()


def test_other_errors_are_waited_for_and_cancel_the_rest() -> None:
    ran: list[int] = []

    class Failing(Slow):
        def run(self, *, seed: int, replication: int, jobs: int, warmup: int) -> np.ndarray:
            ran.append(replication)
            raise ValueError(f"replication {replication}")

    with pytest.raises(ValueError, match="replication"), workers(threads=1, executor=None) as pool:
        Runner(simulator=Failing(), seed=1, pool=pool).run(Length(jobs=1, warmup=0), indices=range(1000))
    assert len(ran) < 1000


def test_a_timeout_of_the_work_is_an_error_of_its_own() -> None:
    class Pool:
        def submit(self, function, /, **arguments):
            future: Future = Future()
            future.set_exception(TimeoutError("the work's own"))
            return future

    with pytest.raises(TimeoutError, match="own"):
        Runner(simulator=Slow(), seed=1, pool=Pool()).run(Length(jobs=1, warmup=0), indices=range(3))
