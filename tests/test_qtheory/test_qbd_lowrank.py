"""Low-rank QBDs against the dense solver and against the root of GI/M/1 with thousands of phases."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import brentq
from scipy.sparse import linalg as sparse_linalg

from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.queues.qbd import drift_load
from qtheory.queues.qbd_levels import Level, stationary_levels
from qtheory.queues.qbd_lowrank import low_rank_levels


@pytest.mark.parametrize(("phases", "rank", "speed"), [(6, 1, 0.3), (30, 3, 0.5), (30, 30, 0.1), (60, 2, 1.2)])
def test_against_the_dense_solver(phases: int, rank: int, speed: float) -> None:
    rng = np.random.default_rng(phases + rank)
    left = speed * rng.random((phases, rank)) * (rng.random((phases, rank)) < 0.5)
    landing = rng.random((rank, phases))
    landing /= landing.sum(axis=1, keepdims=True)
    moves = np.roll(np.eye(phases), 1, axis=1) + 0.3 * (rng.random((phases, phases)) < 0.1)
    np.fill_diagonal(moves, 0.0)
    down = np.diag(0.5 + rng.random(phases))
    up = left @ landing
    local = moves - np.diag((moves + up + down).sum(axis=1))
    load = drift_load(up=up, local=local, down=down)
    boundary = [Level(up=up, local=local + down)]
    dense = stationary_levels(boundary, up=up, local=local, down=down)
    low = low_rank_levels(boundary, up=(left, landing), local=local, down=sparse.csr_array(down), load=load)
    assert 0.05 < load < 0.95
    assert low.mean == pytest.approx(dense.mean, rel=1e-11)
    assert low.mean_excess == pytest.approx(dense.mean_excess, rel=1e-11)
    assert low.decay_rate == pytest.approx(dense.decay_rate, rel=1e-11)
    np.testing.assert_allclose(low.phases, dense.phases, atol=1e-13)
    for n in (0, 1, 2, 5):
        np.testing.assert_allclose(low.level(n), dense.level(n), atol=1e-13)


def test_four_thousand_phases() -> None:
    """A counter drifts through 4000 phases and brings a job at the end: GI/M/1, mean sojourn 1/(mu (1 - sigma))."""
    n = 4000
    forth, back = np.full(n, 3.0 * n), np.full(n, 1.0 * n)
    back[0] = 0.0
    d0 = sparse.diags_array([back[1:], -(forth + back), forth[:-1]], offsets=[-1, 0, 1]).tocsc()
    rate = 1.0 / float(sparse_linalg.spsolve(-d0, np.ones(n))[0])
    mu = rate / 0.8

    def transform(s: float) -> float:
        closing = np.zeros(n)
        closing[-1] = forth[-1]
        return float(sparse_linalg.spsolve((s * sparse.eye_array(n) - d0).tocsc(), closing)[0])

    sigma = brentq(lambda x: transform(mu * (1 - x)) - x, 0.0, 1 - 1e-9, xtol=1e-14)
    left, landing = np.zeros((n, 1)), np.zeros((1, n))
    left[-1, 0], landing[0, 0] = forth[-1], 1.0
    up = sparse.csr_array(left) @ sparse.csr_array(landing)
    eye = mu * sparse.eye_array(n)
    law = low_rank_levels([Level(up=up, local=d0)], up=(left, landing), local=d0 - eye, down=eye, load=0.8)
    assert law.decay_rate == pytest.approx(sigma, rel=1e-9)
    assert law.mean / rate == pytest.approx(1 / (mu * (1 - sigma)), rel=1e-9)


def test_refusals() -> None:
    one = np.eye(1)
    boundary = [Level(up=one, local=-one)]
    with pytest.raises(Unstable):
        low_rank_levels(boundary, up=(one, one), local=-2 * one, down=one, load=1.0)
    with pytest.raises(InvalidModel, match="sum to 1"):
        low_rank_levels(boundary, up=(one, 2 * one), local=-3 * one, down=one, load=0.5)
    with pytest.raises(InvalidModel, match="level 0"):
        low_rank_levels([], up=(one, one), local=-3 * one, down=2 * one, load=0.5)
    with pytest.raises(NotConverged, match="dense"):
        low_rank_levels(boundary, up=(one, one), local=-2 * one, down=2 * one, load=0.5)
