"""Quantities of a network's run whose means are known, and those that go with each measure.

Every tick of the run is an arrival or a service that a server could do, each with the share of its rate, whatever the
policy: how often they came in the window says how lucky the draw was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qsim.estimate import Sample
from qsim.lowering.network_measures import Tally
from qsim.lowering.samples import ratio
from qtheory.measures import Key
from qtheory.models.network import Network

INTERARRIVAL = "interarrival"


def control_names(model: Network) -> tuple[str, ...]:
    """Time between arrivals, services that each server could do, shares of the classes if there are several."""
    shares = [f"share:{c.name}" for c in model.classes] if len(model.classes) > 1 else []
    return (INTERARRIVAL, *(f"services:{name}" for name in model.servers), *shares)


def controls_of(model: Network, key: Key) -> tuple[str, ...]:
    """Names of the controls of a measure, a fixed rule; throughputs and utilisations would merely repeat it.

    Arrivals go with everything, a server's services with its own measures and a class's share with the class's: all
    servers together would cost the usual number of replications more than they bring.
    """
    measure, scope = key[:2]
    if measure in ("throughput", "utilisation"):
        return ()
    own = (f"services:{scope}", f"share:{scope}")
    return (INTERARRIVAL, *(name for name in own if name in control_names(model)))


def control_samples(model: Network, tallies: Sequence[Tally], *, tick_rate: float) -> dict[str, Sample]:
    """Samples over the replications by name.

    interarrival : time between arrivals.
    services:NAME : services a unit of time that the server could do, were it never idle.
    share:NAME : share of the class among the arrivals.
    """
    time = np.array([tally.ticks for tally in tallies]) / tick_rate
    came = np.stack([tally.came for tally in tallies])
    ticked = np.stack([tally.ticked for tally in tallies])
    total = came.sum(axis=1)
    found = {INTERARRIVAL: ratio(time, total)}
    found |= {f"services:{name}": ratio(ticked[:, n], time) for n, name in enumerate(model.servers)}
    return found | {f"share:{c.name}": ratio(came[:, i], total) for i, c in enumerate(model.classes)}
