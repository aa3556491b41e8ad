"""The report of a sweep or a run: one HTML page that opens offline, and the matrices as PNG."""

from pathlib import Path

from fedsim.files import write_text
from fedsim.plot import matrix, save
from fedsim.report.page import page
from fedsim.results import load
from fedsim.texts import table


def write(directory: Path | str) -> Path:
    """Writes `report.html`, `matrix-metric.png`, `matrix-ratio.png` and `summary.tex`.

    The page holds everything it shows: it makes no network request. Each file appears whole or
    not at all, and the same results give the same page.

    Args:
        directory: the folder of a sweep or of a run.

    Returns:
        The path of `report.html`.

    Raises:
        UsageError: there are no results, or a file of them is damaged; see `fedsim.load`.

    Example:
        write("results/digits")
    """
    directory = Path(directory)
    results = load(directory)
    save(matrix(results.runs, "metric"), directory / "matrix-metric.png")
    save(matrix(results.runs, "ratio_content"), directory / "matrix-ratio.png")
    write_text(directory / "summary.tex", table(results.runs, "latex"))
    write_text(directory / "report.html", page(results))
    return directory / "report.html"
