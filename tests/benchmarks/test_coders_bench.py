"""The benchmark of the coders: what it runs and refuses, not how fast anything is."""

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

SCRIPT = "coders"


@pytest.fixture(scope="module")
def works(bench: Any) -> Any:
    return sys.modules["coder_works"]


def test_every_work_is_timed_and_printed(bench: Any, tmp_path: Path, capsys) -> None:
    """Small, without the two processes: their own test has them."""
    first = [
        {"first_ms": 700.0, "again_ms": 0.5, "compiled": 1},
        {"first_ms": 30.0, "again_ms": 0.25, "compiled": 0},
    ]
    with patch.object(bench, "first_encodes", lambda: first):
        bench.main(["--entries", "20000", "--repeats", "2", "--json", str(tmp_path / "b.json")])
    result = json.loads((tmp_path / "b.json").read_text())
    printed = capsys.readouterr().out
    names = [row["name"] for row in result["rows"]]
    assert len(set(names)) == len(names) == 39
    for row in result["rows"]:
        assert 0 < row["ours_min"] <= row["ours"] <= row["ours_max"]
        assert f"| {row['name']} |" in printed
        assert (row["peer"] is None) == (row["peer_name"] == "") == (row["ratio"] is None)
    targets = {row["name"]: row["target_ns"] for row in result["rows"]}
    assert (
        targets["golomb, p = 0.001, decode"] == 9
        and targets["context, crowded, p = 0.01, encode"] == 60
    )
    assert (
        targets["elias_omega, symbols, encode"] == 5 and targets["huffman, symbols, decode"] == 10
    )
    assert [t for name, t in targets.items() if name.startswith("bloom")] == [16]
    assert (
        1.7 < result["symbol_entropy"] < 1.9
        and "700 ms of processor time with an empty cache" in printed
    )
    assert "30 ms where" in printed and "the next 0.25 ms" in printed


def test_peers_write_the_same_bits(bench: Any, works: Any) -> None:
    peers = sys.modules["coder_peers"]
    indices = works.random_positions(5000, 0.1)
    for b in (0, 3):
        plain = peers.rice_python(indices.tolist(), b)
        assert peers.rice_python_back(plain, b) == indices.tolist()
        packed = peers.rice_numpy(indices, b)
        assert "".join(f"{byte:08b}" for byte in packed).startswith(plain)
    assert peers.huffman_book([0, 0, 0, 0, 1, 1, 2]).keys() == {0, 1, 2}
    assert [peers.elias_omega_word(v) for v in (1, 2, 4, 16)] == [
        "0",
        "100",
        "101000",
        "10100100000",
    ]


def test_a_coder_that_errs_is_refused(works: Any, monkeypatch) -> None:
    monkeypatch.setattr(works.Golomb, "read_positions", lambda *a: np.arange(3))
    with pytest.raises(SystemExit, match=r"golomb, p = 0.01: what is compared differs"):
        next(iter(works.works(20_000)))
