"""The notebooks run from top to bottom, as they stand in the project; one holds its outputs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.markdown import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


SHOWN = ROOT / "notebooks" / "06-your-own-frame.ipynb"
"""Holds what it shows (``python notebooks/execute.py``); the others hold no outputs."""


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def test_there_are_notebooks() -> None:
    names = {path.stem for path in NOTEBOOKS}
    assert names >= {
        "01-quickstart",
        "02-sparsity-matrix",
        "03-your-own-compressor",
        "04-your-own-task",
        "05-compare-methods",
        SHOWN.stem,
    }


def test_the_question_takes_ten_cells_and_shows_its_answers() -> None:
    code = cells(SHOWN, "code")
    assert len(code) + len(cells(SHOWN, "markdown")) == 10
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    shown = {}
    for cell in code:
        (output,) = cell["outputs"]  # and no error
        shown["".join(output["data"]["text/plain"])] = "".join(output["data"]["text/html"])
    for start in (
        "RunResult(tumours, sbc",
        "Results('fedsim-results/frame-sbc'",
        "SearchResult(best acc",
    ):
        (html,) = (html for text, html in shown.items() if text.startswith(start))
        assert "data:image/png;base64," in html and "<table>" in html


@pytest.mark.parametrize("path", [p for p in NOTEBOOKS if p != SHOWN], ids=lambda path: path.stem)
def test_no_outputs_are_stored(path: Path) -> None:
    for cell in cells(path, "code"):
        assert cell["outputs"] == [] and cell["execution_count"] is None
    assert cells(path, "markdown")[0]["source"][0].startswith("# ")


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.proof] if path != NOTEBOOKS[0] else [])
        for path in NOTEBOOKS
    ],
)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is in the dev extra")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is in the dev extra")
    pytest.importorskip("ipykernel", reason="ipykernel is in the dev extra")
    monkeypatch.setenv("PYTHONPATH", str(ROOT) + os.pathsep + os.environ.get("PYTHONPATH", ""))
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert not [out for out in outputs if out.output_type == "error"]
    for cell in cells(path, "code"):
        if "".join(cell["source"]).splitlines()[-1].startswith("fedsim.plot.") and (
            ".save(" not in "".join(cell["source"])
        ):
            shown = next(c for c in notebook.cells if c.get("id") == cell["id"]).outputs
            assert any("image/png" in out.get("data", {}) for out in shown), cell["id"]
