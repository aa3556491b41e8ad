"""``measure``: the numbers against arithmetic of its own, on a real update."""

import importlib
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import fedsim
from compressors import ROWS, Packet, compress, decompress, parse, text
from compressors.row import Row
from fedsim import UsageError
from fedsim.measure import inputs
from tests.support.realupdate import COLUMNS, SOME

measuring = importlib.import_module("fedsim.measure.methods")  # the name means the function


def flat(tensors: dict[str, Tensor]) -> np.ndarray:
    return np.concatenate([x.numpy().ravel() for x in tensors.values()]).astype("float64")


@pytest.mark.slow
def test_the_whole_catalogue_on_a_real_update(real: dict[str, Tensor]) -> None:
    table = fedsim.measure(real, repeat=1)
    assert list(table) == COLUMNS
    assert (table["error"] == "").all(), table[table["error"] != ""]
    shown = set(table["expansion"])
    kinds = ("method", "compressor", "codec", "sparsifier", "quantizer")
    assert shown == {text(parse(row.example)) for row in ROWS if row.kind in kinds}
    assert len(table) == len(shown)  # each once
    assert set(table["entries"]) == {sum(x.numel() for x in real.values())}
    numbers = table.drop(columns=["method", "expansion", "error", "cosine"]).to_numpy("float64")
    assert np.isfinite(numbers).all()
    # a fixed threshold may keep nothing: all is lost, and there is no angle
    assert (table["cosine"].isna() == (table["relative_error"] == 1)).all()
    silent = table["cosine"].isna()  # below all that says something
    assert silent.any() and silent.is_monotonic_increasing
    assert all(part["ratio"].is_monotonic_decreasing for _, part in table.groupby(silent))
    assert (table[["compress_ms", "decompress_ms"]] > 0).all(axis=None)


def test_numbers_against_arithmetic_of_their_own(real: dict[str, Tensor]) -> None:
    table = fedsim.measure(real, SOME, repeat=1).set_index("method")
    assert set(table.index) == {part.strip() for part in SOME.split(";")}
    x = flat(real)
    for method, row in table.iterrows():
        compressor = parse(str(method))
        payload = compress(compressor, real)[0].payload
        y = flat(decompress(compressor, payload, real))
        assert row["wire_bits"] == 8 * len(payload)
        assert row["bits_per_entry"] == pytest.approx(8 * len(payload) / x.size)
        assert row["ratio"] == pytest.approx(4 * x.size / len(payload))
        error = np.linalg.norm(y - x) / np.linalg.norm(x)
        assert row["relative_error"] == pytest.approx(error, rel=1e-9)
        cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
        assert row["cosine"] == pytest.approx(cosine, rel=1e-9) and row["cosine"] <= 1
        for way in ("compress", "decompress"):
            per_entry = row[f"{way}_ms"] * 1e6 / x.size
            assert row[f"{way}_ns_per_entry"] == pytest.approx(per_entry)
    assert table.loc["raw", "relative_error"] == 0 and table.loc["raw", "cosine"] == 1


def test_several_updates_are_added_up(real: dict[str, Tensor]) -> None:
    other = {"w": torch.linspace(-1, 1, 500)}
    first, second, both = (
        fedsim.measure(given, "sbc(0.1)", repeat=1).iloc[0]
        for given in (real, other, [real, other])
    )
    for column in ("entries", "wire_bits"):
        assert both[column] == first[column] + second[column]
    squares = [
        (row["relative_error"] * np.linalg.norm(flat(given))) ** 2
        for row, given in ((first, real), (second, other))
    ]
    norm = np.hypot(np.linalg.norm(flat(real)), np.linalg.norm(flat(other)))
    assert both["relative_error"] == pytest.approx(math.sqrt(sum(squares)) / norm)


def test_what_was_sent_is_not_believed(
    real: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is of what the payload decodes to, whatever the sender says."""
    true = fedsim.measure(real, "sbc(0.1)", repeat=1)["relative_error"][0]

    def boasting(compressor: object, update: dict[str, Tensor], *rest: object) -> object:
        packet, state = compress(compressor, update, *rest)
        return Packet(packet.payload, {}, packet.spans), state

    monkeypatch.setattr(measuring, "compress", boasting)
    assert fedsim.measure(real, "sbc(0.1)", repeat=1)["relative_error"][0] == true


def test_runs_that_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not counted, then as many as wanted, each from an empty memory; the median."""
    clock = iter([0.0, 5.0, 10.0, 11.0, 20.0, 22.0, 30.0, 39.0, 40.0, 43.0, 50.0, 51.0])
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: next(clock))
    calls = []

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return compress(*arguments)

    monkeypatch.setattr(measuring, "compress", counted)
    row = fedsim.measure({"w": torch.ones(1000)}, "sbc(0.1)", repeat=3).iloc[0]
    assert (row["compress_ms"], row["decompress_ms"]) == (2000, 3000)  # of 5 1 2 and of 9 3 1
    assert row["compress_ns_per_entry"] == pytest.approx(2e6)
    assert len(calls) == 4
    assert all(not x.any() for _, _, memory, _ in calls for x in memory.values())


def test_zero_and_empty_updates() -> None:
    table = fedsim.measure({"w": torch.zeros(50)}, "raw; sbc(0.1)", repeat=1)
    assert (table["relative_error"] == 0).all() and table["cosine"].isna().all()
    table = fedsim.measure({"w": torch.zeros(0)}, "raw", repeat=1)
    assert table["wire_bits"][0] > 0 and table["ratio"][0] == 0
    assert math.isnan(table["bits_per_entry"][0]) and table["error"][0] == ""
    assert measuring.accuracy([(torch.zeros(2), torch.ones(2))])[0] == math.inf


def test_norms_do_not_overflow() -> None:
    great = torch.tensor([3e38, -3e38, 1e30])
    relative, cosine = measuring.accuracy([(great, great * torch.tensor([1, 0, 1]))])
    assert relative == pytest.approx(0.5**0.5) and cosine == pytest.approx(0.5**0.5)


def test_density_goes_into_published_methods_alone() -> None:
    examples = inputs.choose("all")
    assert len({text(c) for c in examples.values()}) == len(examples)  # nothing twice
    chosen = inputs.choose("all", 0.25)
    assert {"sbc(0.25)", "gradient_dropping(0.25)", "raw", "topk(0.1) | float32 | golomb"} <= set(
        chosen
    )
    assert "sbc(0.01)" in examples and "sbc(0.01)" not in chosen
    chosen = inputs.choose("sbc; topk({p}) | float32; topk(0.1) | float32", 0.5)
    assert list(chosen) == ["sbc(0.5)", "topk(0.5) | float32", "topk(0.1) | float32"]


@pytest.mark.parametrize(
    ("example", "wanted"),
    [
        ("made(0.01)", "made(0.5)"),
        ("made(p=1e-3, q=2)", "made(p=0.5, q=2)"),
        ("ef(made( .1, 0.01))", "ef(made( 0.5, 0.01))"),
    ],
)
def test_the_density_of_an_example(example: str, wanted: str) -> None:
    def made(p: float, q: float = 1) -> None:
        """A published method's function."""

    row = Row("made", "method", made, "", "", example)
    assert inputs.example_at(row, "0.5") == wanted

    def ranked(rank: int) -> None:
        """One without a fraction."""

    assert inputs.example_at(Row("made", "method", ranked, "", "", example), "0.5") == example
    quantizer = Row("made", "quantizer", made, "", "", example)
    assert inputs.example_at(quantizer, "0.5") == example


def test_semicolons_between_quotes_are_the_pattern_s() -> None:
    method = "by_name('a;b', raw, \"*\", sbc(0.1))"
    assert list(inputs.choose(f" {method};; raw ;")) == [method, "raw"]


REFUSED = {
    "methods='nope'": ({"methods": "raw; nope"}, ["'nope'"]),
    "methods=''": ({"methods": " ; "}, ["methods", "'all'"]),
    "methods=[]": ({"methods": []}, ["methods", "'all'"]),
    "no fraction": ({"methods": "sbc"}, ["'sbc'", "no fraction", "'sbc(0.01)'", "density"]),
    "template": ({"methods": "topk({p}) | float32"}, ["no fraction", "'topk(0.01) | float32'"]),
    "density=0": ({"density": 0.0}, ["--density is 0", "(0, 1]"]),
    "no place": ({"methods": "raw; topk(0.1) | cnat", "density": 0.1}, ["--density is 0.1", "{p}"]),
    "density=nan": ({"density": math.nan}, ["--density is nan"]),
    "repeat=0": ({"repeat": 0}, ["--repeat is 0", "above 0"]),
    "repeat=1.5": ({"repeat": 1.5}, ["--repeat is 1.5"]),
    "float64": ({"updates": {"w": torch.ones(2).double()}}, ["'w'", "float64"]),
    "NaN": ({"updates": [{"w": torch.ones(2)}, {"v": torch.tensor(math.nan)}]}, ["'v'", "NaN"]),
    "empty": ({"updates": {}}, ["no tensor"]),
    "none": ({"updates": []}, ["no tensor"]),
}


@pytest.mark.parametrize(("given", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(given: dict, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "compress", lambda *a: pytest.fail("work began"))
    with pytest.raises(UsageError) as refused:
        fedsim.measure(**({"updates": {"w": torch.ones(2)}} | given))
    for word in words:
        assert word in str(refused.value)


def test_threads_are_as_before() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        fedsim.measure({"w": torch.ones(5)}, "raw", repeat=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
