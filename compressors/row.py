"""A row of the catalogue."""

from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from inspect import Parameter, Signature, get_annotations, isclass, isfunction
from typing import Any, Literal, NamedTuple, get_args

from compressors.grammar import shown

Kind = Literal[
    "sparsifier", "quantizer", "positions", "symbols", "coder", "codec", "compressor", "method"
]


class Written(NamedTuple):
    """A method as a text of parts, in which the names of ``settings`` stand for their values."""

    text: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class Composition:
    """A published method as an equation: what it is made of, by its settings.

    ``sbc(p) = ef(one_sided(p) | mean | golomb); p = 1: raw``: a name and its settings, of which
    some have defaults; a method in whose text their names stand for their values; and,
    where another method stands for one value of a setting, that value and the method. A setting for
    which such a value is a text takes no other text than these and its default.

    Example:
        >>> Composition("half(p, bits=2) = topk(p) | steps(bits); p = 1: steps(bits)")(0.5)
        Written(text='topk(p) | steps(bits)', settings={'p': 0.5, 'bits': 2})
    """

    equation: str

    def __post_init__(self) -> None:
        if ") = " not in self.equation:
            raise ValueError(
                f"{self.equation!r} is not a method: write 'name(p) = topk(p) | float16'"
            )

    @cached_property
    def __signature__(self) -> Signature:
        listed = self.equation.partition(")")[0].partition("(")[2]
        parameters = []
        for setting in filter(None, listed.split(", ")):
            name, _, default = setting.partition("=")
            value = _literal(default) if default else Parameter.empty
            parameters.append(Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value))
        return Signature(parameters)

    def __call__(self, *positional: Any, **named: Any) -> Written:
        """The method of these settings; ``TypeError`` as of a function."""
        bound = self.__signature__.bind(*positional, **named)
        bound.apply_defaults()
        text, *others = self.equation.partition(") = ")[2].split("; ")
        texts: dict[str, list[str]] = {}
        for other in others:
            case, _, instead = other.partition(": ")
            name, _, literal = case.partition(" = ")
            value, special = bound.arguments[name], _literal(literal)
            if isinstance(special, str):
                default = self.__signature__.parameters[name].default
                texts.setdefault(name, [default]).append(special)
            if not isinstance(value, bool) and value == special:
                text = instead
        for name, allowed in texts.items():
            if bound.arguments[name] not in allowed:
                method = self.equation.partition("(")[0]
                value = shown(bound.arguments[name])
                raise ValueError(f"{method}: {name} is {value}: give one of {', '.join(allowed)}")
        return Written(text, bound.arguments)


def _literal(text: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class Row:
    """One name: what it makes, what it is, where it comes from, and one legal text of it.

    ``make`` is a class; for a method an equation such as ``"half(p) = topk(p) | float16"`` (see
    ``Composition``); or the function that builds a method, or a setting of a class with a name of
    its own. A text such as ``"whole.raw:Raw"`` is its place: a module of this package and a name in
    it. It is imported when somebody asks, so that a list of rows needs no torch. An ``example`` is
    a whole compressor in which the row takes part. ``portable``: whether its bytes are the same on
    every machine; not so where sums of a linear algebra library are in them. ``needs``: the package
    beyond numpy, torch and numba without which it cannot be made. ``differs``: in what it differs
    from its source; ``as published`` where in nothing. ``contrib``: whether at most one of the
    experiments uses it (``compressors.contrib``), under the same contract and with golden bytes.

    A class carries its row's name as ``codec_id``; one that declares none is given it by its row,
    and a compressor the default of ``keeps``.

    Raises ``ValueError`` for an unknown kind, a name that the grammar cannot read, and a class
    that is not a frozen dataclass or lacks what its contract names.
    """

    name: str
    kind: Kind
    make: Any
    title: str
    source: str
    example: str
    portable: bool = True
    needs: str = ""
    differs: str = "as published"
    contrib: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(
                f"row {self.name!r}: kind {self.kind!r} is unknown: {', '.join(get_args(Kind))}"
            )
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"row {self.name!r}: a name is letters, digits and underscores")
        product, call = vars(self)["make"], f"{self.name}("
        if self.kind == "method" and isinstance(product, str) and product.startswith(call):
            vars(self)["make"] = Composition(product)
        elif not (isinstance(product, str) and product.count(":") == 1):  # a place: see ``_Make``
            _check(self, product)
            factory: Any = product
            if isclass(product) and "codec_id" not in get_annotations(product):
                factory.codec_id = self.name
            if isclass(product) and self.kind == "compressor" and "keeps" not in vars(product):
                from compressors.base import Compressor

                factory.keeps = Compressor.keeps

    def __reduce__(self) -> Any:
        """A row is made anew in another process, and names its class there too."""
        return Row, tuple(vars(self)[field.name] for field in fields(self))


class _Make:
    """``Row.make``: what a place stands for is imported at the first look, and checked then."""

    def __get__(self, row: Row | None, owner: type) -> Any:
        if row is None:
            return self
        product = vars(row)["make"]
        if isinstance(product, str):
            module, name = product.split(":")
            product = getattr(import_module(f"compressors.{module}"), name)
            _check(row, product)
            if isclass(product) and vars(product).get("codec_id") != row.name:
                raise ValueError(
                    f"row {row.name!r}: {product.__name__} does not carry this name: "
                    f'write codec_id: ClassVar[str] = "{row.name}" in the class'
                )
            vars(row)["make"] = product
        return product

    def __set__(self, row: Row, value: Any) -> None:
        vars(row)["make"] = value


type.__setattr__(Row, "make", _Make())  # after @dataclass, which would take it for a default


def _check(row: Row, product: Any) -> None:
    if not callable(product):
        raise ValueError(f"row {row.name!r}: make is {product!r}: a class or a function")
    if not isclass(product):
        return
    parameters = getattr(product, "__dataclass_params__", None)
    if not is_dataclass(product) or parameters is None or not parameters.frozen:
        raise ValueError(
            f"row {row.name!r}: {product.__name__} is not a frozen dataclass: write "
            "@dataclass(frozen=True) above it, so that its settings have a text and an equality"
        )
    if missing := lacking(row.kind, product):
        raise ValueError(
            f"row {row.name!r}: {product.__name__} lacks {', '.join(missing)}: "
            f"the kind {row.kind!r} needs them"
        )


def lacking(kind: str, thing: Any) -> list[str]:
    """What a class or an object lacks of a kind's contract, in the contract's order.

    Example:
        >>> class Nothing: pass
        >>> lacking("codec", Nothing)
        ['needs_seed', 'write', 'read']
    """
    from compressors import base, parts  # with the first class that is checked

    contracts: tuple[type, ...] = {
        "sparsifier": (parts.Sparsifier,),
        "quantizer": (parts.Quantizer,),
        "positions": (parts.PositionCode,),
        "symbols": (parts.SymbolCode,),
        "coder": (parts.PositionCode, parts.SymbolCode),
        "codec": (base.VectorCodec,),
        "compressor": (base.Compressor,),
        "method": (base.Compressor,),
    }[kind]
    settings = getattr(thing, "__dataclass_fields__", {})  # a default may be missing
    missing = []
    for contract in contracts:
        for name, value in vars(contract).items():
            if name.startswith("_") or value is None:  # what has a default
                continue
            has = hasattr(thing, name) or name in settings
            fits = not isfunction(value) or callable(getattr(thing, name, None))
            if not (has and fits) and name not in missing:
                missing.append(name)
    return missing
