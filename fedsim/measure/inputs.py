"""Checks of the arguments of ``measure`` and ``measure_coders``: updates, methods, numbers."""

import re
from collections.abc import Mapping, Sequence
from inspect import signature

from compressors import ROWS, Compressor, Row, Tensors, UpdateError, text
from compressors.arguments import check_finite, update_of
from compressors.grammar import NUMBER, split_text
from fedsim.ground.errors import UsageError
from fedsim.settings.methods import compressor_of, takes_fraction, with_fraction

INPUT_KINDS = ("method", "compressor", "codec", "sparsifier", "quantizer")
"""What "all" stands for: these kinds of the catalogue, by their examples."""


def choose(
    methods: str | Sequence[str] = "all", density: float | None = None
) -> dict[str, Compressor]:
    """The compressors that ``measure`` takes, by their texts; arguments and errors as there."""
    check_density(density)
    if isinstance(methods, str) and methods.strip() == "all":
        examples: dict[str, tuple[str, Compressor]] = {}
        for row in (row for row in ROWS if row.kind in INPUT_KINDS):
            method = row.example if density is None else example_at(row, repr(density))
            compressor = compressor_of(method)
            examples.setdefault(text(compressor), (method, compressor))  # of equal ones the first
        return dict(examples.values())
    texts = texts_of(methods, "methods", "sbc(0.01)")
    if density is not None:
        if not any(map(takes_fraction, texts)):
            raise UsageError(
                f"--density is {density:g}: no method has a place for the density: write {{p}} "
                "where it belongs, or leave the density out"
            )
        texts = [with_fraction(t, density) for t in texts]
    return {t: compressor_of(t, "or give a density") for t in texts}


def texts_of(value: str | Sequence[str], name: str, example: str) -> list[str]:
    """The texts that a list holds, or a text whose parts are separated by semicolons.

    Raises ``UsageError``, which names the argument and an example, where there is none.
    """
    texts = [*filter(None, split_text(value, ";"))] if isinstance(value, str) else list(value)
    if not texts:
        raise UsageError(f"{name} is {value!r}: it takes 'all' or texts such as {example!r}")
    return texts


def example_at(row: Row, p: str) -> str:
    """A published method's example with ``p`` for its setting p; others as they are."""
    names = list(signature(row.make).parameters) if row.kind == "method" else []
    if "p" not in names:
        return row.example
    before = rf"\b{row.name}\(\s*" if names[0] == "p" else r"\bp\s*=\s*"
    return re.sub(rf"({before}(?:p\s*=\s*)?){NUMBER.pattern}", rf"\g<1>{p}", row.example, count=1)


def check_density(density: float | None) -> None:
    """Raises ``UsageError`` unless ``density`` is a fraction in (0, 1], or None."""
    if density is not None and not 0 < density <= 1:
        raise UsageError(f"--density is {density:g}: give a fraction of entries in (0, 1]")


def check_repeat(repeat: int) -> None:
    """Raises ``UsageError`` unless ``repeat`` is a number of runs, from 1."""
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise UsageError(f"--repeat is {repeat!r}: give a whole number above 0")


def checked_updates(updates: Tensors | Sequence[Tensors]) -> list[Tensors]:
    """The updates as a list, each checked; a single update gives a list of length one."""
    checked = [updates] if isinstance(updates, Mapping) else list(updates)
    for update in checked:
        try:
            check_finite(update_of(update))
        except UpdateError as error:
            raise UsageError(str(error)) from error
    if not any(checked):
        raise UsageError("updates hold no tensor: there is nothing to measure")
    return checked
