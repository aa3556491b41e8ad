"""What a row of the catalogue says."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal[
    "sparsifier", "quantizer", "positions", "symbols", "coder", "codec", "compressor", "method"
]


@dataclass(frozen=True)
class Row:
    """One name: what it makes, what it is, where it comes from, and one legal text of it.

    ``make`` is a class, or for a published method or a setting of a class with a name of
    its own the function that builds it. An ``example`` is a whole compressor in which the
    row takes part. ``portable``: whether its bytes are the same on every machine; not so where
    sums of a linear algebra library are in them. ``needs``: the package beyond numpy, torch and
    numba without which it cannot be made.
    """

    name: str
    kind: Kind
    make: Callable[..., Any]
    title: str
    source: str
    example: str
    portable: bool = True
    needs: str = ""


SBC = "Sattler et al. 2018"
DROP = "Aji & Heafield 2017"
CNAT = "Horváth et al. 2022"
HUFFMAN = "Gajjala et al. 2020"
DEEPREDUCE = "Kostopoulou et al. 2021"
