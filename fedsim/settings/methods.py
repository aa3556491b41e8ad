"""The compressor of a method's text and a gradient sparsity."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from inspect import signature
from typing import Any

from compressors import CATALOGUE, DGC, ByName, Compressor, ErrorFeedback, parse, text
from compressors.grammar import message_text
from compressors.whole import masking
from compressors.whole.keepers import parts_of
from fedsim.ground.errors import UsageError, comma


@dataclass(frozen=True)
class Method:
    """A compressor, the fraction of entries that it sends, and whether it keeps residuals."""

    compressor: Compressor
    gradient: float
    residuals: bool

    @property
    def text(self) -> str:
        """The expansion, as result tables print it, without whether momentum is masked."""
        return message_text(self.compressor)

    def masks(self, setting: str) -> bool:
        """Whether momentum is masked anywhere with a value of ``momentum_masking``."""
        auto = masking.masking(self.compressor) != masking.NONE
        return {"auto": auto, "on": True, "off": False, "ef": self.residuals}[setting]


def resolve(method: str, gradient: float | None) -> Method:
    """The method that ``method`` names at gradient sparsity ``gradient`` (None: not given).

    A bare name of a published method, or a text with ``{p}``, takes the sparsity; any
    other text carries its own and takes ``gradient`` 1 or none. Raises ``UsageError``.

    Example:
        >>> resolve("sbc", 0.01).text
        'ef(per_tensor(one_sided(0.01) | mean | golomb))'
        >>> resolve("topk(0.1) | float32 | golomb", None).gradient
        0.1
    """
    if gradient is not None and not 0 < gradient <= 1:
        raise UsageError(f"--gradient is {gradient:g}: a fraction of entries in (0, 1]; 1 is dense")
    takes = takes_fraction(method)
    if not takes and gradient not in (None, 1):
        raise UsageError(
            f"--gradient is {gradient:g} and method {method!r} has no place for it: write {{p}} "
            "where it belongs, such as 'topk({p}) | float32 | golomb', or leave it out"
        )
    if takes and gradient is None:
        raise UsageError(
            f"--method is {method!r}, which takes a fraction of entries: give --gradient P with it"
        )
    share = 1.0 if gradient is None else gradient
    try:
        compressor = parse(_template(method), share)
    except ValueError as error:
        raise UsageError(f"--method: {error}{comma(method)}") from error
    fraction = share if takes else _share(compressor)
    return Method(compressor, fraction, _contains(compressor, ErrorFeedback))


def spelled(method: Any, flag: str) -> Any:
    """The text of a method that was given as a compressor; anything else as it is.

    Raises ``UsageError`` for a compressor with a part that is not in the catalogue.
    """
    if not is_dataclass(method):
        return method
    try:
        return text(method)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def corrects_momentum(compressor: Compressor) -> bool:
    """Whether the method keeps the clients' momentum in its own memory."""
    return _contains(compressor, DGC)


def takes_fraction(method: str) -> bool:
    """Whether the gradient sparsity is for the sweep to choose.

    Example:
        >>> takes_fraction("sbc"), takes_fraction("sbc(0.01)"), takes_fraction("raw")
        (True, False, False)
    """
    return "{p}" in _template(method)


def with_fraction(method: str, p: float) -> str:
    """The text of ``method`` with ``p`` where it takes a fraction."""
    return _template(method).replace("{p}", repr(p))


def recorded(
    method: str, expansion: str, gradient: float, printed: Callable[[Any], str] = text
) -> dict[str, Any]:
    """What a run writes down of its method, so that nobody has to read its text again.

    ``expansion``: the text of the compressor, which ``printed`` has made. Returns ``form``, the
    method as typed, or the name of the published method whose compressor was given; ``whole``, the
    text of its compressor at p = 1, empty where it takes no fraction.
    """
    form = method.strip()
    for row in CATALOGUE.values() if form == expansion else ():  # at p = 1, one without a fraction
        fits = row.kind == "method" and takes_fraction(row.name) == (gradient != 1)
        if fits and _text(row.name, gradient, printed) == expansion:
            form = str(row.name)
            break
    return {"form": form, "whole": _text(form, 1.0) if takes_fraction(form) else ""}


def _text(form: str, gradient: float, printed: Callable[[Any], str] = message_text) -> str:
    """The text of a method's compressor; empty where the method takes more than a fraction."""
    try:
        return printed(parse(_template(form), gradient))
    except ValueError:
        return ""


def compressor_of(method: str, otherwise: str = "") -> Compressor:
    """The compressor of a whole text; ``UsageError`` where it is none or lacks its fraction.

    ``otherwise``: what else a user can do about a fraction that is missing.
    """
    try:
        return parse(method)
    except ValueError as error:
        if not takes_fraction(method):
            raise UsageError(str(error)) from error
        example, other = with_fraction(method, 0.01), f", {otherwise}" if otherwise else ""
        raise UsageError(
            f"method {method!r} has no fraction of entries: write it, as in {example!r}{other}"
        ) from error


def _template(method: str) -> str:
    """A bare name of a published method that takes p means that method of ``{p}``."""
    name = method.strip()
    row = CATALOGUE.get(name)
    if row is None or row.kind != "method" or "p" not in signature(row.make).parameters:
        return name
    first = next(iter(signature(row.make).parameters)) == "p"
    return f"{name}({'' if first else 'p='}{{p}})"


def _share(compressor: Any) -> float:
    """The sparsifier's fraction inside a compressor; 1 where there is none.

    Of rules by name it is the last one's, which takes what the others leave: most, as a rule.
    """
    parts = list(parts_of(compressor))
    for named in (part for part in parts if isinstance(part, ByName)):
        return _share(named.rules[-1])
    for part in parts:
        if (hasattr(part, "select") or isinstance(part, DGC)) and hasattr(part, "p"):
            return float(part.p)
    return 1.0


def _contains(compressor: Any, kind: type) -> bool:
    return any(isinstance(part, kind) for part in parts_of(compressor))
