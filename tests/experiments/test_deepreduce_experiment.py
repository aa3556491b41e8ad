"""DeepReduce's figures: their rows, one Bloom filter by hand, and all of them at smoke scale."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from compressors import compress, decompress, parse, text
from tests.support.commands import Typed
from tests.support.experiments import experiment


@pytest.fixture(scope="module")
def deepreduce() -> Any:
    """The experiment's module, as the command line loads it."""
    return experiment("deepreduce")


def message(method: str, x: torch.Tensor, seed: int = 3) -> Any:
    """The first message of ``x``, which comes back from its bytes as it was sent."""
    packet, _ = compress(parse(method), {"x": x}, seed=seed)
    got = decompress(parse(method), packet.payload, {"x": x})["x"]
    assert torch.equal(got, packet.sent["x"].decoded)
    return packet, got


def normal(n: int) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(1))


def test_every_row_comes_back_from_its_bytes(deepreduce: Any) -> None:
    for row in deepreduce.ROWS.values():
        message(row.method, normal(3000))


@pytest.mark.slow
def test_the_rows_are_the_figures(deepreduce: Any) -> None:
    rows = deepreduce.ROWS
    six = [r for r in rows.values() if 6 in r.figures and r.policy]
    assert len(six) == 2 * 3 * 3  # sparsifiers, policies, rates
    seven = {name for name, r in rows.items() if 7 in r.figures}
    assert seven == {"dense", "topr"} | {f"topr-{p}-0.001" for p in ("p0", "p1", "p2", "naive")}
    assert text(parse(rows["topr"].method)) == "ef(per_tensor(topk(0.01) | float32 | raw32))"
    sizes = [(t, s) for t, scales in deepreduce.TASKS.items() for s in scales]
    tables = [deepreduce.cells(task, list(rows), scale, None) for task, scale in sizes]
    seeds = {size: len(cells) // len(rows) for size, cells in zip(sizes, tables, strict=True)}
    assert seeds["fashion_lenet5", "short"] == 1 and seeds["cifar_resnet20", "paper"] == 3
    assert not any(cell.config.plan.masks for cells in tables for cell in cells)


@pytest.mark.parametrize(("sparsifier", "r"), [("topr", 1000), ("randr", 10_000), ("halfr", 500)])
def test_one_bloom_filter_by_hand(deepreduce: Any, sparsifier: str, r: int) -> None:
    """r of d = 100,000 at 0.001: 14.378 bits each; P0 adds 0.001 * (d - r) values of 32 bits."""
    rows = [deepreduce.ROWS[f"{sparsifier}-{policy}-0.001"] for policy in ("p0", "p1", "p2")]
    p0, p1, p2 = (message(row.method, normal(100_000))[0] for row in rows)
    bits = math.ceil(r * math.log(1000) / math.log(2) ** 2)
    assert bits == {500: 7_189, 1000: 14_378, 10_000: 143_776}[r]
    for packet in (p0, p1, p2):
        assert packet.spans["positions"] == bits and packet.spans["side"] == 0
    assert p1.spans["values"] == p2.spans["values"] == 32 * r
    extra = 0.001 * (100_000 - r)
    assert abs(p0.spans["values"] / 32 - r - extra) < 5 * math.sqrt(extra)
    for row, values in zip(rows, (r + extra, r, r), strict=True):
        by_hand = 100 * (bits + 32 * values) / 3_200_000
        assert deepreduce.predicted_percent(row, [100_000]) == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize(("policy", "share"), [("p1", 0.4986), ("p2", 0.7303)])
def test_what_a_policy_keeps_of_the_true_positions(
    deepreduce: Any, policy: str, share: float
) -> None:
    """The README's numbers, at 0.01; one filter's standard deviation is 0.01 or less."""
    kept = experiment("deepreduce", "deepreduce_checks").kept_percent(policy, 0.01, filters=3)
    assert kept == pytest.approx(100 * share, abs=3)


def test_figures_are_drawn_where_their_rows_are(deepreduce: Any) -> None:
    """Rates make Figure 6, stand-alone compressors Figure 9; the dozen has neither.

    Of DenseNet40 there is Figure 15 alone.
    """
    for names, drawn in (
        (list(deepreduce.ROWS), 4),
        (deepreduce.DOZEN, 2),
        (deepreduce.DENSENET, 1),
    ):
        frame = pd.DataFrame({"name": names, "eps": [deepreduce.ROWS[n].eps for n in names]})
        assert sum(deepreduce.has_rows(name, frame) for name in deepreduce.FIGURES) == drawn


def test_random_r_writes_the_positions_that_a_seed_alone_would_say(deepreduce: Any) -> None:
    """So Random-r with keys, of the same seed, is ``randk`` without any."""
    x = normal(5000)
    written, got = message(deepreduce.ROWS["randr"].method, x)
    drawn, same = message("ef(per_tensor(randk(0.1, false) | float32))", x)
    assert torch.equal(got, same) and int((got != 0).sum()) == 500
    assert written.spans["positions"] == 500 * 32 and drawn.spans["positions"] == 0


@pytest.mark.slow
def test_smoke(typed: Typed, deepreduce: Any) -> None:
    said = typed("experiment", "deepreduce", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    frame = pd.read_csv(Path("out", "digits", "tables.csv")).set_index("name")
    assert list(frame.index) == deepreduce.SMOKE
    parts = sum(frame[f"{part}_bits"] for part in ("index", "value", "side", "header"))
    assert parts.tolist() == pytest.approx(frame["wire_bits"].tolist(), rel=1e-5)  # six digits
    # Lossless codes of the same positions: the same run.
    same = frame.loc[["topr", "rle"]]
    assert same["score"].nunique() == same["value_bits"].nunique() == 1
    assert frame["index_bits"]["rle"] < frame["index_bits"]["topr"]
    assert frame["wire_percent"]["dense"] == pytest.approx(100, abs=0.01)
    assert (frame[["encode_ms", "decode_ms"]] > 0).all().all()
    for name in ("fig6", "fig7-8", "fig9-15", "fig10"):
        assert Path("out", "digits", f"{name}.png").stat().st_size > 10_000
