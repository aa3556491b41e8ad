"""The site builds without a warning, asks no other machine for anything, and has every page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.markdown import PAGES, ROOT

pytestmark = pytest.mark.slow
_ASSET = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"([^\"]+)\"|<link\b[^>]*>")
_SHEET = re.compile(r"rel=\"(?:stylesheet|preload|preconnect|icon)\"")
_FAR = re.compile(r"(?:https?:)?//")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does; a warning ends the build."""
    out = tmp_path_factory.mktemp("site")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def html(site: Path) -> list[Path]:
    found = sorted(site.rglob("*.html"))
    assert len(found) > 40
    return found


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in html(site):
        for match in _ASSET.finditer(page.read_text(encoding="utf-8")):
            address = match[1] or (match[0] if _SHEET.search(match[0]) else "")
            assert not _FAR.search(address), (page.relative_to(site), address)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text("utf-8"))


def test_every_page_is_there_with_its_figures(site: Path) -> None:
    readmes = [*ROOT.glob("experiments/*/README.md"), ROOT / "benchmarks" / "README.md"]
    for page in [*PAGES, *readmes]:
        name = page.relative_to(ROOT).with_suffix(".html")
        assert (site / str(name).replace("README", "index")).exists(), name
    figures = list(ROOT.glob("experiments/*/results/**/*.png"))
    assert len(figures) > 20 and all((site / path.relative_to(ROOT)).exists() for path in figures)


def test_the_reference_shows_arguments_and_examples(site: Path) -> None:
    page = (site / "reference" / "fedsim.html").read_text(encoding="utf-8")
    for name in ("run", "measure", "RunConfig"):  # wherever in the rooms it stands
        assert re.search(rf'id="fedsim\.[\w.]+\.{name}"', page), name
    assert "Parameters:" in page and "Returns:" in page and "<strong>Example</strong>" in page
    assert "&gt;&gt;&gt;" not in re.sub(r"<pre>.*?</pre>", "", page, flags=re.DOTALL)


def test_the_index_of_the_search_has_guides_experiments_and_reference(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    for place in ("docs/sweeps.html", "experiments/sbc-matrix/index.html", "reference/fedsim.html"):
        assert f'"location":"{place}"' in index
