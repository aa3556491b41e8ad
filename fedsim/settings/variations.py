"""Settings of which a sweep tries several values: read from flags and files, checked, and named."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import product
from typing import Any

import numpy as np

from compressors.grammar import split_text
from fedsim.ground.errors import PlacedError, UsageError, unknown
from fedsim.settings.config import SETTINGS, underscored, written
from fedsim.settings.declarations import Setting
from fedsim.settings.strategies import FLAGS

Varied = Mapping[str, Sequence[Any]]
"""The values of each varied setting, by the name of its flag."""

_ALL = {**SETTINGS, **FLAGS}
_PLACES = {
    **dict.fromkeys(("temporal", "n"), "n has an option of its own: --temporal 1,10"),
    "local_epochs": "local epochs have an option of their own: --local-epochs 1,5",
    **dict.fromkeys(("gradient", "p"), "p has an option of its own: --gradient 0.1,0.01"),
    **dict.fromkeys(("seed", "seeds"), "seeds have an option of their own: --seeds 3"),
}
_APART = "no table holds its values beside each other; run a sweep for each"
_ALONE = {
    "task": _APART,
    "test_samples": _APART,
    "validation": _APART,
    "evaluate_every": "when the server looks changes no model; give one value, the smallest",
}
_PLAIN = re.compile(r"\w[\w.]*(\([\w.]+\))?", re.ASCII)
_LONGEST = 40  # characters of a value in the name of a folder


def parse_vary(texts: Iterable[str]) -> dict[str, list[str]]:
    """The settings of ``--vary SETTING=V1,V2`` and their values as typed.

    Raises ``UsageError`` where one has no value, or a setting is given twice.
    """
    values: dict[str, list[str]] = {}
    for text in texts:
        name, _, values_text = text.partition("=")
        key = name.strip().lstrip("-").replace("-", "_")
        words = [re.sub(r"""^(['"])(.*)\1$""", r"\2", word) for word in split_text(values_text)]
        if not all(words):
            raise UsageError(
                f"--vary is {text!r}: give a setting and its values, such as lr=0.01,0.1"
            )
        if key in values:
            raise UsageError(f"--vary has {key} twice: give all of its values at once")
        values[key] = words
    return values


def check_values(choices: Mapping[str, Any], origin: str) -> dict[str, tuple[Any, ...]]:
    """The settings and their values, each once; ``none`` stands for None where that is a default.

    ``choices``: a value or several by the name of a setting; a text may stand for a number.

    Raises ``UsageError``: there is no such setting, no sweep can vary it, or it does not take a
    value.
    """
    values: dict[str, tuple[Any, ...]] = {}
    for name, several in underscored(choices, origin).items():
        cause = _PLACES.get(name) or _ALONE.get(name)
        setting = _ALL.get(name)
        if setting is not None and not setting.result:
            cause = "no number of a run depends on it"
        if cause:
            raise PlacedError(f"{origin}: {name} cannot be varied: {cause}")
        if setting is None:
            names = [n for n, s in _ALL.items() if s.result and n not in (*_PLACES, *_ALONE)]
            raise PlacedError(f"{origin}: {unknown('setting', name, names)}")
        listed = several if isinstance(several, list | tuple | np.ndarray) else [several]
        if not len(listed):
            raise PlacedError(f"{origin}: {name} is []; it takes one value or several")
        values[name] = tuple(dict.fromkeys(_value(setting, one, origin) for one in listed))
    return values


def _value(setting: Setting, raw: Any, origin: str) -> Any:
    kinds = setting.kind.split(" | ")
    value = raw
    if isinstance(raw, str):
        word = raw.strip().lower()
        if word == "none" and setting.default is None:
            return None
        if kinds == ["bool"]:
            value = {"true": True, "on": True, "false": False, "off": False}.get(word, raw)
        elif "str" not in kinds:
            with suppress(ValueError):  # told below, with what the setting takes
                value = int(word) if kinds[0] == "int" else float(word)
    return setting.checked(value, origin, setting.name)


def combinations(varied: Varied) -> Iterator[dict[str, Any]]:
    """Every combination of the values, those of the last setting changing first."""
    for values in product(*varied.values()):
        yield dict(zip(varied, values, strict=True))


def folder_suffix(chosen: Mapping[str, Any]) -> str:
    """The part of a combination in the name of a cell's folder; other values, another name.

    A value that a name cannot hold, or that is long, ends with a digest of it.

    Example:
        >>> folder_suffix({"lr": 0.1, "partition": "dirichlet(0.1)"})
        '-lr-0.1-partition-dirichlet-0.1'
        >>> folder_suffix({"method": "topk(0.1) | float32"})
        '-method-topk-0.1-float32-2f5908'
    """
    parts = []
    for name, value in chosen.items():
        text = f"{value:g}" if isinstance(value, float) else str(written(value) or "none")
        if isinstance(value, float) and float(text) != value:
            text = repr(value)
        slug = re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.")
        if not (_PLAIN.fullmatch(text) or isinstance(value, int | float)) or len(slug) > _LONGEST:
            slug = f"{slug[:_LONGEST]}-{blake2b(text.encode(), digest_size=3).hexdigest()}"
        parts.append(f"-{name}-{slug}")
    return "".join(parts)


def written_values(varied: Varied) -> dict[str, list[Any]]:
    """The settings and their values as a file has them."""
    return {
        name: ["none" if value is None else written(value) for value in values]
        for name, values in varied.items()
    }
