"""Tables of text as markdown, as LaTeX and as HTML."""

from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from html import escape

from compressors.grammar import printable

_LATEX = {
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\n": " ",
    "±": r"$\pm$",
}


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
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    bold: Collection[tuple[int, int]] = (),
    caption: str = "",
    key: str = "",
) -> str:
    """A LaTeX tabular with the rules of the package booktabs; with a caption, in a float.

    Args:
        names: as for `markdown`.
        cells: as for `markdown`.
        numeric: as for `markdown`.
        bold: the places of bold cells: row and column.
        caption: a text.
        key: what `\\ref` names.
    """
    import pandas as pd

    frame = pd.DataFrame([[*row] for row in cells], columns=range(len(names)))
    style = frame.style.format(_escaped).hide(axis="index")
    style = style.format_index(lambda place: _escaped(names[place]), axis="columns")
    for row, column in bold:
        style.set_properties(subset=([row], [column]), textbf="--rwrap")
    text = style.to_latex(
        column_format="".join("r" if right else "l" for right in numeric),
        hrules=True,
        caption=_escaped(caption) or None,
        label=key or None,
        position_float="centering" if caption else None,
    )
    return f"% needs \\usepackage{{booktabs}}\n{text}"


def html(
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    about: str,
    kinds: Sequence[str] = (),
    meanings: Sequence[str] = (),
) -> str:
    """An HTML table that scrolls sideways where it is wider than the page.

    pandas' Styler writes an id and three classes per cell, which is 4.6 times the bytes for a page
    of 400 trials, and has neither titles of headings nor classes of rows.

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


def _escaped(text: str) -> str:
    """As LaTeX prints it. Styler's own escapes leave `<`, `>` and `|`, which come out as others."""
    return "".join(_LATEX.get(mark, mark) for mark in printable(text))
