"""The bundled model files and guides."""

from __future__ import annotations

from pathlib import Path

from qtheory.models.errors import InvalidModel

_HERE = Path(__file__).parent


def cases() -> tuple[str, ...]:
    """The names of the bundled cases, in order."""
    return tuple(sorted(path.stem for path in (_HERE / "cases").glob("*.toml")))


def case_path(name: str) -> Path:
    """The file of a case.  Raises `InvalidModel` for an unknown name."""
    if name not in cases():
        raise InvalidModel(field="case", rule=f"must be one of {', '.join(cases())}", value=name)
    return _HERE / "cases" / f"{name}.toml"


def about(name: str) -> str:
    """The comment on the first line of a case."""
    first = case_path(name).read_text("utf-8").splitlines()[0]
    return first.lstrip("# ") if first.startswith("#") else ""


def guides() -> tuple[str, ...]:
    """The names of the guides, in order."""
    return tuple(sorted(path.stem for path in (_HERE / "guides").glob("*.md")))


def guide_path(name: str) -> Path:
    """The page of a guide.  Raises `InvalidModel` for an unknown name."""
    if name not in guides():
        raise InvalidModel(field="guide", rule=f"must be one of {', '.join(guides())}", value=name)
    return _HERE / "guides" / f"{name}.md"
