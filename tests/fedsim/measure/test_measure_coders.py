"""``measure_coders``: the numbers against arithmetic of their own."""

import math

import pytest
import torch
from torch import Tensor

from compressors import ROWS, Ans, BitWriter, Golomb, compress, parse
from fedsim import UsageError, measure_coders
from tests.support.realupdate import CODER_COLUMNS


@pytest.mark.slow
def test_the_whole_catalogue_on_a_real_update(real: dict[str, Tensor]) -> None:
    table = measure_coders(real, repeat=1)
    assert list(table) == CODER_COLUMNS and (table["error"] == "").all(), table["error"].unique()
    for of in ("positions", "symbols"):
        rows = table[table["of"] == of]
        names = {row.name for row in ROWS if row.kind in (of, "coder")}
        assert {name.split("(")[0] for name in rows["coder"]} == names
        assert rows["bits"].is_monotonic_increasing and rows["count"].nunique() == 1
        assert rows["entropy_each"].nunique() == 1
    assert set(table.loc[~table["exact"], "coder"]) == {"bloom(0.01, p2)"}
    assert {"golomb", "golomb(exact)", "golomb(fit)"} <= set(table["coder"])
    assert (table[["encode_ns_each", "decode_ns_each"]] > 0).all(axis=None)
    symbols = table[(table["of"] == "symbols") & (table["coder"] == "ans")].iloc[0]
    assert symbols["count"] == sum(x.numel() for x in real.values())


def test_numbers_against_arithmetic_of_their_own(real: dict[str, Tensor]) -> None:
    table = measure_coders(real, "golomb; ans", density=0.05, repeat=1).set_index(["coder", "of"])
    row = table.loc[("golomb", "positions")]
    sent = compress(parse("topk(0.05) | float32"), real)[0].sent
    bits = entropy = count = 0.0
    for name, x in real.items():
        indices, n = sent[name].indices.numpy(), x.numel()
        p = indices.size / n
        bits += Golomb().position_bits(indices, n)
        entropy -= n * (p * math.log2(p) + (1 - p) * math.log2(1 - p))
        count += indices.size
    assert (row["count"], row["bits"]) == (count, bits)
    assert row["entropy_each"] == pytest.approx(entropy / count)
    assert row["bits_each"] == pytest.approx(bits / count)
    assert row["ratio_to_entropy"] == pytest.approx(bits / entropy)
    assert ("golomb", "symbols") not in table.index and ("ans", "symbols") in table.index


def test_symbols_are_those_of_the_method() -> None:
    x = torch.linspace(-1, 1, 40).repeat(50)
    row = (
        measure_coders({"w": x}, "ans", symbols_of="sign", repeat=1).set_index("of").loc["symbols"]
    )
    assert row["count"] == 2000 and row["entropy_each"] == pytest.approx(1)
    out = BitWriter()
    Ans().write_symbols((x < 0).to(torch.uint8), 2, out)
    assert row["bits"] == out.position


def test_positions_of_a_memory_and_of_a_whole_update(real: dict[str, Tensor]) -> None:
    """The parts are found wherever a method has them."""
    for method in ("sbc(0.01)", "flat(topk(0.01) | float32)", "by_name('*', sbc(0.01))"):
        packet, _ = compress(parse(method), real)
        row = measure_coders(real, "golomb", positions_of=method, repeat=1).iloc[0]
        assert row["count"] == sum(sent.count for sent in packet.sent.values())
        assert row["bits"] == packet.spans["positions"]


def test_an_entropy_of_zero_and_a_coder_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*arguments: object) -> object:
        raise ValueError("not today")

    ones = {"w": torch.ones(20)}
    table = measure_coders(ones, "ans", positions_of="topk(1) | float32", symbols_of="sign")
    assert (table["entropy_each"] == 0).all() and table["ratio_to_entropy"].isna().all()
    monkeypatch.setattr(Golomb, "write_positions", none)
    table = measure_coders(ones, "golomb; bitmap", repeat=1)
    assert list(table["error"]) == ["", "not today"] and math.isnan(table["bits"][1])


REFUSED = {
    "unknown": ({"coders": "golomb; nope"}, ["'nope'", "one of golomb", "huffman"]),
    "a quantizer": ({"coders": "float32"}, ["'float32'", "one of golomb"]),
    "two": ({"coders": "golomb | ans"}, ["'golomb | ans'"]),
    "bad setting": ({"coders": "golomb(7)"}, ["golomb: p is 7"]),
    "lacks one": ({"coders": "bloom"}, ["bloom", "eps", "as in"]),
    "none": ({"coders": " ; "}, ["coders", "'all'"]),
    "density": ({"density": 2}, ["--density is 2", "(0, 1]"]),
    "no place": ({"density": 0.1, "positions_of": "sbc(0.1)"}, ["density is 0.1", "{p}"]),
    "no method": ({"positions_of": "nope"}, ["'nope'"]),
    "dense": ({"positions_of": "cnat"}, ["positions_of is 'cnat'", "no positions"]),
    "no symbols": ({"symbols_of": "threshold(9) | float32"}, ["symbols_of", "sends no symbols"]),
    "coders of a method": (
        {"symbols_of": "ef(threelc(1))"},
        [
            "symbols_of is 'ef(threelc(1))': it has no pipeline, and coders of its own",
            "cannot be measured alone",
        ],
    ),
    "of a method by name": ({"positions_of": "by_name('*', dgc(0.1))"}, ["has no pipeline"]),
    "repeat": ({"repeat": 0}, ["--repeat is 0"]),
    "NaN": ({"updates": {"w": torch.tensor(math.nan)}}, ["'w'", "NaN"]),
}


@pytest.mark.parametrize(("given", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(given: dict, words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        measure_coders(**({"updates": {"w": torch.ones(2)}} | given))
    for word in words:
        assert word in str(refused.value)
    assert "topk(0.5)" not in str(refused.value)  # what the text was read with
