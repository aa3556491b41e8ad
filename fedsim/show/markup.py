"""Tables of text as markdown, as LaTeX and as HTML."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

from compressors.printing import printable

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
    # A bar would end the cell, "<" would start a tag.
    rows = [
        [cell.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for cell in row]
        for row in (names, *cells)
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], rule, *rows[1:]))


def latex(
    names: Sequence[str], cells: Sequence[Sequence[str | tuple[str, bool]]], numeric: Sequence[bool]
) -> str:
    """A LaTeX tabular with the rules of the package booktabs.

    Args:
        names, numeric: as for `markdown`.
        cells: rows of C texts, or of pairs: a text and whether it is bold.
    """
    layout = "".join("r" if right else "l" for right in numeric)
    body = "".join(_latex_row(row) for row in cells)
    return (
        "% needs \\usepackage{booktabs}\n"
        f"\\begin{{tabular}}{{{layout}}}\n\\toprule\n{_latex_row(names)}\\midrule\n"
        f"{body}\\bottomrule\n\\end{{tabular}}\n"
    )


def html(
    names: Sequence[str], cells: Sequence[Sequence[str]], about: str, kinds: Sequence[str] = (),
    meanings: Sequence[str] = (),
) -> str:  # fmt: skip
    """An HTML table that scrolls sideways where it is wider than the page.

    Args:
        names: the C headings.
        cells: R rows of C texts.
        about: a description for screen readers.
        kinds: a class of each row; empty: none has one.
        meanings: what each column holds, shown where the pointer rests on its heading; empty:
            nothing.
    """
    titles = [f' title="{escape(text)}"' if text else "" for text in meanings or [""] * len(names)]
    head = "".join(
        f'<th scope="col"{title}>{escape(name)}</th>'
        for name, title in zip(names, titles, strict=True)
    )
    classes = [f' class="{kind}"' for kind in kinds] or [""] * len(cells)
    body = "".join(
        f"<tr{kind}>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>"
        for row, kind in zip(cells, classes, strict=True)
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(about)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def picture(png: bytes, about: str) -> str:
    """A picture as HTML that needs no file; ``about``: a description for screen readers."""
    data = b64encode(png).decode("ascii")
    source = f"data:image/png;base64,{data}"
    return f'<img alt="{escape(about)}" style="max-width: 100%" src="{source}">'


def facts(values: Mapping[str, str]) -> str:
    """A table of a row per name, which is text, with its value, which is HTML; empty of none."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{value}</td></tr>'
        for name, value in values.items()
    )
    return f'<div class="wide text"><table><tbody>{rows}</tbody></table></div>' if rows else ""


def float_of(tabular: str, caption: str, key: str) -> str:
    """A LaTeX table that floats; ``caption``: text; ``key``: what `\\ref` names."""
    needs, _, rows = tabular.partition("\n")
    return (
        f"{needs}\n\\begin{{table}}\n\\centering\n"
        f"\\caption{{{_escaped(caption)}}}\n\\label{{{key}}}\n{rows}\\end{{table}}\n"
    )


def _latex_row(row: Sequence[str | tuple[str, bool]]) -> str:
    pairs = [(cell, False) if isinstance(cell, str) else cell for cell in row]
    cells = (rf"\textbf{{{_escaped(text)}}}" if bold else _escaped(text) for text, bold in pairs)
    return f"{' & '.join(cells)} \\\\\n"


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(mark, mark) for mark in printable(text))
