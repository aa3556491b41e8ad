"""Writes ``docs/settings.md`` from the declarations: ``python docs/make_settings.py``."""

from pathlib import Path

from fedsim.settings.declared import Setting
from fedsim.settings.fields import GROUPS, SETTINGS
from fedsim.settings.strategies import FLAGS

PAGE = Path(__file__).with_name("settings.md")

HEAD = """# Settings

Every setting of a run, made from `fedsim/settings/fields.py` by `python docs/make_settings.py`.
A setting is declared once; its flag, its place in a TOML file, its field in Python, its check and
its name in tables of results follow. Settings that belong together are a value of their own:
`RunConfig(training=Training(lr=0.1))` is `--lr 0.1` and, in a file, `lr = 0.1` below `[training]`
(in a cell of a list, `training.lr = 0.1`).
"""


def rows(settings: list[Setting], place: str) -> list[str]:
    """A table: flag, field, default, and what it is."""
    lines = ["", f"| flag | {place} | default | what it is |", "| --- | --- | --- | --- |"]
    for one in settings:
        default = "" if one.default in (None, False) else f"`{one.default}`"
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
        "## Of the strategy", "",
        "These flags fill in the strategy's settings, which stand in its text, such as "
        "`--strategy 'fedadam(server_lr=0.01)'`, and in Python in its value. A strategy that has "
        "no such setting refuses the flag.",
        *rows([*FLAGS.values()], "in the strategy"),
    ]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
