"""Tables: in Markdown through one writer, and as CSV."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim import Results
from fedsim.ground.files import write_text


def table(heading: Sequence[str], *parts: Iterable[Sequence[str]]) -> str:
    """A table in Markdown: the heading, then the lines of all ``parts``, a cell per column.

    Example:
        >>> print(table(["method", "ratio"], [["SBC", "×100"]]), end="")
        | method | ratio |
        | --- | --- |
        | SBC | ×100 |
    """
    lines = [heading, ["---"] * len(heading), *(line for part in parts for line in part)]
    assert all(len(line) == len(heading) for line in lines), heading
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def sections(parts: Iterable[tuple[str, str]]) -> str:
    """Titles and their tables, one below the other."""
    return "\n".join(f"{title}\n\n{text}" for title, text in parts)


def of_task(task: str, results: Results, text: str) -> str:
    """The text of a task's tables under its name and where its data came from."""
    return f"{task}: {results.runs['data_source'].iloc[0]}\n\n{text}"


def spread(value: float, sd: float, seeds: int, places: int) -> str:
    """A mean, with ± its standard deviation over seeds where there are several.

    Example:
        >>> spread(97.123, 0.5, 3, 1), spread(97.123, float("nan"), 1, 2)
        ('97.1 ± 0.5', '97.12')
    """
    more = f" ± {sd:.{places}f}" if seeds > 1 else ""
    return f"{value:.{places}f}{more}"


def percent(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The frame with the columns ``names`` times 100."""
    return frame.assign(**{name: 100 * frame[name] for name in names})


def is_strength(text: Any, value: Any) -> bool:
    """Whether a CSV's text of a strength is ``value``.

    Example:
        >>> is_strength("15.0", 15), is_strength("e2m1", "e2m1"), is_strength(float("nan"), None)
        (True, True, True)
    """
    if value is None or isinstance(value, str):
        return bool(text == value) or (value is None and bool(pd.isna(text)))
    return float(text) == value


def write_csv(path: Path, frame: pd.DataFrame, digits: int | None = 6) -> None:
    """Writes a frame as CSV with so many significant digits (None: all), whole or not at all."""
    form = None if digits is None else f"%.{digits}g"
    write_text(path, frame.to_csv(index=False, float_format=form))
