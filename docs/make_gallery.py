"""Runs the commands of docs/gallery.md and puts their pictures into docs/gallery.

    python docs/make_gallery.py [OUT]

takes three minutes of one core; a folder OUT keeps the runs, and the same command goes on
where it was stopped. The search is not run: its picture is drawn from its committed trials. The
picture of the page needs chromium.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from fedsim.commands.cli import main as fedsim_command

sys.path.insert(0, str(Path(__file__).resolve().parent))
import make_search

DOCS = Path(__file__).resolve().parent
PAGE, PICTURES = DOCS / "gallery.md", DOCS / "gallery"
_COMMAND = re.compile(r"^fedsim (.+)$", re.MULTILINE)
_PICTURE = re.compile(r"\]\(gallery/(\S+)\.png\)")
_WIDE, _COLOURS = 1000, 128


def commands() -> list[list[str]]:
    """The arguments of the page's commands, in order."""
    return [shlex.split(given) for given in _COMMAND.findall(PAGE.read_text(encoding="utf-8"))]


def small(picture: Path, out: Path) -> None:
    """Writes a picture with few colours, not wider than a page: a third of its bytes."""
    shown = Image.open(picture).convert("RGB")
    if shown.width > _WIDE:
        shown = shown.resize((_WIDE, shown.height * _WIDE // shown.width), Image.Resampling.LANCZOS)
    few = shown.quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(out, optimize=True)


def photograph(page: Path, out: Path, width: int, height: int) -> None:
    """The head of a page, as a browser of this many pixels shows it."""
    subprocess.run(
        [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            "--disable-gpu",
            f"--window-size={width},{height}",
            "--virtual-time-budget=5000",
            f"--screenshot={out}",
            page.resolve().as_uri(),
        ],
        check=True,
        capture_output=True,
    )


def main(out: Path) -> None:
    """The runs, the figures, and their pictures beside the page."""
    os.chdir(out)
    for given in commands():
        if given[0] != "search":
            print("fedsim", shlex.join(given), flush=True)
            if fedsim_command([*given, "--jobs", "1"] if given[0] == "sweep" else given):
                sys.exit(f"failed: fedsim {shlex.join(given)}")
    page = Path("gallery/page/report.html")
    photograph(page, Path("page.png"), 1400, 1200)
    photograph(page, Path("page-phone.png"), 390, 1200)
    shutil.copy("gallery/times/time.png", "time.png")
    PICTURES.mkdir(exist_ok=True)
    for name in _PICTURE.findall(PAGE.read_text(encoding="utf-8")):
        small(Path(f"{name}.png"), PICTURES / f"{name}.png")
    make_search.picture()
    small(DOCS / "search-digits.png", DOCS / "search-digits.png")


if __name__ == "__main__":
    if sys.argv[1:]:
        place = Path(sys.argv[1])
        place.mkdir(parents=True, exist_ok=True)
        main(place)
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
