"""Queueing formulas as sympy expressions: to print, differentiate, solve for, or turn into functions.

Everything is written in the symbols of `symbols`. Expressions print by `sympy.latex`, or `mathml` for a page; sympy
is loaded with this module only.

>>> from qtheory import symbolic
>>> rate, mean = symbolic.symbols.arrival_rate, symbolic.symbols.mean_service
>>> wait = symbolic.mean_wait(servers=1)
>>> sympy.simplify(wait - rate * mean**2 / (1 - rate * mean))  # M/M/1
0
>>> symbolic.numeric(sympy.diff(wait, rate))(arrival_rate=0.5, mean_service=1.0)  # 1 / (1 - rho)^2
4.0
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from html.entities import html5
from typing import Any, TypeAlias

import sympy
from sympy.printing.mathml import mathml as _print_mathml

from qtheory._lazy import special
from qtheory.models.errors import InvalidModel
from qtheory.systems.donor import symbolic as donor

Expression: TypeAlias = Any
"""A sympy expression; sympy carries no types."""

__all__ = [
    "Dispatcher",
    "Symbols",
    "dispatcher",
    "donor",
    "erlang_b",
    "erlang_c",
    "mathml",
    "mean_number",
    "mean_queue",
    "mean_response",
    "mean_wait",
    "numeric",
    "pollaczek_khinchine",
    "symbols",
    "wait_probability",
]


def _positive(name: str) -> Expression:
    return sympy.Symbol(name, positive=True)


@dataclass(frozen=True, kw_only=True)
class Symbols:
    """The symbols, all positive reals (the numbers of servers need not be whole).

    Attributes
    ----------
    arrival_rate : lambda.
    offered_load : a = arrival rate x mean service time.
    servers : c.
    mean_service : m, the mean service time of a single queue.
    second_moment : s2, its second moment E[S^2].
    short_fraction : p0, the share of jobs submitted to Group 0 of a dispatcher.
    time_limit : T.
    mean_service0, mean_service1 : m0 and m1, mean requirements of the jobs submitted to either group.
    servers0, servers1 : n0 and n1.
    """

    arrival_rate: Expression
    offered_load: Expression
    servers: Expression
    mean_service: Expression
    second_moment: Expression
    short_fraction: Expression
    time_limit: Expression
    mean_service0: Expression
    mean_service1: Expression
    servers0: Expression
    servers1: Expression


symbols = Symbols(
    arrival_rate=_positive("lambda"),
    offered_load=_positive("a"),
    servers=_positive("c"),
    mean_service=_positive("m"),
    second_moment=_positive("s_2"),
    short_fraction=_positive("p_0"),
    time_limit=_positive("T"),
    mean_service0=_positive("m_0"),
    mean_service1=_positive("m_1"),
    servers0=_positive("n_0"),
    servers1=_positive("n_1"),
)
#: Names that XML does not know by itself.
_ENTITY = re.compile(r"&(?!(?:lt|gt|amp|quot|apos);)(\w+;)")
_FIELDS = {getattr(symbols, field.name): field.name for field in fields(Symbols)}


def erlang_b(*, servers: Expression = symbols.servers, offered_load: Expression = symbols.offered_load) -> Expression:
    """Probability of loss in M/G/c/c.

    A whole number of servers gives the quotient (a^c / c!) / sum_(k<=c) a^k / k!; anything else, a symbol above
    all, the incomplete gamma function: a^c e^-a / Gamma(c + 1, a), whose derivative in c is no elementary function.

    Raises `InvalidModel` for a number of servers that is not above 0.

    Erlang (1917); Jagers and van Doorn (1986), On the continued Erlang loss function.

    >>> erlang_b(servers=2)
    a**2/(2*(a**2/2 + a + 1))
    """
    count, load = _count(servers), sympy.sympify(offered_load)
    if count.is_Integer:
        upto = (load**k / sympy.factorial(k) for k in range(int(count) + 1))
        return load**count / sympy.factorial(count) / sympy.Add(*upto)
    return load**count * sympy.exp(-load) / sympy.uppergamma(count + 1, load)


def erlang_c(*, servers: Expression = symbols.servers, offered_load: Expression = symbols.offered_load) -> Expression:
    """Probability that an arrival has to wait in M/M/c, for a < c: C = c B / (c - a (1 - B)).

    With a whole number of servers it is C = (a^c / c!) / sum_(k<c) (1 - k/c) a^k / k!, all terms positive.

    Erlang (1917); Cooper (1981), Introduction to Queueing Theory, eq. 3.4.8.

    >>> erlang_c(servers=3, offered_load=2)
    4/9
    """
    count, load = _count(servers), sympy.sympify(offered_load)
    if count.is_Integer:
        below = (sympy.Rational(count - k, count * sympy.factorial(k)) * load**k for k in range(int(count)))
        return load**count / sympy.factorial(count) / sympy.Add(*below)
    lost = erlang_b(servers=count, offered_load=load)
    return count * lost / (count - load * (1 - lost))


def wait_probability(*, servers: Expression = symbols.servers) -> Expression:
    """P(W > 0) of M/M/c: C(c, lambda m)."""
    return erlang_c(servers=servers, offered_load=symbols.arrival_rate * symbols.mean_service)


def mean_wait(*, servers: Expression = symbols.servers) -> Expression:
    """E[W] of M/M/c: C m / (c - lambda m)."""
    load = symbols.arrival_rate * symbols.mean_service
    return wait_probability(servers=servers) * symbols.mean_service / (_count(servers) - load)


def mean_response(*, servers: Expression = symbols.servers) -> Expression:
    """E[R] of M/M/c: E[W] + m."""
    return mean_wait(servers=servers) + symbols.mean_service


def mean_queue(*, servers: Expression = symbols.servers) -> Expression:
    """Mean number waiting in M/M/c: lambda E[W]."""
    return symbols.arrival_rate * mean_wait(servers=servers)


def mean_number(*, servers: Expression = symbols.servers) -> Expression:
    """Mean number present in M/M/c: lambda E[R]."""
    return symbols.arrival_rate * mean_response(servers=servers)


def pollaczek_khinchine() -> Expression:
    """E[W] of M/G/1: lambda E[S^2] / (2 (1 - lambda m)).

    Khinchine (1932); Kleinrock (1975), Queueing Systems I, eq. 5.69.

    >>> pollaczek_khinchine()
    lambda*s_2/(-2*lambda*m + 2)
    """
    return symbols.arrival_rate * symbols.second_moment / (2 * (1 - symbols.arrival_rate * symbols.mean_service))


@dataclass(frozen=True, kw_only=True)
class Dispatcher:
    """Two groups with killed jobs as two M/M/c queues: what method ``mmc`` computes, for exponential requirements.

    Attributes
    ----------
    kill_probability : q = P(S0 > T) = exp(-T / m0).
    rates : arrival rates of the groups, lambda p0 and lambda (1 - p0 + p0 q).
    occupations : how long a job holds a server of either group on average; m0 (1 - q), and a mixture of T + m0
        (killed) and m1.
    offered : offered loads of the groups in servers.
    loads : the same per server; both must be below 1.
    wait_probabilities : Erlang's C of the groups.
    waits : mean waits of the groups.
    responses : mean response by class, ``all``, ``short``, ``long`` and ``killed``.
    """

    kill_probability: Expression
    rates: tuple[Expression, Expression]
    occupations: tuple[Expression, Expression]
    offered: tuple[Expression, Expression]
    loads: tuple[Expression, Expression]
    wait_probabilities: tuple[Expression, Expression]
    waits: tuple[Expression, Expression]
    responses: dict[str, Expression]


def dispatcher(*, servers: tuple[Expression, Expression] = (symbols.servers0, symbols.servers1)) -> Dispatcher:
    """The expressions for `servers` = (n0, n1): whole numbers give finite sums, symbols incomplete gamma functions.

    E[R_short] = W0 + m0 - T q / (1 - q), E[R_killed] = W0 + T + W1 + T + m0, E[R_long] = W1 + m1.

    >>> two = dispatcher(servers=(3, 4))
    >>> values = {"arrival_rate": 3.0, "time_limit": 3.0, "short_fraction": 0.65, "mean_service0": 1.2}
    >>> round(float(numeric(two.loads[0])(**values)), 4)
    0.716
    """
    s = symbols
    q = sympy.exp(-s.time_limit / s.mean_service0)
    submitted, direct = s.arrival_rate * s.short_fraction, s.arrival_rate * (1 - s.short_fraction)
    killed = submitted * q
    offered = (
        submitted * s.mean_service0 * (1 - q),
        killed * (s.time_limit + s.mean_service0) + direct * s.mean_service1,
    )
    rates = (submitted, direct + killed)
    occupations = (offered[0] / rates[0], offered[1] / rates[1])
    counts = (_count(servers[0]), _count(servers[1]))
    delays = tuple(erlang_c(servers=counts[k], offered_load=offered[k]) for k in (0, 1))
    waits = tuple(delays[k] * occupations[k] / (counts[k] - offered[k]) for k in (0, 1))
    short = waits[0] + s.mean_service0 - s.time_limit * q / (1 - q)
    responses = {
        "short": short,
        "long": waits[1] + s.mean_service1,
        "killed": waits[0] + waits[1] + 2 * s.time_limit + s.mean_service0,
    }
    shares = {"short": s.short_fraction * (1 - q), "long": 1 - s.short_fraction, "killed": s.short_fraction * q}
    overall = sympy.Add(*(shares[name] * response for name, response in responses.items()))
    return Dispatcher(
        kill_probability=q,
        rates=rates,
        occupations=occupations,
        offered=offered,
        loads=(offered[0] / counts[0], offered[1] / counts[1]),
        wait_probabilities=(delays[0], delays[1]),
        waits=(waits[0], waits[1]),
        responses={"all": overall} | responses,
    )


def numeric(expression: Expression) -> Callable[..., Any]:
    """`expression` as a function of numbers or arrays, its arguments named as the fields of `Symbols`.

    Other symbols go by their own name; a call that leaves arguments out raises `InvalidModel`. Double precision:
    with a symbol for it, the number of servers may be up to about 140 (Gamma(c + 1) must fit), in sums somewhat
    larger; beyond, see `qtheory.queues.erlang`.

    >>> numeric(erlang_c(servers=3))(offered_load=2.0)  # doctest: +ELLIPSIS
    0.4444444444444...
    """
    free: Iterable[Expression] = sorted(expression.free_symbols, key=str)
    names = [_FIELDS.get(symbol, str(symbol)) for symbol in free]
    # sympy 1.14 prints Gamma(s, x) for scipy as a product without brackets, wrong in a denominator.
    plain = expression.replace(sympy.uppergamma, sympy.Function(_upper_gamma.__name__))
    modules = [{_upper_gamma.__name__: _upper_gamma}, "scipy", "numpy"]
    function = sympy.lambdify(list(free), plain, modules=modules)

    def evaluate(**values: Any) -> Any:
        missing = [name for name in names if name not in values]
        if missing:
            raise InvalidModel(field="values", rule=f"must also give {', '.join(missing)}", value=sorted(values))
        return function(*(values[name] for name in names))

    return evaluate


def _upper_gamma(order: Any, start: Any) -> Any:
    """The upper incomplete gamma function."""
    return special.gamma(order) * special.gammaincc(order, start)


def mathml(expression: Expression) -> str:
    """Presentation MathML of `expression`, as a ``math`` element for a page; sound XML, without named entities."""
    body = _ENTITY.sub(lambda found: html5[found[1]], _print_mathml(expression, printer="presentation"))
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML">{body}</math>'


def _count(servers: Expression) -> Expression:
    count = sympy.sympify(servers)
    if count.is_number and not count.is_positive:
        raise InvalidModel(field="servers", rule="must be above 0", value=servers)
    return count
