"""Runs a notebook and keeps its outputs: ``python notebooks/execute.py 06-your-own-frame``."""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]


def main() -> None:
    path = ROOT / "notebooks" / f"{sys.argv[1]}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    os.environ["PYTHONPATH"] = str(ROOT)
    with TemporaryDirectory() as place:
        where = {"metadata": {"path": place}}
        NotebookClient(notebook, timeout=900, kernel_name="python3", resources=where).execute()
    for cell in notebook.cells:
        cell.metadata.clear()  # its times
        if cell.cell_type == "code":  # what the installed packages warn of is not the notebook's
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
    nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
