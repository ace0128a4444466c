"""The shared specification: what a system is, checked once, and nothing derived from it."""

from __future__ import annotations

from qtheory.models.dispatcher import Dispatcher
from qtheory.models.donor import Donor, ServiceRates
from qtheory.models.errors import InvalidModel, NotConverged, Unstable
from qtheory.models.files import SYSTEMS, Model, load, parse, plain, save, schema
from qtheory.models.flexible import Flexible
from qtheory.models.laws import (
    LAWS,
    BoundedPareto,
    Deterministic,
    Empirical,
    Erlang,
    Exponential,
    Gamma,
    Hyperexponential,
    Law,
    LogNormal,
    Mixture,
    Pareto,
    PhaseType,
    Product,
    Scipy,
    Uniform,
    Weibull,
)
from qtheory.models.network import Network, NetworkClass
from qtheory.models.policies import (
    ADT,
    JSQ,
    JSQAS,
    JSR,
    T1,
    T1T2,
    T2,
    Bernoulli,
    CMu,
    Dedicated,
    MaxWeight,
)

__all__ = [
    "ADT",
    "JSQ",
    "JSQAS",
    "JSR",
    "LAWS",
    "SYSTEMS",
    "T1",
    "T1T2",
    "T2",
    "Bernoulli",
    "BoundedPareto",
    "CMu",
    "Dedicated",
    "Deterministic",
    "Dispatcher",
    "Donor",
    "Empirical",
    "Erlang",
    "Exponential",
    "Flexible",
    "Gamma",
    "Hyperexponential",
    "InvalidModel",
    "Law",
    "LogNormal",
    "MaxWeight",
    "Mixture",
    "Model",
    "Network",
    "NetworkClass",
    "NotConverged",
    "Pareto",
    "PhaseType",
    "Product",
    "Scipy",
    "ServiceRates",
    "Uniform",
    "Unstable",
    "Weibull",
    "load",
    "parse",
    "plain",
    "save",
    "schema",
]
