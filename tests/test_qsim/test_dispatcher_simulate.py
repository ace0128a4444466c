"""Steady state of the dispatcher against closed forms and recorded truths; options, bits, scopes.

Comparisons are Student tests over 32 replications at a false-alarm rate of 1e-8 each (`calibrated`), each with the
relative error it would detect asserted beside it.
"""

from __future__ import annotations

import json
import math
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import anchors
import numpy as np
import pytest
from calibrated import assert_figure_agrees, critical_value
from shared_data import SHARED, needs_shared

import qsim
from qsim.lower import Options, lower
from qtheory.models import Deterministic, Dispatcher, Exponential, Gamma, Hyperexponential, InvalidModel, Pareto, parse

EXAMPLE_E = parse(anchors.EXAMPLE_E_MODEL)


def single_group(law, *, load: float, servers: int) -> Dispatcher:
    """All jobs go to Group 1."""
    return Dispatcher(
        servers=(1, servers),
        time_limit=1.0,
        short_fraction=0.0,
        interarrival=Exponential(mean=1 / (load * servers)),
        service0=Exponential(mean=1.0),
        service1=law,
    )


def test_mm1() -> None:
    """Response is exponential with rate mu - lambda; wait is 0 with probability 1 - rho."""
    estimate = qsim.simulate(single_group(Exponential(mean=1.0), load=0.6, servers=1), jobs=1_600_000, at=(5.0,))
    assert_figure_agrees(estimate, ("mean_response", "all"), 2.5, power=0.06)
    assert_figure_agrees(estimate, ("mean_number", "all"), 1.5, power=0.06)
    assert_figure_agrees(estimate, ("mean_queue", "all"), 0.9, power=0.09)
    assert_figure_agrees(estimate, ("utilisation", "group1"), 0.6, power=0.02)
    assert_figure_agrees(estimate, ("throughput", "all"), 0.6, power=0.02)
    assert_figure_agrees(estimate, ("wait_probability", "all"), 0.6, power=0.02)
    assert_figure_agrees(estimate, ("tail_response", "all", 5.0), math.exp(-2.0), power=0.1)
    for level in (0.5, 0.9, 0.95, 0.99):
        quantile = -math.log(1 - level) / 0.4
        assert_figure_agrees(estimate, (f"p{100 * level:.0f}_response", "all"), quantile, power=0.15)
    assert_figure_agrees(estimate, ("p90_wait", "long"), math.log(6.0) / 0.4, power=0.15)
    assert estimate["p50_response", "all"].value == estimate["p50_response", "long"].value


@pytest.mark.parametrize(
    ("law", "scv"),
    [
        (Deterministic(value=1.0), 0.0),
        (Gamma(shape=0.5, scale=2.0), 2.0),
        (Hyperexponential(probabilities=(0.5, 0.5), means=(0.5, 1.5)), 2 * 0.5 * (0.25 + 2.25) - 1),
    ],
)
def test_mg1(law, scv: float) -> None:
    """Pollaczek-Khinchine: E[W] = rho (1 + scv) / (2 (1 - rho)) for mean service 1."""
    estimate = qsim.simulate(single_group(law, load=0.5, servers=1), jobs=1_000_000, means_only=True)
    assert_figure_agrees(estimate, ("mean_wait", "all"), 0.5 * (1 + scv), power=0.12)


@pytest.mark.parametrize("servers", [2, 5, 10, 40])
def test_mmc(servers: int) -> None:
    """Erlang C from its recursion, for every structure in which servers stand."""
    load = 0.8 * servers
    blocking = 1.0
    for k in range(1, servers + 1):
        blocking = load * blocking / (k + load * blocking)
    waiting = blocking / (1 - 0.8 * (1 - blocking))
    estimate = qsim.simulate(single_group(Exponential(mean=1.0), load=0.8, servers=servers), jobs=2_000_000)
    assert_figure_agrees(estimate, ("wait_probability", "all"), waiting, power=0.25)
    assert_figure_agrees(estimate, ("mean_wait", "all"), waiting / (0.2 * servers), power=0.4)
    assert_figure_agrees(estimate, ("mean_queue", "group1"), waiting * 0.8 / 0.2, power=0.4)


@pytest.mark.parametrize("servers", [(3, 4), (4, 3)])
def test_example_e(servers) -> None:
    estimate = qsim.simulate(EXAMPLE_E.replace(servers=servers), jobs=4_000_000)
    truth = anchors.EXAMPLE_E_RESPONSE[servers]
    assert_figure_agrees(estimate, ("mean_response", "all"), truth.value, known_within=truth.within, power=0.12)
    kills = anchors.EXAMPLE_E_KILL_PROBABILITY.value
    assert_figure_agrees(estimate, ("kill_probability", "group0"), kills, power=0.02)
    assert_figure_agrees(estimate, ("kill_probability", "all"), 0.65 * kills, power=0.02)


def test_example_d() -> None:
    """The design problem with its heavy tails."""
    estimate = qsim.simulate(parse(anchors.EXAMPLE_D_MODEL), jobs=4_000_000, means_only=True)
    for (n0, scope), truth in anchors.EXAMPLE_D_RESPONSE.items():
        if n0 == 4:
            assert_figure_agrees(estimate, ("mean_response", scope), truth.value, known_within=truth.within, power=0.1)


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("place", range(24))
def test_recorded_truths(place: int) -> None:
    """Means, quantiles and utilisations of 24 systems, each comparison within its stated half-width."""
    system = json.loads((SHARED / "anchors" / "dispatcher.json").read_text())[place]
    model = parse(system["model"])
    estimate = qsim.simulate(model, jobs=16_000_000, warmup=max(20_000, 100 * sum(model.servers)))
    for measure, rows in system["truth"].items():
        scopes = rows if isinstance(rows, dict) else {"group0": rows}
        for scope, (value, half_width, *bin_width) in scopes.items():
            if (measure, scope) in estimate.measures:
                figure = estimate[measure, scope]
                within = 3 * half_width + sum(bin_width)
                limit = critical_value(estimate.replications) * figure.se
                assert abs(figure.value - value) <= limit + within, (system["name"], measure, scope, figure, value)


def test_the_same_bits_wherever_it_runs() -> None:
    options = {"jobs": 20_000, "replications": 6, "seed": 7, "warmup": 500}
    one = qsim.simulate(EXAMPLE_E, threads=1, **options)
    many = qsim.simulate(EXAMPLE_E, threads=4, **options)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        other = qsim.simulate(EXAMPLE_E, executor=pool, **options)
    assert one.measures.to_list() == many.measures.to_list() == other.measures.to_list()
    alone = lower(EXAMPLE_E, options=Options()).run(seed=7, replication=3, jobs=3334, warmup=500)
    again = pickle.loads(pickle.dumps(lower(EXAMPLE_E, options=Options())))
    assert np.array_equal(alone, again.run(seed=7, replication=3, jobs=3334, warmup=500))


def test_designs_see_the_same_jobs() -> None:
    """With servers for all, responses are requirements: the same whatever the numbers of servers and the limit."""
    plenty = EXAMPLE_E.replace(time_limit=1e3)
    options = {"jobs": 30_000, "replications": 2, "warmup": 100, "means_only": True}
    found = [
        qsim.simulate(plenty.replace(servers=servers), **options)["mean_response", "all"].value
        for servers in ((60, 90), (90, 60), (500, 500))
    ]
    assert found == pytest.approx([found[0]] * 3, rel=1e-12)


def test_means_do_not_depend_on_what_else_is_measured() -> None:
    options = {"jobs": 30_000, "replications": 4, "warmup": 100}
    few, all_of_it = (qsim.simulate(EXAMPLE_E, means_only=only, **options) for only in (True, False))
    for key in few.measures:
        assert few[key] == all_of_it[key]
    assert ("p95_response", "all") not in few.measures
    assert set(all_of_it.distributions) == {"all", "short", "long", "killed"}
    assert all_of_it.distributions["all"].total == all_of_it.jobs == 30_000


def test_little() -> None:
    """L = lambda W holds for each class up to what is cut off at the ends of the window."""
    estimate = qsim.simulate(EXAMPLE_E, jobs=400_000, replications=4, means_only=True)
    for scope in ("all", "short", "long", "killed"):
        number = estimate["throughput", scope].value * estimate["mean_response", scope].value
        assert estimate["mean_number", scope].value == pytest.approx(number, rel=5e-3)
    for scope in ("group0", "group1"):
        number = estimate["throughput", scope].value * estimate["mean_wait", scope].value
        assert estimate["mean_queue", scope].value == pytest.approx(number, rel=5e-3)


def test_time_scales() -> None:
    """All times doubled: times double, rates halve, the rest stays, exactly."""
    double = EXAMPLE_E.replace(
        time_limit=6.0,
        interarrival=Exponential(mean=2 / 3),
        service0=Exponential(mean=2.4),
        service1=Exponential(mean=4.0),
    )
    options = {"jobs": 20_000, "replications": 2}
    one, two = (qsim.simulate(model, **options) for model in (EXAMPLE_E, double))
    factors = {"response": 2.0, "wait": 2.0, "throughput": 0.5}
    for key, figure in one.measures.items():
        factor = 1.0 if "probability" in key[0] else factors.get(key[0].split("_")[-1], 1.0)
        assert two[key].value == pytest.approx(factor * figure.value, rel=1e-12, abs=1e-12), key


def test_scopes_without_jobs_are_left_out() -> None:
    estimate = qsim.simulate(single_group(Exponential(mean=1.0), load=0.5, servers=2), jobs=20_000, replications=4)
    assert {key[1] for key in estimate.measures if key[0] == "mean_response"} == {"all", "long"}
    assert ("kill_probability", "all") not in estimate.measures
    never = EXAMPLE_E.replace(time_limit=math.inf, short_fraction=1.0, servers=(6, 1))
    estimate = qsim.simulate(never, jobs=20_000, replications=4)
    assert {key[1] for key in estimate.measures if key[0] == "mean_number"} == {"all", "short", "group0"}
    assert estimate["kill_probability", "group0"].value == 0.0
    assert estimate["utilisation", "group1"].value == 0.0


def test_what_rests_on_few_events_is_left_out() -> None:
    """A kill in 10,000 jobs: two or so in all, no interval would be honest."""
    rare = EXAMPLE_E.replace(time_limit=1.2 * math.log(6500.0))
    estimate = qsim.simulate(rare, jobs=20_000, replications=4)
    assert ("kill_probability", "group0") not in estimate.measures
    assert ("p95_response", "killed") not in estimate.measures


def test_progress_counts_up() -> None:
    seen = []
    qsim.simulate(
        EXAMPLE_E, jobs=5000, replications=5, threads=3, progress=lambda done, count: seen.append((done, count))
    )
    assert seen == [(k, 5) for k in range(1, 6)]


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("jobs", {"jobs": 0}),
        ("jobs", {"jobs": 1.5}),
        ("jobs", {"jobs": "10"}),
        ("jobs", {"jobs": math.inf}),
        ("jobs", {"jobs": 10**30}),
        ("replications", {"replications": 2.5}),
        ("replications", {"replications": 10**12}),
        ("seed", {"seed": None}),
        ("seed", {"seed": 1.5}),
        ("warmup", {"warmup": math.inf}),
        ("confidence", {"confidence": "high"}),
        ("at", {"at": 3.0}),
        ("at", {"at": "3"}),
        ("replications", {"replications": 0}),
        ("seed", {"seed": -1}),
        ("warmup", {"warmup": -1}),
        ("confidence", {"confidence": 1.0}),
        ("threads", {"threads": 0}),
        ("at", {"at": (-1.0,)}),
        ("at", {"at": (math.nan,)}),
        ("sharing", {"sharing": "longest"}),
    ],
)
def test_wrong_options(field: str, options) -> None:
    with pytest.raises(InvalidModel) as found:
        qsim.simulate(EXAMPLE_E, **options)
    assert found.value.field == field


def test_numbers_of_any_type_are_the_same_numbers() -> None:
    """Counts as whole floats or NumPy integers; what comes back is plain and fits into JSON."""
    plain = qsim.simulate(EXAMPLE_E, jobs=3200, seed=3, warmup=10, at=(2.0,))
    other = qsim.simulate(EXAMPLE_E, jobs=3.2e3, seed=np.int64(3), warmup=np.int32(10), at=np.array([2.0]))
    assert json.dumps(plain.to_dict() | {"seconds": 0}) == json.dumps(other.to_dict() | {"seconds": 0})


def test_times_beyond_all_numbers() -> None:
    """A Pareto law so heavy that many draws overflow: an infinite service gives no finite mean, a gap is an error."""
    law = Pareto(shape=1e-3, minimum=1.0)
    estimate = qsim.simulate(
        EXAMPLE_E.replace(service0=law, service1=law), jobs=3000, replications=1, warmup=2000, means_only=True
    )
    assert not math.isfinite(estimate.samples["mean_response", "all"].values[0])
    with pytest.raises(InvalidModel, match="interarrival"):
        qsim.simulate(EXAMPLE_E.replace(interarrival=law), jobs=3000, replications=1)


def test_a_clock_that_stands_still() -> None:
    with pytest.raises(InvalidModel, match="interarrival"):
        qsim.simulate(EXAMPLE_E.replace(interarrival=Deterministic(value=0.0)))
