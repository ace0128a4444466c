"""Model files: TOML and JSON in and out.  Infinity is `inf` in TOML and the text "inf" in JSON; nan never."""

from __future__ import annotations

import json
import math
import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import tomli_w

from qtheory.models.base import complaint
from qtheory.models.dispatcher import Dispatcher
from qtheory.models.donor import Donor
from qtheory.models.errors import InvalidModel
from qtheory.models.flexible import Flexible
from qtheory.models.network import Network

Model = Dispatcher | Donor | Flexible | Network

#: Every system, by the name it bears in files.
SYSTEMS: dict[str, type[Dispatcher] | type[Donor] | type[Flexible] | type[Network]] = {
    system.kind(): system for system in (Dispatcher, Donor, Flexible, Network)
}
#: Fields in which JSON may say "inf".
INFINITE_FIELDS = frozenset({"time_limit", "t1", "t2", "low", "high"})

#: Levels of tables and lists in a model; what walks through models does so by recursion.
_DEEPEST = 64
_TOO_DEEP = f"must not nest tables and lists more than {_DEEPEST} levels deep"


def load(path: str | os.PathLike[str]) -> Model:
    """The model in a TOML or JSON file (by suffix; anything but ``.json`` is read as TOML).

    Raises `InvalidModel` with file, field, rule and value.
    """
    path = Path(path)
    text = _text(path)
    raw = _parse_json(text, file=str(path)) if path.suffix == ".json" else _parse_toml(text, file=str(path))
    return parse(raw, file=str(path))


def parse(raw: Any, *, file: str = "") -> Model:
    """The model that plain data (dicts, lists, numbers, texts) describe."""
    if not isinstance(raw, dict):
        raise InvalidModel(rule="must be a table of fields", value=type(raw).__name__, file=file)
    if not raw:
        raise InvalidModel(rule="holds no model", file=file)
    kind = raw.get("kind")
    if kind is None:
        raise InvalidModel(field="kind", rule=f"is required: one of {', '.join(SYSTEMS)}", file=file)
    if not isinstance(kind, str) or kind not in SYSTEMS:
        raise InvalidModel(field="kind", rule=f"must be one of {', '.join(SYSTEMS)}", value=kind, file=file)
    if _deeper(raw, than=_DEEPEST):
        raise InvalidModel(rule=_TOO_DEEP, file=file)
    raw = _with_infinities(raw)
    try:
        return msgspec.convert(raw, SYSTEMS[kind])
    except msgspec.ValidationError as error:
        raise complaint(error, raw, file=file) from None


def plain(model: msgspec.Struct) -> dict[str, Any]:
    """`model` as plain data that JSON can hold: infinities are the text "inf"."""
    data: dict[str, Any] = _without_infinities(msgspec.to_builtins(model))
    return data


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write `model` to a ``.json`` file, or as TOML under any other suffix; all of it or nothing."""
    path = Path(path)
    if path.suffix == ".json":
        text = json.dumps(plain(model), indent=2, allow_nan=False) + "\n"
    else:
        text = tomli_w.dumps(msgspec.to_builtins(model))
    write_text(path, text)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a whole file or none: through a neighbour that takes its place once it is complete."""
    path = Path(path)
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InvalidModel(rule=f"cannot be written ({error.strerror})", file=str(path)) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(draft, 0o666 & ~umask)
        os.replace(draft, path)
    except OSError as error:
        os.unlink(draft)
        raise InvalidModel(rule=f"cannot be written ({error.strerror})", file=str(path)) from None
    except BaseException:
        os.unlink(draft)
        raise


def schema(kind: str) -> dict[str, Any]:
    """JSON Schema of the model files of one system.  Raises `InvalidModel` for an unknown kind."""
    if kind not in SYSTEMS:
        raise InvalidModel(field="kind", rule=f"must be one of {', '.join(SYSTEMS)}", value=kind)
    data: dict[str, Any] = msgspec.json.schema(SYSTEMS[kind])
    for definition in data["$defs"].values():
        for name, field in definition.get("properties", {}).items():
            if name in INFINITE_FIELDS and "Uniform" not in definition.get("title", ""):
                definition["properties"][name] = {"anyOf": [field, {"const": "inf"}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **data}


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidModel(rule=f"cannot be read ({error.strerror})", file=str(path)) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        rule = f"is not UTF-8 text (byte {error.start})"
        raise InvalidModel(rule=rule, file=str(path)) from None
    return text.replace("\r\n", "\n")


def _parse_toml(text: str, *, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        last = text.rstrip("\n").split("\n")
        end = f"at line {len(last)}, column {len(last[-1]) + 1}, the end of the file"
        rule = f"TOML syntax: {error}".replace("at end of document", end)
        raise InvalidModel(rule=rule, file=file) from None
    except RecursionError:
        raise InvalidModel(rule=_TOO_DEEP, file=file) from None


def _parse_json(text: str, *, file: str) -> Any:
    def refuse(token: str) -> NoReturn:
        raise InvalidModel(rule=f'JSON has no {token}; infinity is the text "inf"', file=file)

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, value in pairs:
            if name in fields:
                raise InvalidModel(field=name, rule="is given twice", value=value, file=file)
            fields[name] = value
        return fields

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=table)
    except json.JSONDecodeError as error:
        rule = f"JSON syntax: {error.msg} (at line {error.lineno}, column {error.colno})"
        raise InvalidModel(rule=rule, file=file) from None
    except RecursionError:
        raise InvalidModel(rule=_TOO_DEEP, file=file) from None


def _deeper(value: Any, *, than: int) -> bool:
    """Whether tables and lists are nested in more levels."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
    return inside is not None and (than == 0 or any(_deeper(item, than=than - 1) for item in inside))


def _with_infinities(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _with_infinities(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_infinities(item) for item in value]
    return math.inf if value == "inf" and key in INFINITE_FIELDS else value


def _without_infinities(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_infinities(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_infinities(item) for item in value]
    return "inf" if isinstance(value, float) and value == math.inf else value
