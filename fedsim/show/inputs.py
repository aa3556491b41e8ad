"""Checks of the frames for figures and tables: whether a function can show their rows."""

from collections.abc import Sequence
from typing import Literal

import pandas as pd

from fedsim.ground.errors import UsageError
from fedsim.results.labels import FACTS, delay_symbol
from fedsim.results.load import Results

_KEYS = ("task", "method", "temporal", "gradient", "seed")
_NEEDED = {
    "runs": (*_KEYS, "metric", "ratio_wire", *FACTS),
    "rounds": (*_KEYS, "run", "round", "iteration", "clients", "metric", "up_wire_bits", *FACTS),
}


def check_frame(frame: object, kind: Literal["runs", "rounds"], where: str) -> None:
    """Refuses what is not the frame `runs` or `rounds` of `fedsim.load(...)`, or rows of it.

    Example:
        >>> check_frame("results/sbc", "runs", "matrix()")
        Traceback (most recent call last):
        fedsim.ground.errors.UsageError: matrix() takes the frame results.runs of results = \
fedsim.load(...), and was given a str
    """
    takes = f"{where} takes the frame results.{kind} of results = fedsim.load(...)"
    if isinstance(frame, Results):
        raise UsageError(f"{where} takes a frame: give results.{kind}, not the results as a whole")
    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"{takes}, and was given a {type(frame).__name__}")
    missing = [name for name in _NEEDED[kind] if name not in frame.columns]
    if missing:
        other = next((k for k in _NEEDED if k != kind and {*_NEEDED[k]} <= {*frame.columns}), "")
        lacks = f"results.{other}" if other else f"one without {', '.join(missing)}"
        raise UsageError(f"{takes}, and was given {lacks}")
    if not len(frame):
        raise UsageError(f"{takes}, and was given one without rows: there are no {kind}")


def check_task(frame: pd.DataFrame) -> None:
    """Refuses rows of several tasks, whose metrics share no axis and no mean.

    Example:
        >>> check_task(pd.DataFrame({"task": ["digits", "cifar"]}))
        Traceback (most recent call last):
        fedsim.ground.errors.UsageError: the results are of 2 tasks (cifar, digits): give the \
folders, or the rows, of one of them
    """
    tasks = sorted(frame["task"].unique())
    if len(tasks) > 1:
        raise UsageError(
            f"the results are of {len(tasks)} tasks ({', '.join(tasks)}): "
            "give the folders, or the rows, of one of them"
        )


def check_repeated(rows: pd.DataFrame, keys: Sequence[str]) -> None:
    """Refuses two runs of one cell and seed, of which no mean is one; ``keys``: what tells rows.

    Example:
        >>> cell = {"label": "sbc", "temporal": 5, "gradient": 0.1, "seed": [0, 0]}
        >>> check_repeated(pd.DataFrame(cell), ["label", "temporal", "gradient", "seed"])
        Traceback (most recent call last):
        fedsim.ground.errors.UsageError: several runs of sbc, n = 5, p = 0.1, seed 0: choose one
    """
    for _, row in rows[rows.duplicated([*keys])].head(1).iterrows():
        delay = f"{delay_symbol(rows)} = {row['temporal']}"
        raise UsageError(
            f"several runs of {row['label']}, {delay}, p = {row['gradient']:g}, "
            f"seed {row['seed']}: choose one"
        )


def of_done(rounds: pd.DataFrame) -> pd.DataFrame:
    """The rounds of runs that are done: what a run had before it failed is within no budget.

    All of them where there is no column `status`.

    Example:
        >>> of_done(pd.DataFrame({"run": ["a", "b"], "status": ["done", "failed"]}))["run"].tolist()
        ['a']
    """
    done = rounds[rounds["status"] == "done"] if "status" in rounds.columns else rounds
    if not len(done):
        raise UsageError("there is no run that is done.")
    return done
