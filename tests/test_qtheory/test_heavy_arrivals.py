"""Times between arrivals without a second moment: said so, never garbage."""

from __future__ import annotations

import math

import mpmath
import pytest

import qtheory
from qtheory.models import Dispatcher, Exponential, Gamma, InvalidModel, Pareto

MODEL = Dispatcher(
    servers=(3, 4),
    time_limit=2.0,
    short_fraction=0.65,
    interarrival=Pareto(shape=1.5, minimum=0.4 / 3.0),
    service0=Exponential(mean=1.0),
    service1=Gamma(shape=2.0, scale=0.5),
)


def test_single_server_by_its_root():
    """GI/M/1: sigma = f(mu (1 - sigma)), E[W] = sigma / (mu (1 - sigma)); off by less than the claim."""
    model = MODEL.replace(servers=(1, 1), short_fraction=1.0, time_limit=math.inf, service0=Exponential(mean=0.3))
    low = 0.4 / 3.0

    def transform(s):
        return 1.5 * mpmath.expint(2.5, s * low)

    sigma = mpmath.findroot(lambda x: x - transform((1 - x) / 0.3), (0.7, 0.95), solver="anderson")
    exact = float(0.3 * sigma / (1 - sigma))
    found = qtheory.solve(model, method="mgc")["mean_wait", "group0"]
    assert abs(found.value - exact) <= found.error <= 0.02 * exact


@pytest.mark.parametrize(("method", "fraction"), [("mgc", 0.0), ("mgc", 0.65), ("mgc", 1.0), ("phase-type", 0.0)])
def test_every_value_is_a_number_and_the_lack_is_told(method, fraction):
    solution = qtheory.solve(MODEL.replace(short_fraction=fraction), method=method)
    assert any("interarrival has no second moment" in remark for remark in solution.details["remarks"])
    for value in solution.measures.values():
        assert math.isfinite(value.value)
        assert 0.0 <= value.error < math.inf
    waits = solution["mean_wait", "all"]
    assert waits.error >= 0.05 * waits.value


def test_exponential_service_times_do_not_excuse_the_roughest_method():
    with pytest.raises(InvalidModel) as raised:
        qtheory.solve(MODEL, method="mmc")
    assert raised.value.field == "interarrival"
