"""``--open``: the page of results in a browser."""

import sys
import webbrowser
from pathlib import Path
from typing import Any

from compressors.grammar import printable


def add_open(parser: Any) -> None:
    """Adds the flag."""
    parser.add_argument("--open", action="store_true", help="open report.html in a browser")


def open_page(page: Path) -> bool:
    """Whether a browser opens the page; a line on stderr has the reason where none does."""
    if not page.is_file():
        cause = f"{page} does not exist"
    elif webbrowser.open(page.resolve().as_uri()):
        return True
    else:
        cause = f"no browser on this machine; the page is {page}"
    print(printable(f"--open: {cause}"), file=sys.stderr)
    return False
