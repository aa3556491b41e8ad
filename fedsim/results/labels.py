"""The labels of methods, and the columns `label`, `dense` and `ends_dense` of results."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedsim.settings.fields import SETTINGS
from fedsim.settings.strategies import is_among
from strategies.algorithms import AVERAGES, CODED

DENSE, RAW = "dense", "raw"
"""The labels of `raw`, every entry as float32: of the reference, and of longer delays or a lossy
downlink."""

VARIANT = "variant"
"""The column of the settings in which runs differ; there only where some do."""

_PART = re.compile(r", (?=\w+ = )")  # between the settings of a variant
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_NOT_DENSE = ("downlink", "catch_up", "controller", "momentum_masking")

EPOCHS = "local_epochs"
"""The column of epochs per round; there only where some runs train in epochs."""

LOCAL_SECONDS = "local_seconds"
"""The column of simulated seconds per round; there only where some runs train so long."""

FACTS = ("label", "dense", "ends_dense")
"""Columns of loaded frames that no summary has on disk."""


_ASKED = (*FACTS, VARIANT, "method", "temporal", "gradient", "downlink")


def in_order(labels: Iterable[str]) -> list[str]:
    """The labels once each, by the alphabet, in which numbers rise by their values.

    Example:
        >>> in_order(["sbc (lr = 10)", "sbc (lr = 2)", "sbc (lr = 0.5)", "sbc (lr = 2)"])
        ['sbc (lr = 0.5)', 'sbc (lr = 2)', 'sbc (lr = 10)']
    """

    def parts(label: str) -> tuple[list[str | float], str]:
        texts = _NUMBER.split(label)
        # Texts and numbers alternate, so that parts of one place compare.
        return [float(text) if i % 2 else text for i, text in enumerate(texts)], label

    return sorted(set(labels), key=parts)


def delay_symbol(frame: pd.DataFrame) -> str:
    """The symbol of the cells' delay: E if all of them train in local epochs, else n.

    T if all of them train for local seconds: T = 1, because a round has them once.
    """
    for column, symbol in ((EPOCHS, "E"), (LOCAL_SECONDS, "T")):
        if column in frame.columns and len(frame) and frame[column].notna().all():
            return symbol
    return "n"


def methods_of(frame: pd.DataFrame) -> list[str]:
    """The labels of `frame`, `in_order`.

    `dense`, the reference, is there only where it is alone; `raw` only where some of its cells are
    on no other method's plane, whose line p = 1 they may be.
    """
    names = in_order(frame.loc[~frame["dense"], "label"])
    if len(names) == 1 and ends_dense(frame[frame["label"] == names[0]]):
        return names  # whose plane has all cells
    left = frame.loc[frame["dense"] & (frame["temporal"] != 1), "label"]
    for name in names if len(left) else ():
        left = left.drop(left.index.intersection(of_method(frame, name).index))
    return names + in_order(left) or in_order(frame["label"])


def several(frame: pd.DataFrame) -> bool:
    """Whether the rows are of more than one method, or of settings that differ.

    The dense reference does not count as a method; a reference whose settings are not the
    method's does.
    """
    frame = frame[[name for name in _ASKED if name in frame.columns]]  # each look takes all columns
    references = frame.loc[frame["dense"] & reference(frame), "label"].nunique()
    settings = set[str]()
    if VARIANT in frame.columns:
        dense = frame["dense"] & reference(frame)
        settings = {*frame.loc[~dense, VARIANT]}
        settings |= {*frame.loc[dense, VARIANT]} - {*map(of_dense, settings)}
    return references > 1 or len(settings) > 1 or len(methods_of(frame)) > 1


def of_method(runs: pd.DataFrame, label: str) -> pd.DataFrame:
    """The rows of one method, and those of raw sending that belong on its plane.

    Where a method is raw sending at p = 1, cells sent raw at its own delays are its cells. The
    plane of any other method has only the reference, n = 1. All are of the method's settings.
    """
    of_label = runs["label"] == label
    rows = runs[of_label]
    delays = {1}
    if ends_dense(rows):
        delays |= {*rows["temporal"]} - {*rows.loc[rows["gradient"] == 1, "temporal"]}
    dense = runs["dense"] & runs["temporal"].isin(delays)
    if VARIANT in runs.columns:
        shared = runs[VARIANT].isin({*map(of_dense, rows[VARIANT])}) & reference(runs)
        dense &= shared | runs[VARIANT].isin(rows[VARIANT])
    return runs[of_label | dense]


def of_dense(variant: str) -> str:
    """A variant without those settings that a dense reference never has."""
    parts = []
    for part in _PART.split(variant):
        name, _, value = part.partition(" = ")
        if name not in _NOT_DENSE and not (name == "strategy" and is_among(value, CODED)):
            parts.append(part)
    return ", ".join(parts)


def settings_in_labels(runs: pd.DataFrame) -> list[str]:
    """The settings that the labels of runs name in parentheses, each a column of `runs`.

    Empty where a label does not end so: runs with names of their own.
    """
    if VARIANT not in runs.columns or not (runs["label"] != without_settings(runs)).any():
        return []
    has_settings = runs[VARIANT] != ""
    if (runs["label"] == without_settings(runs))[has_settings].any():
        return []
    names = {part.partition(" = ")[0] for text in runs[VARIANT] for part in _PART.split(text)}
    return [name for name in SETTINGS if name in names and name in runs.columns]


def without_settings(runs: pd.DataFrame) -> pd.Series:
    """The labels of runs without the settings in parentheses."""
    pairs = zip(runs["label"], runs[VARIANT], strict=True)
    return pd.Series([label.removesuffix(f" ({variant})") for label, variant in pairs], runs.index)


def reference(runs: pd.DataFrame) -> pd.Series:
    """Which rows are of the dense reference: every entry as float32 after every iteration.

    It is so both ways: with a lossy downlink a run of `raw` is not what others are compared with.
    """
    at = (runs["temporal"] == 1) & (runs["gradient"] == 1)
    raw = at & (runs["method"] == "raw")
    if "downlink" not in runs.columns:
        return raw
    return raw & runs["downlink"].fillna("raw").isin(("raw", "relay"))


def averages(settings: Mapping[str, Any]) -> bool:
    """Whether the global update of a run with these settings is the mean of the clients'."""
    return is_among(str(settings.get("strategy")), AVERAGES)


def ends_dense(runs: pd.DataFrame) -> bool:
    """Whether the method of `runs` is raw sending at p = 1, so that raw cells are its own there.

    A method that takes no fraction is not, and neither is one that quantizes. `runs` are rows of
    one method, without the dense reference.
    """
    compressed = runs[runs["method"] != RAW]
    return not (compressed["gradient"] == 1).any() and bool(compressed["ends_dense"].all())


class MethodText(NamedTuple):
    """A method as a run was given it.

    ``form``: the method as typed: ``sbc``, ``topk({p}) | cnat``.
    ``dense_form``: the text of the method at p = 1; empty where it takes no fraction.
    ``name``: what the run was called; empty where it was not.
    """

    form: str
    dense_form: str = ""
    name: str = ""


def with_labels(runs: pd.DataFrame, methods: Sequence[MethodText]) -> pd.DataFrame:
    """`runs` with the columns `label`, `dense` and `ends_dense` (`fedsim.results.load.Results`).

    A label is the name that the run was given, else the method as it was typed.
    Raw sending without a name is `dense` where others are compared with it, else `raw`. The
    settings in which runs differ follow: `sbc (lr = 0.05)`. `runs` has columns of `summary.csv`
    and, where settings differ, `variant`; `methods` are in the order of its rows.

    Example:
        >>> rows = [("per_tensor(dither(1))", 1.0, 10), ("raw", 1.0, 1)]
        >>> runs = pd.DataFrame(rows, columns=["method", "gradient", "temporal"])
        >>> with_labels(runs, [MethodText("qsgd(1)"), MethodText("raw")])["label"].tolist()
        ['qsgd(1)', 'dense']
    """
    typed = pd.Series([run.form for run in methods], index=runs.index, dtype=object)
    sent_raw = pd.Series(RAW, index=runs.index).mask(reference(runs), DENSE)
    forms = typed.mask(runs["method"] == RAW, sent_raw)
    settings = runs[VARIANT] if VARIANT in runs.columns else pd.Series("", index=runs.index)
    names = pd.Series([run.name for run in methods], index=runs.index, dtype=object)
    # The dense cells of a named sweep are the reference, not the method that has the name.
    names = names.where((runs["method"] != RAW) | (typed == RAW), "")
    if {"task", "seed"} <= {*runs.columns}:  # a name that tells seeds apart is not the cell's
        table = runs[["task", "temporal", "gradient", "seed"]].assign(name=names)
        cells = table.groupby([forms, settings, "temporal", "gradient", "task"])
        seeds = cells["seed"].transform("nunique") == cells["seed"].transform("size")
        names = names.mask(seeds & (cells["name"].transform("nunique") > 1), "")
    shown = names.where(names != "", forms)
    # Who has the name counts too where it is the text of another run's method.
    labelled = pd.DataFrame({"name": shown, "method": forms.replace(DENSE, RAW), "of": settings})
    many = labelled.groupby("name").transform("nunique") > 1
    details = zip(
        forms.where((names != "") & many["method"], ""),
        settings.where((names == "") | many["of"], ""),
        strict=True,
    )
    added = [", ".join(filter(None, pair)) for pair in details]
    pairs = zip(shown, added, strict=True)
    return runs.assign(
        label=[f"{name} ({more})" if more else name for name, more in pairs],
        dense=shown.isin([DENSE, RAW]) & (runs["method"] == RAW),
        ends_dense=[run.dense_form == RAW for run in methods],
    )
