"""Runs that go on until an interval is narrow enough, or a budget ends.

A trial run of short replications sets the length of a replication once; whole replications of that length, all
independent, are then added in rounds until the interval is met (fixed-width intervals by sequential sampling: Chow
and Robbins, Ann. Math. Statist. 36, 1965, 457-462; for relative precision Law and Kelton, Simulation Modeling and
Analysis, section 9.4).  No look rests on fewer replications than asked for, and the first look at a new length comes
where the trial run expects the last: stopping early because the standard error happens to be small then costs little
coverage.  With normal means of replications 95 % intervals cover 94.2 to 95 %, whatever the precision.

Replications of one length only are ever put together; the trial run is dropped when a longer length is chosen
(replication k meets the same jobs again).  Lengths and rounds depend on the tallies alone, never on threads or time,
unless a time budget is set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic

from qsim.estimate import Figure
from qsim.lower import Findings
from qsim.replications import Length, Runner
from qtheory.measures import Key
from qtheory.models.errors import InvalidModel
from qtheory.models.files import Model

#: A length is chosen so that about half to all of `PLANNED` replications are needed; a run that turns out to need
#: more than `CROWD` of its length starts again with longer ones.
PLANNED, CROWD = 64, 128
#: Replications are added in groups of so many, a little more than seem to be needed.
GROUP, MARGIN = 8, 1.05
#: Fewer replications do not carry a sequential rule.
LEAST_REPLICATIONS = 16
#: Jobs counted in a trial replication; more if its warm-up is long.
TRIAL_JOBS = 4096
#: A network whose verdict of stability is still open runs on up to so many jobs.
VERDICT_JOBS = 8_000_000


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """What a run may use: jobs simulated in all (trial run and warm-ups included), bytes of tallies held at once, and
    the instant of `time.monotonic` at which its time ends.
    """

    jobs: int
    memory: int
    deadline: float | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Where a run ended: the length that counts and how many replications of it, what they say, and the budget that
    ended it, if one did."""

    length: Length
    count: int
    findings: Findings
    status: str = "ok"
    budget: str = ""


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Replications of one length, as many as the next look wants."""

    length: Length
    count: int


def goal(model: Model) -> Key:
    """The measure whose relative half-width is the precision of a run."""
    return ("mean_number" if model.kind() == "network" else "mean_response", "all")


def relative(figure: Figure | None) -> float | None:
    """Half-width over value, infinite where there is no interval; None where there is no figure."""
    if figure is None:
        return None
    if not (math.isfinite(figure.value) and math.isfinite(figure.half_width)) or figure.value == 0:
        return math.inf
    return figure.half_width / abs(figure.value)


@dataclass(kw_only=True)
class Pursuit:
    """One run towards a precision.

    `figure` reads the figure wanted from findings; `warmup` is the rule from jobs counted to jobs skipped.
    """

    runner: Runner
    figure: Callable[[Findings], Figure | None]
    precision: float
    budgets: Budgets
    replications: int
    warmup: Callable[[int], int]

    def carry_out(self) -> Outcome:
        """Run until the goal is met or a budget ends."""
        stage, start = self._trial(), monotonic()
        while True:
            self.runner.run(stage.length, indices=range(stage.count))
            if self.runner.overdue:
                return so_far(self.runner, status="budget", budget="time")
            tallies = self.runner.tallies(stage.length)
            findings = self.runner.simulator.summarise(tallies)
            outcome = Outcome(length=stage.length, count=stage.count, findings=findings)
            reached = relative(self.figure(findings))
            if reached is None:
                # A network that is not stable has its verdict; anything else does not determine what was asked.
                return outcome if "stability" in findings.details else replace(outcome, status="undetermined")
            wanted = self._wanted(stage, reached, findings)
            if wanted is None:
                return outcome
            speed = self.runner.simulated / max(monotonic() - start, 1e-6)
            stage, budget = self._affordable(stage, wanted, held=sum(tally.nbytes for tally in tallies), speed=speed)
            if budget:
                return replace(outcome, status="budget", budget=budget)

    def _length(self, jobs: int) -> Length:
        return Length(jobs=jobs, warmup=self.warmup(jobs))

    def _trial(self) -> Stage:
        """Short replications, with a warm-up of at most half of what they count."""
        jobs = TRIAL_JOBS
        while self.warmup(jobs) > jobs // 2:
            jobs *= 2
        stage = Stage(length=self._length(jobs), count=self.replications)
        cost = stage.count * stage.length.simulated
        if cost > self.budgets.jobs:
            rule = f"must cover a trial run of {cost} jobs, warm-ups included"
            raise InvalidModel(field="job_budget", rule=rule, value=self.budgets.jobs)
        return stage

    def _wanted(self, stage: Stage, reached: float, findings: Findings) -> Stage | None:
        """What to run next if nothing limits it; None when the goal is met."""
        jobs, count = stage.length.jobs, stage.count
        if reached <= self.precision:
            if findings.details.get("stability") == "undecided" and 2 * jobs * self.replications <= VERDICT_JOBS:
                return Stage(length=self._length(2 * jobs), count=self.replications)
            return None
        # A trial run says little about a need a thousand times its own length.
        needed = count * min((reached / self.precision) ** 2, 1024.0)
        if needed > CROWD:
            factor = 2 ** math.ceil(math.log2(needed / PLANNED))
            return Stage(
                length=self._length(factor * jobs), count=max(self.replications, in_groups(MARGIN * needed / factor))
            )
        return Stage(length=stage.length, count=max(count + GROUP, min(2 * count, in_groups(MARGIN * needed))))

    def _affordable(self, stage: Stage, wanted: Stage, *, held: int, speed: float) -> tuple[Stage, str]:
        """As much of `wanted` as the budgets allow, or the name of the budget that ended; `speed` in jobs a second.

        A longer length is begun only where enough is left to make more of it than of the present one.
        """
        left, seconds = float(self.budgets.jobs - self.runner.simulated), math.inf
        if self.budgets.deadline is not None:
            seconds = self.budgets.deadline - monotonic()
            if seconds <= 0:
                return stage, "time"
        length, least = wanted.length, self.replications
        while length.jobs > stage.length.jobs and least * length.simulated > min(left, seconds * speed):
            length = self._length(length.jobs // 2)
        if length == wanted.length and length != stage.length:
            return Stage(length=length, count=min(wanted.count, int(left // length.simulated))), ""
        if length.jobs >= 4 * stage.length.jobs:
            return Stage(length=length, count=least), ""
        each = max(1, held // stage.count)
        count = wanted.count if wanted.length == stage.length else 2 * stage.count
        for budget, most in (
            ("jobs", stage.count + int(left // stage.length.simulated)),
            ("memory", self.budgets.memory // each),
        ):
            count = min(count, most)
            if count <= stage.count:
                return stage, budget
        return Stage(length=stage.length, count=count), ""


def so_far(runner: Runner, *, status: str, budget: str = "") -> Outcome:
    """What the finished replications of one length say: the one with the most jobs that gives intervals, if any does.

    For a run that ended before its plan did; at least one replication is finished.
    """
    finished = {length: len(done) for length, done in runner.finished.items() if done}
    length = max(finished, key=lambda length: (finished[length] > 1, finished[length] * length.jobs))
    findings = runner.simulator.summarise(runner.tallies(length))
    return Outcome(length=length, count=finished[length], findings=findings, status=status, budget=budget)


def in_groups(count: float) -> int:
    """The next multiple of `GROUP`."""
    return GROUP * math.ceil(count / GROUP)
