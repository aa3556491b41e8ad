"""Writes the tables of presets and devices into ``docs/networks.md``.

``python docs/make_networks.py``
"""

import re
from pathlib import Path

from fedsim.network.presets import DEVICE_PROFILES, PRESETS, Preset

PAGE = Path(__file__).with_name("networks.md")


def table(head: str, presets: dict[str, Preset]) -> str:
    """A table's lines, a row per preset."""
    lines = [f"| {head} | stands for | settings | source |", "| --- | --- | --- | --- |"]
    for name, preset in presets.items():
        lines.append(f"| `{name}` | {preset.title} | `{preset.text}` | {preset.source} |")
    return "\n".join(lines)


def page() -> str:
    """The page, its tables made from the presets."""
    text = PAGE.read_text(encoding="utf-8")
    for mark, lines in {
        "presets": table("preset", PRESETS),
        "devices": table("device", DEVICE_PROFILES),
    }.items():
        between = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = between.sub(rf"\1{lines}\n\2", text)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
