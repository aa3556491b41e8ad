"""What the methods of runs are called: by the name of the run, else as the method was typed."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from fedsim.results.labels import DENSE, RAW, VARIANT, reference


class Told(NamedTuple):
    """What a run was told of its method.

    ``form``: the method as typed: ``sbc``, ``topk({p}) | cnat``.
    ``whole``: the text of the method at p = 1; empty where it takes no fraction.
    ``name``: what the run was called; empty where it was not.
    """

    form: str
    whole: str = ""
    name: str = ""


def called(runs: pd.DataFrame, told: Sequence[Told]) -> pd.DataFrame:
    """`runs` with the columns `label`, `dense` and `ends_dense` (`fedsim.results.load.Results`).

    A label is the name that the run was given, else the method as it was typed.
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
    typed = pd.Series([run.form for run in told], index=runs.index, dtype=object)
    sent_raw = pd.Series(RAW, index=runs.index).mask(reference(runs), DENSE)
    forms = typed.mask(runs["method"] == RAW, sent_raw)
    settings = runs[VARIANT] if VARIANT in runs.columns else pd.Series("", index=runs.index)
    names = pd.Series([run.name for run in told], index=runs.index, dtype=object)
    # The dense cells of a named sweep are the reference, not the method that has the name.
    names = names.where((runs["method"] != RAW) | (typed == RAW), "")
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
