"""What a row of the catalogue says."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from inspect import isclass, isfunction
from typing import Any, Literal, get_args

from compressors.base import Compressor, VectorCodec
from compressors.positions.base import PositionCode
from compressors.quantize.base import Quantizer
from compressors.sparsify.base import Sparsifier
from compressors.symbols.base import SymbolCode

Kind = Literal[
    "sparsifier", "quantizer", "positions", "symbols", "coder", "codec", "compressor", "method"
]

_CONTRACTS: dict[str, tuple[type, ...]] = {
    "sparsifier": (Sparsifier,),
    "quantizer": (Quantizer,),
    "positions": (PositionCode,),
    "symbols": (SymbolCode,),
    "coder": (PositionCode, SymbolCode),
    "codec": (VectorCodec,),
    "compressor": (Compressor,),
    "method": (Compressor,),
}


@dataclass(frozen=True)
class Row:
    """One name: what it makes, what it is, where it comes from, and one legal text of it.

    ``make`` is a class, or for a published method or a setting of a class with a name of
    its own the function that builds it. An ``example`` is a whole compressor in which the
    row takes part. ``portable``: whether its bytes are the same on every machine; not so where
    sums of a linear algebra library are in them. ``needs``: the package beyond numpy, torch and
    numba without which it cannot be made.

    Raises ``ValueError`` for an unknown kind, a name that the grammar cannot read, and a class
    that is no frozen dataclass or lacks what its contract names.
    """

    name: str
    kind: Kind
    make: Callable[..., Any]
    title: str
    source: str
    example: str
    portable: bool = True
    needs: str = ""

    def __post_init__(self) -> None:
        if self.kind not in _CONTRACTS:
            raise ValueError(
                f"row {self.name!r}: kind {self.kind!r} is unknown: {', '.join(get_args(Kind))}"
            )
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"row {self.name!r}: a name is letters, digits and underscores")
        if not callable(self.make):
            raise ValueError(f"row {self.name!r}: make is {self.make!r}: a class or a function")
        if isclass(self.make):
            self._check_class(self.make)

    def _check_class(self, made: type) -> None:
        parameters = getattr(made, "__dataclass_params__", None)
        if not is_dataclass(made) or parameters is None or not parameters.frozen:
            raise ValueError(
                f"row {self.name!r}: {made.__name__} is no frozen dataclass: write "
                "@dataclass(frozen=True) above it, so that its settings have a text and an equality"
            )
        if missing := lacking(self.kind, made):
            raise ValueError(
                f"row {self.name!r}: {made.__name__} is no {self.kind}: it lacks "
                f"{', '.join(missing)}"
            )


def lacking(kind: str, thing: Any) -> list[str]:
    """What a class or an object lacks of a kind's contract, in the contract's order.

    Example:
        >>> class Nothing: pass
        >>> lacking("codec", Nothing)
        ['needs_seed', 'write', 'read']
    """
    settings = getattr(thing, "__dataclass_fields__", {})  # one without a default is no attribute
    missing = []
    for contract in _CONTRACTS[kind]:
        for name, value in vars(contract).items():
            if name.startswith("_"):
                continue
            has = hasattr(thing, name) or name in settings
            fits = not isfunction(value) or callable(getattr(thing, name, None))
            if not (has and fits) and name not in missing:
                missing.append(name)
    return missing


SBC = "Sattler et al. 2018"
DROP = "Aji & Heafield 2017"
CNAT = "Horváth et al. 2022"
HUFFMAN = "Gajjala et al. 2020"
DEEPREDUCE = "Kostopoulou et al. 2021"
