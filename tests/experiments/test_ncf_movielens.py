"""NCF on MovieLens: the rows of both papers, the trivial predictor, and a run at smoke scale."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch

from compressors import parse
from fedsim import Data
from tests.support.commands import Typed
from tests.support.experiments import experiment
from tests.support.realdata import folder_with


@pytest.fixture(scope="module")
def ncf() -> Any:
    """The experiment's module, as the command line loads it."""
    return experiment("ncf-movielens")


@pytest.fixture(scope="module")
def folder() -> Path:
    """The data folder; found before ``typed`` hides the environment."""
    return folder_with("ml-latest-small")


def test_methods_are_those_of_section_6_3_without_a_memory(ncf: Any) -> None:
    for name, full in {
        "p2-fit-poly": "deepreduce(1, bloom_p2, 'fit_poly', 0.01)",
        "p0-qsgd": "deepreduce(1, bloom_p0, 'qsgd', 0.6)",
        "skcompress": "skcompress(1, 128)",
    }.items():
        assert parse(f"ef({ncf.ROWS[name].method})") == parse(full)
    assert parse(ncf.ROWS["cnat"].method) == parse("cnat")


@pytest.mark.parametrize("scale", ["smoke", "short", "paper"])
def test_the_cells(ncf: Any, scale: str) -> None:
    """Gradients up and Adam at the server, but for the row that shows what else would happen."""
    configs = {cell.name: cell.config for cell in ncf.cells(list(ncf.ROWS), scale, None)}
    assert {n for n, c in configs.items() if c.strategy != "gradients"} == {
        n for n in configs if n.startswith("updates-")
    }
    assert {c.temporal for c in configs.values()} == {1}
    assert not any(c.plan.masks or c.plan.method.residuals for c in configs.values())
    if scale == "paper":
        assert {c.plan.batch_size * 5 for c in configs.values()} == {10**6}
        assert {(c.plan.clients, c.plan.iterations) for c in configs.values()} == {(4, 750)}


def test_popularity_ranks_by_how_many_rated(ncf: Any) -> None:
    """Item 7 is everybody's; a user whose item was left out of 99 that nobody rated is a hit."""
    train = torch.tensor([[u, 7] for u in range(5)] + [[0, 3], [1, 3]])
    items = torch.cat([torch.tensor([[7], [3], [50]]), torch.arange(100, 199).expand(3, 99)], 1)
    items[1, 1:11] = 7  # ten more popular ones ahead of item 3: no hit; item 50 ties with all
    test = torch.stack([torch.arange(3)[:, None].expand_as(items), items], dim=2)
    y = torch.zeros(3, 100)
    y[:, 0] = 1
    assert ncf.popularity(Data(train, torch.ones(7), test, y, "made up")) == pytest.approx(1 / 3)


def test_popularity_on_the_real_set(ncf: Any, folder: Path) -> None:
    data = ncf.get_task("ncf").load(folder, False)
    assert ncf.popularity(data) == pytest.approx(361 / 610)


def test_a_user_is_hit_within_ten(ncf: Any) -> None:
    """The own item is the first column: ten better ones are too many, nine are not."""
    scores = torch.zeros(3, 100)
    scores[0, 1:11], scores[1, 1:10], scores[2, 0] = 1, 1, 2
    scores[:2, 0] = 0.5
    assert experiment("ncf-movielens", "ncf_checks").hits(scores).tolist() == [False, True, True]


def test_curves_are_means_over_seeds(ncf: Any) -> None:
    rows = [
        {
            "run": f"cnat-seed{seed}",
            "iteration": i,
            "up_wire_bits": 20.0,
            "clients": 2,
            "metric": 0.1 * i + 0.02 * seed if i > 1 else None,
        }
        for seed in range(2)
        for i in (1, 2, 3)
    ]
    lines = ncf.curves(SimpleNamespace(rounds=pd.DataFrame(rows)))
    assert lines["iteration"].tolist() == [2, 3] and lines["up_bits"].tolist() == [20, 30]
    assert lines["hit_rate"].tolist() == pytest.approx([0.21, 0.31])


@pytest.mark.slow
def test_smoke(ncf: Any, folder: Path, typed: Typed) -> None:
    arguments = ("experiment", "ncf-movielens", "--scale", "smoke", "--data", folder)
    said = typed(*arguments, "--out", "out")
    assert said.code == 0, said.err
    assert "Traceback" not in said.out + said.err
    frame = pd.read_csv("out/table2.csv").set_index("name")
    assert list(frame.index) == list(ncf.SMOKE)
    volume = frame["relative_volume"]
    assert volume["dense"] == pytest.approx(1, abs=1e-3)
    assert volume["cnat"] == pytest.approx(9 / 32, abs=1e-3)
    assert volume["skcompress"] < volume["p0-qsgd"] < 0.2  # 50 ratings touch few items
    assert frame["sent_share"]["skcompress"] < 0.2 < frame["sent_share"]["p0-qsgd"]
    positions = pd.read_csv("out/positions.csv").set_index("code")
    assert positions["position_bits_an_entry"]["raw32"] == pytest.approx(
        32 * (1 - positions["zero_share"]["raw32"]), rel=1e-3
    )
    exact = positions["relative_volume"][["golomb", "delta_huffman", "rle"]]
    assert exact.idxmin() == "rle"  # rows are zero or not: long runs
    assert "popularity" in Path("out/tables.md").read_text()
    assert len(pd.read_csv("out/curves.csv")) >= len(ncf.SMOKE)
    assert Path("out/hits.png").stat().st_size > 10_000
