"""What tables and figures call a method: `sbc`, `topk({p}) | cnat`, or `dense`."""

import re
from collections.abc import Collection
from functools import lru_cache

import pandas as pd

from compressors import CATALOGUE, parse, text
from fedsim.methods import takes_fraction, with_fraction

DENSE = "dense"
"""The label of `raw`: every entry as float32, in every method's plane the line p = 1."""

VARIANT = "variant"
"""The column of the settings in which runs differ; there only where some do."""

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])")
_ONE = r"1(?:\.0*)?"


def labels(frame: pd.DataFrame) -> pd.Series:
    """The label of every row: its column `label` where there is one, else told by its method.

    A published method is called by its name, whatever its fraction; any other by its text with
    `{p}` for the fraction; `raw` is `dense`. Settings in which runs differ follow:
    `sbc (lr = 0.05)`.

    Args:
        frame: rows of `fedsim.load(...)`, with columns `method` and `gradient`.

    Example:
        >>> rows = [("ef(per_tensor(one_sided(0.1) | mean | golomb))", 0.1), ("raw", 1.0)]
        >>> labels(pd.DataFrame(rows, columns=["method", "gradient"])).tolist()
        ['sbc', 'dense']
    """
    if "label" in frame.columns:
        return frame["label"]
    pairs = list(zip(frame["method"], frame["gradient"].astype(float), strict=True))
    found = {pair: _label(*pair) for pair in set(pairs) if pair[1] != 1}
    sparse = sorted(set(found.values()))
    found |= {pair: _label_of_all(pair[0], sparse) for pair in set(pairs) if pair[1] == 1}
    settings = frame[VARIANT] if VARIANT in frame.columns else [""] * len(pairs)
    told = [found[p] + (f" ({v})" if v else "") for p, v in zip(pairs, settings, strict=True)]
    return pd.Series(told, index=frame.index, dtype=object)


def is_dense(label: str) -> bool:
    """Whether a label is of the dense reference, whatever its other settings."""
    return label == DENSE or label.startswith(f"{DENSE} (")


def methods_of(frame: pd.DataFrame) -> list[str]:
    """The labels of `frame` by the alphabet, without `dense` unless it is alone."""
    found = sorted(set(labels(frame)))
    return [label for label in found if not is_dense(label)] or found


def several(frame: pd.DataFrame) -> bool:
    """Whether the rows are of more than one method, or of settings that differ.

    The dense reference is no method, but one with other settings than the method's is another's.
    """
    dense = [label for label in set(labels(frame)) if is_dense(label)]
    settings = frame[VARIANT].nunique() if VARIANT in frame.columns else 1
    return len(methods_of(frame)) > 1 or len(dense) > 1 or settings > 1


def of_method(runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """The rows of one method, and those of the dense line that belong on its plane.

    A method that takes a fraction is dense at p = 1: cells sent raw at its own delays are its
    cells. Beside any other stands the reference alone, n = 1. All are of the method's settings.
    """
    told = labels(runs)
    own = runs[told == label]
    delays = {1}
    if (own["gradient"] != 1).any():
        delays |= {*own["temporal"]} - {*own.loc[own["gradient"] == 1, "temporal"]}
    dense = told.map(is_dense) & runs["temporal"].isin(delays)
    if VARIANT in runs.columns:
        dense &= runs[VARIANT].isin(own[VARIANT])
    return runs[(told == label) | dense]


def template(method: str, gradient: float) -> str:
    """A method's text with its gradient sparsity written `{p}`.

    Example:
        >>> template("topk(0.01) | qsgd(256)", 0.01)
        'topk({p}) | qsgd(256)'
    """
    if gradient == 1:
        return method
    return _NUMBER.sub(lambda m: "{p}" if float(m.group()) == gradient else m.group(), method)


def _label(method: str, gradient: float) -> str:
    return _published(method, gradient) or template(method, gradient)


def _label_of_all(method: str, sparse: Collection[str]) -> str:
    """The label of a method that sends every entry.

    It is one of the ``sparse`` methods at p = 1 only where that is among the rows: `topk_cnat`
    comes to `ef(per_tensor(cnat))`, and a 1 in a text may be anything.
    """
    if method == "raw":
        return DENSE
    for label in sparse:
        whole = _at(label, 1.0) if label in CATALOGUE else None
        form = re.escape(label).replace(re.escape("{p}"), _ONE)
        if method == whole or re.fullmatch(form, method):
            return label
    return _published(method, None) or method


@lru_cache(maxsize=4096)
def _published(method: str, gradient: float | None) -> str | None:
    """The name of the published method whose text this is; None: of those without a fraction."""
    for row in CATALOGUE.values():
        fits = row.kind == "method" and takes_fraction(row.name) == (gradient is not None)
        if fits and _at(row.name, gradient or 1.0) == method:
            return str(row.name)
    return None


def _at(name: str, gradient: float) -> str | None:
    try:
        return text(parse(with_fraction(name, gradient)))
    except ValueError:  # it takes more than a fraction
        return None
