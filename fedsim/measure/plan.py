"""The coders that ``measure_coders`` runs, and the methods whose output they code."""

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from compressors import CATALOGUE, ROWS, PerTensor, parse, text
from fedsim.ground.errors import UsageError
from fedsim.measure.defaults import POSITIONS_OF, SYMBOLS_OF
from fedsim.measure.inputs import check_density, texts_of
from fedsim.settings.methods import compressor_of, takes_fraction, with_fraction

Of = Literal["positions", "symbols"]
KINDS = ("positions", "symbols", "coder")
"""What "all" stands for: these kinds of the catalogue."""

DENSITY = 0.01
_BESIDE = ("golomb(exact)", "golomb(fit)")  # in "all", besides one coder per row
_BEFORE: dict[Of, str] = {"positions": "topk(0.5) | float32 | ", "symbols": "float32 | "}
OFS = tuple(_BEFORE)


class Coder(NamedTuple):
    """A coder's text, whether it codes positions or symbols, and the object that codes them."""

    name: str
    of: Of
    code: Any


class CoderPlan(NamedTuple):
    """The coders, and the texts of the methods whose positions and symbols these code."""

    coders: list[Coder]
    positions_of: str
    symbols_of: str


def choose_coders(
    coders: str | Sequence[str] = "all",
    positions_of: str = POSITIONS_OF,
    symbols_of: str = SYMBOLS_OF,
    density: float | None = None,
) -> CoderPlan:
    """The plan of ``measure_coders``; arguments and errors as there."""
    check_density(density)
    if density is not None and not any(map(takes_fraction, (positions_of, symbols_of))):
        raise UsageError(
            f"--density is {density:g}: neither {positions_of!r} nor {symbols_of!r} has a place "
            "for the density: write {p} where it belongs, or leave the density out"
        )
    methods = [with_fraction(m, density or DENSITY) for m in (positions_of, symbols_of)]
    for method in methods:
        compressor_of(method)
    if isinstance(coders, str) and coders.strip() == "all":
        texts = []
        for row in (row for row in ROWS if row.kind in KINDS):
            try:  # without settings where it needs none, else with those of its example
                texts.append(text(row.make()))
            except TypeError:
                part = re.search(rf"\b{row.name}\([^()]*\)", row.example)
                texts.append(part[0] if part else row.name)
        texts += _BESIDE
    else:
        texts = texts_of(coders, "coders", "golomb; ans")
    chosen = []
    for source in texts:
        name = source.split("(")[0].strip()
        kind = CATALOGUE[name].kind if name in CATALOGUE and "|" not in source else None
        if kind not in KINDS:
            names = ", ".join(row.name for row in ROWS if row.kind in KINDS)
            raise UsageError(f"coder {source!r}: it must be one of {names}")
        for of in (of for of in OFS if kind in (of, "coder")):
            try:
                compressor = parse(_BEFORE[of] + source)
            except ValueError as error:
                raise UsageError(str(error).replace(_BEFORE[of], "")) from error
            pipe = compressor.codec if isinstance(compressor, PerTensor) else None
            chosen.append(Coder(source.strip(), of, getattr(pipe, of)))
    return CoderPlan(chosen, *methods)
