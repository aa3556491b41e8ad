"""What the methods of runs are called: by the name of the run, else as the method was typed."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedsim.results.labels import DENSE, RAW, VARIANT, reference

_PLACE = re.compile(r"(?:^|[-_])(n|p|seed|s)(\d[\d.]*(?:e-?\d+)?)(?=[-_]|$)")


class Told(NamedTuple):
    """What a run was told of its method.

    ``form``: the method as typed, less its fraction: ``sbc``, ``topk({p}) | cnat``.
    ``whole``: the text of the method at p = 1; empty where it takes no fraction.
    ``value``: whether the method was given as a compressor or written out, not by a name.
    ``name``: what the run was called; empty where it was not.
    """

    form: str
    whole: str = ""
    value: bool = False
    name: str = ""


def called(runs: pd.DataFrame, told: Sequence[Told]) -> pd.DataFrame:
    """`runs` with the columns `label`, `dense` and `ends_dense` (`fedsim.results.load.Results`).

    A label is the name that the run was given, else the method as it was typed, less its fraction.
    Raw sending without a name is `dense` where others are compared with it, else `raw`. The
    settings in which runs differ follow: `sbc (lr = 0.05)`.

    Args:
        runs: a row per run; columns of `summary.csv` and, where settings differ, `variant`.
        told: what each was told, in the order of the rows.

    Example:
        >>> rows = [("per_tensor(dither(1))", 1.0, 10), ("raw", 1.0, 1)]
        >>> runs = pd.DataFrame(rows, columns=["method", "gradient", "temporal"])
        >>> called(runs, [Told("qsgd(1)"), Told("raw")])["label"].tolist()
        ['qsgd(1)', 'dense']
    """
    forms = pd.Series(_forms(runs, told), index=runs.index, dtype=object)
    settings = runs[VARIANT] if VARIANT in runs.columns else pd.Series("", index=runs.index)
    names = pd.Series([run.name for run in told], index=runs.index, dtype=object)
    # The dense cells of a named sweep are the reference, not the method that has the name.
    own = pd.Series([run.form == RAW for run in told], index=runs.index)
    names = names.where((runs["method"] != RAW) | own, "")
    names = names.where(~_of_seeds(runs, forms, settings, names), "")
    shown = names.where(names != "", forms)
    given = pd.DataFrame({"name": names, "method": forms.replace(DENSE, RAW), "of": settings})
    many = given.groupby("name").transform("nunique") > 1
    details = zip(
        forms.where((names != "") & many["method"], ""),
        settings.where((names == "") | many["of"], ""),
        strict=True,
    )
    inside = [", ".join(filter(None, pair)) for pair in details]
    pairs = zip(shown, inside, strict=True)
    return runs.assign(
        label=[f"{name} ({more})" if more else name for name, more in pairs],
        dense=shown.isin([DENSE, RAW]) & (runs["method"] == RAW),
        ends_dense=[run.whole == RAW for run in told],
    )


def _forms(runs: pd.DataFrame, told: Sequence[Told]) -> list[str]:
    """What each row's method is called, without the names of runs and without settings.

    A method that was given as a compressor and sends every entry is another method's at p = 1
    where rows of that method are there.
    """
    sparse = sorted({
        (run.form, run.whole)
        for run, p in zip(told, runs["gradient"], strict=True) if p != 1 and run.whole
    })  # fmt: skip
    at_one = {whole: form for form, whole in reversed(sparse)}
    places = zip(runs["method"], runs["gradient"], reference(runs), told, strict=True)
    return [
        (DENSE if compared else RAW) if method == RAW
        else at_one.get(method, run.form) if run.value and p == 1 else run.form
        for method, p, compared, run in places
    ]  # fmt: skip


def _of_seeds(
    runs: pd.DataFrame, forms: pd.Series, settings: pd.Series, names: pd.Series
) -> pd.Series:
    """Where the seeds of one cell have names of their own, so that none is the cell's."""
    if not {"task", "seed"} <= {*runs.columns}:
        return pd.Series(False, index=runs.index)
    cells = pd.DataFrame({
        "form": forms, "settings": settings, "n": runs["temporal"], "p": runs["gradient"],
        "task": runs["task"], "seed": runs["seed"], "name": names,
    }).groupby(["form", "settings", "n", "p", "task"])  # fmt: skip
    seeds = cells["seed"].transform("nunique") == cells["seed"].transform("size")
    return seeds & (cells["name"].transform("nunique") > 1)


def name_of(
    folder: Path, label: str | None, listed: Mapping[Path, set[str]], cell: Mapping[str, Any]
) -> str:
    """What a run was called: its setting ``label``, else its cell's name in ``runs.toml``.

    Args:
        folder: the run's.
        label: its setting.
        listed: the names of the cells in the ``runs.toml`` of each sweep's folder.
        cell: the dict of ``summary.json``.
    """
    if label:
        return label
    known = folder.parent.name == "cells" and folder.name in listed[folder.parent.parent]
    return without_place(folder.name, cell) if known else ""


def without_place(name: str, cell: Mapping[str, Any]) -> str:
    """A cell's name less its delay, fraction and seed, which stand in columns of their own.

    Example:
        >>> without_place("sbc-n10-p0.01-s2", {"temporal": 10, "gradient": 0.01, "seed": 2})
        'sbc'
        >>> without_place("sbc-n5", {"temporal": 10, "gradient": 0.01, "seed": 2})
        'sbc-n5'
    """
    keys = {"n": "temporal", "p": "gradient", "s": "seed", "seed": "seed"}

    def kept(part: re.Match[str]) -> str:
        said, true = float(part[2]), float(cell[keys[part[1]]])
        return "" if abs(said - true) <= 0.01 * true else part[0]  # a name rounds: p0.333

    return _PLACE.sub(kept, name).strip("-_.")
