"""The pages of the project: their code blocks and links."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
"""What a user reads first: its commands are run."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!`)\[[^]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A block of code; language "" for an indented one."""

    page: str
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its commands, without the remarks behind them."""
        return [line.split("  #")[0].strip() for line in self.text.splitlines() if line.strip()]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks and then the indented ones of a page."""
    text, name = page.read_text(encoding="utf-8"), str(page.relative_to(ROOT))
    fenced = [Block(name, language, code) for language, code in _FENCE.findall(text)]
    indented, lines = [], list[str]()
    for line in [*_FENCE.sub("", text).splitlines(), "end"]:
        if line.startswith("    "):
            lines.append(line[4:])
        elif lines and line.strip():
            indented.append(Block(name, "", "\n".join(lines)))
            lines = []
    return fenced + indented


def links(page: Path) -> list[str]:
    """The relative links of a page, without their anchors."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found = (link.split("#")[0] for link in _LINK.findall(text))
    return [link for link in found if link and "://" not in link and not link.startswith("mailto:")]
