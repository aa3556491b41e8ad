"""The encoders of quantized gradients: their bits by hand, the paper's rows, and a smoke run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from compressors import (
    BitReader,
    BitWriter,
    EliasOmega,
    Fixed,
    PayloadError,
    compress,
    explain,
    parse,
    text,
)
from tests.support.commands import Typed
from tests.support.experiments import experiment, made_up

STRING = (0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0)  # of the paper's Figure 1
CODES = {
    "Huffman": "huffman",
    "Elias": "elias_omega",
    "RLE": "rle",
    "SH": "sh",
    "SHS": "shs(32)",
    "RLH": "rlh",
    "fixed": "fixed",
    "SHS, fitted": "shs(32, fit=true)",
    "ANS": "ans",
}


@pytest.fixture(scope="module")
def run() -> Any:
    """The experiment's run.py; its neighbours can be imported from then on."""
    return experiment("huffman-encoders")


@pytest.fixture(scope="module")
def messages(run: Any) -> Any:
    return experiment("huffman-encoders", "quantized_messages")


@pytest.fixture(scope="module")
def encoders(run: Any) -> Any:
    return experiment("huffman-encoders", "symbol_encoders")


@pytest.fixture
def figure_1(messages: Any) -> Any:
    codes = torch.tensor(STRING, dtype=torch.uint8)
    return messages.Recording("TQ", "flat", 0.5, 3, 32, [codes])


@pytest.mark.parametrize(
    ("encoder", "bits"),
    [
        ("fixed", 13 * 2),
        ("Elias", 10 * 1 + 3 * 3),  # omega(1) = 0, omega(2) = 100, omega(3) = 110
        # three others: gamma(4); gaps 4, 3, 4: 101000, 110, 101000; symbols less one: 0, 100, 0
        ("Elias, gaps", 5 + 6 + 3 + 6 + 1 + 3 + 1),
    ],
)
def test_bits_and_ratio_by_hand(
    run: Any, encoders: Any, messages: Any, figure_1: Any, encoder: str, bits: int
) -> None:
    assert encoders.measure(encoders.ENCODERS[encoder], figure_1, 1).bits == bits + 32
    facts = {"metric": "accuracy", "trivial": 0.1}
    runs = messages.Recorded({"baseline": 0.9, "TQ": 0.8}, facts, [figure_1])
    row = run.row("task", runs, "TQ", "flat", encoder, 1)
    assert row["ratio"] == pytest.approx(32 * 13 / (bits + 32))
    assert row["entropy_ratio"] == pytest.approx(32 * 13 / (13 * 0.99127 + 32), rel=1e-4)
    assert row["zeros_percent"] == pytest.approx(100 * 10 / 13)
    assert (row["bits_at_50"], row["entries"]) == (bits + 32, 13)


def test_more_symbols_than_there_is_room_for_are_refused(encoders: Any) -> None:
    out = BitWriter()
    out.gamma(4 + 1)
    code = encoders.ZerosApart(EliasOmega(), Fixed())
    with pytest.raises(PayloadError, match="4 symbols are not zero, of 3"):
        code.read_symbols(BitReader(out.to_bytes()), 3, 3)


@pytest.mark.parametrize("name", ["RD", "TQ", "CNat"])
@pytest.mark.parametrize("lift", ["flat", "per_tensor"])
def test_bits_are_those_of_the_message(encoders: Any, messages: Any, name: str, lift: str) -> None:
    """Of a whole message without its header, for every encoder that the catalogue has."""
    generator = torch.Generator().manual_seed(3)
    update = {n: torch.randn(k, generator=generator) for n, k in (("w", 3000), ("b", 7))}
    state = {f"residual/{n}": 0.1 * torch.ones_like(x) for n, x in update.items()}
    memory = state if name == "TQ" else None
    mine = messages.tapped(name, lift, 0.5, update, memory, 11)
    assert mine.entries == 3007 and len(mine.codes) == (1 if lift == "flat" else 2)
    for encoder, code in CODES.items():
        method = parse(messages.QUANTIZERS[name].method(lift, code))
        assert method == messages.QUANTIZERS[name].compressor(lift, encoders.ENCODERS[encoder])
        packet, _ = compress(method, update, memory, 11)
        header = explain(method, packet.payload, update)["header"]
        bits = encoders.measure(encoders.ENCODERS[encoder], mine, 1).bits
        assert bits == 8 * len(packet.payload) - header, text(method)


def test_recordings_are_stored_and_read_again(messages: Any, tmp_path: Path) -> None:
    codes = [torch.tensor([0, 511, 3], dtype=torch.int16), torch.tensor([7], dtype=torch.int16)]
    mine = messages.Recording("CNat", "per_tensor", 0.9, 512, 0, codes)
    before = messages.Recorded({"baseline": 0.9}, {"metric": "accuracy"}, [mine])
    before.save(tmp_path / "a" / "one.npz")
    after = messages.Recorded.load(tmp_path / "a" / "one.npz")
    assert (after.scores, after.facts) == (before.scores, before.facts)
    (got,) = after.recordings
    assert all(map(torch.equal, got.codes, codes)) and got.codes[0].dtype == torch.int16
    assert (got.quantizer, got.lift, got.moment, got.alphabet) == ("CNat", "per_tensor", 0.9, 512)


def test_the_published_length(run: Any) -> None:
    benchmarks = experiment("huffman-encoders", "quantized_runs").BENCHMARKS
    assert benchmarks["mnist_lenet5"].plan("paper", 60_000) == (6563, 160)  # 70 epochs
    for name in ("char_lstm", "char_lstm256"):
        assert benchmarks[name].plan("paper", 20_000) == (7500, 20)  # 30 epochs
    assert benchmarks["char_lstm"].plan("short", 20_000) == (300, 5)  # the task's own batch
    assert benchmarks["digits"].plan("smoke", 1437) == (10, 8)


def test_the_language_task_s_gradients_are_clipped(run: Any, tmp_path: Path) -> None:
    """As its optimizer does: of the sum over a window's 35 symbols, at most 5 in norm."""
    module = experiment("huffman-encoders", "quantized_runs")
    data = module.load("char_lstm", made_up(tmp_path / "data"))
    norms = {}
    for clip in (5.0, 1e-3, torch.inf):
        benchmark = replace(module.BENCHMARKS["char_lstm"], clip=clip)
        gradient = module.Run(benchmark, "baseline", "smoke", data).gradient(0, 0)
        norms[clip] = float(torch.nn.utils.get_total_norm(list(gradient.values())))
    assert norms[1e-3] == pytest.approx(1e-3, rel=0.01) and norms[torch.inf] > 5
    assert norms[5.0] == pytest.approx(5, rel=1e-4)


@pytest.mark.slow
def test_models_of_full_size_have_the_paper_s_numbers_of_parameters(run: Any) -> None:
    module, paper = (experiment("huffman-encoders", n) for n in ("quantized_runs", "gajjala"))
    names = experiment("huffman-encoders", "tables").FULL
    for name, task in module.GRADIENTS.items():
        with torch.device("meta"):
            sizes = [weight.numel() for weight in task.build().parameters()]
        assert sum(sizes) == paper.PARAMETERS[names[name]]


@pytest.mark.slow
def test_smoke(typed: Typed, encoders: Any) -> None:
    said = typed("experiment", "huffman-encoders", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    frame = pd.read_csv(Path("out", "tables.csv"))
    assert len(frame) == 2 * 3 * len(encoders.ENCODERS) and set(frame["task"]) == {"digits"}
    flat = frame[frame["lift"] == "flat"].set_index(["quantizer", "encoder"])["ratio"]
    assert flat["CNat", "fixed"] == pytest.approx(32 / 9, rel=1e-4)  # six digits are stored
    assert 1 < flat["RD", "Huffman"] < 32 and flat["TQ", "RLH"] > flat["TQ", "Huffman"]
    page = Path("out", "tables.md").read_text()
    assert "| ResNet20, paper | 94.286 | RD | 93.333 | 21 | 17 | 2 | 21 | 19 | 21 |" in page
    assert Path("out", "volumes.png").stat().st_size > 10_000
    before = Path("out", "recordings", "digits.npz").stat().st_mtime_ns
    assert typed("experiment", "huffman-encoders", "--scale", "smoke", "--out", "out").code == 0
    assert Path("out", "recordings", "digits.npz").stat().st_mtime_ns == before
