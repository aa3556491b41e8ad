"""Natural compression's two experiments: their rows, and all of them at smoke scale."""

from pathlib import Path

import pandas as pd
import pytest

from compressors import parse
from fedsim.tasks.lenet import load_fashion
from tests.experiments.loading import experiment
from tests.fedsim.commands import Typed, typed

__all__ = ["typed"]  # the fixture
FASHION = Path("/usr/share/datasets/fashion-mnist")


def test_every_method_of_the_tables_can_be_read() -> None:
    rows = experiment("topk-cnat").ROWS
    assert len(rows) == 14
    for row in rows.values():
        parse(row.method)
    with_cnat = [row for name, row in rows.items() if name.startswith("topk-cnat")]
    assert [row.volume for row in with_cnat] == [0.48, 1.95, 7.81, 3.12, 0.74, 2.36]


def test_every_method_of_the_figures_can_be_read() -> None:
    for methods in experiment("cnat-variance").FAMILIES.values():
        for method in methods:
            parse(method)


def test_measured_variance_and_bits_of_natural_compression() -> None:
    """9 bits and 0.081 to 0.082: a standard normal entry costs 8.2 % of its square on average."""
    module = experiment("cnat-variance")
    point = module.measure("cnat", module.normal(20_000, 5), 2)
    assert 9 <= point.bits_per_entry < 9.01
    assert 0.078 < point.variance < 0.086  # five standard errors of 40,000 entries are 0.003


@pytest.mark.slow
def test_variance_smoke(typed: Typed) -> None:
    said = typed("experiment", "cnat-variance", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    frame = pd.read_csv(Path("out", "variance.csv"))
    assert set(frame["figure"].astype(str)) == {"1", "16-18"}
    proved = frame[frame["omega_bound"].notna()]
    random = proved["family"].str.contains("S_q")  # one draw of 10,000 entries, 100 kept at least
    assert (proved["omega"] <= proved["omega_bound"] * (1.02 + 0.9 * random)).all()
    assert (Path("out", "variance.png")).stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.skipif(not FASHION.is_dir(), reason="Fashion-MNIST (Debian's package) is not here")
def test_topk_cnat_smoke(typed: Typed, tmp_path: Path) -> None:
    raw = tmp_path / "data" / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for path in FASHION.glob("*.gz"):
        (raw / path.name).symlink_to(path)
    assert load_fashion(tmp_path / "data").train_x.shape[0] == 60_000
    arguments = ("experiment", "topk-cnat", "--scale", "smoke", "--data", tmp_path / "data")
    said = typed(*arguments, "--out", "out")
    assert said.code == 0, said.err
    table = (Path("out", "tables.md")).read_text()
    assert "Table 2" in table and "PowerSGD rank 2" in table
    frame = pd.read_csv(Path("out", "tables.csv")).set_index("name")
    ratio = frame["content_percent"]
    # Positions cost about as much, values 9 bits in place of 32.
    assert ratio["topk-cnat-0.39"] < 0.55 * ratio["topk-0.39"]
