"""The text form of a compressor, as people type it, and the JSON form of the same.

``topk(0.01) | float32 | golomb`` is a pipeline; as a whole method it means
``per_tensor(...)`` of it. A published method is a name that prints its expansion:
``sbc(0.01)`` prints ``ef(per_tensor(one_sided(0.01) | mean | golomb))``. ``parse(text(c)) == c``.
"""

from dataclasses import fields, is_dataclass
from typing import Any

from compressors.coders.fixed import Fixed
from compressors.sparsify.identity import Identity
from compressors.whole.pipeline import Pipeline


def text(thing: Any) -> str:
    """The text form of a compressor or of a part of one.

    Raises ``ValueError`` for an object that is not in the catalogue.

    Example:
        >>> from compressors import parse
        >>> text(parse("gradient_dropping(0.1, scope=model)"))
        'ef(flat(topk(0.1) | float32 | golomb))'
    """
    if isinstance(thing, Pipeline):
        parts: list[Any] = [thing.sparsify, thing.quantize, thing.positions, thing.symbols]
        silent = (Identity(), None, None if thing.writes_positions else thing.positions, Fixed())
        spoken = [p for p, default in zip(parts, silent, strict=True) if p != default]
        return " | ".join(text(p) for p in spoken)
    name, shown = name_of(thing), _settings(thing)
    return f"{name}({', '.join(shown)})" if shown else name


def _settings(thing: Any) -> list[str]:
    """What differs from the defaults: by place as long as nothing is left out, then by name."""
    shown, by_place = [], True
    for f in fields(thing):
        value = getattr(thing, f.name)
        if value == f.default:
            by_place = False
        else:
            shown.append(_value(value) if by_place else f"{f.name}={_value(value)}")
    return shown


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(_value(v) for v in value)
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, int | float):
        return repr(int(value) if isinstance(value, int) else float(value))  # not as numpy does
    return text(value)


def _quoted(value: str) -> str:
    """The text between quotes, as it is: the grammar has no escapes."""
    for quote in "'\"":
        if quote not in value:
            return f"{quote}{value}{quote}"
    raise ValueError(f"{value!r} holds both kinds of quotes: it has no text form")


def name_of(thing: Any) -> str:
    """The catalogue's name of an object's class; ``ValueError`` if it has none."""
    from compressors.catalogue import CATALOGUE  # it knows every class; no class knows it

    for row in CATALOGUE.values():
        if row.make is type(thing):
            return row.name
    said = type(thing).__name__ if is_dataclass(thing) else " ".join(repr(thing)[:200].split())
    raise ValueError(f"{said} is not in the catalogue: add a row for {type(thing).__name__}")


def to_json(thing: Any) -> Any:
    """Plain JSON values from which ``from_json`` rebuilds an equal object."""
    if isinstance(thing, tuple):
        return [to_json(v) for v in thing]
    if thing is None or isinstance(thing, str | int | bool):
        return thing
    if isinstance(thing, float):
        return float(thing)  # numpy's are floats too
    name = "pipeline" if isinstance(thing, Pipeline) else name_of(thing)
    return {"name": name} | {f.name: to_json(getattr(thing, f.name)) for f in fields(thing)}


def from_json(value: Any) -> Any:
    """The object that ``to_json`` described; ``ValueError`` for an unknown name."""
    from compressors.catalogue import CATALOGUE

    if isinstance(value, list):
        return tuple(from_json(v) for v in value)
    if not isinstance(value, dict):
        return value
    settings = {key: from_json(v) for key, v in value.items() if key != "name"}
    name = value.get("name")
    if name != "pipeline" and (not isinstance(name, str) or name not in CATALOGUE):
        raise ValueError(f"unknown method {name!r}: known are {', '.join(CATALOGUE)}")
    try:
        return Pipeline(**settings) if name == "pipeline" else CATALOGUE[name].make(**settings)
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error
