"""What tables and figures call a method: as its user does, `sbc`, `qsgd(1)`, or `dense`."""

import re
from collections.abc import Collection
from functools import lru_cache

import pandas as pd

from compressors import CATALOGUE, parse, text
from fedsim.settings.methods import takes_fraction, with_fraction

DENSE, RAW = "dense", "raw"
"""The labels of `raw`, every entry as float32: of the reference (n = 1), and of longer delays."""

TYPED, NAME = "typed", "name"
"""Columns that `labels` reads: a method as it was typed, and the name that a run was given."""

VARIANT = "variant"
"""The column of the settings in which runs differ; there only where some do."""

_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])")
_ONE = r"1(?:\.0*)?"
_ONLY_P = re.compile(r"(\w+)\((?:p=)?\{p\}\)")


def labels(frame: pd.DataFrame) -> pd.Series:
    """The label of every row: its column `label` where there is one, else told by its method.

    It is the name that the run was given (column `name`), else the method as it was typed (column
    `typed`) with `{p}` for its fraction; a name with nothing but its fraction is that name. Where
    neither is known, a published method has its name, and any other is its text. `raw` is `dense`
    at n = 1. Settings in which runs differ follow: `sbc (lr = 0.05)`.

    Args:
        frame: rows of `fedsim.load(...)`, with columns `method` and `gradient`.

    Example:
        >>> rows = [("per_tensor(dither(1))", 1.0, "qsgd(1)"), ("raw", 1.0, "raw")]
        >>> labels(pd.DataFrame(rows, columns=["method", "gradient", "typed"])).tolist()
        ['qsgd(1)', 'dense']
    """
    if "label" in frame.columns:
        return frame["label"]
    told = _told(frame)
    typed, names, settings = (_column(frame, name) for name in (TYPED, NAME, VARIANT))
    # The dense cells of a named sweep are the reference, not the method that has the name.
    names = names.where((frame["method"] != RAW) | typed.isin(["", RAW]), "")
    names = names.where(~_of_seeds(frame, told, settings, names), "")
    given = pd.DataFrame({"name": names, "method": told.replace(DENSE, RAW), "of": settings})
    many = given.groupby("name").transform("nunique") > 1
    details = zip(
        told.where((names != "") & many["method"], ""),
        settings.where((names == "") | many["of"], ""),
        strict=True,
    )
    inside = [", ".join(filter(None, pair)) for pair in details]
    first = names.where(names != "", told)
    pairs = zip(first, inside, strict=True)
    shown = [name + (f" ({more})" if more else "") for name, more in pairs]
    return pd.Series(shown, index=frame.index, dtype=object)


def _of_seeds(
    frame: pd.DataFrame, told: pd.Series, settings: pd.Series, names: pd.Series
) -> pd.Series:
    """Where the seeds of one cell have names of their own, so that none is the cell's."""
    if not {"temporal", "seed"} <= {*frame.columns}:
        return pd.Series(False, index=frame.index)
    cells = pd.DataFrame({
        "told": told, "settings": settings, "n": frame["temporal"], "p": frame["gradient"],
        "task": _column(frame, "task"), "seed": frame["seed"], "name": names,
    }).groupby(["told", "settings", "n", "p", "task"])  # fmt: skip
    seeds = cells["seed"].transform("nunique") == cells["seed"].transform("size")
    return seeds & (cells["name"].transform("nunique") > 1)


def is_dense(label: str) -> bool:
    """Whether a label is that of raw sending, whatever its delay and its other settings."""
    return label.split(" (")[0] in (DENSE, RAW)


def methods_of(frame: pd.DataFrame) -> list[str]:
    """The labels of `frame` by the alphabet.

    `dense`, the reference, is there only where it is alone; `raw` only where some of its cells are
    on no other method's plane, whose line p = 1 they may be.
    """
    told = labels(frame)
    found = sorted({label for label in told if not is_dense(label)})
    if len(found) == 1 and ends_dense(frame[told == found[0]]):
        return found  # whose plane has them all
    left = told[told.map(is_dense) & ~told.map(_is_reference)]
    for label in found:
        left = left.drop(left.index.intersection(of_method(frame, label).index))
    return found + sorted(set(left)) or sorted(set(told))


def several(frame: pd.DataFrame) -> bool:
    """Whether the rows are of more than one method, or of settings that differ.

    The dense reference is no method, but one with other settings than the method's is another's.
    """
    dense = [label for label in set(labels(frame)) if _is_reference(label)]
    settings = frame[VARIANT].nunique() if VARIANT in frame.columns else 1
    return len(methods_of(frame)) > 1 or len(dense) > 1 or settings > 1


def of_method(runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """The rows of one method, and those of raw sending that belong on its plane.

    Where a method is raw sending at p = 1, cells sent raw at its own delays are its cells. Beside
    any other stands the reference alone, n = 1. All are of the method's settings.
    """
    told = labels(runs)
    own = runs[told == label]
    delays = {1}
    if ends_dense(own):
        delays |= {*own["temporal"]} - {*own.loc[own["gradient"] == 1, "temporal"]}
    dense = told.map(is_dense) & runs["temporal"].isin(delays)
    if VARIANT in runs.columns:
        dense &= runs[VARIANT].isin(own[VARIANT])
    return runs[(told == label) | dense]


def ends_dense(runs: pd.DataFrame) -> bool:
    """Whether the method of `runs` is raw sending at p = 1, so that raw cells are its own there.

    A method that takes no fraction is not, and neither is one that quantizes. A method with a part
    that is not in the catalogue here is taken for one that is not.

    Args:
        runs: rows of one method, without the dense reference.

    Example:
        >>> rows = [("ef(per_tensor(l1_sign))", 1.0), ("sbc(0.1)", 0.1)]
        >>> [ends_dense(pd.DataFrame([row], columns=["method", "gradient"])) for row in rows]
        [False, True]
    """
    coded = runs[runs["method"] != RAW]
    if (coded["gradient"] == 1).any():
        return False
    pairs = {*zip(coded["method"], coded["gradient"].astype(float), strict=True)}
    return all(_at(name, 1.0) == RAW for name in {_label(*pair) for pair in pairs})


def template(method: str, gradient: float) -> str:
    """A method's text with its gradient sparsity written `{p}`.

    Example:
        >>> template("topk(0.01) | qsgd(256)", 0.01)
        'topk({p}) | qsgd(256)'
    """
    if gradient == 1:
        return method
    return _NUMBER.sub(lambda m: "{p}" if float(m.group()) == gradient else m.group(), method)


def _told(frame: pd.DataFrame) -> pd.Series:
    """What each row's method is called, without the names of runs and without settings."""
    pairs = list(zip(frame["method"], frame["gradient"].astype(float), strict=True))
    found = {pair: _label(*pair) for pair in set(pairs) if pair[1] != 1}
    sparse = sorted(set(found.values()))
    found |= {pair: _label_of_all(pair[0], sparse) for pair in set(pairs) if pair[1] == 1}
    delays = frame["temporal"] if "temporal" in frame.columns else [1] * len(frame)
    told = [
        (DENSE if n == 1 else RAW) if pair[0] == RAW
        else _as_typed(said, pair[1]) if said and said != pair[0] else found[pair]
        for said, pair, n in zip(_column(frame, TYPED), pairs, delays, strict=True)
    ]  # fmt: skip
    return pd.Series(told, index=frame.index, dtype=object)


def _as_typed(typed: str, gradient: float) -> str:
    """A method as its user typed it, less its fraction: `sbc` for `sbc(0.01)`."""
    form = template(typed, gradient)
    alone = _ONLY_P.fullmatch(form)
    return alone[1] if alone else form


def _column(frame: pd.DataFrame, name: str) -> pd.Series:
    """A column of texts, empty where the frame has none."""
    if name in frame.columns:
        return frame[name].fillna("").astype(object)
    return pd.Series("", index=frame.index, dtype=object)


def _is_reference(label: str) -> bool:
    return label.split(" (")[0] == DENSE


def _label(method: str, gradient: float) -> str:
    return _published(method, gradient) or template(method, gradient)


def _label_of_all(method: str, sparse: Collection[str]) -> str:
    """The label of a method that sends every entry.

    It is one of the ``sparse`` methods at p = 1 only where that is among the rows: `topk_cnat`
    comes to `ef(per_tensor(cnat))`, and a 1 in a text may be anything.
    """
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
