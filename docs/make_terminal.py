"""Types commands of README into a terminal of 24 rows and writes its pictures to docs/terminal.

    PYTHONPATH=. python docs/make_terminal.py [PICTURE ...]

needs tmux, whose captured screens `rich` draws as SVG. Letters are text, and no picture loads a
font: a browser takes its own monospaced one. It takes two minutes of two cores.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "terminal"
ROWS = 24
_SERVER = "fedsim-pictures"  # a tmux server of our own
_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
_LETTER = 12.2  # the width of a letter in rich's pictures
_ENDED = re.compile(r"^n\S+: accuracy", re.MULTILINE)
_SWEEP = "fedsim sweep --temporal 1,10 --gradient 0.1,0.01 --iterations 200"


@dataclass(frozen=True)
class Picture:
    """A command as typed, the terminal's width, and whether the command still runs."""

    command: str
    columns: int
    running: bool = False


PICTURES_OF = {
    "help": Picture("fedsim sweep --help", 80),
    "error": Picture("fedsim sweep --method sbcc --gradient 0.1", 80),
    "dry-run": Picture(f"{_SWEEP} --dry-run", 80),
    "sweep-running": Picture(f"{_SWEEP} --out a", 80, running=True),
    "sweep": Picture(f"{_SWEEP} --out b", 80),
    "sweep-100": Picture(f"{_SWEEP} --out c", 100),
}


def tmux(*words: str) -> str:
    """What a command of our tmux server prints."""
    command = ["tmux", "-L", _SERVER, "-f", os.devnull, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def screen(*flags: str) -> str:
    """The text of the pane, with ``-e`` also its colours."""
    return tmux("capture-pane", "-p", *flags, "-t", "0")


def is_done(text: str) -> bool:
    """Whether the shell waits for the next command."""
    return text.rstrip().endswith("\n$")


def is_half_done(text: str) -> bool:
    """Whether two runs of a sweep have ended, and others train."""
    return len(_ENDED.findall(text)) >= 2 and "━" in text


def wait(condition: Callable[[str], bool], seconds: float = 600.0) -> None:
    """Returns as soon as the screen meets the condition; ``TimeoutError`` with its text."""
    until = time.monotonic() + seconds
    while not condition(text := screen()):
        if time.monotonic() > until:
            raise TimeoutError(text)
        time.sleep(0.05)


def capture(picture: Picture, folder: str) -> str:
    """The colours and text of the screen after the command, or while it runs."""
    binaries = Path(sys.executable).parent
    shell = ["env", f"PATH={binaries}:{os.environ['PATH']}", f"PYTHONPATH={ROOT}", "PS1=$ "]
    size = ("-x", str(picture.columns), "-y", str(ROWS))
    tmux("new-session", "-d", *size, "-c", folder, shlex.join([*shell, "bash", "--norc"]))
    try:
        wait(lambda text: text.strip() == "$")
        tmux("send-keys", "-t", "0", picture.command, "Enter")
        wait(is_half_done if picture.running else is_done)
        return screen("-e")
    finally:
        tmux("kill-server")


def svg(captured: str, picture: Picture) -> str:
    """The screen as a picture."""
    console = Console(
        record=True,
        width=picture.columns,
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(Text.from_ansi(captured.rstrip()), no_wrap=True, overflow="ignore", crop=False)
    title = f"{picture.columns} columns, {ROWS} rows"
    return _FONT.sub("", console.export_svg(title=title, unique_id="terminal"))


def text_of(file: Path) -> list[str]:
    """The lines of a picture that are not empty, without the title."""
    lines: dict[float, list[str]] = {}
    for node in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}text"):
        if "clip-path" in node.attrib:
            line = lines.setdefault(float(node.attrib["y"]), [])
            column = round(float(node.attrib["x"]) / _LETTER)
            line += " " * (column - len(line))
            line[column:] = (node.text or "").replace("\xa0", " ")
    joined = ["".join(line).rstrip() for _, line in sorted(lines.items())]
    return [line for line in joined if line]


def main(names: list[str]) -> None:
    """Writes the pictures of these names."""
    PICTURES.mkdir(exist_ok=True)
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            captured = capture(PICTURES_OF[name], folder)
        (PICTURES / f"{name}.svg").write_text(svg(captured, PICTURES_OF[name]), encoding="utf-8")
        print("docs/terminal/", name, ".svg", sep="", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [*PICTURES_OF])
