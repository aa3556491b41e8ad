"""Writes ``docs/settings.md`` from the declarations: ``python docs/make_settings.py``."""

from pathlib import Path

from fedsim.settings.declarations import Setting
from fedsim.settings.fields import GROUPS, SETTINGS
from fedsim.settings.strategies import FLAGS

PAGE = Path(__file__).with_name("settings.md")

HEAD = """# Settings

Every setting of a run. `python docs/make_settings.py` makes this page from
`fedsim/settings/groups.py` and `fields.py`.

A group of settings is a value in Python, a table in a TOML file, and nothing on the command line:

| place | how the learning rate is written |
| --- | --- |
| command line | `--lr 0.1` |
| Python | `RunConfig(training=Training(lr=0.1))`, or `RunConfig.of(lr=0.1)` |
| TOML file | `lr = 0.1` below `[training]` |
| cell of a list of runs | `training.lr = 0.1` |
| [several values](sweeps.md#any-other-setting) | `--vary lr=0.01,0.1`, or `[vary]` in a file |
"""

TAIL = """These flags set the strategy's setting of that name. In its text that is
`--strategy 'fedadam(server_lr=0.01)'`, and in Python a field of its value. A strategy without
such a setting refuses the flag ([strategies.md](strategies.md)).
"""


def rows(settings: list[Setting], place: str) -> list[str]:
    """A table: flag, field, default, and what it is."""
    lines = ["", f"| flag | {place} | default | what it does |", "| --- | --- | --- | --- |"]
    for one in settings:
        default = "" if one.default is None or one.default is False else f"`{one.default}`"
        cells = (f"`{one.flag}`", f"`{one.attr}`", default, one.help)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return [*lines, ""]


def page() -> str:
    """The page as markdown."""
    top = [one for one in SETTINGS.values() if not one.group]
    lines = [HEAD, "## RunConfig", *rows(top, "field")]
    for name, kind in GROUPS.items():
        first = (kind.__doc__ or "").splitlines()[0]
        own = [one for one in SETTINGS.values() if one.group == name]
        lines += [f"## {kind.__name__}, `[{name}]`", "", first, *rows(own, "field")]
    lines += [
        "## Settings of the strategy",
        "",
        TAIL.rstrip(),
        *rows([*FLAGS.values()], "in the strategy"),
    ]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
