"""What `laws.check` refuses, and that a law missing from this room is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import qtheory
from qtheory import laws
from qtheory.models import (
    Deterministic,
    Dispatcher,
    Empirical,
    Exponential,
    Flexible,
    InvalidModel,
    Mixture,
    Pareto,
    Scipy,
)
from qtheory.models.base import Positive, Spec

MODEL = Dispatcher(
    servers=(3, 4),
    time_limit=3.0,
    short_fraction=0.65,
    interarrival=Exponential(mean=1 / 3),
    service0=Exponential(mean=1.2),
    service1=Exponential(mean=2.0),
)


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"service0": Scipy(name="norm")}, "service0.name", "got norm"),
        ({"service1": Scipy(name="gamma", parameters={"a": 1.0, "b": 2.0})}, "service1.parameters.b", "unknown"),
        (
            {"service1": Mixture(weights=[1.0, 0.0], laws=[Exponential(mean=1.0), Scipy(name="x")])},
            "service1.laws.1.name",
            "continuous",
        ),
        ({"interarrival": Deterministic(value=0.0)}, "interarrival", "always 0"),
        ({"service0": Deterministic(value=0.0)}, "service0", "always 0"),
        ({"interarrival": Pareto(shape=1.0, minimum=1.0)}, "interarrival", "finite mean"),
        ({"interarrival": Scipy(name="halfcauchy")}, "interarrival", "finite mean"),
    ],
)
def test_refused(changes, field, words):
    with pytest.raises(InvalidModel, match=words) as caught:
        laws.check(MODEL.replace(**changes))
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


def test_accepted():
    laws.check(MODEL)
    laws.check(MODEL.replace(service0=Pareto(shape=0.5, minimum=1.0)))  # the limit cuts it
    laws.check(MODEL.replace(service1=Scipy(name="lomax", parameters={"c": 2.0})))
    laws.check(MODEL.replace(service1=Empirical(values=[0.0, 0.0, 1.0])))


def test_other_systems_are_checked_too():
    model = Flexible(queues=2, load=0.5, flexible_fraction=0.5, choices=2, service=Scipy(name="cauchy"))
    with pytest.raises(InvalidModel) as caught:
        laws.check(model)
    assert caught.value.field == "service.name"


class Toy(Spec, frozen=True, kw_only=True, tag="toy"):
    """A law that this room has not been told of."""

    mean: Positive


def test_missing_law_is_named():
    with pytest.raises(TypeError, match="'toy'"):
        laws.mean(Toy(mean=1.0))


@pytest.mark.parametrize("size", [1e-300, 1e-100, 1e100, 1e300])
@pytest.mark.parametrize("law", [lambda x: Exponential(mean=x), lambda x: Deterministic(value=x)])
@pytest.mark.parametrize("field", ["interarrival", "service0", "service1"])
def test_times_whose_powers_overflow_are_refused(size: float, law: Callable[[float], Spec], field: str) -> None:
    with pytest.raises(InvalidModel, match="another unit of time") as caught:
        laws.check(MODEL.replace(**{field: law(size)}))
    assert caught.value.field == field


def test_a_limit_of_no_time_is_refused() -> None:
    laws.check(MODEL.replace(time_limit=1e-60))
    with pytest.raises(InvalidModel, match="time_limit: must be at least 1e-60, got 1e-300"):
        laws.check(MODEL.replace(time_limit=1e-300))


@pytest.mark.parametrize("size", [1e-50, 1e50])
def test_a_unit_of_time_scales_the_answer(size: float) -> None:
    scaled = MODEL.replace(
        time_limit=3.0 * size,
        interarrival=Exponential(mean=size / 3),
        service0=Exponential(mean=1.2 * size),
        service1=Exponential(mean=2.0 * size),
    )
    laws.check(scaled)
    one, other = (qtheory.solve(model)["mean_response", "all"].value for model in (MODEL, scaled))
    assert other == pytest.approx(one * size, rel=1e-6)
