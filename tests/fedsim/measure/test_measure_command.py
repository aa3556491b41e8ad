"""The command `measure`: its table, its JSON, its exit codes, and what it refuses."""

import importlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import fedsim
from tests.support.commands import Typed, files
from tests.support.realupdate import CODER_COLUMNS, COLUMNS, SOME

measuring = importlib.import_module("fedsim.measure.methods")  # the name means the function


@pytest.fixture
def update(typed: Typed, real: dict[str, Tensor]) -> Path:
    """``update.safetensors`` in the current folder, and a file of other types."""
    save_file(real, "update.safetensors")
    torch.save({"w": torch.ones(4).double(), "n": torch.tensor(3)}, "double.pt")
    return Path("update.safetensors")


def test_the_command(update: Path, typed: Typed, real: dict[str, Tensor]) -> None:
    said = typed("measure", update, "--methods", SOME, "--repeat", "1", "--csv", "t.csv")
    assert said.code == 0 and said.err == ""
    for word in ("21386 entries", "sbc(0.05)", "raw", "684 kbit", "×1.00", "ns/entry", "cosine"):
        assert word in said.out
    frame = pd.read_csv("t.csv")
    assert list(frame) == COLUMNS and len(frame) == 4 and frame["ratio"].is_monotonic_decreasing
    order = [said.out.index(method) for method in ("sbc(0.05)", "one_sided", "topk(0.1)", "raw")]
    assert order == sorted(order)


def test_json(update: Path, typed: Typed) -> None:
    arguments = ("--methods", "raw; sbc", "--density", "0.1", "--repeat", "2", "--seed", "5")
    said = typed("measure", update, update, *arguments, "--json")
    assert (said.code, said.err, said.out.count("\n")) == (0, "", 1)
    document = json.loads(said.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    rows = document.pop("methods")
    assert document == {
        "files": [str(update)] * 2,
        "entries": 2 * 21386,
        "repeat": 2,
        "seed": 5,
        "density": 0.1,
    }
    assert [list(row) for row in rows] == [COLUMNS] * 2
    assert [row["method"] for row in rows] == ["sbc(0.1)", "raw"]
    assert all(row["error"] is None for row in rows)


@pytest.mark.parametrize("columns", [80, 160])
def test_the_table_of_coders(
    columns: int, update: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    said = typed(
        "measure",
        update,
        "--coders",
        "golomb; ans; bloom(0.1)",
        "--repeat",
        "1",
        "--csv",
        "t.csv",
        "--density",
        "0.05",
    )
    assert (said.code, said.err) == (0, "") and "…" not in said.out
    assert max(map(len, said.out.splitlines())) <= columns
    for word in (
        "positions of topk(0.05) | float32: 1070, entropy",
        "symbols of qsgd(256): 21386",
        "ns/index",
        "ns/value",
        "bloom(0.1) (lossy)",
    ):
        assert word in said.out
    frame = pd.read_csv("t.csv")
    assert list(frame) == CODER_COLUMNS and len(frame) == 4
    assert np.isfinite(frame.drop(columns=["coder", "of", "error"]).to_numpy("float64")).all()


def test_json_of_coders(update: Path, typed: Typed) -> None:
    arguments = ("--positions-of", "sbc", "--symbols-of", "topk({p}) | qsgd(7)", "--seed", "5")
    said = typed("measure", update, "--coders", "ans", *arguments, "--repeat", "1", "--json")
    assert (said.code, said.err, said.out.count("\n")) == (0, "", 1)
    document = json.loads(said.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    rows = document.pop("coders")
    assert document == {
        "files": [str(update)],
        "entries": 21386,
        "repeat": 1,
        "seed": 5,
        "density": None,
        "positions_of": "sbc(0.01)",
        "symbols_of": "topk(0.01) | qsgd(7)",
    }
    assert [list(row) for row in rows] == [CODER_COLUMNS] * 2
    assert [row["of"] for row in rows] == ["positions", "symbols"]
    assert all(row["error"] is None and row["exact"] for row in rows)


def test_a_method_that_cannot_do_it_has_its_row(update: Path, typed: Typed) -> None:
    methods = "raw; by_name('*.bias', raw); topk(1) | float32"
    arguments = ("measure", update, "--repeat", "1", "--methods", methods)
    said = typed(*arguments)
    assert said.code == 1 and "Traceback" not in said.err + said.out
    assert "no rule" in " ".join(said.out.split()) and "topk(1)" in said.out
    said = typed(*arguments, "--json")
    assert said.code == 1 and said.err == ""
    rows = json.loads(said.out)["methods"]
    assert [row["method"] for row in rows][2] == "by_name('*.bias', raw)"  # last
    assert "rule" in rows[2]["error"] and rows[2]["ratio"] is None
    assert [row["error"] for row in rows[:2]] == [None, None]


def test_only_what_is_exact_has_no_error(typed: Typed) -> None:
    """A method that loses a little is told from one that loses nothing."""
    torch.save({"w": torch.tensor([100.0, 1e-3])}, "far.pt")
    said = typed("measure", "far.pt", "--repeat", "1", "--methods", "raw; topk(0.5) | float32")
    error = {
        line.split()[0]: line.split(" ×")[1].split()[1]
        for line in said.out.splitlines()
        if " ×" in line
    }
    assert error == {"raw": "0", "topk(0.5)": "1.0e-05"}


def test_what_is_no_value_error_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> object:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(measuring, "decompress", broken)
    table = fedsim.measure({"w": torch.ones(3)}, "raw")
    assert table["error"][0] == "ZeroDivisionError: oh"


def test_other_types(update: Path, typed: Typed) -> None:
    said = typed("measure", "double.pt", "--methods", "raw", "--as-float32", "--json")
    assert said.code == 0 and json.loads(said.out)["entries"] == 4
    assert said.err == "double.pt: left out, not floats: 'n'\n"


BAD = {
    "measure": ["FILE"],
    "measure none.npy": ["none.npy", "No such file"],
    "measure none.npy --methods nope": ["'nope'"],  # before a file is read
    "measure update.safetensors --density x": ["--density", "'x'"],
    "measure none.npy --csv none/t.csv": ["--csv", "none/t.csv", "no folder"],
    "measure update.safetensors --csv .": ["--csv", "it is a directory"],
    "measure none.npy --coders nope": ["'nope'"],  # before a file is read
    "measure update.safetensors --coders all --methods raw": ["--methods", "--coders", "give one"],
    "measure update.safetensors --symbols-of cnat": ["--symbols-of", "--coders"],
    "measure update.safetensors --coders all --positions-of raw": ["positions_of is 'raw'"],
}


@pytest.mark.parametrize(("arguments", "words"), BAD.items(), ids=BAD)
def test_bad_input(arguments: str, words: list[str], update: Path, typed: Typed) -> None:
    before = files(Path.cwd())
    said = typed(*arguments.split())
    assert said.code == 2 and said.out == ""
    assert 1 <= len(said.err.splitlines()) <= 2 and "Traceback" not in said.err
    for word in words:
        assert word in said.err, said.err
    assert files(Path.cwd()) == before
