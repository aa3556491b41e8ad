"""What tables and figures call a method: `sbc`, `topk({p}) | cnat`, or `dense`."""

import re
from collections.abc import Collection
from functools import lru_cache

import pandas as pd

from compressors import CATALOGUE, parse, text
from fedsim.methods import with_fraction

DENSE = "dense"
"""The label of `raw`: every entry as float32, in every method's plane the line p = 1."""

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])")
_ONE = r"1(?:\.0*)?"


def labels(frame: pd.DataFrame) -> pd.Series:
    """The label of every row: its column `label` where there is one, else told by its method.

    A published method is called by its name, whatever its fraction; any other by its text with
    `{p}` for the fraction; `raw` is `dense`.

    Args:
        frame: rows of `fedsim.load(...)`, with columns `method` and `gradient`.

    Example:
        >>> rows = [("ef(per_tensor(one_sided(0.1) | mean | golomb))", 0.1), ("raw", 1.0)]
        >>> labels(pd.DataFrame(rows, columns=["method", "gradient"])).tolist()
        ['sbc', 'dense']
    """
    if "label" in frame.columns:
        return frame["label"]
    pairs = list(zip(frame["method"], frame["gradient"], strict=True))
    known = {template(method, p) for method, p in set(pairs) if p != 1}
    found = {pair: _label(*pair, known) for pair in set(pairs)}
    return pd.Series([found[pair] for pair in pairs], index=frame.index, dtype=object)


def methods_of(frame: pd.DataFrame) -> list[str]:
    """The labels of `frame` by the alphabet, without `dense` unless it is alone."""
    found = sorted(set(labels(frame)))
    return [label for label in found if label != DENSE] or found


def several(frame: pd.DataFrame) -> bool:
    """Whether the rows are of more than one method; the dense reference is none of them."""
    return len(methods_of(frame)) > 1


def of_method(runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """The rows of one method, and those of the dense line that belong on its plane.

    A method that takes a fraction is dense at p = 1: cells sent raw at its own delays are its
    cells. Beside any other stands the reference alone, n = 1.
    """
    told = labels(runs)
    own = runs[told == label]
    delays = {1}
    if (own["gradient"] != 1).any():
        delays |= {*own["temporal"]} - {*own.loc[own["gradient"] == 1, "temporal"]}
    return runs[(told == label) | (told == DENSE) & runs["temporal"].isin(delays)]


def template(method: str, gradient: float) -> str:
    """A method's text with its gradient sparsity written `{p}`.

    Example:
        >>> template("topk(0.01) | qsgd(256)", 0.01)
        'topk({p}) | qsgd(256)'
    """
    if gradient == 1:
        return method
    return _NUMBER.sub(lambda m: "{p}" if float(m.group()) == gradient else m.group(), method)


def _label(method: str, gradient: float, known: Collection[str]) -> str:
    if method == "raw":
        return DENSE
    named = _published(method, float(gradient))
    if named is not None:
        return named
    if gradient == 1:  # a 1 in the text may be anything, unless the same sweep has other p
        for form in sorted(known):
            if re.fullmatch(re.escape(form).replace(re.escape("{p}"), _ONE), method):
                return form
    return template(method, gradient)


@lru_cache(maxsize=4096)
def _published(method: str, gradient: float) -> str | None:
    """The name of the published method whose text this is."""
    for row in CATALOGUE.values():
        if row.kind == "method":
            try:
                own = text(parse(with_fraction(row.name, gradient)))
            except ValueError:  # it takes more than a fraction
                continue
            if own == method:
                return str(row.name)
    return None
