"""Few queues, exactly: the boundary value problem, the bracketing models, and a plain truncated chain beside them."""

from __future__ import annotations

import csv
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve
from shared_data import SHARED, needs_shared

from qtheory.models import NotConverged
from qtheory.systems.flexible.bracket import bracket
from qtheory.systems.flexible.level_reduction import repeating_passages, settled_passages, stationary_lengths
from qtheory.systems.flexible.pair import pair_means, pair_tails
from qtheory.systems.flexible.sorted_queues import SortedQueues, position_weights

# Two queues, everybody joins the shorter: the mean response as computed elsewhere by a quasi-birth-death process.
KNOWN_PAIR = {0.9: 5.47491282}


def read(name):
    with open(SHARED / "anchors" / name) as lines:
        return list(csv.DictReader(lines))


def plain_chain(*, queues, load, fraction, weights, cap):
    """The chain of all (unsorted) queue lengths up to a cap, solved by sparse LU: mean number and P(min, max >= k)."""
    states = list(product(range(cap + 1), repeat=queues))
    place = {state: index for index, state in enumerate(states)}
    rows, columns, rates = [], [], []

    def move(start, queue, change, rate):
        end = list(start)
        end[queue] += change
        if 0 <= end[queue] <= cap:
            rows.append(place[start])
            columns.append(place[tuple(end)])
            rates.append(rate)

    for state in states:
        order = sorted(range(queues), key=lambda q, state=state: (state[q], q))
        for rank, queue in enumerate(order):
            move(state, queue, 1, load * (1 - fraction) + queues * load * fraction * weights[rank])
        for queue in range(queues):
            move(state, queue, -1, 1.0)
    size = len(states)
    q = sparse.coo_array((rates, (rows, columns)), shape=(size, size)).tocsr()
    generator = (q - sparse.diags_array(q.sum(axis=1))).T.tolil()
    generator[0, :] = 1.0
    right = np.zeros(size)
    right[0] = 1.0
    law = spsolve(generator.tocsc(), right)
    lengths = np.sort(np.array(states), axis=1)
    tails = np.array([[law[lengths[:, i] >= k].sum() for k in range(4)] for i in range(queues)])
    return float(law @ lengths.sum(axis=1)), tails


@pytest.mark.parametrize(("rho", "p"), [(0.3, 0.1), (0.4, 0.5), (0.5, 1.0)])
def test_pair_against_the_plain_chain(rho, p):
    weights = position_weights(queues=2, choices=2, sampling="distinct")
    mean, tails = plain_chain(queues=2, load=rho, fraction=p, weights=weights, cap=36)
    got = pair_means(load=rho, fraction=p)
    assert got.number == pytest.approx(mean, rel=1e-9)
    shorter, longer = pair_tails(load=rho, fraction=p)
    assert shorter[:4] == pytest.approx(tails[0], abs=1e-10)
    assert longer[:4] == pytest.approx(tails[1], abs=1e-10)


@pytest.mark.parametrize(("choices", "sampling"), [(2, "distinct"), (3, "distinct"), (2, "replacement")])
def test_three_queues_against_the_plain_chain(choices, sampling):
    """Three queues at load .3, cap 12: what the cap cuts off is below 1e-5."""
    weights = position_weights(queues=3, choices=choices, sampling=sampling)
    mean, tails = plain_chain(queues=3, load=0.3, fraction=0.6, weights=weights, cap=12)
    got = bracket(load=0.3, fraction=0.6, weights=weights)
    assert got.upper.mean_number - got.lower.mean_number < 1e-8
    assert got.lower.mean_number == pytest.approx(mean, rel=1e-5)
    assert got.lower.tails[:, :4] == pytest.approx(tails, abs=1e-5)


@pytest.mark.parametrize(("rho", "value"), KNOWN_PAIR.items())
def test_shortest_of_two(rho, value):
    assert pair_means(load=rho, fraction=1.0).number / (2 * rho) == pytest.approx(value, abs=6e-9)


@pytest.mark.parametrize(("rho", "p"), [(0.2, 0.3), (0.8, 0.1), (0.95, 0.3), (0.9, 1.0)])
def test_pair_lies_between_the_bounds(rho, p):
    """Two roads that share nothing but the model: a generating function and matrix recursions."""
    weights = np.array([1.0, 0.0])
    got = pair_means(load=rho, fraction=p)
    between = bracket(load=rho, fraction=p, weights=weights, tolerance=1e-9)
    width = between.upper.mean_number - between.lower.mean_number
    assert width < 1e-8
    slack = 1e-11 * got.number / (1 - rho)
    assert between.lower.mean_number - slack <= got.number <= between.upper.mean_number + slack
    shorter, longer = pair_tails(load=rho, fraction=p)
    size = min(len(shorter), between.lower.tails.shape[1])
    assert between.lower.tails[0, :size] == pytest.approx(shorter[:size], abs=1e-9)
    assert between.lower.tails[1, :size] == pytest.approx(longer[:size], abs=1e-9)


@pytest.mark.parametrize(("rho", "p"), [(1e-3, 0.5), (0.5, 1e-3), (0.5, 1.0), (0.8, 0.25), (0.99, 0.02), (0.99, 1.0)])
def test_pair_keeps_its_identities(rho, p):
    """A random queue is busy with probability rho, sums of tails are means; (.8, .25): rate 1 to the shorter."""
    got = pair_means(load=rho, fraction=p)
    shorter, longer = pair_tails(load=rho, fraction=p)
    assert (shorter[1] + longer[1]) / 2 == pytest.approx(rho, rel=1e-10)
    scale = 1e-9 * got.number / (1 - rho) / p
    assert shorter[1:].sum() == pytest.approx(got.shorter, abs=scale + 1e-12)
    assert longer[1:].sum() == pytest.approx(got.longer, abs=scale + 1e-12)
    assert got.error < 1e-7 * got.number


def test_pair_says_when_it_cannot():
    with pytest.raises(NotConverged, match="two queues"):
        pair_means(load=0.99999, fraction=1e-5)


@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_pair_is_decreasing_and_convex(rho):
    """Akgun, Righter and Wolff on 65 points; the error of each is below 1e-11."""
    response = np.array([pair_means(load=rho, fraction=p).number for p in np.linspace(1 / 64, 1, 64)])
    response = np.concatenate([[2 * rho / (1 - rho)], response])
    assert np.diff(response).max() < -1e-6
    assert np.diff(response, 2).min() > 1e-8


def test_three_queues_are_decreasing_and_convex():
    """On 5 points, with each second difference above what the brackets leave open."""
    weights = position_weights(queues=3, choices=2, sampling="distinct")
    lower, upper = [6.0 * 0.5], [6.0 * 0.5]
    for p in np.linspace(0.25, 1, 4):
        found = bracket(load=0.5, fraction=float(p), weights=weights, tolerance=1e-5)
        lower.append(found.lower.mean_number)
        upper.append(found.upper.mean_number)
    low, high = np.array(lower), np.array(upper)
    assert np.all(high[1:] < low[:-1])
    assert np.all(low[2:] + low[:-2] - 2 * high[1:-1] > 0)


def test_flexible_response_rises_with_p_for_two_queues():
    """And falls in the mean field: what a flexible job has depends on how many others there are."""
    got = [1 + pair_means(load=0.9, fraction=p).shorter for p in (0.1, 0.5, 1.0)]
    assert got == sorted(got)


def test_slope_at_zero_is_that_of_independent_queues():
    """Exact for every N: -rho / ((1 - rho)^2 (1 + rho)) for d = 2."""
    rho, h = 0.6, 1e-4
    mm1 = 1 / (1 - rho)
    one, two = (pair_means(load=rho, fraction=x).number / (2 * rho) for x in (h, 2 * h))
    slope = (-3 * mm1 + 4 * one - two) / (2 * h)
    assert slope == pytest.approx(-rho / ((1 - rho) ** 2 * (1 + rho)), rel=1e-6)


def test_position_weights():
    assert position_weights(queues=4, choices=4, sampling="distinct").tolist() == [1, 0, 0, 0]
    assert position_weights(queues=2, choices=2, sampling="replacement").tolist() == [0.75, 0.25]
    rng = np.random.default_rng(1)
    drawn = np.bincount(np.min(rng.integers(0, 5, (200_000, 3)), axis=1), minlength=5) / 200_000
    assert position_weights(queues=5, choices=3, sampling="replacement") == pytest.approx(drawn, abs=0.006)


@pytest.mark.parametrize(("queues", "spread"), [(2, 12), (3, 6), (4, 4)])
def test_jockeying_keeps_the_load(queues, spread):
    """Jobs are moved, never added: a random queue is busy with probability rho exactly; blocking can only add."""
    rho, p = 0.6, 0.5
    weights = position_weights(queues=queues, choices=2, sampling="distinct")
    arrivals = tuple(rho * (1 - p + queues * p * w) for w in weights)
    below = SortedQueues(arrivals=arrivals, spread=spread, variant="jockeying")
    passages = repeating_passages(below, load=rho)
    low = stationary_lengths(below, passages=passages)
    assert low.tails[:, 1].mean() == pytest.approx(rho, rel=1e-12)
    above = SortedQueues(arrivals=arrivals, spread=spread, variant="blocking")
    settled = settled_passages(above, guess=passages, weights=low.repeating)
    high = stationary_lengths(above, passages=settled)
    assert high.tails[:, 1].mean() > rho
    assert high.mean_number > low.mean_number


def test_bounds_close_in_as_the_spread_grows():
    rho, p = 0.7, 0.3
    weights = position_weights(queues=3, choices=2, sampling="distinct")
    widths, lows = [], []
    for states in (25, 60, 150):
        found = bracket(load=rho, fraction=p, weights=weights, tolerance=1e-14, states=states)
        lows.append(found.lower.mean_number)
        widths.append(found.upper.mean_number - found.lower.mean_number)
    assert lows == sorted(lows)
    assert widths[0] > 5 * widths[1] > 25 * widths[2]


@needs_shared
def test_pair_anchors():
    for row in read("flexible_exact_n2.csv"):
        rho, p = float(row["rho"]), float(row["p"])
        if p > 0:
            got = pair_means(load=rho, fraction=p)
            assert got.number / (2 * rho) == pytest.approx(float(row["ET"]), abs=1e-9)
            assert 1 + got.shorter == pytest.approx(float(row["ET_flex"]), abs=1e-9)


def rows_inside(rows):
    """How many rows there are; every bracket is inside the recorded one and at least as narrow."""
    for row in rows:
        n, d = int(row["N"]), int(row["d"])
        rho, p = float(row["rho"]), float(row["p"])
        low, high = float(row["ET_lb"]), float(row["ET_ub"])
        weights = position_weights(queues=n, choices=d, sampling="distinct")
        wanted = max(1e-9, high - low)
        found = bracket(load=rho, fraction=p, weights=weights, tolerance=wanted)
        mine_low, mine_high = found.lower.mean_number / (n * rho), found.upper.mean_number / (n * rho)
        assert mine_high - mine_low <= wanted
        assert low - 1e-9 <= (mine_low + mine_high) / 2 <= high + 1e-9
    return len(rows)


@needs_shared
def test_several_queue_anchors_quick():
    rows = read("flexible_exact_n345.csv")
    quick = [row for row in rows if float(row["p"]) == 1.0 and row["d"] == row["N"] and int(row["N"]) < 5]
    assert rows_inside(quick) == 3


@pytest.mark.slow
@needs_shared
def test_several_queue_anchors():
    assert rows_inside(read("flexible_exact_n345.csv")) == 35
