"""Results on disk: whole files or none, loading, the summary."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsim.ground.errors import UsageError
from fedsim.ground.files import replacing, write_bytes, write_json, write_parquet, write_text
from fedsim.results.labels import FACTS
from fedsim.results.load import load_results
from fedsim.results.schema import COLUMNS, KEYS
from fedsim.results.values import REACHED
from tests.support.sweepmaker import CLIENTS, ITERATIONS, PARAMETERS, make_run, make_sweep


def test_files_appear_whole(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"\x00\xff")
    write_text(tmp_path / "b", "p ≤ 1\n")
    write_json(tmp_path / "c", {"x": [1, None, float("nan")]})
    write_parquet(tmp_path / "d", pd.DataFrame({"x": [1, 2]}, index=[7, 8]))
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_bytes() == "p ≤ 1\n".encode()
    read = json.loads((tmp_path / "c").read_text())
    assert read["x"][:2] == [1, None] and np.isnan(read["x"][2])
    assert pd.read_parquet(tmp_path / "d").equals(pd.DataFrame({"x": [1, 2]}))
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a", "b", "c", "d"]


def test_a_file_keeps_its_old_content_until_the_new_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "numbers.bin"
    write_bytes(target, b"old")
    with pytest.raises(RuntimeError), replacing(target) as file:
        file.write(b"half of the n")
        (part,) = [item for item in tmp_path.iterdir() if item != target]
        assert part.name.startswith(".") and part.name.endswith(".part")
        assert target.read_bytes() == b"old"
        raise RuntimeError
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_json_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_json(tmp_path / "x.json", {"x": object()})
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_bytes(tmp_path / "folder", b"x")
    assert [item.name for item in tmp_path.iterdir()] == ["folder"]


def test_a_run_that_a_search_stopped_at_its_target_is_done(tmp_path: Path) -> None:
    """But for one without a metric, and one that was stopped for another reason."""
    ends = {"there": REACHED, "none": REACHED, "behind": "behind other runs at equal bits"}
    for seed, (name, why) in enumerate(ends.items()):
        no = {"metric": None} if name == "none" else {}
        make_run(tmp_path / "cells" / name, seed=seed, status="stopped", error=why, **no)
    assert load_results(tmp_path).runs["status"].to_dict() == {
        "there": "done",
        "none": "stopped",
        "behind": "stopped",
    }


def test_a_sweep_is_loaded(tmp_path: Path) -> None:
    cells = make_sweep(tmp_path, (1, 2, 10), (1, 0.1), unfinished=[(10, 1)], missing=[(2, 0.1)])
    results = load_results(tmp_path)
    names = ["n1-p1-s0", "n1-p0.1-s0", "n2-p1-s0", "n10-p0.1-s0"]
    assert list(results.runs.index) == names  # n upwards, not by name
    assert results.unfinished == ("n10-p1-s0",)
    assert results.path == tmp_path
    assert tuple(results.runs.columns) == (*COLUMNS, *FACTS)
    for cell in cells:
        row = results.runs.loc[f"n{cell['temporal']}-p{cell['gradient']:g}-s0"]
        known = {key: cell[key] for key in COLUMNS if cell.get(key) is not None}
        assert all(row[key] == value for key, value in known.items())


def test_rounds_carry_their_runs_keys(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,), seeds=(0, 3))
    rounds = load_results(tmp_path).rounds
    assert tuple(rounds.columns[:6]) == (*KEYS, "run")
    assert rounds.groupby("run").size().to_dict() == {
        "n1-p1-s0": ITERATIONS,
        "n1-p1-s3": ITERATIONS,
        "n10-p0.1-s0": 20,
        "n10-p0.1-s3": 20,
    }
    own = rounds[rounds["run"] == "n10-p0.1-s3"]
    assert (own["seed"] == 3).all() and (own["gradient"] == 0.1).all()
    stored = pd.read_parquet(tmp_path / "cells" / "n10-p0.1-s3" / "rounds.parquet")
    assert own[stored.columns].reset_index(drop=True).equals(stored)


def test_layers_carry_their_runs_keys_and_may_be_missing(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,))
    layers = load_results(tmp_path).layers
    own = layers[layers["run"] == "n10-p0.1-s0"]
    assert tuple(own.columns) == (*KEYS, "run", "round", "tensor", "entries", "sent", *FACTS)
    assert own["tensor"].tolist()[:2] == ["fc.weight", "fc.bias"] and len(own) == 20
    assert set(own["label"]) == {"sbc"} and own["sent"].tolist()[:2] == [490, 10]
    for run in ("n10-p0.1-s0", "n1-p1-s0"):
        (tmp_path / "cells" / run / "layers.parquet").unlink()
    assert len(load_results(tmp_path).layers) == 0


def test_a_summary_is_the_sum_of_its_rounds(tmp_path: Path) -> None:
    make_run(tmp_path / "run", 10, 0.01)
    results = load_results(tmp_path / "run")
    assert list(results.runs.index) == ["run"] and results.unfinished == ()
    run, rounds = results.runs.iloc[0], results.rounds
    assert run["up_wire_bits"] == rounds["up_wire_bits"].sum() / CLIENTS
    assert run["ratio_content"] == 32 * PARAMETERS * ITERATIONS / run["up_content_bits"]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        load_results(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="no results in"):
        load_results(tmp_path)
    make_sweep(tmp_path, (10,), (0.1,), baseline=False, unfinished=[(10, 0.1)])
    with pytest.raises(UsageError, match=r"1 unfinished.*\n.*cells/\*/summary.json"):
        load_results(tmp_path)


def test_a_folder_above_results_and_a_file_in_them_lead_there(tmp_path: Path) -> None:
    make_sweep(tmp_path / "b", (10,), (0.1,))
    make_run(tmp_path / "a")
    (tmp_path / "other").mkdir()
    with pytest.raises(UsageError) as error:
        load_results(tmp_path)
    assert str(error.value).endswith(f"or several: {tmp_path}/a, {tmp_path}/b.")
    for number in range(6):
        make_run(tmp_path / f"more{number}")
    with pytest.raises(UsageError, match=r"more2 and 3 more\.$"):
        load_results(tmp_path)
    with pytest.raises(UsageError, match="summary.json: it is a file; give its folder, '.*/a'$"):
        load_results(tmp_path / "a" / "summary.json")


def test_a_list_of_folders_is_refused() -> None:
    with pytest.raises(UsageError, match=r"load\(\*folders\), and was given \['a', 'b'\]$"):
        load_results(["a", "b"])  # type: ignore[arg-type]


def test_results_are_printed_in_a_line(tmp_path: Path) -> None:
    make_sweep(tmp_path, (1, 10), (0.1,), unfinished=[(10, 0.1)])
    assert repr(load_results(tmp_path)) == (
        f"Results({str(tmp_path)!r}: digits, dense, sbc; runs 2 rows, 1 unfinished, rounds 400, "
        "layers 400)"
    )


def test_no_folder() -> None:
    with pytest.raises(UsageError, match="no folder"):
        load_results()


def test_all_folders_that_are_given_are_read(tmp_path: Path) -> None:
    for seed, name in enumerate("ab"):
        make_run(tmp_path / name, seed=seed)
    assert load_results(tmp_path / "a", tmp_path / "b").runs["seed"].tolist() == [0, 1]
