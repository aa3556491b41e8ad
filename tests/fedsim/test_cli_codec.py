"""``compress`` and ``decompress``: a file to a message and back."""

import json
from pathlib import Path

import numpy as np
import pytest

from compressors import compress, parse
from tests.fedsim.commands import Typed, files, typed

__all__ = ["typed"]  # the fixture

METHOD = "topk(0.05) | float32 | golomb"
FIELDS = {
    "method", "entries", "sent", "wire_bits", "content_bits", "header_bits", "position_bits",
    "value_bits", "side_bits", "ratio", "relative_error", "seconds", "tensors",
}  # fmt: skip


@pytest.fixture
def update(typed: Typed) -> np.ndarray:
    """``update.npy`` in the current folder, with files that are no updates beside it."""
    values = np.random.default_rng(5).normal(size=(40, 25)).astype("float32")
    np.save("update.npy", values)
    np.save("float64.npy", values.astype("float64"))
    np.save("integers.npy", np.arange(5))
    np.save("nan.npy", np.array([1, np.nan], dtype="float32"))
    np.save("inf.npy", np.array([1, -np.inf], dtype="float32"))
    np.save("other.npy", values[:3])
    np.save("object.npy", np.array([print], dtype=object), allow_pickle=True)
    np.savez("archive.npz", values)
    Path("text").write_text("no array")
    Path("cut.npy").write_bytes(Path("update.npy").read_bytes()[:200])
    Path("empty").write_bytes(b"")
    return values


@pytest.mark.parametrize("method", [METHOD, "sbc(0.05)", "raw", "gradient_dropping(0.1)"])
def test_there_and_back(method: str, update: np.ndarray, typed: Typed) -> None:
    said = typed("compress", method, "update.npy", "-o", "m.bin", "--json")
    assert (said.code, said.err, said.out.count("\n")) == (0, "", 1)
    row = json.loads(said.out)
    assert set(row) == FIELDS
    payload = Path("m.bin").read_bytes()
    assert row["wire_bits"] == 8 * len(payload)
    parts = [row[f"{part}_bits"] for part in ("header", "position", "value", "side")]
    assert sum(parts) == row["wire_bits"] == row["content_bits"] + parts[0]
    assert row["ratio"] == 32 * update.size / row["wire_bits"]
    assert (row["method"], row["entries"]) == (method, update.size)
    said = typed("decompress", method, "m.bin", "--like", "update.npy", "-o", "decoded.npy")
    assert (said.code, said.out) == (0, "")
    assert said.err == "1000 entries written to decoded.npy\n"
    decoded = np.load("decoded.npy")
    assert decoded.shape == update.shape and decoded.dtype == np.float32
    assert np.count_nonzero(decoded) == row["sent"] == row["tensors"]["update"]["sent"]
    assert row["tensors"]["update"] == {"shape": [40, 25], "entries": 1000, "sent": row["sent"]}
    error = np.linalg.norm(decoded - update) / np.linalg.norm(update)
    assert row["relative_error"] == pytest.approx(error, rel=1e-5)
    if method == "raw":
        assert (decoded == update).all() and row["relative_error"] == 0


def test_the_message_is_the_library_s(update: np.ndarray, typed: Typed) -> None:
    import torch

    typed("compress", METHOD, "update.npy", "-o", "m.bin")
    packet, _ = compress(parse(METHOD), {"update": torch.from_numpy(update)}, seed=0)
    assert Path("m.bin").read_bytes() == packet.payload


def test_in_words(update: np.ndarray, typed: Typed) -> None:
    said = typed("compress", METHOD, "update.npy")
    assert said.code == 0 and said.err == "" and "1000 entries, 50 sent" in said.out
    assert "bit" in said.out and not Path("m.bin").exists()


BAD = {
    "compress nope update.npy": ["'nope'", "sbc, gradient_dropping, raw"],
    "compress raw float64.npy": ["float64.npy", "float64", "float32"],
    "compress raw integers.npy": ["integers.npy", "int64", "float32"],
    "compress raw nan.npy": ["nan.npy", "NaN or infinity"],
    "compress raw inf.npy": ["inf.npy", "NaN or infinity"],
    "compress raw archive.npz": ["archive.npz", "float32"],
    "compress raw object.npy": ["object.npy", "not a .npy file of numbers"],  # no pickle is loaded
    "compress raw text": ["text", "not a .npy file", "float32"],
    "compress raw cut.npy": ["cut.npy", "not a .npy file"],
    "compress raw empty": ["empty", "not a .npy file"],
    "compress raw none.npy": ["none.npy", "No such file"],
    "compress raw update.npy -o text/below": ["-o", "text/below", "cannot be written"],
    "compress raw update.npy -o none/below": ["-o", "none/below", "cannot be written"],
    "compress raw update.npy --seed x": ["--seed", "'x'"],
    "decompress raw m.bin --like other.npy -o d.npy": ["m.bin", "raw"],
    "decompress sbc(0.05) m.bin --like update.npy -o d.npy": ["m.bin", "one_sided(0.05)"],
    "decompress sbc(2) m.bin --like update.npy -o d.npy": ["2", "at most 1"],
    "decompress raw cut.bin --like update.npy -o d.npy": ["cut.bin"],
    "decompress raw long.bin --like update.npy -o d.npy": ["long.bin"],
    "decompress raw empty --like update.npy -o d.npy": ["empty"],
    "decompress raw none.bin --like update.npy -o d.npy": ["none.bin", "No such file"],
    "decompress raw m.bin --like float64.npy -o d.npy": ["float64.npy", "float32"],
    "decompress raw m.bin --like update.npy -o text/d.npy": ["-o", "text/d.npy"],
    "decompress raw m.bin --like update.npy": ["-o/--output"],
}


@pytest.mark.parametrize(("text", "words"), BAD.items(), ids=BAD)
def test_bad_input(text: str, words: list[str], update: np.ndarray, typed: Typed) -> None:
    assert typed("compress", "raw", "update.npy", "-o", "m.bin").code == 0
    payload = Path("m.bin").read_bytes()
    Path("cut.bin").write_bytes(payload[:-3])
    Path("long.bin").write_bytes(payload + b"\0")
    before = files(Path.cwd())
    said = typed(*text.split())
    assert said.code == 2 and said.out == ""
    assert 1 <= len(said.err.splitlines()) <= 2 and "Traceback" not in said.err
    for word in words:
        assert word in said.err, said.err
    assert files(Path.cwd()) == before
