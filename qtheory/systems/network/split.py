"""The probabilities of a Bernoulli policy, whichever way they were given."""

from __future__ import annotations

from collections.abc import Mapping

from qtheory.models.base import require
from qtheory.models.network import Network
from qtheory.models.policies import Bernoulli


def split_of(model: Network) -> tuple[tuple[float, ...], ...]:
    """Probability of each route by class.  Raises `InvalidModel` if the policy leaves the split open."""
    policy = model.policy
    assert isinstance(policy, Bernoulli)
    rule = "is open: give the probabilities, or fill them in by with_static_split"
    require(bool(policy.split), field="policy.split", rule=rule)
    if isinstance(policy.split, Mapping):
        return tuple(policy.split.get(c.name, (1.0,)) for c in model.classes)
    return policy.split
