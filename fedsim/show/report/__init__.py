"""The report of runs and sweeps: one HTML page that opens offline, and the matrices as PNG."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsim.ground.errors import UsageError, writable, writing
from fedsim.ground.files import clear, write_text
from fedsim.ground.strangers import read_text
from fedsim.network.quantities import quantity
from fedsim.results.csvrows import csv_differences, csv_rows
from fedsim.results.labels import FACTS
from fedsim.results.load import Results, load_results
from fedsim.results.neutral import csv_text
from fedsim.results.schema import frame, write_summary
from fedsim.show.export import paper_table

_MATRICES = {"matrix-metric.png": "metric", "matrix-ratio.png": "ratio_wire"}


def report(
    *directories: Path | str,
    out: Path | str | None = None,
    budget: float | str | None = None,
    columns: Sequence[str] | None = None,
    budget_of: str | None = None,
) -> Path:
    """Writes `report.html`, `matrix-metric.png`, `matrix-ratio.png` and summaries.

    The summaries are `summary.csv`, `summary.parquet` and `summary.tex`.
    The page holds everything it shows: it makes no network request. Each file appears whole or
    not at all, and the same results give the same page. Where each method has but one cell there
    are no matrices, and those of an earlier report are removed.

    Args:
        directories: the folder of a sweep or of a run, or several, side by side on one page.
        out: where to, made if need be; default: the folder itself, where it is one.
        budget: bits (`2e6`, `"2Mbit"`) for which the page's first table compares every method.
        columns: those of `summary.tex` (`fedsim.table`); None: at most seven main ones.
        budget_of: which bits budgets and the front count: "up", or "total": both ways; default:
            the runs' own `budget_of`, and "up" where they differ.

    Returns:
        The path of `report.html`. A `summary.csv` with an altered row stays as it is, and a warning
        names the row.

    Raises:
        UsageError: there are no results, a file of them is damaged, or they cannot share a page
            (see `fedsim.load`); several folders and no `out`; `budget` is not in bits.

    Example:
        fedsim.report("results/digits")
        fedsim.report("results/sbc", "results/gradient_dropping", out="results/both")
    """
    results, folder = read_results(directories, out)
    page = written_page(results, folder, budget, columns, budget_of)
    if left := write_tables(results, folder):
        warnings.warn(left, stacklevel=2)
    return page


def summarize(folder: Path) -> Results:
    """`report` of a folder after its runs; returns what it is of.

    `summary.csv` is made anew in any case.
    """
    results, _ = read_results([folder])
    written_page(results, folder)
    write_summary(folder, summary_rows(results))
    return results


def write_tables(results: Results, folder: Path) -> str:
    """Writes `summary.csv` and `summary.parquet`, except over a row that differs from its run.

    To write it anew would hide that somebody altered it. Returns which row that is, and what to do;
    empty where there is none.
    """
    if row := altered_row(results, folder):
        return f"{row}; the table stays as it is: remove it, and `fedsim report` makes it anew"
    write_summary(folder, summary_rows(results))
    return ""


def altered_row(results: Results, folder: Path) -> str:
    """Where a row of `summary.csv` differs from its run, as after a change by hand; else empty."""
    file = folder / "summary.csv"
    inside = all(run.is_relative_to(folder) for run in results.folders.values())
    if not (inside and file.exists()):
        return ""
    correct = csv_text(frame(summary_rows(results)))
    try:
        text = read_text(file)
        expected = dict(zip(map(str, results.runs.index), csv_rows(correct), strict=True))
        rows = [] if text == correct else csv_rows(text)
        return next(csv_differences(file.name, rows, expected), "")
    except (OSError, ValueError) as error:
        return f"{file.name}: {error}"


def summary_rows(results: Results) -> list[dict[str, Any]]:
    """The rows of `summary.csv`."""
    runs = results.runs.drop(columns=[*FACTS])
    return runs.astype(object).where(runs.notna(), None).to_dict("records")


def read_results(
    directories: Sequence[Path | str], out: Path | str | None = None
) -> tuple[Results, Path]:
    """What `report` writes of, and the folder where to; arguments and errors as there."""
    results = load_results(*directories)
    if out is None and len(directories) > 1:
        raise UsageError(f"a report of {len(directories)} folders needs one of its own: give --out")
    return results, Path(directories[0] if out is None else out)


def counted(results: Results, budget_of: str | None = None) -> str:
    """Which bits a page's budgets count: as asked for, else what all of its runs were given."""
    kinds = {str(config.get("budget_of") or "up") for config in results.configs.values()}
    return budget_of or (kinds.pop() if len(kinds) == 1 else "up")


def written_page(
    results: Results,
    folder: Path,
    budget: float | str | None = None,
    columns: Sequence[str] | None = None,
    budget_of: str | None = None,
) -> Path:
    """The path of the page of `results`, written into `folder` with all that `write` writes."""
    # Here, not above: what draws takes a second to import, which other commands need not wait.
    from fedsim.show.planes import one_celled
    from fedsim.show.plot import matrix, save
    from fedsim.show.plot.paper import without_rc
    from fedsim.show.report.page import page

    limit = None if budget is None else quantity(budget, "budget", "bits")
    tex = paper_table(results.runs, columns)
    with writable("--out", folder):
        folder.mkdir(parents=True, exist_ok=True)
    with writing(folder), without_rc():
        clear(folder)  # of a report that was killed
        single = one_celled(results.runs)
        for name, value in _MATRICES.items():
            if single:
                (folder / name).unlink(missing_ok=True)
            else:
                save(matrix(results.runs, value), folder / name)
        write_text(folder / "summary.tex", tex)
        write_text(folder / "report.html", page(results, limit, counted(results, budget_of)))
    return folder / "report.html"
