"""What the analytic side tells the simulation before it runs: what is wrong, how long, and what to skip."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING

from qtheory.models import Dispatcher, Donor, Flexible, Model, Network

if TYPE_CHECKING:
    from qsim.controls import Control

#: Jobs of a comparison and of a plain simulation, where the user names no number: about a second or two each.
COMPARISON_JOBS = {"dispatcher": 20_000_000, "donor": 8_000_000, "flexible": 20_000_000, "network": 4_000_000}
SIMULATION_JOBS = {"dispatcher": 10_000_000, "donor": 4_000_000, "flexible": 2_000_000, "network": 2_000_000}
#: Analytic methods that may take minutes: run when they are asked for, never just to stand beside the others.
SLOW_METHODS = frozenset({"exact", "chain"})
#: Relaxation times of a warm-up.
_RELAXATIONS = 5
#: Share of the wanted warm-up below which replications still remember that they began empty: two relaxation times of
#: five, after which the bias of a mean is below the scatter of 64 replications.
_SETTLED = 0.4


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


def wanted_warmup(model: Model, *, stationary: bool = False) -> int | None:
    """Jobs that a replication of any length should skip: five relaxation times, and at least a thousand.

    None where theory knows of none: infinitely many queues, traffic that cannot be carried.  A dispatcher that starts
    in its stationary state needs none, and one whose Group 0 does so only that of Group 1.
    """
    if stationary and isinstance(model, Dispatcher):
        return _group1_warmup(model)
    if isinstance(model, Flexible) and model.queues == "infinite":
        return None
    relaxation_jobs = import_module(f"qtheory.systems.{model.kind()}.relaxation").relaxation_jobs
    relaxation: float = relaxation_jobs(model)
    return int(max(1000.0, _RELAXATIONS * relaxation)) if math.isfinite(relaxation) else None


def _group1_warmup(model: Dispatcher) -> int:
    """What Group 1 needs where Group 0 starts in its stationary state: nothing if no killed jobs join it."""
    from qsim.lowering.dispatcher_start import joined_by_killed
    from qtheory.systems.dispatcher.relaxation import relaxation_jobs_of_groups

    return int(max(1000.0, _RELAXATIONS * relaxation_jobs_of_groups(model)[1])) if joined_by_killed(model) else 0


def warmup(model: Model, *, jobs: int | None, stationary: bool = False) -> int | None:
    """Jobs to skip in a replication that counts `jobs` (None: as many as it takes); None leaves it to the simulator.

    What theory wants, and never more than `jobs`; parallel queues, whose replications may count few jobs a queue, up
    to ten times as many and twenty a queue.  A network's policy may leave less spare capacity than the best one: there
    it is a quarter of the jobs at least.
    """
    wanted = wanted_warmup(model, stationary=stationary)
    if wanted is None or jobs is None:
        return wanted
    if isinstance(model, Flexible):
        assert isinstance(model.queues, int)
        return min(wanted, max(10 * jobs + 20 * model.queues, 1000))
    least = jobs // 4 if isinstance(model, Network) else 0
    return min(max(wanted, least), max(jobs, 1000))


def remark(model: Model, *, warmup: int, stationary: bool = False) -> str:
    """What is wrong with replications that skip `warmup` jobs; empty if nothing is."""
    needed = unsettled(model, warmup=warmup, stationary=stationary)
    if needed is None:
        return ""
    return (
        f"replications that skip {warmup:,} jobs have not forgotten their start: a warm-up takes {needed:,} jobs here"
    )


def unsettled(model: Model, *, warmup: int, stationary: bool = False) -> int | None:
    """The wanted warm-up where replications that skip `warmup` jobs still remember that they began empty, else None."""
    wanted = wanted_warmup(model, stationary=stationary)
    return wanted if wanted is not None and warmup < _SETTLED * wanted else None


def controls(model: Model) -> tuple[Control, ...]:
    """Control variates with their means, by the names of the simulator.

    Estimates may use them; a comparison with theory must not, since the means come from the laws' theory.
    """
    from validation.known_means import dispatcher_controls, donor_controls, flexible_controls, network_controls

    if isinstance(model, Dispatcher):
        return dispatcher_controls(model)
    if isinstance(model, Donor):
        return donor_controls(model)
    return flexible_controls(model) if isinstance(model, Flexible) else network_controls(model)
