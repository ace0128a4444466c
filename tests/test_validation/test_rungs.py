"""All analytic methods of a model in one table with the simulation."""

from __future__ import annotations

import anchors
import pytest

import validation
from qtheory.models import Pareto, parse
from validation import rungs

E = parse(anchors.EXAMPLE_E_MODEL)


@pytest.fixture(scope="module")
def compared():
    return validation.compare(E, jobs=64_000, replications=32, rungs=True)


def test_every_method_has_its_row_with_time_and_difference(compared):
    columns, rows = rungs.beside_simulation(compared)
    assert columns == ("method", "time", *(f"mean_response/{scope}" for scope in ("all", "short", "long", "killed")))
    assert [row[0] for row in rows] == ["mmc", "mgc", "phase-type", "simulation"]
    assert all(row[1].endswith("s") for row in rows)
    simulated = compared["mean_response", "all"].simulated
    value, difference = rows[2][2].split(" (")
    assert float(difference.split(" ")[0]) == pytest.approx(100 * (float(value) / simulated - 1), rel=0.1, abs=0.01)


def test_a_refusal_says_why():
    heavy = E.replace(interarrival=Pareto(shape=1.5, minimum=1 / 9))
    compared = validation.compare(heavy, jobs=32_000, replications=32, rungs=True)
    (refusal,) = [row for row in rungs.beside_simulation(compared)[1] if row[0].startswith("mmc")]
    assert "must have a second moment" in refusal[0]
    assert set(refusal[1:]) == {"-"}
