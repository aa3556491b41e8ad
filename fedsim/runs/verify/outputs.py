"""Check of a folder's tables, page and list of cells: they are made again from its runs."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from compressors.grammar import printable
from fedsim.ground.errors import UsageError
from fedsim.ground.strangers import read_file, read_text, table_of
from fedsim.results.csvrows import csv_differences, csv_rows
from fedsim.results.folders import kind_of, run_folders
from fedsim.results.labels import FACTS
from fedsim.results.load import load_results
from fedsim.results.neutral import csv_text, neutral
from fedsim.results.schema import frame, read_summary
from fedsim.runs.verify.permissions import Permissions
from fedsim.runs.verify.verdict import Verdict
from fedsim.settings import cellfile, grids
from fedsim.settings.config import CELLS_FILE, TABLE

PICTURES = ("*.png", "*.svg", "*.pdf")


def verify_outputs(path: Path, allowed: Permissions) -> list[Verdict]:
    """The verdict on the tables, the page and the cells of a folder; none where it has none.

    ``allowed``: what the list of cells may name. Nothing is changed.
    """
    verdict = Verdict("tables")
    try:
        for name in ("summary.csv", "summary.parquet"):
            if (path / name).exists():
                verdict.add(name, table_differences(path, name))
        for name, check in (("summary.tex", tex_differences), ("report.html", page_differences)):
            if (path / name).exists():
                check(verdict, path)
        if kind_of(path) == "sweep":
            _cells(verdict, path, allowed)
        if pictures := sorted(file.name for kind in PICTURES for file in path.glob(kind)):
            verdict.unchecked.append(f"pictures ({', '.join(pictures)})")
        others = ("finalists.csv", "trials.csv", "study.db", "best.toml")
        if outputs := [name for name in others if (path / name).exists()]:
            verdict.unchecked.append(f"what a search made ({', '.join(outputs)})")
    except (UsageError, OSError, ValueError) as error:
        verdict.failures.append(str(error).splitlines()[0])
    return [verdict] if verdict.looked or verdict.failures or verdict.unchecked else []


def table_differences(path: Path, name: str) -> Iterator[str]:
    """Where ``summary.csv`` or ``summary.parquet`` differs from the runs' own summaries.

    Rows may be in any order, and a table may have fewer columns than a run has values.
    """
    file = path / name
    of_csv = name.endswith(".csv")
    rows = csv_rows(read_text(file) if of_csv else csv_text(table_of(read_file(file))))
    cells = {
        printable(folder.name): neutral(read_summary(folder))
        for folder in run_folders(path)
        if (folder / "summary.json").exists()
    }
    expected = {run: csv_rows(csv_text(frame([cell])))[0] for run, cell in cells.items()}
    try:
        results = load_results(path)
        runs = results.runs.drop(columns=[*FACTS])
        records = runs.astype(object).where(runs.notna(), None).to_dict("records")
        varied = csv_rows(csv_text(frame(records)))
        expected = {
            run: {**row, **expected[run]}
            for run, row in zip(map(str, runs.index), varied, strict=True)
        } | {run: row for run, row in expected.items() if run not in runs.index}
    except UsageError:  # runs that cannot share a table
        pass
    left = yield from csv_differences(name, rows, expected)
    if left:
        yield f"{name} lacks run {next(iter(left))}"


def tex_differences(verdict: Verdict, path: Path) -> None:
    """Looks at ``summary.tex``, line by line, where it has the columns that it has by default."""
    from fedsim.show.export import paper_table

    text, expected = read_text(path / "summary.tex"), paper_table(load_results(path).runs)
    if _heading(text) != _heading(expected):
        verdict.unchecked.append("summary.tex, which was made with other columns or versions")
        return
    verdict.add("summary.tex", line_differences("summary.tex", text, expected))


def _heading(text: str) -> str:
    return text.partition("\\midrule")[0].rpartition("\\toprule")[2].strip()


def line_differences(name: str, text: str, expected: str) -> Iterator[str]:
    """The first line in which a text is another one than the same made again."""
    one, other = text.splitlines(), expected.splitlines()
    for number, (line, right) in enumerate(zip(one, other, strict=False), 1):
        if line != right:
            yield f"{name}: line {number} is {line.strip()!r}, and {right.strip()!r} by the runs"
            return
    if len(one) != len(other):
        yield f"{name} has {len(one)} lines, and {len(other)} by the runs"


def page_differences(verdict: Verdict, path: Path) -> None:
    """Looks at ``report.html``, section by section, where this version made it with the same
    matplotlib."""
    from fedsim.show.report.page import generated, page

    text = read_text(path / "report.html")
    by = generated(text)
    if by is None:
        verdict.unchecked.append("report.html, which another version made, or a search")
        return
    expected = page(load_results(path), *by)
    verdict.add("report.html", section_differences(text, expected))


def section_differences(text: str, expected: str) -> Iterator[str]:
    """The first section in which a page is another one than the same made again."""
    if text == expected:
        return
    one, other = (part.split("</section>") for part in (text, expected))
    for section, right in zip(one, other, strict=False):
        if section != right:
            key = right.rpartition('<h2 id="')[2].partition('"')[0] if "<h2 id" in right else ""
            what = f"its section {key}" if key else "its beginning or end"
            yield f"report.html: {what} is not what the runs give; `fedsim report` writes it again"
            return
    yield f"report.html has {len(one)} sections, and {len(other)} by the runs"


def _cells(verdict: Verdict, path: Path, allowed: Permissions) -> None:
    """Looks whether each listed cell is in the folder."""
    for name in ("sweep.toml", CELLS_FILE):
        file = path / name
        if not file.exists():
            continue
        try:
            cells = _listed(file, allowed)
        except UsageError as error:
            verdict.unchecked.append(f"which cells {name} lists: {error}")
            continue
        present, names = set[Any](), {folder.name for folder in run_folders(path)}
        for folder in run_folders(path):
            with suppress(UsageError):  # settings that cannot be read name no cell
                present.add(grids.numbers_of(allowed.config(folder)))
        lacking = [
            cell.name
            for cell in cells
            if cell.name not in names and grids.numbers_of(cell.config) not in present
        ]
        more = f" and {len(lacking) - 5} more" if len(lacking) > 5 else ""
        sentence = f"{name} lists cells that the folder lacks: {', '.join(lacking[:5])}{more}"
        verdict.add(f"cells of {name}", [sentence] if lacking else [])


def _listed(file: Path, allowed: Permissions) -> list[grids.Cell]:
    values = allowed.values(file)
    if TABLE in values:
        return cellfile.from_values(values, str(file))
    return grids.sweep_from_flat(grids.flat_grid(values, str(file)), str(file)).cells()
