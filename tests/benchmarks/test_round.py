"""The benchmark of a round: that it compares like with like, not how fast anything is."""

import importlib
import json
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from fedsim import TASKS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench():
    """The script as a module; the task that it registers is gone afterwards."""
    with patch.dict(TASKS), patch.object(sys, "path", [str(BENCHMARKS), *sys.path]):
        yield importlib.import_module("round")


@pytest.fixture(scope="module")
def tiny(bench):
    return bench.Settings(rounds=1, repeats=2, iterations=1, samples=256)


@pytest.fixture(scope="module")
def result(bench, tiny):
    return bench.measure(tiny)


@pytest.mark.slow
def test_every_loop_is_timed_in_every_repeat(bench, result):
    loops = result["milliseconds"]
    assert list(loops) == [bench.FEDSIM_1, bench.FEDSIM_2, bench.BARE, bench.PEERS]
    for row in loops.values():
        assert len(row["repeats"]) == 2
        assert 0 < row["fastest"] <= row["min"] <= row["median"] <= row["max"]
        assert row["processor"] > 0


@pytest.mark.slow
def test_ratios_stand_beside_their_targets(bench, result):
    ratios = [(r["of"], r["to"], r["bound"], r["target"]) for r in result["ratios"]]
    assert ratios == list(bench.TARGETS)
    ratio = result["ratios"][0]
    over, under = (result["milliseconds"][ratio[key]]["repeats"] for key in ("of", "to"))
    assert ratio["max"] == max(a / b for a, b in zip(over, under, strict=True))


def test_parts_of_a_round_are_apart(bench, result):
    parts = result["parts_milliseconds"]
    assert set(parts) == {*bench.PARTS, "all but training"}
    assert all(value > 0 for value in parts.values())


def test_the_machine_is_named(result):
    machine = result["machine"]
    assert machine["cores"] >= 1 and machine["torch_threads_a_worker"] == 1
    assert {"load_before", "load_after", "processor", "packages"} <= set(machine)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_all_loops_train_the_same(bench, optimizer, tmp_path):
    settings = bench.Settings(optimizer, iterations=2, samples=256)
    assert bench.disagreement(settings, tmp_path) < 1e-5


def test_a_loop_that_trains_otherwise_is_refused(bench, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(bench.HandWritten, "_train", lambda self, optimizer, batches: 0.0)
    monkeypatch.setattr(bench, "TOLERANCE", 1e-6)
    with pytest.raises(RuntimeError, match="do not train the same"):
        bench.disagreement(tiny, tmp_path)


def test_loops_take_turns(bench):
    class Fake:
        def __init__(self, name):
            self.name = name

        def round(self):
            calls.append(self.name)
            return 0.0

    calls: list[str] = []
    times = bench.take_turns({name: Fake(name) for name in "abc"}, rounds=2, repeats=2)
    assert "".join(calls) == "abc" + "bca" + "cab" + "abc"
    assert {name: [len(turns) for turns in repeats] for name, repeats in times.items()} == {
        name: [2, 2] for name in "abc"
    }


def test_result_is_printed_and_written(bench, result, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "measure", lambda settings: result)
    bench.main(["--rounds", "1", "--json", str(tmp_path / "round.json")])
    printed = capsys.readouterr().out
    assert all(f"| {name} |" in printed for name in result["milliseconds"])
    assert "at most 1.05" in printed and "| decode |" in printed
    assert json.loads((tmp_path / "round.json").read_text()) == result


@pytest.mark.parametrize("flag", ["--rounds", "--repeats"])
def test_no_rounds_are_refused(bench, flag):
    with pytest.raises(SystemExit) as error:
        bench.main([flag, "0"])
    assert error.value.code == 2
