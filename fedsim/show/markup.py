"""Tables of text as markdown and as LaTeX."""

from collections.abc import Sequence

_LATEX = {
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "\n": " ",
    "±": r"$\pm$",
}  # fmt: skip


def markdown(names: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    """A markdown table.

    Args:
        names: the C headings.
        cells: rows of C texts.
        numeric: for each column, whether it is aligned right.
    """
    rule = ["---:" if right else "---" for right in numeric]
    rows = [[_markdown_text(cell) for cell in row] for row in (names, *cells)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], rule, *rows[1:]))


def latex(names: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    """A LaTeX tabular with the rules of the package booktabs; arguments as for `markdown`."""
    layout = "".join("r" if right else "l" for right in numeric)
    body = "".join(_latex_row(row) for row in cells)
    return (
        "% needs \\usepackage{booktabs}\n"
        f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{_latex_row(names)}\\midrule\n"
        f"{body}\\bottomrule\n\\end{{tabular}}\n"
    )


def _markdown_text(cell: str) -> str:
    # A bar would end the cell, "<" would start a tag.
    return cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _latex_row(row: Sequence[str]) -> str:
    cells = ("".join(_LATEX.get(mark, mark) for mark in cell) for cell in row)
    return f"{' & '.join(cells)} \\\\\n"
