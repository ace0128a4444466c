"""Policies are data: which rule, with which thresholds.  What a rule does is derived twice, in qtheory and qsim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from qtheory.models.base import Spec, Threshold, check_probabilities, require

Ties = Literal["random", "lowest"]


def _threshold(spec: Spec, name: str) -> None:
    value = getattr(spec, name)
    whole = isinstance(value, int) or math.isinf(value)
    require(whole, field=name, rule="must be a whole number of jobs or inf", value=value)


class T1(Spec, frozen=True, kw_only=True, tag="t1"):
    """The donor helps queue 1 while it holds at least `t1` jobs, or its own queue is empty."""

    t1: Threshold

    def check(self) -> None:
        _threshold(self, "t1")


class T2(Spec, frozen=True, kw_only=True, tag="t2"):
    """The donor helps queue 1 while its own queue holds fewer than `t2` jobs."""

    t2: Threshold
    reading: Literal["source", "idle", "work-conserving"] = "source"

    def check(self) -> None:
        _threshold(self, "t2")


class T1T2(Spec, frozen=True, kw_only=True, tag="t1t2"):
    """T1(t1) while the donor's own queue holds fewer than `t2` jobs; else the donor stays at home."""

    t1: Threshold
    t2: Threshold

    def check(self) -> None:
        _threshold(self, "t1")
        _threshold(self, "t2")


class ADT(Spec, frozen=True, kw_only=True, tag="adt"):
    """Adaptive dual threshold: T1(low) while queue 2 holds at most `t2` jobs, else T1(high)."""

    low: Threshold
    high: Threshold
    t2: Threshold

    def check(self) -> None:
        for name in ("low", "high", "t2"):
            _threshold(self, name)
        require(self.low <= self.high, field="low", rule=f"must not exceed high ({self.high})", value=self.low)


class CMu(Spec, frozen=True, kw_only=True, tag="cmu"):
    """The c-mu rule: T1(1) if c1 mu12 > c2 mu2, else T1(inf)."""


class Dedicated(Spec, frozen=True, kw_only=True, tag="dedicated"):
    """The donor never helps."""


DonorPolicy = T1 | T2 | T1T2 | ADT | CMu | Dedicated

Sharing = Literal["random", "longest", "priority", "dominant", "shortest-downstream", "largest-differential"]


class _Shared(Spec, frozen=True, kw_only=True):
    """A policy under which the duplicates of one server share it: `sharing` says which of them is served.

    random: in proportion to their jobs (random order of service); longest: the one with most jobs; priority: by
    class, as listed in `order`; dominant: one that carries the test function with these `weights` (default 3/4
    each), the earlier position first; shortest-downstream: the one whose next place holds fewest jobs;
    largest-differential: the one with most jobs beyond those of its next place.

    `ties` says where a job goes that may join several places alike; duplicates that tie for a server are drawn
    at random.
    """

    sharing: Sharing = "random"
    order: tuple[str, ...] = ()
    weights: Mapping[str, float] = {}
    ties: Ties = "random"

    def check(self) -> None:
        if self.sharing == "priority":
            require(bool(self.order), field="order", rule="sharing by priority needs the classes in order")
        else:
            rule = "goes with sharing = priority only"
            require(not self.order, field="order", rule=rule, value=list(self.order))
        if self.sharing == "dominant":
            known = {"alpha", "beta", "gamma"}
            rule = "must give alpha, beta and gamma"
            require(set(self.weights) in (known, set()), field="weights", rule=rule, value=dict(self.weights))
            for name, weight in self.weights.items():
                rule = "must lie between 0 and 1"
                require(0 < weight < 1, field=f"weights.{name}", rule=rule, value=weight)
        else:
            rule = "goes with sharing = dominant only"
            require(not self.weights, field="weights", rule=rule, value=dict(self.weights))


class JSQ(_Shared, frozen=True, kw_only=True, tag="jsq"):
    """Join the shorter next server, by that server's total: decentralised, decided anew after each service."""

    def check(self) -> None:
        # Spelled out: zero-argument super() fails in a class that the struct machinery has built anew.
        _Shared.check(self)
        rule = "dominant needs jobs that keep to a route, under jsq they do not; take jsr"
        require(self.sharing != "dominant", field="sharing", rule=rule)


class JSR(_Shared, frozen=True, kw_only=True, tag="jsr"):
    """Join the route with the fewest jobs of the class."""


class JSQAS(_Shared, frozen=True, kw_only=True, tag="jsq-as"):
    """Join the shortest first place; a job moves on only to a place that holds fewer jobs than its own.

    With `switch` a released job joins the shortest duplicate (of its class) of its next place. Under `holding` =
    "idle" a place that holds its jobs back is not served; under "blocking" it is, and the finished job occupies
    the server until it may move.
    """

    switch: bool = True
    holding: Literal["idle", "blocking"] = "idle"


class MaxWeight(Spec, frozen=True, kw_only=True, tag="maxweight"):
    """Backpressure: join the shortest first place; serve the place with most jobs beyond its shortest next one.

    A server works only on a positive difference; among equal ones the first listed. `ties` is for arrivals.
    """

    ties: Ties = "random"


class Bernoulli(_Shared, frozen=True, kw_only=True, tag="bernoulli"):
    """Each job of a class takes route r with a fixed probability.

    `split` holds the probabilities per class and route, as a list in the order of the classes or as a table by
    class name; empty means the static split of the stabilizability programme.
    """

    split: Mapping[str, tuple[float, ...]] | tuple[tuple[float, ...], ...] = ()

    def check(self) -> None:
        _Shared.check(self)
        rows: list[tuple[Any, Any]] = (
            list(self.split.items()) if isinstance(self.split, Mapping) else list(enumerate(self.split))
        )
        for name, row in rows:
            for index, value in enumerate(row):
                rule = "must be a probability"
                require(0 <= value <= 1, field=f"split.{name}.{index}", rule=rule, value=value)
            check_probabilities(row, field=f"split.{name}")


NetworkPolicy = JSQ | JSR | JSQAS | MaxWeight | Bernoulli
