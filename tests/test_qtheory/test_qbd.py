"""QBDs against closed forms: M/M/1, M/M/c, Pollaczek-Khinchine, the root of GI/M/1, and published thresholds."""

from __future__ import annotations

import csv
from math import factorial

import numpy as np
import pytest
from scipy.optimize import brentq
from shared_data import SHARED, needs_shared

from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.queues.qbd import drift_load, reduce, spectral_radius
from qtheory.queues.qbd_levels import Level, LevelLaw, stationary_levels


def mm1(rate: float, where: str = "queue") -> LevelLaw:
    one = np.eye(1)
    return stationary_levels(
        [Level(up=rate * one, local=-rate * one)],
        up=rate * one,
        local=-(1 + rate) * one,
        down=one,
        where=where,
    )


def m_ph_1(rate: float, alpha: np.ndarray, generator: np.ndarray) -> LevelLaw:
    exits = -generator.sum(axis=1)
    eye = np.eye(len(alpha))
    return stationary_levels(
        [Level(up=rate * alpha[None, :], local=np.array([[-rate]]))],
        up=rate * eye,
        local=generator - rate * eye,
        down=np.outer(exits, alpha),
        entry=exits[:, None],
    )


def test_mm1_in_full() -> None:
    law = mm1(0.5)
    assert law.mean == pytest.approx(1.0, rel=1e-14)
    assert law.variance == pytest.approx(2.0, rel=1e-13)
    assert law.mean_excess == pytest.approx(0.5, rel=1e-13)  # E[(N - 1)^+] = rho^2 / (1 - rho)
    assert law.decay_rate == pytest.approx(0.5, rel=1e-14)
    np.testing.assert_allclose(law.probabilities(5), 0.5 ** np.arange(1, 7), rtol=1e-14)
    assert law.tail(-1) == pytest.approx(1.0, rel=1e-14)
    assert law.tail(100) == pytest.approx(0.5**101, rel=1e-13)
    assert law.level(3).sum() == pytest.approx(0.5**4, rel=1e-14)


@pytest.mark.parametrize("servers", [2, 7, 150])
def test_mmc_boundary(servers: int) -> None:
    """Erlang C and the geometric tail, with as many boundary levels as servers."""
    load = 0.9
    rate = load * servers
    one = np.eye(1)
    boundary = [Level(up=rate * one, local=-(rate + n) * one, down=n * one if n else None) for n in range(servers)]
    law = stationary_levels(boundary, up=rate * one, local=-(rate + servers) * one, down=servers * one)
    blocking = 1.0
    for n in range(1, servers + 1):  # Erlang B recursion
        blocking = rate * blocking / (n + rate * blocking)
    waits = blocking / (1 - load * (1 - blocking))
    assert law.tail(servers - 1) == pytest.approx(waits, rel=1e-12)
    assert law.mean == pytest.approx(rate + waits * load / (1 - load), rel=1e-12)
    assert law.mean_excess == pytest.approx(waits * load / (1 - load), rel=1e-12)


def test_thousands_of_levels_neither_overflow_nor_underflow() -> None:
    """P(N = 0) of M/M/infinity-like levels with rate 3000 is e^-3000, below the smallest double."""
    rate, levels = 3000.0, 4000
    one = np.eye(1)
    boundary = [Level(up=rate * one, local=-(rate + n) * one, down=n * one if n else None) for n in range(levels)]
    law = stationary_levels(boundary, up=rate * one, local=-(rate + levels) * one, down=levels * one)
    assert law.mean == pytest.approx(3000.0, rel=1e-10)
    assert law.variance == pytest.approx(3000.0, rel=1e-7)


@pytest.mark.parametrize("gap", [0.2, 1e-3, 1e-6, 1e-9, 1e-10])
def test_pollaczek_khinchine_up_to_heavy_traffic(gap: float) -> None:
    """L = rho + lambda^2 E[S^2] / 2 (1 - rho); the loss of digits is that of 1 - rho itself."""
    alpha, rates = np.array([0.887, 0.113]), np.array([1.774, 0.226])
    rate = 1 - gap
    law = m_ph_1(rate, alpha, -np.diag(rates))
    load, second = rate * (alpha / rates).sum(), 2 * (alpha / rates**2).sum()
    assert law.core.load == pytest.approx(load, rel=1e-14)
    assert law.mean == pytest.approx(load + rate**2 * second / 2 / (1 - load), rel=1e-13 + 1e-15 / gap)
    assert law.phases.sum() == pytest.approx(load, rel=1e-13 + 1e-15 / gap)


def test_scv_of_ten_thousand() -> None:
    """Stiff phases: H2 with balanced means, scv 1e4, rates 4 decades apart."""
    share = (1 + np.sqrt((1e4 - 1) / (1e4 + 1))) / 2
    alpha = np.array([share, 1 - share])
    law = m_ph_1(0.7, alpha, -np.diag(2 * alpha))
    second = (alpha / (2 * alpha) ** 2).sum() * 2
    assert law.mean == pytest.approx(0.7 + 0.49 * second / 0.6, rel=1e-10)


def test_gi_m_1_root() -> None:
    """E2/M/1: sojourn is exponential with rate mu (1 - sigma), sigma = A*(mu (1 - sigma))."""
    rate, mu = 0.8, 1.0
    d0 = np.array([[-2 * rate, 2 * rate], [0.0, -2 * rate]])
    d1 = np.array([[0.0, 0.0], [2 * rate, 0.0]])
    eye = np.eye(2)
    law = stationary_levels([Level(up=d1, local=d0)], up=d1, local=d0 - mu * eye, down=mu * eye)
    root = brentq(lambda s: (2 * rate / (2 * rate + mu * (1 - s))) ** 2 - s, 0.0, 0.999, xtol=1e-15)
    assert law.mean / rate == pytest.approx(1 / (mu * (1 - root)), rel=1e-12)
    assert law.decay_rate == pytest.approx(root, rel=1e-12)


def test_equations_and_signed_blocks() -> None:
    """G and R solve their equations; a change of basis that keeps e leaves the level law unchanged."""
    rng = np.random.default_rng(5)
    up, down, local = rng.random((6, 6)), 1.3 * rng.random((6, 6)), rng.random((6, 6))
    np.fill_diagonal(local, 0.0)
    np.fill_diagonal(local, -(up + down + local).sum(axis=1))
    core = reduce(up=up, local=local, down=down)
    g, r = core.passage, core.rate
    assert np.abs(down + local @ g + up @ g @ g).max() < 1e-13
    assert np.abs(up + r @ local + r @ r @ down).max() < 1e-13
    np.testing.assert_allclose(g.sum(axis=1), 1.0, rtol=1e-13)
    assert g.min() >= 0
    basis = np.eye(6) + 0.9 * np.diag(np.ones(5), 1) - 0.5 * np.diag(np.ones(4), -2)
    basis /= basis.sum(axis=1, keepdims=True)

    def turn(block: np.ndarray) -> np.ndarray:
        return basis @ block @ np.linalg.inv(basis)

    law = stationary_levels([Level(up=up, local=local + down)], up=up, local=local, down=down)
    signed = stationary_levels(
        [Level(up=turn(up), local=turn(local + down))], up=turn(up), local=turn(local), down=turn(down)
    )
    assert signed.mean == pytest.approx(law.mean, rel=1e-11)
    assert signed.decay_rate == pytest.approx(law.decay_rate, rel=1e-11)
    np.testing.assert_allclose(signed.probabilities(10), law.probabilities(10), rtol=1e-10)


def test_moments_by_phase_agree_with_sums() -> None:
    law = m_ph_1(0.6, np.array([0.3, 0.7]), np.array([[-2.0, 1.0], [0.0, -0.9]]))
    levels = np.array([law.level(n) for n in range(1, 400)])
    n = np.arange(1, 400)
    for order in (0, 1, 2):
        np.testing.assert_allclose(law.moment_by_phase(order), n**order @ levels, rtol=1e-12)
    assert law.moment(2) == pytest.approx(float(n**2 @ levels.sum(axis=1)), rel=1e-12)
    with pytest.raises(InvalidModel):
        law.moment_by_phase(3)


@pytest.mark.parametrize("load", [1.0, 1 + 1e-12, 1.5])
def test_overload_raises(load: float) -> None:
    with pytest.raises(Unstable, match="group1") as caught:
        mm1(load, where="group1")
    assert caught.value.load == pytest.approx(load)


def test_a_load_that_cannot_be_told_from_one_raises() -> None:
    with pytest.raises(NotConverged, match="too near"):
        mm1(1 - 1e-12)


def test_two_closed_classes_of_phases_take_the_larger_load() -> None:
    up, down = np.diag([0.5, 0.9]), np.eye(2)
    assert drift_load(up=up, local=-(up + down), down=down) == pytest.approx(0.9)
    assert drift_load(up=np.eye(1), local=-np.eye(1), down=np.zeros((1, 1))) == np.inf


def test_blocks_that_do_not_fit() -> None:
    with pytest.raises(InvalidModel, match="sum to 0"):
        reduce(up=np.eye(2), local=-np.eye(2), down=2 * np.eye(2))
    with pytest.raises(InvalidModel, match="one order"):
        reduce(up=np.eye(2), local=-np.eye(2), down=np.eye(3))
    one = np.eye(1)
    with pytest.raises(InvalidModel, match=r"boundary\.0"):
        stationary_levels([Level(up=np.ones((1, 2)), local=-one)], up=one, local=-3 * one, down=2 * one)
    with pytest.raises(InvalidModel, match="local \\+ up must sum to 0"):
        stationary_levels([Level(up=one, local=-2 * one)], up=one, local=-3 * one, down=2 * one)


def test_spectral_radius_of_a_large_matrix() -> None:
    """The stochastic part scaled by .7, order 500."""
    p = np.random.default_rng(2).random((500, 500))
    assert spectral_radius(0.7 * p / p.sum(axis=1, keepdims=True)) == pytest.approx(0.7, rel=1e-10)


def threshold(rho1: float, rho2: float, t1: int, cut: int = 160) -> tuple[float, float]:
    """E[N1], E[N2] of the donor under T1(t1): mu1 = mu12 = 1, mu2 = 1/16; level N2, phase N1 cut at `cut`."""
    mu2 = 1 / 16
    lam1, lam2 = rho1, rho2 * mu2
    n1 = np.arange(cut + 1)

    def block(helping: np.ndarray) -> np.ndarray:
        serving = (n1 >= 1) * 1.0 + (helping & (n1 >= 2))
        q = np.diag(np.full(cut, lam1), 1) + np.diag(serving[1:], -1)
        np.fill_diagonal(q, -q.sum(axis=1))
        return q

    donor_on_queue2 = n1 < t1
    up = lam2 * np.eye(cut + 1)
    down = mu2 * np.diag(donor_on_queue2 * 1.0)
    law = stationary_levels(
        [Level(up=up, local=block(n1 >= 2) - up)],
        up=up,
        local=block(~donor_on_queue2) - up - down,
        down=down,
    )
    return float((law.boundary[0] + law.phases) @ n1), law.mean


@pytest.mark.parametrize(
    ("rho1", "rho2", "t1", "mean1", "mean2"),
    [(1.15, 0.4, 3, 2.0115275, 1.6011509)],  # Osogami (2005), ch. 7, system solved to 8 digits by three solvers
)
def test_donor_threshold(rho1: float, rho2: float, t1: int, mean1: float, mean2: float) -> None:
    found1, found2 = threshold(rho1, rho2, t1)
    assert found1 == pytest.approx(mean1, rel=5e-8)
    assert found2 == pytest.approx(mean2, rel=5e-8)


@needs_shared
def test_donor_thresholds_of_the_table() -> None:
    assert SHARED is not None
    rows = list(csv.DictReader((SHARED / "anchors" / "donor.csv").read_text().splitlines()))
    checked = 0
    for row in rows:
        if row["policy"] in ("T1(3)", "T1(5)", "T1(19)") and row["E_N2"] not in ("", "inf"):
            found = threshold(float(row["rho1"]), float(row["rho2"]), int(row["policy"][3:-1]))
            np.testing.assert_allclose(found, (float(row["E_N1"]), float(row["E_N2"])), rtol=2e-9)
            checked += 1
    assert checked >= 5


def test_erlang_b_recursion_used_above() -> None:
    """B(2, 3) from its definition, so that the reference of test_mmc_boundary is itself checked."""
    terms = [2.0**n / factorial(n) for n in range(4)]
    blocking = 1.0
    for n in range(1, 4):
        blocking = 2.0 * blocking / (n + 2.0 * blocking)
    assert blocking == pytest.approx(terms[-1] / sum(terms), rel=1e-14)
