"""A report reads each table of a run once, whatever it makes of the numbers."""

from pathlib import Path

import pytest

from fedsim.commands.cli import main
from fedsim.results import schema
from tests.support.sweepmaker import make_sweep


@pytest.mark.slow
def test_each_table_of_five_cells_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_sweep(tmp_path, (1, 10), (0.1, 0.01))
    read: list[str] = []
    content = schema.read_file

    def counted(file: Path, most: int | None = None) -> bytes:
        read.extend([str(file)] * (file.suffix == ".parquet"))
        return content(file, most)

    monkeypatch.setattr(schema, "read_file", counted)
    assert main(["report", str(tmp_path)]) == 0
    cells = [*(tmp_path / "cells").iterdir()]
    there = [str(cell / name) for cell in cells for name in ("rounds.parquet", "layers.parquet")]
    assert len(there) == 10 and sorted(read) == sorted(there)
    assert "Report:" in capsys.readouterr().out
