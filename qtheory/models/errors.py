"""What can go wrong, as data: wrong input, an unstable system, a numerical method that did not converge."""

from __future__ import annotations

from typing import Any


class InvalidModel(ValueError):
    """Wrong input: names the field, the rule it breaks and the value found.

    Attributes
    ----------
    field : dotted path of the field, e.g. ``service0.means.1``; empty when the whole input is wrong.
    rule : the rule that is broken, in words that say what to do.
    value : the value found, or ``None`` where the rule alone says it all.
    file : the file the field stands in, where there is one.
    """

    def __init__(self, *, field: str = "", rule: str, value: Any = None, file: str = "") -> None:
        self.field, self.rule, self.value, self.file = field, rule, value, file
        super().__init__(field, rule, value, file)

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.file, self.field) if part)
        found = "" if self.value is None else f", got {shown(self.value)}"
        return f"{where}: {self.rule}{found}" if where else f"{self.rule}{found}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _invalid, (self.field, self.rule, self.value, self.file)

    def at(self, *, prefix: str = "", file: str = "") -> InvalidModel:
        """The same complaint seen from further out: `prefix` goes before the field, `file` names the file."""
        field = ".".join(part for part in (prefix, self.field) if part)
        return InvalidModel(field=field, rule=self.rule, value=self.value, file=file or self.file)


class Unstable(ArithmeticError):
    """No steady state: work reaches `where` faster than it can be served.

    Attributes
    ----------
    where : the scope that is overloaded, e.g. ``group1``.
    load : its offered load per server, ``inf`` if a mean is infinite.
    limit : the largest load that scope can carry (exclusive); 1 unless a policy takes capacity away.
    detail : a sentence of its own, where the standard one would not say enough.
    """

    def __init__(self, *, where: str, load: float, limit: float = 1.0, detail: str = "") -> None:
        self.where, self.load, self.limit, self.detail = where, load, limit, detail
        super().__init__(where, load, limit, detail)

    def __str__(self) -> str:
        return self.detail or f"{self.where} is unstable: load {self.load:.6g}, must be below {self.limit:.6g}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unstable, (self.where, self.load, self.limit, self.detail)


class NotConverged(ArithmeticError):
    """A numerical method stopped before its answer was good enough.

    Attributes
    ----------
    where : the scope or the method that failed.
    residual : what was left when it stopped, in the method's own norm.
    iterations : how many steps it took.
    advice : what to try next.
    """

    def __init__(self, *, where: str, residual: float, iterations: int, advice: str = "") -> None:
        self.where, self.residual, self.iterations, self.advice = where, residual, iterations, advice
        super().__init__(where, residual, iterations, advice)

    def __str__(self) -> str:
        text = f"{self.where} did not converge: residual {self.residual:.3g} after {self.iterations} iterations"
        return f"{text}; {self.advice}" if self.advice else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _not_converged, (self.where, self.residual, self.iterations, self.advice)


def _invalid(field: str, rule: str, value: Any, file: str) -> InvalidModel:
    return InvalidModel(field=field, rule=rule, value=value, file=file)


def _unstable(where: str, load: float, limit: float, detail: str) -> Unstable:
    return Unstable(where=where, load=load, limit=limit, detail=detail)


def _not_converged(where: str, residual: float, iterations: int, advice: str) -> NotConverged:
    return NotConverged(where=where, residual=residual, iterations=iterations, advice=advice)


def shown(value: Any) -> str:
    """`value` as it would stand in a message: short, on one line."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split()) or "an empty text"
    return text if len(text) <= 80 else text[:77] + "..."
