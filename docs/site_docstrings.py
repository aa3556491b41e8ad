"""Examples of docstrings as the site shows them: each a block of code."""

import re
from textwrap import dedent
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^(?P<indent> *)Example:\n(?P<code>(?:(?P=indent) {4}.*\n?|\s*\n)+)", re.M)


class Examples(Extension):
    """Turns the section ``Example:`` into a fenced block: `>>>` is not a quotation."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Changes the docstring of every function, class, module and attribute."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    code = dedent(match["code"]).strip()
    language = "pycon" if code.startswith(">>>") else "python"
    return f"**Example**\n\n```{language}\n{code}\n```\n"
