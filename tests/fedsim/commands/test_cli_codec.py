"""``compress`` and ``decompress``: a file to a message and back."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from compressors import compress, parse
from tests.support.commands import Typed, files

METHOD = "topk(0.05) | float32 | golomb"
FIELDS = {
    *("method", "entries", "sent", "wire_bits", "content_bits", "header_bits", "position_bits"),
    *("value_bits", "side_bits", "ratio", "relative_error", "seconds", "tensors"),
}


@pytest.fixture
def update(typed: Typed) -> np.ndarray:
    """``update.npy`` in the current folder, with files that are no updates beside it."""
    values = np.random.default_rng(5).normal(size=(40, 25)).astype("float32")
    np.save("update.npy", values)
    np.save("float64.npy", values.astype("float64"))
    np.save("integers.npy", np.arange(5))
    np.save("other.npy", values[:3])
    np.save("object.npy", np.array([print], dtype=object), allow_pickle=True)
    np.savez("archive.npz", values)
    Path("text").write_text("no array")
    torch.save({"late": torch.ones(3, 4), "early": torch.arange(5.0)}, "model.pt")
    torch.save({"w": torch.ones(3).half(), "n": torch.tensor(2)}, "mixed.pt")
    Path("cut.npy").write_bytes(Path("update.npy").read_bytes()[:200])
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
    typed("compress", METHOD, "update.npy", "-o", "m.bin")
    packet, _ = compress(parse(METHOD), {"update": torch.from_numpy(update)}, seed=0)
    assert Path("m.bin").read_bytes() == packet.payload


@pytest.mark.parametrize("ending", [".pt", ".pth", ".safetensors"])
@pytest.mark.parametrize("method", ["raw", "sbc(0.1)", "flat(topk(0.1) | float32 | golomb)"])
def test_several_tensors(ending: str, method: str, update: np.ndarray, typed: Typed) -> None:
    """The model's own order in .pt, sorted in .safetensors; a file for the same tensors reads."""
    tensors = {"late": torch.from_numpy(update), "early": torch.linspace(-1, 1, 7)}
    given, out = f"x{ending}", f"y{ending}"
    torch.save(tensors, given) if ending != ".safetensors" else save_file(tensors, given)
    row = json.loads(typed("compress", method, given, "-o", "m.bin", "--json").out)
    order = ["late", "early"] if ending != ".safetensors" else ["early", "late"]
    assert list(row["tensors"]) == order and row["entries"] == 1007
    said = typed("decompress", method, "m.bin", "--like", given, "-o", out, "--json")
    assert (said.code, said.err) == (0, "")
    shapes = {"late": {"shape": [40, 25], "entries": 1000}, "early": {"shape": [7], "entries": 7}}
    document = json.loads(said.out)
    assert document == {"entries": 1007, "tensors": shapes, "output": out}
    assert list(document["tensors"]) == order
    found = torch.load(out, weights_only=True) if ending != ".safetensors" else load_file(out)
    packet, _ = compress(parse(method), {name: tensors[name] for name in order})
    assert Path("m.bin").read_bytes() == packet.payload
    assert all(torch.equal(found[name], packet.sent[name].decoded) for name in order)


def test_other_types_are_converted_when_asked(update: np.ndarray, typed: Typed) -> None:
    said = typed("compress", "raw", "mixed.pt", "-o", "m.bin", "--as-float32", "--json")
    assert said.code == 0 and said.err == "mixed.pt: left out, not floats: 'n'\n"
    assert list(json.loads(said.out)["tensors"]) == ["w"]
    decoded = ("--like", "mixed.pt", "-o", "d.npy", "--as-float32")
    assert typed("decompress", "raw", "m.bin", *decoded).code == 0
    assert (np.load("d.npy") == np.ones(3, "float32")).all()


def test_a_template_may_hold_anything(update: np.ndarray, typed: Typed) -> None:
    """Its values are not read."""
    np.save("blank.npy", np.full((40, 25), np.nan, "float32"))
    typed("compress", "raw", "update.npy", "-o", "m.bin")
    said = typed("decompress", "raw", "m.bin", "--like", "blank.npy", "-o", "blank.npy")
    assert said.code == 0 and (np.load("blank.npy") == update).all()


def test_errors_are_told_in_float64(typed: Typed) -> None:
    """Squares of these leave float32."""
    np.save("great.npy", np.array([1e30, -1e30, 1e20], "float32"))
    row = json.loads(typed("compress", "topk(0.5) | float32", "great.npy", "--json").out)
    assert row["relative_error"] == pytest.approx(1e-10 / 2**0.5, rel=1e-6)


def test_in_words(update: np.ndarray, typed: Typed) -> None:
    said = typed("compress", METHOD, "update.npy")
    assert said.code == 0 and said.err == "" and "1000 entries, 50 sent" in said.out
    assert "bit" in said.out and not Path("m.bin").exists()


BAD = {
    "compress nope update.npy": ["'nope'", "sbc, gradient_dropping"],
    "compress sbc update.npy": ["'sbc'", "no fraction", "'sbc(0.01)'"],
    "compress topk({p})|float32 update.npy": ["'topk({p})|float32'", "'topk(0.01)|float32'"],
    "compress archive.npz update.npy": ["'archive.npz'"],
    "compress raw archive.npz": ["archive.npz", "float32"],
    "compress raw object.npy": ["object.npy", "not a .npy file of numbers"],  # no pickle is loaded
    "compress raw cut.npy": ["cut.npy", "not a .npy file"],
    "compress by_name('late',raw) model.pt": ["model.pt", "early"],
    "compress raw update.npy -o none/below": ["-o", "none/below", "cannot be written"],
    "compress raw update.npy --seed x": ["--seed", "'x'"],
    "decompress raw m.bin --like other.npy -o d.npy": ["m.bin", "raw"],
    "decompress sbc(0.05) m.bin --like update.npy -o d.npy": ["m.bin", "one_sided(0.05)"],
    "decompress sbc(2) m.bin --like update.npy -o d.npy": ["2", "at most 1"],
    "decompress raw cut.bin --like update.npy -o d.npy": ["cut.bin"],
    "decompress raw long.bin --like update.npy -o d.npy": ["long.bin"],
    "decompress raw m.bin --like update.npy -o d.txt": ["d.txt", ".safetensors"],
    "decompress raw m.bin --like update.npy -o none/d.npy": ["-o", "none/d.npy", "no folder"],
    "decompress raw m.bin --like model.pt -o d.npy": ["-o", "d.npy", "one tensor", "2"],
    "decompress raw m.bin --like model.pt -o d.pt": ["m.bin", "raw", "2, of 17 entries"],
    "decompress raw none.bin --like update.npy -o d.npy": ["none.bin", "No such file"],
    "decompress raw m.bin --like float64.npy -o d.npy": ["float64.npy", "float32"],
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
