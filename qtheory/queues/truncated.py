"""Moments of a time S cut at a limit T: S given S <= T, S given S > T, and min(S, T).

All follow from the raw moments of S and its partial moments E[S^k; S <= T], given as sequences over
k = 0, 1, 2, ... (so the first entries are 1 and P(S <= T)). min(S, T) has an atom at T.
"""

from __future__ import annotations

from collections.abc import Sequence

from qtheory.models.errors import InvalidModel


def moments_below(partial: Sequence[float]) -> list[float]:
    """E[S^k | S <= T] for k = 1, 2, ...

    >>> moments_below([0.5, 0.25, 0.15])
    [0.5, 0.3]
    """
    if not partial[0] > 0.0:
        raise InvalidModel(
            field="limit", rule="must exceed the smallest service time: P(S <= T) is 0", value=partial[0]
        )
    return [value / partial[0] for value in partial[1:]]


def moments_above(raw: Sequence[float], partial: Sequence[float]) -> list[float]:
    """E[S^k | S > T] for k = 1, 2, ...; ``inf`` where E[S^k] is."""
    rest = raw[0] - partial[0]
    if not rest > 0.0:
        raise InvalidModel(field="limit", rule="must lie below the largest service time: P(S > T) is 0")
    return [(whole - below) / rest for whole, below in zip(raw[1:], partial[1:], strict=True)]


def moments_cut(partial: Sequence[float], *, limit: float) -> list[float]:
    """E[min(S, T)^k] = E[S^k; S <= T] + T^k P(S > T) for k = 1, 2, ...

    >>> moments_cut([0.5, 0.25, 0.15], limit=1.0)
    [0.75, 0.65]
    """
    beyond = 1.0 - partial[0]
    if beyond <= 0.0:
        return [float(value) for value in partial[1:]]
    return [below + beyond * limit**k for k, below in enumerate(partial[1:], start=1)]
