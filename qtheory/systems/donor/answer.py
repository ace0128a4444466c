"""From the stationary law of (N1, N2) to the measures, the same for every method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from qtheory.measures import Key, Table
from qtheory.models.donor import Donor
from qtheory.solution import Solution, Value
from qtheory.systems.donor.chain import Steady
from qtheory.systems.donor.numbers import Independent

Law: TypeAlias = Steady | Independent


def solution(
    model: Donor, *, law: Law, method: str, error: float, details: Mapping[str, Any] | None = None
) -> Solution:
    """The answer that `law` gives; `error` is the relative error of its mean numbers.

    Waiting is presence without being served: by preemption it may come in pieces. Flows give throughputs and
    Little's law responses; measures of a queue without arrivals are left out where they are times.
    """
    n1, n2 = law.mean_numbers
    server1, helps, home = law.busy_shares
    rates = model.arrival_rates
    (c1, c2), total = model.holding_costs, sum(model.arrival_rates)
    waiting1, waiting2 = max(0.0, n1 - server1 - helps), max(0.0, n2 - home)
    numbers = {"all": n1 + n2, "queue1": n1, "queue2": n2}
    queues = {"all": waiting1 + waiting2, "queue1": waiting1, "queue2": waiting2}
    flows = {"all": total, "queue1": rates[0], "queue2": rates[1]}
    donor = helps + home
    shares = {"all": (server1 + donor) / 2, "queue1": server1, "queue2": donor}
    rows: dict[Key, Value] = {}
    for scope, flow in flows.items():
        slack = error * numbers[scope]
        if flow > 0:
            rows["mean_response", scope] = Value(value=numbers[scope] / flow, error=slack / flow)
            rows["mean_wait", scope] = Value(value=queues[scope] / flow, error=slack / flow)
        rows["mean_number", scope] = Value(value=numbers[scope], error=slack)
        rows["mean_queue", scope] = Value(value=queues[scope], error=slack)
        rows["utilisation", scope] = Value(value=shares[scope], error=error * shares[scope])
        rows["throughput", scope] = Value(value=flow)
    cost = (c1 * n1 + c2 * n2) / total
    rows["cost", "all"] = Value(value=cost, error=error * cost)
    ordered = sorted(rows, key=lambda key: list(dict.fromkeys(k[0] for k in rows)).index(key[0]))
    steps = law.law.core.iterations if isinstance(law, Steady) else 0
    return Solution(
        model=model,
        method=method,
        measures=Table({key: rows[key] for key in ordered}),
        residual=law.residual,
        iterations=steps,
        details=details or {},
    )
