"""Networks that the tests of both roads share."""

from __future__ import annotations

import anchors
import numpy as np

from qtheory.models import Network, parse

FIGURES = {"fig1": anchors.NETWORK_FIG1, "fig3": anchors.NETWORK_FIG3}
PRIORITY = {"kind": "jsr", "sharing": "priority", "order": ["class2", "class1"]}
DOMINANT = {"kind": "jsr", "sharing": "dominant", "weights": {"alpha": 0.75, "beta": 0.75, "gamma": 0.75}}

#: Every policy with every sharing rule that goes with it.
POLICIES = [
    *({"kind": kind, "sharing": "random"} for kind in ("jsq", "jsr", "jsq-as")),
    {"kind": "jsr", "ties": "lowest"},
    {"kind": "jsq-as", "switch": False},
    {"kind": "jsq-as", "sharing": "longest"},
    {"kind": "jsq-as", "sharing": "shortest-downstream"},
    {"kind": "jsq", "sharing": "longest"},
    *({"kind": "jsr", "sharing": name} for name in ("longest", "shortest-downstream", "largest-differential")),
    PRIORITY,
    DOMINANT,
    {"kind": "maxweight"},
    {"kind": "maxweight", "ties": "lowest"},
    {"kind": "bernoulli", "split": [[0.3, 0.7], [0.6, 0.4]]},
    {"kind": "bernoulli", "split": [[0.3, 0.7], [0.6, 0.4]], "sharing": "longest"},
]


def name(policy):
    return "-".join(str(value) for key, value in policy.items() if key not in ("order", "weights", "split"))


def figure(which: str, *, rate: float, policy, classes=None) -> Network:
    """Figure 1 or 3 at this arrival rate of each class; `classes` keeps some of them."""
    drawn = FIGURES[which]
    kept = [row | {"rate": rate} for row in drawn["classes"]][slice(classes)]
    return parse({"kind": "network", "servers": drawn["servers"], "classes": kept, "policy": policy})


def small(policy, *, rates=(0.35, 0.3)) -> Network:
    """Two classes of two routes on three servers: five places, two of them duplicates."""
    classes = [
        {"rate": rates[0], "routes": [["a", "b"], ["c"]]},
        {"rate": rates[1], "routes": [["b"], ["c"]]},
    ]
    return parse({"kind": "network", "servers": {"a": 1.0, "b": 0.9, "c": 0.8}, "classes": classes, "policy": policy})


def random_network(rng: np.random.Generator, *, policy, load: float | None = None) -> Network:
    """2 to 7 servers, 1 to 3 classes of 1 to 3 routes along increasing servers; `load` sets theta* = 1 / load."""
    from qtheory.systems.network import with_load
    from qtheory.systems.network.stabilizability import stabilizability

    names = [f"s{n}" for n in range(rng.integers(2, 8))]
    classes = []
    for _ in range(rng.integers(1, 4)):
        routes: list[list[str]] = []
        for _ in range(rng.integers(1, 4)):
            length = rng.integers(1, len(names) + 1)
            route = [names[n] for n in np.sort(rng.choice(len(names), length, replace=False))]
            if route not in routes:
                routes.append(route)
        classes.append({"rate": float(rng.uniform(0.1, 1.0)), "routes": routes})
    servers = {name: float(rng.uniform(0.2, 2.0)) for name in names}
    model = parse({"kind": "network", "servers": servers, "classes": classes, "policy": policy})
    assert isinstance(model, Network)
    return model if load is None else with_load(model, factor=load * stabilizability(model).theta_star)
