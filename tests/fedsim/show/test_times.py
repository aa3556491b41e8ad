"""Time to a target, under one network and over bandwidths, against cases computed by hand."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsim import load
from fedsim.commands.price import fastest_told
from fedsim.network import parse
from fedsim.network.pricing import PRICED_COLUMNS, SECONDS
from fedsim.show.times import CELL, Bandwidths, priced, times_over_bandwidths, to_target
from tests.support.commands import Typed
from tests.support.sweepmaker import CLIENTS, TOPK, make_run, make_sweep

GIVEN = "4g, compute=20ms"


def clients_of(folder: Path, down: int) -> None:
    """`clients.parquet` of every run below a folder: equal shares of the round's bits."""
    for file in folder.rglob("rounds.parquet"):
        rounds = pd.read_parquet(file)
        rows = [
            (number, client, 60, bits // CLIENTS, down, 0)
            for number, bits in zip(rounds["round"], rounds["up_wire_bits"], strict=True)
            for client in range(CLIENTS)
        ]
        table = pd.DataFrame(rows, columns=PRICED_COLUMNS)
        table.to_parquet(file.parent / "clients.parquet", index=False)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("timed")
    make_sweep(root / "a", (10,), (1, 0.1), seeds=(0, 1))
    make_sweep(root / "b", (10,), (0.1,), form=TOPK, seeds=(0, 1))
    clients_of(root / "a", 0)
    clients_of(root / "b", 320_000)
    return root / "a", root / "b"


@pytest.mark.slow
def test_the_command(folders: tuple[Path, Path], tmp_path: Path, typed: Typed) -> None:
    given = ["price", *map(str, folders), "--network", "4g", "--target", "0.9"]
    said = typed(*given, "--out", tmp_path / "out")
    assert said.code == 0 and "Simulated time on 4g" in said.out and "Fastest" in said.out
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["bandwidth.png", "time.png", "times.csv"]
    document = json.loads(typed(*given, "--json").out)
    assert set(document["networks"]) == {"4g"} and document["fastest"]
    written = pd.read_csv(tmp_path / "out" / "times.csv")
    assert written["sim_seconds"].tolist() == pytest.approx(
        [cell["sim_seconds"] for cell in document["networks"]["4g"]]
    )


@pytest.mark.parametrize("slower", [2.0, 0.5])
def test_the_fastest_come_with_the_network_that_they_are_on(slower: float) -> None:
    """The table above may be of other networks, and of other rates upwards than downwards."""
    cells = pd.DataFrame([("digits", name, 10, 0.1) for name in "ab"], columns=CELL)
    across = Bandwidths(np.array([1e3, 1e6]), np.array([[1.0, 1.0], [2.0, slower]]), cells)
    assert "equal" in (told := fastest_told(across, "lora")) and "lora" in told


def test_a_failed_seed_did_not_come_to_the_target(tmp_path: Path, typed: Typed) -> None:
    """Its cell is behind others and is not compared over bandwidths; done again, it counts."""
    make_sweep(tmp_path, (10,), (1, 0.1), seeds=(0, 1), baseline=False)
    make_run(tmp_path / "cells" / "failed", 10, 0.1, 2, failed=True)
    clients_of(tmp_path, 0)
    results, network = load(tmp_path), parse("up=1kbit, down=1kbit, compute=0s")
    table = to_target(priced(results, network), 0.9, results.runs)
    assert table[["gradient", "seeds", "reached"]].to_numpy().tolist() == [[1, 2, 2], [0.1, 3, 2]]
    assert table["target_seconds"].isna().tolist() == [False, True]
    assert times_over_bandwidths(results, network, 0.9, [1e3]).cells["gradient"].tolist() == [1]
    said = typed("price", tmp_path, "--network", "4g", "--target", "0.9")
    assert "2 of 3" in said.out and "not reached" in said.out
    make_run(tmp_path / "cells" / "again", 10, 0.1, 2)
    clients_of(tmp_path, 0)
    again = load(tmp_path)
    assert len(times_over_bandwidths(again, network, 0.9, [1e3]).cells) == 2


def with_clock(folder: Path, network: str, seconds: float, download: float = 0.0) -> None:
    """Every run below a folder as one that was run with a network: so many seconds per round.

    ``download``: the share of them that the download takes; the rest is computing.
    """
    shares = dict.fromkeys(SECONDS, 0.0)
    shares |= {"sim_download_seconds": download, "sim_compute_seconds": 1 - download}
    for config in folder.rglob("config.toml"):
        text = config.read_text(encoding="utf-8")
        config.write_text(f'{text}\nnetwork = "{network}"\n', encoding="utf-8")
        file = config.parent / "rounds.parquet"
        rounds = pd.read_parquet(file)
        ends = seconds * rounds["round"]
        parts = {name: share * seconds for name, share in shares.items()}
        rounds.assign(sim_seconds=seconds, sim_end_seconds=ends, **parts).to_parquet(file)


def test_without_a_network_runs_are_told_on_their_own_clocks(tmp_path: Path, typed: Typed) -> None:
    """Rounds of 3 s each; what was run without a network has no clock."""
    make_sweep(tmp_path / "a", (10,), (1,), seeds=(0,))
    said = typed("price", tmp_path / "a")
    assert said.code == 2 and "was run without --network and has no clock" in said.err
    with_clock(tmp_path / "a", GIVEN, 3.0)
    document = json.loads(typed("price", tmp_path / "a", "--json").out)
    rounds = load(tmp_path / "a").rounds
    lengths = {cell["temporal"]: cell["sim_seconds"] for cell in document["networks"][GIVEN]}
    assert lengths == dict(3.0 * rounds.groupby("temporal")["round"].max())
    there = rounds[rounds["metric"] >= 0.9].groupby("temporal")["round"].min()
    said = typed("price", tmp_path / "a", "--target", "0.9", "--out", tmp_path / "out")
    assert said.code == 0 and "by their own clocks" in said.out and "Fastest" not in said.out
    written = pd.read_csv(tmp_path / "out" / "times.csv")
    assert written["target_seconds"].tolist() == sorted(3.0 * there)
    assert not (tmp_path / "out" / "bandwidth.png").exists()
    make_sweep(tmp_path / "b", (10,), (0.1,), seeds=(0,))
    with_clock(tmp_path / "b", "wifi, compute=20ms", 1.0)
    table = typed("price", tmp_path / "a", tmp_path / "b").out
    assert "Simulated time on their own networks" in table


@pytest.mark.parametrize(("share", "told"), [(0.93, True), (0.4, False)])
def test_a_raw_downlink_that_decides_is_told(
    share: float, told: bool, tmp_path: Path, typed: Typed
) -> None:
    """Of compressed runs alone: the dense reference's downlink is what it is compared with."""
    make_sweep(tmp_path, (10,), (0.1,), seeds=(0,))
    with_clock(tmp_path, GIVEN, 3.0, share)
    said = " ".join(typed("price", tmp_path).out.split())
    line = "The raw downlink takes 93 % of the seconds of sbc, n = 10: --downlink METHOD"
    assert (line in said) is told and ("raw downlink" in said) is told


def test_bad_prices_are_refused_in_a_line(
    folders: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    (tmp_path / "file").write_text("")
    for flags, words in (
        (("--target", "2"), "--target is 2.0: accuracy lies in (0, 1]"),
        (("--out", tmp_path / "file"), "file: cannot be written (File exists)"),
    ):
        said = typed("price", folders[0], "--network", "4g", *flags)
        assert said.code == 2 and words in said.err and said.err.count("\n") == 1


def test_a_network_that_is_none_is_refused(folders: tuple[Path, Path], typed: Typed) -> None:
    said = typed("price", folders[0], "--network", "4gg")
    assert said.code == 2 and "did you mean 4g?" in said.err and said.out == ""


def test_a_target_that_no_cell_reaches_is_said(folders: tuple[Path, Path], typed: Typed) -> None:
    said = typed("price", folders[0], "--network", "4g", "--target", "0.9999")
    assert said.code == 0 and "not reached" in said.out and "nothing to compare" in said.out
