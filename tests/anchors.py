"""Right values that tests compare against: each with its source, its digits and how it was obtained.

An `Anchor` is a number and how far the truth may lie from it: half a unit of the last printed digit for computed
values, the 95 % half-width for simulated ones. None of them was made by the packages under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Anchor:
    """A right value. `how`: "exact" (closed form or finite arithmetic), "numerical", "simulated" or "published"."""

    value: float
    within: float
    how: str
    source: str


@dataclass(frozen=True)
class Recorded:
    """A recorded run of the dispatcher: jobs are (arrival, service, group) in input order.

    `departures`: arrival -> (departure, class) where known; `means`: mean response by scope, printed to `digits`
    decimals.
    """

    servers: tuple[int, int]
    time_limit: float
    jobs: tuple[tuple[float, float, int], ...]
    means: dict[str, float]
    digits: int
    departures: dict[float, tuple[float, str]] = field(default_factory=dict)


# Dispatcher, recorded examples: worked by hand from the rules in the statement of a university course project on
# capacity planning, where the departures and means are printed.

EXAMPLE_A = Recorded(
    servers=(1, 2),
    time_limit=3.0,
    jobs=((2, 5, 1), (10, 4, 0), (11, 9, 0), (12, 2, 0), (14, 8, 1), (15, 5, 0), (19, 3, 0), (20, 6, 1)),
    departures={
        2: (7, "1"),
        10: (17, "r0"),
        12: (18, "0"),
        14: (22, "1"),
        19: (24, "0"),
        11: (26, "r0"),
        20: (28, "1"),
        15: (31, "r0"),
    },
    means={"short": 5.5, "long": 7.0, "killed": 12.6667, "all": 8.75},
    digits=4,
)
"""Eight jobs on one and two servers."""

EXAMPLE_B = Recorded(
    servers=(2, 2),
    time_limit=3.5,
    jobs=(
        (2.1, 5.2, 1),
        (3.4, 4.1, 1),
        (4.1, 3.1, 0),
        (4.4, 3.9, 0),
        (4.5, 3.4, 0),
        (4.7, 4.4, 1),
        (5.5, 4.7, 1),
        (5.9, 4.1, 0),
        (6.0, 2.5, 0),
        (6.5, 8.6, 1),
        (7.6, 4.1, 0),
        (8.1, 2.6, 0),
    ),
    means={"short": 5.975, "long": 7.36, "killed": 14.2333, "all": 8.6167},
    digits=4,
)
"""Twelve jobs on two and two servers."""

EXAMPLE_C = Recorded(
    servers=(1, 3),
    time_limit=3.5,
    jobs=EXAMPLE_B.jobs,
    means={"short": 11.225, "long": 5.96, "killed": 15.3667, "all": 10.0667},
    digits=4,
)
"""The jobs of example B on one and three servers."""

# Dispatcher, steady state.

EXAMPLE_D_MODEL = {
    "kind": "dispatcher",
    "servers": [4, 6],
    "time_limit": 3.3,
    "short_fraction": 0.74,
    "interarrival": {
        "kind": "product",
        "factors": [
            {"kind": "exponential", "mean": 1 / 3.1},
            {"kind": "uniform", "low": 0.85, "high": 1.21},
        ],
    },
    "service0": {"kind": "bounded-pareto", "shape": 1.9, "minimum": 0.5, "maximum": 5.7},
    "service1": {"kind": "pareto", "shape": 2.5, "minimum": 2.7},
}
"""The design problem of the same course project: n = 10 servers, objective .83 short + .059 long."""

EXAMPLE_D_WEIGHTS = {"short": 0.83, "long": 0.059}
EXAMPLE_D_STABLE = (3, 4, 5, 6)
EXAMPLE_D_BEST = 4


def _simulated(value: float, half_width: float) -> Anchor:
    return Anchor(value, half_width, "simulated", "independent simulation, printed with its 95 % half-width")


EXAMPLE_D_OBJECTIVE = {
    3: _simulated(1.2890, 0.0015),
    4: _simulated(1.0754, 0.0006),
    5: _simulated(1.0825, 0.0014),
    6: _simulated(1.6151, 0.033),
}
"""Objective by n0. Service 1 has an infinite third moment: the intervals are nominal, that of n0 = 6 above all."""

EXAMPLE_D_RESPONSE = {
    (3, "short"): _simulated(1.2263, 0.0017),
    (3, "long"): _simulated(4.5968, 0.0049),
    (4, "short"): _simulated(0.9541, 0.0004),
    (4, "long"): _simulated(4.8055, 0.0077),
    (4, "all"): _simulated(2.0473, 0.0023),
    (5, "short"): _simulated(0.9030, 0.0003),
    (5, "long"): _simulated(5.6446, 0.0235),
    (6, "short"): _simulated(0.8907, 0.0003),
    (6, "long"): _simulated(14.84, 0.55),
}
"""Mean response by (n0, scope)."""

EXAMPLE_E_MODEL = {
    "kind": "dispatcher",
    "servers": [3, 4],
    "time_limit": 3.0,
    "short_fraction": 0.65,
    "interarrival": {"kind": "exponential", "mean": 1 / 3},
    "service0": {"kind": "exponential", "mean": 1.2},
    "service1": {"kind": "exponential", "mean": 2.0},
}
"""The standing example: three and four servers, Poisson arrivals, exponential requirements."""

EXAMPLE_E_RESPONSE = {(3, 4): _simulated(2.294, 0.001), (4, 3): _simulated(4.876, 0.0005)}
"""Mean response of all jobs by servers (the last: digits printed, interval unknown)."""

EXAMPLE_E_UNSTABLE = {
    (2, 5): Anchor(1.074, 0.0005, "exact", "load of Group 0: lambda p0 E[min(S0, T)] / n0"),
    (5, 2): Anchor(1.386, 0.0005, "exact", "load of Group 1: lambda (p0 E[S0; S0 > T] + p1 E[S1]) / n1"),
}
"""Loads of the overloaded group of two designs of example E."""

EXAMPLE_E_KILL_PROBABILITY = Anchor(0.0820849986238988, 1e-15, "exact", "exp(-T / mean)")


def _poisson(servers: list[int], time_limit: float, short_fraction: float, rate: float) -> dict[str, object]:
    return {
        "kind": "dispatcher",
        "servers": servers,
        "time_limit": time_limit,
        "short_fraction": short_fraction,
        "interarrival": {"kind": "exponential", "mean": 1 / rate},
    }


KILL_STREAM_SYSTEMS = {
    1: _poisson([2, 3], 1.609437912, 0.6, 10 / 3)
    | {
        "service0": {"kind": "exponential", "mean": 1.0},
        "service1": {"kind": "exponential", "mean": 1.017168625},
    },
    2: _poisson([5, 10], 0.693147181, 0.7, 12.857142857)
    | {
        "service0": {"kind": "exponential", "mean": 1.0},
        "service1": {"kind": "exponential", "mean": 0.357994952},
    },
    3: _poisson([2, 2], 1.378761429, 0.8, 2.172557857)
    | {
        "service0": {"kind": "erlang", "shape": 4, "mean": 1.0},
        "service1": {"kind": "erlang", "shape": 4, "mean": 0.880721034},
    },
    4: _poisson([1, 2], 0.693147181, 1.0, 1.9)
    | {"service0": {"kind": "exponential", "mean": 1.0}, "service1": {"kind": "exponential", "mean": 1.0}},
}
"""Four systems in which killed jobs are much of the work of Group 1 (all of it in the fourth)."""

KILL_STREAM = {
    (1, "mean_wait", "group0"): _simulated(1.07395, 0.0012),
    (1, "mean_wait", "group1_killed"): _simulated(1.16627, 0.0019),
    (1, "mean_wait", "group1_long"): _simulated(1.20637, 0.0017),
    (1, "mean_response", "all"): _simulated(2.46690, 0.0012),
    (2, "mean_wait", "group0"): _simulated(0.47604, 0.0009),
    (2, "mean_wait", "group1_killed"): _simulated(0.50471, 0.0015),
    (2, "mean_wait", "group1_long"): _simulated(0.51529, 0.0015),
    (2, "mean_response", "all"): _simulated(1.71449, 0.0012),
    (3, "mean_wait", "group0"): _simulated(0.95334, 0.0012),
    (3, "mean_wait", "group1_killed"): _simulated(0.17197, 0.0003),
    (3, "mean_wait", "group1_long"): _simulated(0.22341, 0.0003),
    (3, "mean_response", "all"): _simulated(2.03163, 0.0009),
    (4, "mean_wait", "group0"): _simulated(5.838, 0.010),
    (4, "mean_wait", "group1_killed"): _simulated(0.87519, 0.0007),
    (4, "mean_response", "all"): _simulated(7.622, 0.010),
}
"""Means of the kill-stream systems, keyed by (system, measure, scope)."""

MANY_SERVER_RESPONSE = {
    ("h2", 2): 5.28538,
    ("h2", 10): 1.43237,
    ("h2", 50): 1.01408,
    ("e4", 3): 1.68782,
    ("e4", 8): 1.18700,
}
"""Mean response of M/PH/c, mean service 1, load .8, by (law, c), to five decimals: exact by two QBD solvers.

h2: hyperexponential with balanced means and scv 4; e4: Erlang of shape 4.
"""

# Donor: mu1 = mu12 = 1, mu2 = 1/16, c1 = c2 = 1 throughout (the setting of T. Osogami, Analysis of multi-server
# systems via dimensionality reduction of Markov chains, CMU 2005, chapter 7).

_DONOR = "three independent numerical solvers of the two-dimensional chain"
DONOR_RATES = {"mu1": 1.0, "mu12": 1.0, "mu2": 1 / 16}


def _donor(value: float, decimals: int) -> Anchor:
    return Anchor(value, 0.5 * 10**-decimals, "numerical", _DONOR)


def _t1(t1: float) -> dict[str, object]:
    return {"kind": "t1", "t1": t1}


def _t2(t2: float, reading: str = "source") -> dict[str, object]:
    return {"kind": "t2", "t2": t2, "reading": reading}


def _t1t2(t1: float, t2: float) -> dict[str, object]:
    return {"kind": "t1t2", "t1": t1, "t2": t2}


def _adt(low: float, high: float, t2: float) -> dict[str, object]:
    return {"kind": "adt", "low": low, "high": high, "t2": t2}


DONOR_NUMBERS = (
    (_t1(3), 1.15, 0.4, _donor(2.0115275, 7), _donor(1.6011509, 7), _donor(3.0746200, 7)),
    (_t1t2(3, 10), 1.15, 0.6, _donor(6.2341700, 7), _donor(4.8660425, 7), _donor(9.3475474, 7)),
    (_adt(3, 19, 6), 1.15, 0.6, _donor(4.2318426, 7), _donor(4.1655980, 7), _donor(7.0715289, 7)),
)
"""Rows (policy, rho1, rho2, E[N1], E[N2], E[R] over all jobs)."""

DONOR_RESPONSE = (
    (_t1(2), 1.15, 0.4, _donor(3.43971, 5)),
    (_t1(3), 1.15, 0.4, _donor(3.07462, 5)),
    (_t1(4), 1.15, 0.4, _donor(3.09210, 5)),
    (_t1(19), 1.15, 0.8, _donor(27.97422, 5)),
    (_t2(1), 1.15, 0.4, _donor(7.0698, 4)),
    (_t2(2), 1.15, 0.4, _donor(6.3637, 4)),
    (_t2(3), 1.15, 0.4, _donor(6.3920, 4)),
    (_t2(2, "work-conserving"), 1.15, 0.4, _donor(5.2853, 4)),
)
"""Rows (policy, rho1, rho2, E[R] over all jobs)."""

DONOR_BEST_T1 = {(1.15, 0.4): 3, (1.15, 0.8): 19}
"""The T1 threshold of least E[R] by (rho1, rho2)."""

DONOR_BEST_T2_OF_T1T2 = (12, Anchor(162.26, 0.005, "numerical", _DONOR))
"""Best T2 of T1T2(3, .) at rho1 = 1.15, rho2 = .8, and its E[R]."""

DONOR_CROSSOVERS = {
    ("T1T2(3,10)", "T1(3)"): _donor(0.564279, 6),
    ("T1(3)", "T1(19)"): _donor(0.586970, 6),
}
"""rho2 at which two policies have equal E[R], rho1 = 1.15; the first is the better one above it in the first pair."""

DONOR_RHO2_LIMIT = {
    2: 0.580159,
    3: 0.659950,
    4: 0.708177,
    5: 0.740215,
    6: 0.762854,
    10: 0.810101,
    19: 0.840472,
    float("inf"): 0.85,
}
"""Largest stable rho2 under T1(t) at mu12 = mu1, rho1 = 1.15, by t: six decimals of the closed form A / (A + B)."""

DONOR_RHO1_LIMIT = {2: 1.116515, 3: 1.241369, 5: 1.338370, 8: 1.381330, float("inf"): 1.4}
"""Largest stable rho1 under T1(t) at mu12 = mu1, rho2 = .6, by t: six decimals of the same closed form."""

# Flexible: partial power of d choices, exponential service of mean 1.

_GAST = "N. Gast, Expected values estimated via mean-field approximation are 1/N-accurate, 2017: simulation"

FLEXIBLE_GAST = {
    key: Anchor(value, 0.00005, "published", _GAST)
    for key, value in {
        (0.9, 10): 2.8040,
        (0.9, 20): 2.566,
        (0.9, 50): 2.434,
        (0.9, 100): 2.3931,
        (0.9, 1000): 2.3567,
        (0.9, float("inf")): 2.3527,
        (0.7, 10): 1.2193,
        (0.7, 20): 1.1737,
        (0.7, 30): 1.1587,
        (0.7, 50): 1.1471,
        (0.7, 100): 1.1387,
    }.items()
}
"""Mean queue length (rho E[T]) by (rho, N) at d = 2, p = 1, draws with replacement. No intervals were given:
`within` is half a digit, the simulation error is unknown (the value at infinity is the fixed point)."""

FLEXIBLE_TWO_QUEUES = Anchor(5.47491282, 0.5e-8, "numerical", "QBD bracketed by threshold jockeying and blocking")
"""E[T] at N = d = 2 with distinct draws, p = 1, rho = .9."""

FLEXIBLE_HUNDRED_QUEUES = _simulated(2.6453, 0.0013)
"""E[T] at N = 100, d = 2 with distinct draws, p = 1, rho = .9."""

FLEXIBLE_REFINEMENT = {
    "distinct": Anchor(2.7748, 0.00005, "numerical", "Lyapunov equation of the fluctuations, two programs"),
    "replacement": Anchor(3.9864, 0.00005, "numerical", "Lyapunov equation of the fluctuations, two programs"),
}
"""Coefficient of 1/N in the mean queue length at rho = .9, d = 2, p = 1, by sampling."""

FLEXIBLE_SHARE_OF_SAVING = {
    "loads": (0.5, 0.7, 0.8, 0.9, 0.95, 0.99),
    "infinite": (0.17, 0.23, 0.28, 0.40, 0.54, 0.80),
    "two": (0.21, 0.30, 0.38, 0.54, 0.70, 0.92),
}
"""Share of the saving from p = 0 to p = 1 that is reached at p = .1, d = 2: two decimals, N infinite and N = 2."""

# Network: the two examples of Q. Xie and L. Jin, Stabilizing queuing networks with model data-independent control.

NETWORK_FIG1 = {
    "servers": {"s1": 1.0, "s2": 1.0, "s3": 0.25, "s4": 1.0, "s5": 1.0},
    "classes": [
        {"name": "class1", "rate": 1.0, "routes": [["s1", "s3"], ["s4"]]},
        {"name": "class2", "rate": 1.0, "routes": [["s2"], ["s3", "s5"]]},
    ],
}
NETWORK_FIG3 = {
    "servers": {"s1": 0.75, "s2": 0.75, "s3": 0.75, "s4": 0.75, "s5": 0.75},
    "classes": [{"name": "class1", "rate": 1.0, "routes": [["s1", "s2"], ["s1", "s3", "s5"], ["s4", "s5"]]}],
}

NETWORK_THETA = {
    "fig1": Anchor(9 / 8, 0.0, "exact", "linear programme solved by hand"),
    "fig3": Anchor(1.5, 0.0, "exact", "linear programme solved by hand"),
}
"""Largest factor by which the arrival rates can be multiplied, servers at their limit."""

NETWORK_FIG1_SPLIT = ((1 / 9, 8 / 9), (8 / 9, 1 / 9))
"""Route probabilities by class of the linear programme's split at theta*: (.125, 1) and (1, .125) over 1.125."""

_CHAIN = "truncated chain, stationary vector solved"
_PRODUCT_FORM = "product form: sum of rho / (1 - rho)"
_LONGEST, _RANDOM = "longest", "random"
_VALUE_WEIGHTS = {"alpha": 0.75, "beta": 0.75, "gamma": 0.75}

NETWORK_TOTALS = (
    ("fig1", 1.0, {"kind": "jsr", "sharing": _RANDOM}, _simulated(22.99, 0.12)),
    ("fig1", 1.0, {"kind": "jsr", "sharing": _LONGEST}, _simulated(22.24, 0.10)),
    ("fig1", 1.0, {"kind": "jsr", "sharing": "dominant", "weights": _VALUE_WEIGHTS}, _simulated(26.35, 0.15)),
    ("fig1", 1.0, {"kind": "maxweight"}, _simulated(27.98, 0.09)),
    ("fig1", 1.0, {"kind": "bernoulli", "split": NETWORK_FIG1_SPLIT}, Anchor(24.25, 0.0, "exact", _PRODUCT_FORM)),
    ("fig1", 1.1, {"kind": "jsr", "sharing": _RANDOM}, _simulated(72.1, 3.7)),
    ("fig1", 1.1, {"kind": "jsr", "sharing": _LONGEST}, _simulated(69.4, 3.1)),
    ("fig1", 0.3, {"kind": "jsr", "sharing": _RANDOM}, Anchor(1.910953, 0.5e-6, "numerical", _CHAIN)),
    ("fig3", 1.0, {"kind": "jsr", "sharing": _RANDOM}, _simulated(8.66, 0.03)),
    ("fig3", 1.0, {"kind": "maxweight"}, _simulated(8.34, 0.01)),
    ("fig3", 1.0, {"kind": "jsq-as", "sharing": _RANDOM, "switch": True}, _simulated(11.88, 0.06)),
    ("fig3", 0.95, {"kind": "jsq"}, _simulated(20.59, 0.62)),
)
"""Rows (network, arrival rate of each class, policy, mean number of jobs in all)."""

NETWORK_CLASS1_ALONE = {
    scope: Anchor(value, 0.5e-6, "numerical", _CHAIN)
    for scope, value in {"all": 6.016600, "s1": 0.306432, "s3": 3.303500, "s4": 2.406668}.items()
}
"""Mean number of jobs under JSR in the first example with class 1 alone, rate 1."""

NETWORK_JSQ_SLOPE = {
    ("fig1", 1.0): Anchor(0.25, 0.0, "exact", "half of class 1 is sent to server 3, of rate 1/4"),
    ("fig3", 1.1): Anchor(0.0750, 0.00005, "exact", "3/4 of the arrivals reach server 5, of rate 3/4"),
}
"""Growth rate of the total number of jobs under JSQ."""

NETWORK_WORST_DRIFT = {
    ("fig1", 1.0): Anchor(-0.079102, 0.5e-6, "exact", "-81/1024, enumeration of the linear pieces"),
    ("fig1", 1.1): Anchor(-0.015820, 0.5e-6, "exact", "gamma^2 beta^2 (2 lambda - 2.25)"),
}
"""Worst drift of the test function with weights 3/4, by arrival rate of each class."""
