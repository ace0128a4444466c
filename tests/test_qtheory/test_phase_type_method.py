"""The dispatcher's phase-type method: limits with closed forms, published numbers, recorded truths, hard input."""

from __future__ import annotations

import json
import math
from functools import cache

import anchors
import numpy as np
import pytest
from shared_data import SHARED, needs_shared

import qtheory
import qtheory.laws
from qtheory.models import (
    Deterministic,
    Dispatcher,
    Empirical,
    Erlang,
    Exponential,
    Hyperexponential,
    InvalidModel,
    LogNormal,
    Mixture,
    Pareto,
    Uniform,
    Unstable,
    parse,
)
from qtheory.queues import erlang
from qtheory.systems.dispatcher import killed_queue
from qtheory.systems.dispatcher.phase_type import solve

ONE = Exponential(mean=1.0)


def dispatcher(**fields):
    """A stable system with a kill in three jobs of Group 0, changed as told."""
    base = {
        "servers": (2, 3),
        "time_limit": 1.0,
        "short_fraction": 0.6,
        "interarrival": Exponential(mean=0.7),
        "service0": ONE,
        "service1": Exponential(mean=0.9),
    }
    return Dispatcher(**base | fields)


def means(found):
    return {key: value.value for key, value in found.measures.items() if key[0] == "mean_wait"}


class TestLimits:
    """Where the answer is known in closed form."""

    @pytest.mark.parametrize("limit", [math.inf, 200.0])
    def test_without_kills_both_groups_are_m_m_c(self, limit):
        found = solve(dispatcher(time_limit=limit))
        rate = 1.0 / 0.7
        for group, share, mean, count in ((0, 0.6, 1.0, 2), (1, 0.4, 0.9, 3)):
            load = rate * share * mean
            wait = erlang.erlang_c(offered_load=load, servers=count) * mean / (count - load)
            assert found["mean_wait", f"group{group}"].value == pytest.approx(wait, rel=1e-9)
            assert found["wait_probability", f"group{group}"].value == pytest.approx(wait * (count - load) / mean)
        # Response of M/M/c: wait plus service, both exponential where there is a wait.
        probability = erlang.erlang_c(offered_load=rate * 0.6, servers=2)
        slow, t = 2.0 - rate * 0.6, found["p95_response", "short"].value
        tail = (1 - probability) * math.exp(-t) + probability * (math.exp(-slow * t) - slow * math.exp(-t)) / (1 - slow)
        assert tail == pytest.approx(0.05, rel=1e-6)

    @pytest.mark.parametrize(
        "law", [Uniform(low=0.2, high=2.0), LogNormal(mean=1.0, scv=4.0), Deterministic(value=0.8)]
    )
    def test_single_servers_are_pollaczek_khinchine(self, law):
        found = solve(dispatcher(servers=(1, 3), service0=law, time_limit=1.3, interarrival=Exponential(mean=1.5)))
        capped = qtheory.laws.distribution(law)
        first, second = (capped.capped_moment(float(k), 1.3) for k in (1, 2))
        rate = 0.6 / 1.5
        expected = rate * second / (2.0 * (1.0 - rate * first))
        assert found["mean_wait", "group0"].value == pytest.approx(expected, rel=1e-6)
        assert found["mean_wait", "group0"].error <= 1e-5 * expected

    def test_all_killed(self):
        """A limit below all services: Group 0 is M/D/1, nobody is short, and everyone stays T + S at least."""
        model = dispatcher(servers=(1, 4), time_limit=0.5, service0=Uniform(low=1.0, high=2.0))
        found = solve(model)
        rate = 0.6 / 0.7
        assert found["mean_wait", "group0"].value == pytest.approx(rate * 0.25 / (2 * (1 - rate * 0.5)), rel=1e-6)
        assert ("mean_response", "short") not in found.measures
        assert found["throughput", "killed"].value == pytest.approx(rate)
        assert found["mean_response", "killed"].value > 2.0

    @pytest.mark.parametrize(("share", "absent"), [(0.0, ("short", "killed", "group0")), (1.0, ("long",))])
    def test_groups_without_jobs_are_left_out(self, share, absent):
        found = solve(dispatcher(short_fraction=share, servers=(3, 3)))
        for scope in absent:
            assert ("mean_wait", scope) not in found.measures

    def test_rare_kills_leave_the_long_jobs_alone(self):
        """P(S0 > T) = 1e-9: the long jobs wait as in M/M/3."""
        found = solve(dispatcher(time_limit=9.0 * math.log(10.0)))
        alone = solve(dispatcher(time_limit=math.inf))
        assert found["mean_wait", "long"].value == pytest.approx(alone["mean_wait", "long"].value, rel=1e-5)

    def test_many_idle_servers_make_poisson_kills(self):
        """Kills of M/G/infinity are Poisson: both classes wait as in M/G/n1 (here within .1 %)."""
        model = dispatcher(servers=(40, 2), interarrival=Exponential(mean=0.33), service1=Exponential(mean=0.2))
        model = model.replace(time_limit=1.5, short_fraction=0.7)
        found = solve(model)
        queue = killed_queue.killed_queue(
            qtheory.systems.dispatcher.loads.traffic(model), servers=model.servers, short_fraction=0.7
        )
        assert queue.ratio == pytest.approx(1.0, abs=1e-3)
        assert found["mean_wait", "killed"].value - found["mean_wait", "group0"].value == pytest.approx(
            found["mean_wait", "long"].value, rel=2e-3
        )


class TestProperties:
    def test_time_scale(self):
        """Ten times slower: every time is ten times as long, every probability the same."""
        one = solve(dispatcher())
        slow = dispatcher(
            time_limit=10.0,
            interarrival=Exponential(mean=7.0),
            service0=Exponential(mean=10.0),
            service1=Exponential(mean=9.0),
        )
        ten = solve(slow)
        for key, value in means(one).items():
            assert ten[key].value == pytest.approx(10.0 * value, rel=1e-6)
        assert ten["p95_response", "killed"].value == pytest.approx(
            10.0 * one["p95_response", "killed"].value, rel=1e-4
        )

    def test_sums_over_classes(self):
        """Group 1's wait is the mean over its classes, and Little's law holds for all jobs."""
        found = solve(dispatcher())
        rates = {scope: found["throughput", scope].value for scope in ("short", "killed", "long", "all")}
        first, second = found["mean_wait", "group0"].value, found["mean_wait", "group1"].value
        killed = found["mean_wait", "killed"].value - first
        total = rates["killed"] * killed + rates["long"] * found["mean_wait", "long"].value
        assert total == pytest.approx((rates["killed"] + rates["long"]) * second, rel=1e-9)
        assert found["mean_number", "all"].value == pytest.approx(rates["all"] * found["mean_response", "all"].value)

    def test_killed_jobs_wait_less_than_long_ones(self):
        """Kills come more evenly than long jobs, which see them as a Poisson process sees the queue."""
        found = solve(dispatcher())
        killed = found["mean_wait", "killed"].value - found["mean_wait", "group0"].value
        assert killed < found["mean_wait", "long"].value

    def test_quantiles_and_tails_agree(self):
        found = solve(dispatcher(), at=(2.0, 6.0))
        for scope in ("all", "short", "long", "killed"):
            tails = [found["tail_response", scope, at].value for at in (2.0, 6.0)]
            assert tails[0] > tails[1] >= 0.0
        at = found["p95_response", "killed"].value
        again = solve(dispatcher(), at=(at,))
        assert again["tail_response", "killed", at].value == pytest.approx(0.05, abs=1e-5)

    def test_more_servers_wait_less(self):
        waits = [solve(dispatcher(servers=(2, n)))["mean_wait", "group1"].value for n in (2, 3, 4, 6)]
        assert waits == sorted(waits, reverse=True)

    def test_kills_are_the_jobs_of_one_stream(self):
        """With p0 = 1 and Group 0 nearly saturated kills are a renewal process of small scv: far below Poisson."""
        model = dispatcher(
            servers=(1, 2), short_fraction=1.0, time_limit=math.log(2.0), interarrival=Exponential(mean=1 / 1.9)
        )
        found = solve(model)
        assert found["mean_wait", "group1"].value == pytest.approx(
            anchors.KILL_STREAM[4, "mean_wait", "group1_killed"].value, rel=5e-3
        )


@pytest.mark.parametrize("number", anchors.KILL_STREAM_SYSTEMS)
def test_systems_of_many_kills(number):
    """E[R] within .2 %, W1 of killed and of long jobs within 1 %, each within its error and the anchor's."""
    found = solve(parse(anchors.KILL_STREAM_SYSTEMS[number]))
    first = found["mean_wait", "group0"].value
    waits = {"group1_killed": found["mean_wait", "killed"].value - first}
    if ("mean_wait", "long") in found.measures:
        waits["group1_long"] = found["mean_wait", "long"].value
    for scope, value in waits.items():
        anchor = anchors.KILL_STREAM[number, "mean_wait", scope]
        assert value == pytest.approx(anchor.value, rel=0.01)
        assert abs(value - anchor.value) <= found["mean_wait", "group1"].error + anchor.within
    for key in ("mean_response", "all"), ("mean_wait", "group0"):
        anchor = anchors.KILL_STREAM[number, *key]
        assert abs(found[key].value - anchor.value) <= found[key].error + anchor.within
        assert found[key].value == pytest.approx(anchor.value, rel=2e-3, abs=anchor.within)


def test_designs_of_example_e():
    """Within the error and the anchor's interval; the second design, whose interval is unknown, within .5 %."""
    model = parse(anchors.EXAMPLE_E_MODEL)
    for servers, anchor in anchors.EXAMPLE_E_RESPONSE.items():
        found = solve(model.replace(servers=servers))["mean_response", "all"]
        if servers == (3, 4):
            assert abs(found.value - anchor.value) <= found.error + anchor.within
        assert found.value == pytest.approx(anchor.value, rel=5e-3)
        assert found.error <= 5e-3 * found.value


class TestHardInput:
    def test_unstable(self):
        with pytest.raises(Unstable, match="group0"):
            solve(dispatcher(interarrival=Exponential(mean=0.1)))
        with pytest.raises(Unstable, match="group1"):
            solve(dispatcher(service1=Exponential(mean=9.0)))

    def test_infinite_mean_wait_says_why(self):
        """One spare server and no second moment: infinite in Group 1, finite in Group 0."""
        model = dispatcher(servers=(2, 2), service1=Pareto(shape=1.8, minimum=0.6), interarrival=Exponential(mean=0.8))
        found = solve(model)
        assert math.isinf(found["mean_wait", "group1"].value)
        assert "second moment of service1" in found["mean_wait", "group1"].note
        assert math.isfinite(found["mean_wait", "group0"].value)
        assert ("p95_response", "long") not in found.measures

    def test_missing_moments_are_named_and_paid_for(self):
        """Two spare servers: the mean is finite without a second moment, and its error is half of it or more."""
        found = solve(dispatcher(servers=(2, 4), service1=Pareto(shape=1.8, minimum=0.3)))
        assert found["mean_wait", "group1"].error >= 0.5 * found["mean_wait", "group1"].value
        assert any("service1 has no second moment" in remark for remark in found.details["remarks"])
        third = solve(dispatcher(service1=Pareto(shape=2.5, minimum=0.3)))
        assert any("service1 has no third moment" in remark for remark in third.details["remarks"])
        assert "remarks" not in solve(dispatcher()).details

    def test_fallback_is_named_and_paid_for(self, monkeypatch):
        best = solve(dispatcher())
        monkeypatch.setattr(killed_queue, "sound_reductions", lambda space, ladder: iter(()))
        found = solve(dispatcher())
        assert "work dispersion" in found.method
        assert best.method == "phase-type"
        assert found["mean_wait", "group1"].error > 5.0 * best["mean_wait", "group1"].error
        assert found["mean_wait", "group1"].value == pytest.approx(best["mean_wait", "group1"].value, rel=0.1)

    def test_a_queue_without_a_sound_answer_is_that_of_the_quick_method(self):
        """Constant times between arrivals, eleven servers that one job in 10^4 or fewer has to wait for."""
        model = Dispatcher(
            servers=(11, 19),
            time_limit=0.7804624044446979,
            short_fraction=0.9,
            interarrival=Deterministic(value=0.07458077389772202),
            service0=ONE,
            service1=Exponential(mean=2.9595956261617467),
        )
        found, quick = solve(model, quantiles=False), qtheory.solve(model, method="mgc", quantiles=False)
        assert "group0 by mgc" in found.method
        assert found["mean_wait", "group0"] == quick["mean_wait", "group0"]
        assert found["mean_wait", "group1"].error < quick["mean_wait", "group1"].error

    @pytest.mark.parametrize(
        "fields",
        [
            {"service0": Deterministic(value=1.0), "time_limit": 1.0},
            {"service0": Deterministic(value=1.0), "time_limit": 0.7},
            {"service0": Empirical(values=(0.5, 0.5, 2.0))},
            {"interarrival": Deterministic(value=0.7)},
            {"interarrival": Hyperexponential(probabilities=(0.05, 0.95), means=(7.0, 0.37))},
            {"service0": Hyperexponential(probabilities=(0.5, 0.5), means=(1.0, 1.0000001))},
            {"service1": LogNormal(mean=0.9, scv=100.0)},
            {"service1": Erlang(shape=100, mean=0.9)},
            {"service1": Deterministic(value=1e-9)},
            {"interarrival": Exponential(mean=1e6)},
            {"time_limit": 1e-4},
            {"time_limit": 28.0},
            {"short_fraction": 1e-6},
            {"servers": (2, 80)},
            {"servers": (80, 2)},
            {"servers": (2, 2), "interarrival": Exponential(mean=0.601)},
        ],
    )
    def test_extremes_give_numbers_that_can_be(self, fields):
        """Between the bounds: no wait at all, and three times the wait of the quick method."""
        model = dispatcher(**fields)
        found, quick = solve(model), qtheory.solve(model, method="mgc")
        for key, value in found.measures.items():
            assert math.isfinite(value.error), key
            assert 0.0 <= value.value < math.inf, key
        for scope in ("group0", "group1"):
            most = 3.0 * quick["mean_wait", scope].value + quick["mean_wait", scope].error
            assert found["mean_wait", scope].value <= most + 1e-3 * found["mean_response", "all"].value

    def test_irregular_arrivals_without_a_second_moment(self):
        found = solve(dispatcher(interarrival=Pareto(shape=1.5, minimum=0.25)))
        assert any("interarrival has no second moment" in remark for remark in found.details["remarks"])
        assert 0.0 < found["mean_wait", "group0"].value < 1.0

    def test_regular_arrivals_that_never_wait(self):
        """Jobs .7 apart that stay at most 1 never find two servers busy: the error must admit a wait of 0."""
        found = solve(dispatcher(interarrival=Deterministic(value=0.7)))
        assert "intervals of scv" in found.method
        assert found["mean_wait", "group0"].error >= found["mean_wait", "group0"].value

    def test_rates_that_round_to_more_than_all_arrivals(self):
        """At this limit the rates of short and killed jobs sum to one last bit more than the arrivals."""
        model = dispatcher(time_limit=0.14, short_fraction=1.0, interarrival=Erlang(shape=2, mean=0.7), servers=(3, 3))
        assert 0.0 < solve(model)["mean_wait", "group0"].value < 0.01

    def test_at_the_edge_of_stability(self):
        """rho1 = 1 - 1e-9 without kills: rho C / (1 - rho) with all digits."""
        load = 3.0 * (1.0 - 1e-9)
        found = solve(dispatcher(time_limit=math.inf, service1=Exponential(mean=load * 0.7 / 0.4)))
        assert found["mean_wait", "group1"].value == pytest.approx(load * 0.7 / 0.4 / (3.0 - load), rel=1e-5)

    def test_unknown_law(self):
        with pytest.raises(InvalidModel):
            parse({"kind": "dispatcher", "servers": [1, 1], "time_limit": -1.0})


@cache
def recorded():
    """(name, model, {(measure, scope): (value, how far it may be off)})."""
    systems = []
    for entry in json.loads((SHARED / "anchors" / "dispatcher.json").read_text()):
        known = {}
        for measure in ("mean_response", "p95_response"):
            for scope, (value, half_width, *bin_width) in entry["truth"][measure].items():
                known[measure, scope] = (value, half_width + sum(bin_width))
        systems.append((entry["name"], parse(entry["model"]), known))
    return systems


@needs_shared
class TestRecordedSystems:
    """Simulated truths of 24 systems, 15 of them with Poisson arrivals."""

    def misses(self, names=None):
        """{(measure, scope): [(relative error beyond the truth's own, relative claim)]}."""
        rows: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for name, model, known in recorded():
            if names is not None and name not in names:
                continue
            found = solve(model)
            for key, (value, off) in known.items():
                miss = max(abs(found[key].value - value) - off, 0.0) / value
                rows.setdefault(key, []).append((miss, found[key].error / value))
        return rows

    def check(self, rows):
        for (measure, scope), pairs in rows.items():
            miss, claim = np.array(pairs).T
            limit = 0.03 if measure == "p95_response" else 0.005
            assert miss.max() <= limit, (measure, scope)
            if measure == "mean_response":
                assert np.median(miss) <= 5e-4
                assert (miss <= claim).mean() >= 0.95 or (miss > claim).sum() <= 1
                assert np.median(claim) <= 0.005

    def test_some(self):
        self.check(
            self.misses(
                {
                    "example-E",
                    "poisson-killheavy-exp-2x3",
                    "poisson-killheavy-weibull2-4x5",
                    "poisson-pareto-6x4",
                    "poisson-erlang8-4x1",
                    "renewal-h2-bpareto-6x8",
                    "renewal-det-exp-2x2",
                }
            )
        )

    @pytest.mark.slow
    def test_all(self):
        self.check(self.misses())


def test_bursts_are_killed_together():
    """Simultaneous arrivals at idle groups, as in a recorded log: Group 1 waits four times as long as behind Poisson
    kills.  The truths are simulated (2e7 jobs, 95 % half-widths 1.2 and 41)."""
    gaps = Hyperexponential(probabilities=(0.2025, 0.5955, 0.2020), means=(5.422, 407.1, 8567.4))
    model = Dispatcher(
        servers=(10, 10),
        time_limit=14400.0,
        short_fraction=0.889,
        interarrival=Mixture(weights=(0.2026, 0.7974), laws=(Deterministic(value=0.0), gaps)),
        service0=Hyperexponential(probabilities=(0.1926, 0.4267, 0.3807), means=(32.55, 938.4, 13408.6)),
        service1=Hyperexponential(probabilities=(0.2412, 0.3668, 0.3920), means=(32.56, 61189.7, 62931.4)),
    )
    for method in ("mgc", "phase-type"):
        found = qtheory.solve(model, method=method)
        for scope, truth, within in (("group0", 100.4, 1.5), ("group1", 2498.0, 50.0)):
            wait = found["mean_wait", scope]
            assert abs(wait.value - truth) <= wait.error + within, (method, scope)
    assert "work dispersion" in found.method
    assert found["mean_wait", "group1"].error < 0.2 * found["mean_wait", "group1"].value


@pytest.mark.parametrize("method", ["mgc", "phase-type"])
def test_thousands_of_servers_at_light_load(method):
    """Nobody waits: the mean response is that of the services, T + E[S0 | S0 > T] for killed jobs."""
    one = Exponential(mean=1.0)
    model = Dispatcher(
        servers=(10_000, 10_000),
        time_limit=2.0,
        short_fraction=0.5,
        interarrival=Exponential(mean=2e-4),
        service0=one,
        service1=one,
    )
    found = qtheory.solve(model, method=method)
    killed = math.exp(-2.0)
    assert found["mean_response", "killed"].value == pytest.approx(2.0 + 3.0, rel=1e-12)
    assert found["mean_response", "all"].value == pytest.approx(1.0 + 0.5 * killed * 2.0, rel=1e-12)
    if method == "phase-type":
        assert "group0 by mgc: more than 100 servers" in found.method
