"""Stationary draws of M/G/c against exact laws, by distribution and by moments; the pieces they are made of.

Each comparison has a false-alarm rate of 1e-8.  Distributions are compared by the Dvoretzky-Kiefer-Wolfowitz bound
P(sup |F_n - F| > e) <= 2 exp(-2 n e^2), which holds with atoms too: with n = 60,000 draws it is e = .0126, and a law
that is off by .0171 somewhere would be seen with probability .9.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import qsim
from qsim.restricted_mean import restricted_mean
from qsim.sampling import sample
from qsim.size_biased import size_biased, thinning
from qsim.streams import stream
from qtheory import laws
from qtheory.models import (
    BoundedPareto,
    Deterministic,
    Dispatcher,
    Empirical,
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    Mixture,
    NotConverged,
    Pareto,
    PhaseType,
    Product,
    Scipy,
    Uniform,
    Unstable,
    Weibull,
)
from qtheory.queues import deterministic_law, erlang
from qtheory.queues import phase_type as ph
from qtheory.queues.multiserver_ph import m_ph_c

FALSE_ALARM = 1e-8
CRITICAL = float(stats.norm.isf(FALSE_ALARM / 2))


def queue(*, servers, rate, service, limit=math.inf) -> Dispatcher:
    """M/G/c as the Group 0 of a dispatcher."""
    return Dispatcher(
        servers=(servers, 1),
        time_limit=limit,
        short_fraction=1.0,
        interarrival=Exponential(mean=1 / rate),
        service0=service,
        service1=service,
    )


def check_law(draws, survival, *, power) -> None:
    """Draws against P(X > x), the atom at 0 apart and with both sides of each draw."""
    draws = np.sort(draws)
    count = draws.size
    exact = np.array([survival(x) for x in np.unique(draws)]).ravel()
    places = np.searchsorted(draws, np.unique(draws), side="right")
    below = np.searchsorted(draws, np.unique(draws), side="left")
    distance = np.abs(1 - places / count - exact).max()
    # The exact law has its only atom at 0: elsewhere the step of the empirical law counts on both sides.
    inner = np.unique(draws) > 0
    distance = max(distance, np.abs(1 - below / count - exact)[inner].max())
    margin = math.sqrt(math.log(2 / FALSE_ALARM) / (2 * count))
    assert distance <= margin
    assert margin + math.sqrt(math.log(1 / 0.1) / (2 * count)) <= power


def check_mean(values, truth, *, power) -> None:
    """Mean of independent draws; an error of `power` relative to the truth would be seen with probability .9."""
    error = values.std(ddof=1) / math.sqrt(values.size)
    assert abs(values.mean() - truth) <= CRITICAL * error
    assert (CRITICAL + 1.29) * error <= power * abs(truth)


EXACT = {
    "M/M/2": (2, 1.5, Exponential(mean=1.0), ph.exponential(mean=1.0)),
    "M/E2/3": (3, 2.4, Erlang(shape=2, mean=1.0), ph.erlang(shape=2, mean=1.0)),
    "M/H2/4": (
        4,
        3.0,
        Hyperexponential(probabilities=(0.8, 0.2), means=(0.5, 3.0)),
        ph.hyperexponential(probabilities=[0.8, 0.2], means=[0.5, 3.0]),
    ),
    "M/PH/3": (
        3,
        2.0,
        PhaseType(alpha=(0.7, 0.3), generator=((-2.0, 1.0), (0.5, -1.0))),
        ph.phase_type(alpha=[0.7, 0.3], generator=[[-2.0, 1.0], [0.5, -1.0]]),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_waits_of_queues_with_phase_type_services(name) -> None:
    """M/PH/c solved as a QBD; mean waits off by 6 % would be seen too."""
    servers, rate, law, service = EXACT[name]
    rate = rate / service.mean
    exact = m_ph_c(rate=rate, service=service, servers=servers)
    draws = qsim.perfect(queue(servers=servers, rate=rate, service=law), samples=60_000, seed=1)
    grid = np.linspace(0.0, draws.wait.max() + 1.0, 2000)
    table = np.asarray(exact.wait.survival(grid))
    check_law(draws.wait, lambda x: np.interp(x, grid, table), power=0.0171)
    check_mean(draws.wait, exact.mean_wait, power=0.06)


def test_waits_with_fixed_services() -> None:
    """M/D/3 by Spitzer's sums."""
    draws = qsim.perfect(queue(servers=3, rate=2.4, service=Deterministic(value=1.0)), samples=60_000, seed=1)
    grid = np.linspace(0.0, draws.wait.max() + 1.0, 4000)
    table = deterministic_law.wait_survival(at=grid, arrival_rate=2.4, service_time=1.0, servers=3)
    check_law(draws.wait, lambda x: np.interp(x, grid, table), power=0.0171)


def test_busy_servers_and_work_of_many_exponential_servers() -> None:
    """M/M/6: the number of busy servers is that of Erlang's formulas, the work that of the jobs present."""
    servers, load = 6, 4.5
    draws = qsim.perfect(queue(servers=servers, rate=load, service=Exponential(mean=1.0)), samples=40_000, seed=2)
    assert (np.diff(draws.workload, axis=1) >= 0).all()
    wait = float(erlang.erlang_c(offered_load=load, servers=servers))
    empty = (1 - wait) / sum(load**k / math.factorial(k) for k in range(servers))
    for k in range(servers):
        check_mean((draws.busy == k).astype(float), empty * load**k / math.factorial(k), power=0.4)
    check_mean((draws.busy == servers).astype(float), wait, power=0.05)
    # Every job present has a mean of 1 to go, waiting or not.
    check_mean(draws.workload.sum(axis=1), load + wait * load / (servers - load), power=0.05)


LAWS = {
    "exponential": Exponential(mean=0.7),
    "deterministic": Deterministic(value=0.8),
    "uniform": Uniform(low=0.2, high=1.3),
    "erlang": Erlang(shape=3, mean=0.8),
    "hyperexponential": Hyperexponential(probabilities=(0.7, 0.3), means=(0.4, 1.6)),
    "gamma": Gamma(shape=0.6, scale=1.2),
    "weibull": Weibull(shape=0.8, scale=0.7),
    "lognormal": LogNormal(mean=0.8, scv=1.5),
    "pareto": Pareto(shape=5.5, minimum=0.6),
    "bounded pareto": BoundedPareto(shape=1.0, minimum=0.3, maximum=3.0),
    "phase-type": PhaseType(alpha=(0.6, 0.3, 0.0), generator=((-3.0, 1.0, 0.0), (0.5, -1.5, 0.2), (0.0, 0.0, -1.0))),
    "mixture": Mixture(weights=(0.5, 0.5), laws=(Gamma(shape=2.0, scale=0.5), Deterministic(value=0.5))),
    "product": Product(factors=(Exponential(mean=0.8), Uniform(low=0.85, high=1.21))),
    "empirical": Empirical(values=(0.0, 0.25, 0.5, 1.0, 2.0)),
}


@pytest.mark.parametrize("limit", [math.inf, 1.1])
@pytest.mark.parametrize("name", LAWS)
def test_a_single_server_with_any_service(name, limit) -> None:
    """M/G/1 at load .6: P(wait) is the load, the mean wait Pollaczek and Khinchine's."""
    law = LAWS[name]
    first, second = (
        laws.moment(law, order=k) if limit == math.inf else laws.capped_moment(law, order=k, limit=limit)
        for k in (1, 2)
    )
    rate = 0.6 / first
    model = queue(servers=1, rate=rate, service=law, limit=limit)
    given = first if isinstance(law, Product) and limit < math.inf else None
    draws = qsim.perfect(model, samples=20_000, seed=1, mean_service=given)
    check_mean((draws.wait > 0).astype(float), 0.6, power=0.05)
    check_mean(draws.wait, rate * second / (2 * (1 - 0.6)), power=0.25)


@pytest.mark.parametrize("name", [*LAWS, "scipy"])
def test_means_cut_at_a_limit(name) -> None:
    """By the formulas of the other road, at limits below, among and beyond the values; a product has none."""
    law = LAWS.get(name, Scipy(name="lomax", parameters={"c": 3.0}))
    for limit in (0.1, 0.55, 0.9, 2.5, 40.0, math.inf):
        if isinstance(law, Product) and limit < math.inf:
            with pytest.raises(InvalidModel, match="no mean"):
                restricted_mean(law, limit=limit, field="service0")
            continue
        exact = laws.mean(law) if limit == math.inf else laws.capped_moment(law, order=1, limit=limit)
        assert restricted_mean(law, limit=limit, field="service0") == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if size_biased(law, field="") is not None])
def test_services_in_progress(name) -> None:
    """Weighted by length, E[S'] = E[S^2] / E[S] and P(S' <= x) = E[S; S <= x] / E[S]; 6 % would be seen."""
    law = LAWS[name]
    biased = size_biased(law, field="")
    drawn = sample(biased, size=60_000, state=stream(seed=1, replication=0, name="service"))
    if isinstance(law, Deterministic):
        assert set(drawn) == {law.value}
        return
    check_mean(drawn, laws.moment(law, order=2) / laws.mean(law), power=0.06)
    place = 1.2 * laws.mean(law)
    share = laws.partial_moment(law, order=1, limit=place) / laws.mean(law)
    check_mean((drawn <= place).astype(float), share, power=0.06)


def test_the_better_way_to_draw_services_in_progress() -> None:
    law = Exponential(mean=1.0)
    assert thinning(law, limit=math.inf, field="") == (Erlang(shape=2, mean=2.0), 0.0)
    assert thinning(law, limit=0.5, field="") == (law, 0.5)
    assert thinning(Uniform(low=1.0, high=2.0), limit=math.inf, field="") == (Uniform(low=1.0, high=2.0), 2.0)
    with pytest.raises(InvalidModel, match="time limit"):
        thinning(Scipy(name="lomax", parameters={"c": 3.0}), limit=math.inf, field="service0")


def test_the_end_of_a_warm_up() -> None:
    """What is left of an empty start after the warm-up of a simulation: waits as in stationarity, within 4 %."""
    model = queue(servers=3, rate=2.4, service=Exponential(mean=1.0), limit=2.0)
    draws = qsim.perfect(model, samples=60_000, seed=3)
    run = qsim.simulate(model, jobs=640_000, replications=32, seed=3)["wait_probability", "group0"]
    seen = (draws.wait > 0).mean()
    error = math.hypot(run.se, math.sqrt(seen * (1 - seen) / draws.wait.size))
    critical = float(stats.t.isf(FALSE_ALARM / 2, 31))
    assert abs(run.value - seen) <= critical * error
    assert (critical + 1.3) * error <= 0.04 * 1.25


def test_draws_are_a_function_of_the_seed() -> None:
    model = queue(servers=3, rate=2.0, service=Exponential(mean=1.0))
    whole, part, other = (qsim.perfect(model, samples=n, seed=seed).workload for n, seed in ((50, 4), (20, 4), (20, 5)))
    assert np.array_equal(whole[:20], part)
    assert not np.array_equal(part, other)


def test_what_has_no_stationary_draws(monkeypatch) -> None:
    model = queue(servers=2, rate=1.0, service=Exponential(mean=1.0))
    with pytest.raises(Unstable) as unstable:
        qsim.perfect(model.replace(interarrival=Exponential(mean=0.5)), samples=1)
    assert (unstable.value.where, unstable.value.load) == ("group0", 1.0)
    for field, wrong in (
        ("interarrival", {"interarrival": Erlang(shape=2, mean=1.0)}),
        ("short_fraction", {"short_fraction": 0.0}),
        ("service0", {"service0": Scipy(name="lomax", parameters={"c": 3.0})}),
    ):
        with pytest.raises(InvalidModel) as found:
            qsim.perfect(model.replace(**wrong), samples=1)
        assert found.value.field == field
    for options in ({"samples": 0}, {"samples": 1, "seed": -1}, {"samples": 1, "mean_service": 0.0}):
        with pytest.raises(InvalidModel):
            qsim.perfect(model, **options)
    monkeypatch.setattr("qsim._perfect._PATIENCE", 3)
    with pytest.raises(NotConverged, match="group0"):
        qsim.perfect(model, samples=100)
