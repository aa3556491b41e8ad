"""The benchmark of the lossy parts: what it runs and refuses, not how fast anything is."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

SCRIPT = "lossy"


def test_every_work_is_timed_and_printed(bench: Any, tmp_path: Path, capsys) -> None:
    bench.main(["--entries", "20000", "--repeats", "2", "--json", str(tmp_path / "b.json")])
    result = json.loads((tmp_path / "b.json").read_text())
    printed = capsys.readouterr().out
    assert len(result["rows"]) == 7
    for row in result["rows"]:
        assert 0 < row["ours_min"] <= row["ours"] <= row["ours_max"]
        assert f"| {row['name']} |" in printed
        assert (row["peer"] is None) == (row["peer_name"] == "") == (row["ratio"] is None)


def test_bits_are_those_that_are_promised(bench: Any) -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    sizes = {work.name: work.ours() for work in bench.works(x) if "packed" in work.name}
    assert sizes == {
        "cnat, packed in 9 bits": 9000,
        "sign bits, packed": 1000,
        "sign (zeros by coin), packed": 1000,
        "QSGD, 127 levels, packed": 8032,  # and a norm
    }


def test_a_selection_that_differs_is_refused(bench: Any, monkeypatch) -> None:
    monkeypatch.setattr(bench, "largest", lambda x, k, side: torch.arange(k))
    with pytest.raises(SystemExit, match=r"top-k at p = 0.01 differs"):
        bench.agree(torch.randn(5000, generator=torch.Generator().manual_seed(1)))
