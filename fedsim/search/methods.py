"""The methods of a search, and their texts with other coders."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from typing import Any

from compressors import CATALOGUE, ROWS, Compressor, Pipeline, Row, parse, text
from compressors.grammar import split_text
from compressors.parts import Lossy
from fedsim.ground import units
from fedsim.ground.errors import UsageError, unknown
from fedsim.measure.inputs import example_at
from fedsim.measure.patterns import with_pipelines
from fedsim.settings.methods import resolve, takes_fraction, with_fraction

OWN_CODER = "own"
CODERS = (
    OWN_CODER,
    "golomb | fixed",
    "golomb | huffman",
    "golomb | ans",
    "ans | ans",
    "huffman | huffman",
    "context | fixed",
    "context | ans",
)
"""Coders of positions and symbols; own: as the method has them. All are lossless."""

_AS_PUBLISHED = (
    "raw", "cnat", "natural_dither(7) | huffman", "qsgd(3) | elias_gaps", "terngrad",
    "rotate(minmax(4))", "ef(onebit)", "ef(threelc(1.75))",
    "randk({p}) | float32", "gspar({p}) | float32 | golomb",
    "rtopk({p}, 0.5) | float32 | golomb", "ef(randk({p}, false) | float32)",
    "ef(blocks(8, {p}) | float32)", "ef(sketchml({p}, 16, 4))", "dgc({p})",
)  # fmt: skip
"""Published methods without a name as a whole: parts, as their papers have them."""

_SUMS = (
    "bfloat16",
    "qsgd(15) | huffman",
    "minmax(16) | huffman",
    "ef(topk({p}) | bfloat16 | golomb)",
    "ef(flat(topk({p}) | cnat | golomb))",
    "ef(flat(one_sided({p}) | mean | golomb))",
    "randk({p}) | cnat",
    "gspar({p}) | cnat | golomb",
)
"""Methods of ``all`` in addition to the published ones: combinations that no paper has."""

_SERVED = ("fetchsgd", "fedscalar")
"""Methods that every strategy decodes, and that are the published ones with a server of their own
or with its step alone."""

_RATE = "{lr}"
_RATED = {"signsgd": "signsgd({lr})"}
"""Methods whose step, in the place of the clients' rate, is what they learn by."""


def select_methods(methods: str | Sequence[str]) -> list[str]:
    """The texts of the methods that are searched over; ``{p}`` stands for the fraction sent.

    Args:
        methods: ``published`` (each as its paper has it, and ``raw``), ``all`` (sums of parts
            too), or texts, between semicolons or commas. ``{lr}`` stands for the rate, where a
            method has a step of its own.

    Raises:
        UsageError: no text, or one that cannot be read.

    Example:
        >>> select_methods("sbc,raw"), select_methods("topk(0.1) | cnat; stc")
        (['sbc', 'raw'], ['topk(0.1) | cnat', 'stc'])
    """
    if isinstance(methods, str):
        word = methods.strip()
        if word in ("all", "published"):
            rows = [row for row in ROWS if row.kind == "method" and row.name not in _SERVED]
            published = [*map(_text, rows), *_AS_PUBLISHED]
            return published if word == "published" else [*published, *_SUMS]
        texts = [part for listed in split_text(word, ";") for part in split_text(listed)]
    else:
        texts = list(methods)
    named = (part.strip().removesuffix("()") for part in texts)
    texts = [part for part in dict.fromkeys(named) if part]
    if not texts:
        raise UsageError(f"--methods is {methods!r}: it takes all, published, or methods' texts")
    for method in texts:
        if re.fullmatch(r"\w+", method) and method not in CATALOGUE:
            names = [row.name for row in CATALOGUE.values() if row.kind == "method"]
            listed = unknown("method", method, ["all", "published", *names])
            raise UsageError(f"--methods: {listed}")
        try:
            resolve(at_rate(method), 0.01 if takes_fraction(method) else None)
        except UsageError as error:
            raise UsageError(f"--methods: {str(error).removeprefix('--method: ')}") from error
    return texts


def at_rate(method: str, lr: float = 0.01) -> str:
    """A method whose step is the rate, at a rate; any other as it is.

    Example:
        >>> at_rate("signsgd({lr})", 0.003), at_rate("sbc")
        ('signsgd(0.003)', 'sbc')
    """
    return method.replace(_RATE, f"{lr:g}")


def _text(row: Row) -> str:
    """A published method with ``{p}`` where it takes a fraction, all else as in its row."""
    if row.name in _RATED:
        return _RATED[row.name]
    taken = signature(row.make).parameters
    free = all(
        parameter.default is not parameter.empty for name, parameter in taken.items() if name != "p"
    )
    return row.name if "p" in taken and free else example_at(row, "{p}")


@lru_cache
def max_fraction(method: str) -> float:
    """The greatest fraction that a method takes, of two digits: 1, or what its settings allow.

    Example:
        >>> max_fraction("sbc"), max_fraction("cocktailsgd")
        (1.0, 0.1)
    """
    for p in (1.0, *(digits / 10**e for e in range(2, 6) for digits in range(99, 9, -1))):
        try:
            resolve(at_rate(method), p)
        except UsageError as error:
            refusal = error
        else:
            return p
    raise refusal


def sent_down(params: Mapping[str, Any]) -> str:
    """The downlink of a point, its fraction in its place; empty where a search has not chosen it.

    Example:
        >>> sent_down({"downlink": "sbc", "down_gradient": 0.05}), sent_down({"lr": 0.1})
        ('sbc(0.05)', '')
    """
    downlink, p = params.get("downlink", ""), params.get("down_gradient")
    return with_fraction(downlink, p) if takes_fraction(downlink) and p is not None else downlink


def point_texts(params: Mapping[str, Any]) -> dict[str, str]:
    """A point in texts: method, n, p, coder and rate; what not every search chooses, if it has."""
    used: dict[str, Any] = {k: None if v != v else v for k, v in params.items()}  # NaN in a frame
    texts = {
        "method": used["method"],
        "n": f"{used['temporal']:.0f}",
        "p": units.plain(used["gradient"]),
        "coder": "" if used["coder"] == OWN_CODER else used["coder"],
        "lr": units.plain(used["lr"]),
    }
    texts |= {"server lr": units.plain(used["server_lr"])} if "server_lr" in used else {}
    return texts | ({"downlink": sent_down(used)} if "downlink" in used else {})


def point_text(params: Mapping[str, Any]) -> str:
    """A point as it is run, in words.

    Example:
        >>> point_text({"method": "sbc", "coder": "own", "temporal": 4, "gradient": 0.1, "lr": 0.2})
        'sbc, n = 4, p = 0.1, lr = 0.2'
    """
    names = {"method": "", "coder": "coders ", "downlink": "downlink "}
    texts = point_texts(params)
    return ", ".join(f"{names.get(k, f'{k} = ')}{text}" for k, text in texts.items() if text)


@lru_cache(maxsize=4096)
def compressor(method: str, p: float | None, coder: str) -> Compressor:
    """The compressor of a method at a fraction, with other coders where it has places for them.

    A lossy position code stays, for another code would make another method of it.

    Example:
        >>> text(compressor("sbc", 0.01, "ans | ans"))
        'ef(per_tensor(one_sided(0.01) | mean | ans | ans), mask=true)'
    """
    pipeline = resolve(at_rate(method), p).compressor
    if coder == OWN_CODER:
        return pipeline
    coded: Any = parse(f"topk(0.1) | float32 | {coder}")

    def recoded(pipeline: Pipeline) -> Pipeline:
        changed = _replaced(pipeline, symbols=coded.codec.symbols)
        lossy = isinstance(changed.positions, Lossy)
        return changed if lossy else _replaced(changed, positions=coded.codec.positions)

    changed: Compressor = with_pipelines(pipeline, recoded)
    return changed


def takes_coder(method: str, p: float | None, coder: str) -> bool:
    """Whether the coders change anything in the method."""
    return text(compressor(method, p, coder)) != text(compressor(method, p, OWN_CODER))


def _replaced(pipeline: Pipeline, **code: Any) -> Pipeline:
    """The pipeline with a code, or as it is where the pipeline has no place for that code."""
    try:
        return replace(pipeline, **code)
    except ValueError:
        return pipeline
