"""Reads the JSON form of a compressor, which ``compressors.to_json`` writes."""

from inspect import signature
from typing import Any

from compressors.catalogue import CATALOGUE
from compressors.errors import MethodError
from compressors.parsing.grammar import instance_of
from compressors.row import Composition
from compressors.whole.pipeline import Pipeline


def from_json(value: Any) -> Any:
    """The object that ``to_json`` described; ``MethodError`` for an unknown name."""
    if isinstance(value, list):
        return tuple(from_json(part) for part in value)
    if not isinstance(value, dict):
        return value
    settings = {key: from_json(part) for key, part in value.items() if key != "name"}
    name = value.get("name")
    if name != Pipeline.codec_id and (not isinstance(name, str) or name not in CATALOGUE):
        raise MethodError(f"unknown method {name!r}: known are {', '.join(CATALOGUE)}")
    make = Pipeline if name == Pipeline.codec_id else CATALOGUE[name].make
    try:
        signature(make).bind(**settings)
        return instance_of(name, **settings) if isinstance(make, Composition) else make(**settings)
    except TypeError as error:
        raise MethodError(f"{name}: {error}") from error
