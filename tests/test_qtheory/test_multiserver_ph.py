"""M/PH/c and MAP/PH/c against Erlang C, Pollaczek-Khinchine, the GI/M/c root, M/D/c and published values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.queues.fitting import rational, three_moments, two_moments
from qtheory.queues.map import mmpp, poisson, renewal
from qtheory.queues.modes import Modes
from qtheory.queues.multiserver_ph import ManyServerQueue, m_ph_c, map_ph_c
from qtheory.queues.occupancy import Occupancy
from qtheory.queues.phase_type import PhaseType, erlang, exponential, hyperexponential, phase_type

H2 = two_moments(mean=1.0, scv=4.0)
E4 = erlang(shape=4, mean=1.0)
FIXED = three_moments(m1=1.0, m2=1.0, m3=1.0)


def erlang_c(servers: int, offered: float) -> float:
    blocking = 1.0
    for n in range(1, servers + 1):
        blocking = offered * blocking / (n + offered * blocking)
    return blocking / (1 - offered / servers * (1 - blocking))


@pytest.mark.parametrize(
    ("service", "servers", "response"),
    [(H2, 2, 5.28538), (H2, 10, 1.43237), (H2, 50, 1.01408), (E4, 3, 1.68782), (E4, 8, 1.18700)],
)
def test_published_values_at_load_point_eight(service: PhaseType, servers: int, response: float) -> None:
    """Mean response, mean service 1; five decimals, from independent matrix-analytic programs."""
    assert m_ph_c(rate=0.8 * servers, service=service, servers=servers).mean_response == pytest.approx(
        response, abs=6e-6
    )


DISGUISED = phase_type(alpha=[0.25, 0.75], generator=[[-1.0, 0.0], [0.0, -1.0]])  # exponential in two phases


@pytest.mark.parametrize("service", [exponential(mean=1.0), DISGUISED])
@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (3, 0.9), (40, 0.3), (40, 0.99)])
def test_mmc(service: PhaseType, servers: int, load: float) -> None:
    queue = m_ph_c(rate=load * servers, service=service, servers=servers)
    waits = erlang_c(servers, load * servers)
    spare = servers * (1 - load)
    assert queue.wait_probability == pytest.approx(waits, rel=1e-11)
    assert queue.mean_wait == pytest.approx(waits / spare, rel=1e-11)
    assert queue.mean_number == pytest.approx(queue.levels.mean, rel=1e-10)
    times = np.array([0.1, 1.0, 3.0])
    np.testing.assert_allclose(queue.wait.survival(times), waits * np.exp(-spare * times), rtol=1e-9)
    if waits > 1e-3:
        assert queue.wait.quantile(1 - waits / 2) == pytest.approx(np.log(2) / spare, rel=1e-9)


@pytest.mark.parametrize("service", [H2, E4, FIXED, phase_type(alpha=[0.6, 0.4], generator=[[-2.0, 1.0], [0.3, -1.0]])])
def test_pollaczek_khinchine(service: PhaseType) -> None:
    """Mean, and the transform (1 - rho) / (1 - rho B_e*(s)) of the wait."""
    rate = 0.85 / service.mean
    queue = m_ph_c(rate=rate, service=service, servers=1)
    assert queue.mean_wait == pytest.approx(rate * service.moment(2) / (2 * 0.15), rel=1e-12)
    s = np.array([0.2, 1.0, 5.0])
    residual = (1 - service.transform(s)) / (s * service.mean)
    np.testing.assert_allclose(queue.wait.transform(s), 0.15 / (1 - 0.85 * residual), rtol=1e-11)
    np.testing.assert_allclose(queue.response.transform(s), queue.wait.transform(s) * service.transform(s), rtol=1e-11)


@pytest.mark.parametrize("servers", [1, 4])
@pytest.mark.parametrize("interval", [erlang(shape=3, mean=1.0), two_moments(mean=1.0, scv=3.0)])
def test_gi_m_c(interval: PhaseType, servers: int) -> None:
    """Number seen while all are busy falls by sigma = A*(c mu (1 - sigma)); so does the wait, as an exponential."""
    load = 0.8
    arrivals = renewal(interval.scaled(factor=1 / (load * servers)))
    queue = map_ph_c(arrivals=arrivals, service=DISGUISED, servers=servers)
    law = arrivals.interval
    sigma = brentq(lambda x: float(law.transform(servers * (1 - x))) - x, 0.0, 1 - 1e-9, xtol=1e-15)
    assert queue.levels.decay_rate == pytest.approx(sigma, rel=1e-10)
    assert queue.mean_wait == pytest.approx(queue.wait_probability / (servers * (1 - sigma)), rel=1e-11)
    if servers == 1:
        assert queue.wait_probability == pytest.approx(sigma, rel=1e-11)


def fixed_service_wait(servers: int, rate: float) -> float:
    """E[W] of M/D/c with service 1: that of E_c/D/1, by Spitzer's sum of E[(k - Gamma(k c, rate))^+] / k."""
    total = 0.0
    for k in range(1, 4000):
        shape = k * servers
        part = k * stats.gamma.cdf(k, shape, scale=1 / rate)
        part -= shape / rate * stats.gamma.cdf(k, shape + 1, scale=1 / rate)
        total += part / k
        if part / k < 1e-13 * total:
            break
    return total


@pytest.mark.parametrize("servers", [1, 2])
def test_erlang_services_tend_to_fixed_ones(servers: int) -> None:
    """M/E_k/c for k = 6, 12, 24, extrapolated in 1/k, against exact M/D/c (slower than 1/k for c > 1)."""
    rate = 0.8 * servers
    waits = [
        m_ph_c(rate=rate, service=erlang(shape=k, mean=1.0), servers=servers, depth=servers).mean_wait
        for k in (6, 12, 24)
    ]
    once = [2 * waits[1] - waits[0], 2 * waits[2] - waits[1]]
    limit = (4 * once[1] - once[0]) / 3
    assert limit == pytest.approx(fixed_service_wait(servers, rate), rel=1e-9 if servers == 1 else 2.5e-3)


@pytest.mark.parametrize(
    ("service", "servers", "load"),
    [(H2, 30, 0.5), (H2, 30, 0.95), (E4, 7, 0.8), (FIXED, 30, 0.8), (two_moments(mean=1.0, scv=10.0), 20, 0.8)],
)
def test_modes_against_the_exact_chain(service: PhaseType, servers: int, load: float) -> None:
    """Two chains of different sizes, signed fixed time included, with number and wait distributions."""
    exact = m_ph_c(rate=load * servers, service=service, servers=servers, depth=servers)
    short = m_ph_c(rate=load * servers, service=service, servers=servers, depth=14 if service.order == 2 else 6)
    assert isinstance(exact.operators, Occupancy)
    assert isinstance(short.operators, Modes)
    assert short.mean_wait == pytest.approx(exact.mean_wait, rel=2e-8)
    assert short.wait_probability == pytest.approx(exact.wait_probability, rel=2e-8)
    np.testing.assert_allclose(
        short.number_probabilities(2 * servers), exact.number_probabilities(2 * servers), atol=1e-8
    )
    if service is not FIXED:
        times = np.array([0.05, 0.5, 2.0, 10.0])
        np.testing.assert_allclose(short.wait.survival(times), exact.wait.survival(times), rtol=1e-5, atol=1e-10)


def test_automatic_depth_reports_its_last_change() -> None:
    queue = m_ph_c(rate=160.0, service=H2, servers=200)
    exact = m_ph_c(rate=160.0, service=H2, servers=200, depth=200)
    assert 0.0 < queue.truncation <= 1e-8
    assert queue.mean_wait == pytest.approx(exact.mean_wait, rel=1e-7)
    assert exact.truncation == 0.0


def test_four_phases_and_twenty_servers() -> None:
    """1771 states a level if nothing is done; between the exact values of M/E3/20 and M/D/20."""
    queue = m_ph_c(rate=16.0, service=E4, servers=20)
    three = m_ph_c(rate=16.0, service=erlang(shape=3, mean=1.0), servers=20, depth=20)
    assert fixed_service_wait(20, 16.0) < queue.mean_wait < three.mean_wait
    assert queue.operators.size(20) < 400


def test_a_thousand_servers() -> None:
    """Exponential services in two phases: Erlang C, with P(W > 0) = .17."""
    queue = m_ph_c(rate=960.0, service=DISGUISED, servers=1000)
    waits = erlang_c(1000, 960.0)
    assert queue.wait_probability == pytest.approx(waits, rel=1e-9)
    assert queue.mean_wait == pytest.approx(waits / 40.0, rel=1e-9)


@pytest.mark.slow
def test_ten_thousand_servers() -> None:
    queue = m_ph_c(rate=9900.0, service=DISGUISED, servers=10_000)
    assert queue.wait_probability == pytest.approx(erlang_c(10_000, 9900.0), rel=1e-8)
    heavy = m_ph_c(rate=9900.0, service=H2, servers=10_000)
    assert 0.0 < heavy.wait_probability < 1.0


def test_light_load_keeps_relative_accuracy() -> None:
    """P(W > 0) = 5e-32 at load .05: the largest of Erlang C's digits, not noise."""
    queue = m_ph_c(rate=2.0, service=DISGUISED, servers=40)
    assert queue.wait_probability == pytest.approx(erlang_c(40, 2.0), rel=1e-9)


def test_time_scaling_and_monotonicity() -> None:
    slow = m_ph_c(rate=0.4, service=H2.scaled(factor=10.0), servers=5)
    fast = m_ph_c(rate=4.0, service=H2, servers=5)
    assert slow.mean_wait == pytest.approx(10.0 * fast.mean_wait, rel=1e-11)
    waits = [m_ph_c(rate=rate, service=H2, servers=5).mean_wait for rate in (3.0, 3.5, 4.0, 4.5)]
    assert waits == sorted(waits)
    waits = [m_ph_c(rate=4.0, service=two_moments(mean=1.0, scv=scv), servers=5).mean_wait for scv in (0.25, 1, 4, 25)]
    assert waits == sorted(waits)


def test_poisson_in_disguise_gives_the_same_queue() -> None:
    """An MMPP with equal rates is Poisson; a switching one waits longer."""
    plain = m_ph_c(rate=2.4, service=H2, servers=3)
    switch = [[-1.0, 1.0], [0.5, -0.5]]
    same = map_ph_c(arrivals=mmpp(generator=switch, rates=[2.4, 2.4]), service=H2, servers=3)
    assert same.mean_wait == pytest.approx(plain.mean_wait, rel=1e-11)
    assert same.wait_probability == pytest.approx(plain.wait_probability, rel=1e-11)
    burst = map_ph_c(arrivals=mmpp(generator=switch, rates=[4.8, 1.2]), service=H2, servers=3)
    assert burst.mean_wait > 1.1 * plain.mean_wait


def test_extreme_variability() -> None:
    """scv 1e4 on one server is Pollaczek-Khinchine; on ten it lies between one fast server and none waiting."""
    service = two_moments(mean=1.0, scv=1e4)
    assert m_ph_c(rate=0.8, service=service, servers=1).mean_wait == pytest.approx(0.8 * 10_001 / 0.4, rel=1e-9)
    ten = m_ph_c(rate=8.0, service=service, servers=10)
    assert 0.0 < ten.mean_wait < 0.8 * 10_001 / 0.4 / 10


@pytest.mark.parametrize("load", [1.0, 1.0 + 1e-12, 2.0])
def test_overload(load: float) -> None:
    with pytest.raises(Unstable, match="group0") as caught:
        m_ph_c(rate=load * 3, service=H2, servers=3, where="group0")
    assert caught.value.load == pytest.approx(load)


def test_a_hair_below_one() -> None:
    with pytest.raises(NotConverged, match="too near"):
        m_ph_c(rate=(1 - 1e-12) * 3, service=H2, servers=3)
    heavy = m_ph_c(rate=(1 - 1e-8) * 3, service=H2, servers=3)
    assert heavy.mean_wait == pytest.approx((1 + 4) / 2 / 3 / 1e-8, rel=1e-5)  # heavy-traffic limit


def test_signed_pieces_keep_their_digits_with_many_servers() -> None:
    """A fixed time by five moments (weights of both signs, up to 2): 60 servers, near the exact M/D/60."""
    service = rational([1.0] * 5)
    queue = m_ph_c(rate=48.0, service=service, servers=60)
    assert queue.levels.core.residual < 1e-13
    assert queue.mean_wait == pytest.approx(fixed_service_wait(60, 48.0), rel=0.02)


def test_rare_and_very_long_services_are_refused() -> None:
    """One service in 4e12 lasts 3e7 times the others: what it adds to the mean is lost in rounding, which is said."""
    service = three_moments(m1=1.0, m2=1e4 + 1, m3=1e12)
    with pytest.raises(NotConverged, match="drown in rounding"):
        m_ph_c(rate=48.0, service=service, servers=60)


def test_refusals() -> None:
    with pytest.raises(InvalidModel, match="servers"):
        m_ph_c(rate=1.0, service=H2, servers=0)
    with pytest.raises(InvalidModel, match="atom"):
        m_ph_c(rate=0.5, service=phase_type(alpha=[0.5], generator=[[-1.0]]), servers=1)
    with pytest.raises(InvalidModel, match="rate"):
        poisson(rate=0.0)
    with pytest.raises(InvalidModel, match="Poisson"):
        _ = map_ph_c(arrivals=renewal(erlang(shape=2, mean=2.0)), service=H2, servers=1).wait
    with pytest.raises(InvalidModel, match="2200 states"):
        m_ph_c(rate=800.0, service=E4, servers=1000, depth=1000)
    with pytest.raises(NotConverged, match="too many phases"):
        m_ph_c(rate=8.0, service=two_moments(mean=1.0, scv=1 / 400), servers=10)


def lindley(queue: ManyServerQueue, jobs: int, seed: int) -> tuple[float, float]:
    """Mean wait and its standard error by simulation of the Kiefer-Wolfowitz recursion, 40 batches."""
    rng = np.random.default_rng(seed)
    service = queue.service
    rates = -np.diag(service.generator)
    law = rng.choice(len(rates), size=jobs, p=service.alpha)  # hyperexponential
    times = rng.exponential(1 / rates[law])
    gaps = rng.exponential(1 / queue.arrivals.rate, size=jobs)
    free = np.zeros(queue.servers)
    waits = np.empty(jobs)
    for n in range(jobs):
        free -= gaps[n]
        first = int(free.argmin())
        waits[n] = wait = max(free[first], 0.0)
        free[first] = wait + times[n]
    batches = waits[jobs // 10 :].reshape(40, -1).mean(axis=1)
    return float(batches.mean()), float(batches.std(ddof=1) / np.sqrt(40))


def test_against_simulation() -> None:
    """M/H2/3 at load .7: 200 000 jobs, seed 3; the bound is 6 standard errors (false alarm 1e-6 with 39 degrees of
    freedom), below 20 % of the mean wait, which is also the error that would be seen with probability 1/2."""
    service = hyperexponential(probabilities=[0.7, 0.3], means=[0.5, 2.0])
    queue = m_ph_c(rate=2.1 / service.mean, service=service, servers=3)
    mean, error = lindley(queue, 200_000, seed=3)
    assert abs(mean - queue.mean_wait) < 6 * error
    assert 6 * error < 0.2 * queue.mean_wait
