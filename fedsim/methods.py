"""From what a user calls a method, and the gradient sparsity, to a compressor."""

from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any

from compressors import CATALOGUE, Compressor, ErrorFeedback, parse, text
from fedsim.errors import UsageError


@dataclass(frozen=True)
class Method:
    """A compressor, the fraction of entries that it sends, and whether it keeps residuals."""

    compressor: Compressor
    gradient: float
    residuals: bool

    @property
    def text(self) -> str:
        """The expansion, as result tables print it."""
        return text(self.compressor)


@lru_cache(maxsize=256)
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
    _check_gradient(gradient)
    template = _template(method)
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
        compressor = parse(template.replace("{p}", repr(share)) if takes else template)
    except ValueError as error:
        raise UsageError(f"--method: {error}") from error
    own = share if takes else _share(compressor)
    return Method(compressor, own, _contains(compressor, ErrorFeedback))


def takes_fraction(method: str) -> bool:
    """Whether the gradient sparsity is for the sweep to choose.

    Example:
        >>> takes_fraction("sbc"), takes_fraction("sbc(0.01)"), takes_fraction("raw")
        (True, False, False)
    """
    return "{p}" in _template(method)


def _template(method: str) -> str:
    """A bare name of a published method means that method of ``{p}``."""
    name = method.strip()
    published = name in CATALOGUE and CATALOGUE[name].kind == "method"
    return f"{name}({{p}})" if published else name


def _check_gradient(gradient: float | None) -> None:
    if gradient is not None and not 0 < gradient <= 1:
        raise UsageError(f"--gradient is {gradient:g}: a fraction of entries in (0, 1]; 1 is dense")


def _share(thing: Any) -> float:
    """The sparsifier's fraction inside a compressor; 1 where there is none."""
    for part in _walk(thing):
        if hasattr(part, "select") and hasattr(part, "p"):
            return float(part.p)
    return 1.0


def _contains(thing: Any, kind: type) -> bool:
    return any(isinstance(part, kind) for part in _walk(thing))


def _walk(thing: Any) -> list[Any]:
    if isinstance(thing, tuple):
        return [part for item in thing for part in _walk(item)]
    if not is_dataclass(thing):
        return []
    below = [part for f in fields(thing) for part in _walk(getattr(thing, f.name))]
    return [thing, *below]
