"""Writes the table of presets into ``docs/networks.md``: ``python docs/make_networks.py``."""

import re
from pathlib import Path

from fedsim.network.presets import PRESETS

PAGE = Path(__file__).with_name("networks.md")
_BETWEEN = re.compile(r"(<!-- presets -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The page, its table made from the presets."""
    lines = ["| preset | stands for | settings | source |", "| --- | --- | --- | --- |"]
    for name, preset in PRESETS.items():
        lines.append(f"| `{name}` | {preset.title} | `{preset.text}` | {preset.source} |")
    table = "\n".join(lines)
    return _BETWEEN.sub(rf"\1{table}\n\2", PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
