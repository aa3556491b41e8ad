"""The benchmark of a round: that it compares like with like, not how fast anything is."""

import json

import pytest

SCRIPT = "round"


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
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_all_loops_train_the_same(bench, optimizer, tmp_path):
    settings = bench.Settings(optimizer, iterations=2, samples=256)
    assert bench.disagreement(settings, tmp_path) < 1e-5


def test_a_loop_that_trains_otherwise_is_refused(bench, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(bench.HandWritten, "_train", lambda self, optimizer, batches: 0.0)
    monkeypatch.setattr(bench, "TOLERANCE", 1e-6)
    with pytest.raises(RuntimeError, match="do not train the same"):
        bench.disagreement(tiny, tmp_path)


@pytest.mark.slow
def test_result_is_printed_and_written(bench, result, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "measure", lambda settings: result)
    bench.main(["--rounds", "1", "--json", str(tmp_path / "round.json")])
    printed = capsys.readouterr().out
    assert all(f"| {name} |" in printed for name in result["milliseconds"])
    assert "at most 1.05" in printed and "| decode |" in printed
    assert json.loads((tmp_path / "round.json").read_text()) == result
