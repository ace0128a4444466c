"""What the analytic side tells the simulation before it runs: what is wrong, how long, and what to skip."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from qtheory.models import Dispatcher, Donor, Model, Network

if TYPE_CHECKING:
    from qsim.controls import Control

#: Jobs of a comparison and of a plain simulation, where the user names no number: about a second or two each.
COMPARISON_JOBS = {"dispatcher": 20_000_000, "donor": 8_000_000, "flexible": 20_000_000, "network": 4_000_000}
SIMULATION_JOBS = {"dispatcher": 10_000_000, "donor": 4_000_000, "flexible": 2_000_000, "network": 2_000_000}
#: Analytic methods that may take minutes: run when they are asked for, never just to stand beside the others.
SLOW_METHODS = frozenset({"exact", "chain"})


def check(model: Model) -> Model:
    """The model with its laws checked, and with the static split filled in where a network's policy leaves it open.

    Raises `InvalidModel` with field, rule and value.
    """
    from qtheory import laws

    laws.check(model)
    if isinstance(model, Network):
        complete = import_module("qtheory.systems.network").with_static_split
        completed: Model = complete(model)
        return completed
    return model


def check_stable(model: Model) -> None:
    """Raise `Unstable`, naming the group and its load, when the system has no steady state."""
    import_module(f"qtheory.systems.{model.kind()}.stability").check_stable(model)


def comparison_jobs(model: Model) -> int:
    """Jobs of a comparison where the user names no number."""
    return COMPARISON_JOBS[model.kind()]


def simulation_jobs(model: Model) -> int:
    """Jobs of a plain simulation where the user names no number."""
    return SIMULATION_JOBS[model.kind()]


def warmup(model: Model, *, jobs: int, start: str = "idle") -> int | None:
    """Jobs to skip in a replication that counts `jobs`; None leaves it to the simulator's own rule.

    Five relaxation times of the slower queue, 2 P / d^2 for reflected Brownian motion with work variance rate P and
    spare capacity d, and never more than `jobs`; a dispatcher also gets the time to fill both groups.  One that starts
    in its stationary state needs none, and one whose Group 0 does so only that of Group 1.
    """
    if start == "stationary" and isinstance(model, Dispatcher):
        from qsim.lowering.dispatcher_start import joined_by_killed
        from qtheory.systems.dispatcher.relaxation import relaxation_jobs_of_groups

        if not joined_by_killed(model):
            return 0
        return int(min(max(1000.0, 5 * relaxation_jobs_of_groups(model)[1]), max(jobs, 1000)))
    if not isinstance(model, (Dispatcher, Donor)):
        return None
    relaxation_jobs = import_module(f"qtheory.systems.{model.kind()}.relaxation").relaxation_jobs
    return int(min(max(1000.0, 5 * relaxation_jobs(model)), max(jobs, 1000)))


def controls(model: Model) -> tuple[Control, ...]:
    """Control variates with their means, by the names of the simulator; none for a kind that has none.

    Estimates may use them; a comparison with theory must not, since the means come from the laws' theory.
    """
    if not isinstance(model, Dispatcher):
        return ()
    from validation.known_means import dispatcher_controls

    return dispatcher_controls(model)
