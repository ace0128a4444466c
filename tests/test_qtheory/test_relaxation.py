"""Relaxation times against closed forms and the spectral gap of a small chain; the rest follows from scaling."""

from __future__ import annotations

import math

import network_cases
import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.linalg import eigs

from qtheory.models import JSR, Bernoulli, Erlang, Exponential, Flexible, MaxWeight, Network, NetworkClass, Pareto
from qtheory.systems.flexible.relaxation import relaxation_jobs as flexible_jobs
from qtheory.systems.network import with_load
from qtheory.systems.network.relaxation import relaxation_jobs as network_jobs
from qtheory.systems.network.stabilizability import stabilizability


def alone(load: float) -> float:
    """1 / spectral gap of M/M/1 with service rate 1 (Cohen, The Single Server Queue, 1982)."""
    return 1.0 / (1.0 - math.sqrt(load)) ** 2


def slowest(load: float, p: float, *, most: int) -> float:
    """1 / spectral gap of two exponential queues of at most `most` - 1 jobs, a share p of jobs joins the shorter."""
    a, b = (table.ravel() for table in np.mgrid[:most, :most])
    here = a * most + b
    further = 2 * load * p * np.where(a == b, 0.5, a < b)
    rows, columns, rates = [], [], []
    for da, db, rate in (
        (1, 0, load * (1 - p) + further),
        (0, 1, load * (1 - p) + 2 * load * p - further),
        (-1, 0, np.ones(a.size)),
        (0, -1, np.ones(a.size)),
    ):
        inside = (a + da >= 0) & (a + da < most) & (b + db >= 0) & (b + db < most)
        rows += [here[inside], here[inside]]
        columns += [(here + da * most + db)[inside], here[inside]]
        rates += [rate[inside], -rate[inside]]
    matrix = coo_array((np.concatenate(rates), (np.concatenate(rows), np.concatenate(columns))))
    found = eigs(matrix.T.tocsc(), k=3, sigma=1e-5, return_eigenvectors=False)
    return 1.0 / float(np.sort(-found.real)[1])


def flexible(**changes) -> Flexible:
    given = {"queues": 2, "load": 0.5, "flexible_fraction": 0.0, "choices": 2}
    return Flexible(**(given | changes))


def network(servers, rates_and_routes, policy) -> Network:
    classes = [NetworkClass(rate=rate, routes=routes) for rate, routes in rates_and_routes]
    return Network(servers=servers, classes=classes, policy=policy)


class TestFlexible:
    @pytest.mark.parametrize("load", [0.3, 0.8, 0.99])
    def test_without_choice_it_is_one_queue(self, load):
        assert flexible_jobs(flexible(load=load, queues=7)) == pytest.approx(7 * load * alone(load))

    @pytest.mark.parametrize(("load", "most"), [(0.5, 30), (0.8, 60)])
    @pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 1.0])
    def test_is_above_the_spectral_gap_of_two_queues(self, load, most, p):
        """The gap of the truncated chain is that of the whole within a tenth here."""
        exact = slowest(load, p, most=most)
        found = flexible_jobs(flexible(load=load, flexible_fraction=p)) / (2 * load)
        assert exact < found < 2.3 * exact

    def test_pooled_queues_near_load_one(self):
        """Two servers with full choice relax as M/M/1 twice as fast, but for what balances them."""
        load = 0.999
        found = flexible_jobs(flexible(load=load, flexible_fraction=1.0, choices="all")) / (2 * load)
        assert found == pytest.approx(alone(load) / 2, rel=0.01)

    def test_choice_never_slows(self):
        for queues in (2, 10, 1000):
            times = [
                flexible_jobs(flexible(queues=queues, load=0.97, flexible_fraction=p)) for p in (0.0, 0.1, 0.5, 1.0)
            ]
            assert times == sorted(times, reverse=True)

    def test_variable_services_take_longer(self):
        """In proportion to E[S^2] for M/G/1 near load 1; never shorter than exponential ones."""
        plain = flexible_jobs(flexible(load=0.9))
        assert flexible_jobs(flexible(load=0.9, service=Exponential(mean=3.0))) == pytest.approx(plain)
        assert flexible_jobs(flexible(load=0.9, service=Erlang(shape=4, mean=1.0))) == pytest.approx(plain)
        heavy = flexible_jobs(flexible(load=0.9, service=Pareto(shape=1.5, minimum=1.0)))
        assert plain < heavy < math.inf

    def test_no_time_at_load_one(self):
        assert flexible_jobs(flexible(load=1.0)) == math.inf


class TestNetwork:
    @pytest.mark.parametrize("load", [0.3, 0.8, 0.99])
    def test_one_server(self, load):
        """M/M/1 in closed form under Bernoulli; as reflected Brownian motion never less, and the same near load 1."""
        one = [(load, [["s"]])]
        exact = load * (alone(load) + 1.0)
        assert network_jobs(network({"s": 1.0}, one, Bernoulli(split=[[1.0]]))) == pytest.approx(exact)
        workload = network_jobs(network({"s": 1.0}, one, JSR()))
        assert exact <= workload < exact * (1.0 + 3.0 * (1.0 - load))

    def test_a_pool_relaxes_as_one_fast_server(self):
        """Near load 1; four servers pooled need a quarter of the time of one."""
        load, names = 0.999, ["a", "b", "c", "d"]
        pool = network(dict.fromkeys(names, 1.0), [(4 * load, [[name] for name in names])], MaxWeight())
        assert network_jobs(pool) == pytest.approx(4 * load * alone(load) / 4, rel=0.01)

    def test_a_slow_server_off_the_bottleneck_counts(self):
        """Server b has less load than a, but a hundredth of its speed."""
        apart = [(90.0, [["a"]]), (0.8, [["b"]])]
        found = network_jobs(network({"a": 100.0, "b": 1.0}, apart, JSR()))
        assert found == pytest.approx(90.8 * (alone(0.8) + 1.0))

    def test_time_has_no_unit(self):
        """Rates times 10 are the same network seen faster."""
        slow = network_cases.small({"kind": "maxweight"})
        fast = slow.replace(
            servers={name: 10 * rate for name, rate in slow.servers.items()},
            classes=tuple(c.replace(rate=10 * c.rate) for c in slow.classes),
        )
        assert network_jobs(fast) == pytest.approx(network_jobs(slow))

    def test_no_time_without_spare_capacity(self):
        model = network_cases.small({"kind": "jsr"})
        full = with_load(model, factor=stabilizability(model).theta_star * 1.001)
        assert network_jobs(full) == math.inf
        split = network({"a": 1.0, "b": 1.0}, [(1.2, [["a"], ["b"]])], Bernoulli(split=[[0.9, 0.1]]))
        assert network_jobs(split) == math.inf
