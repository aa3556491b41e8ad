"""The page of all numbers and the comparison with peers: what they compare, not how fast it is."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.benchmarks.conftest import loaded

SCRIPT = "bench"


@pytest.fixture(scope="module")
def compare() -> Iterator[Any]:
    yield from loaded("compare")


def test_the_page_is_what_the_csv_says(bench: Any) -> None:
    text = bench.PAGE.read_text(encoding="utf-8")
    same = text == bench.page(text, bench.read())
    assert same, "python benchmarks/bench.py --page writes it"
    for name in ("bench", "peers", *bench.PIVOTS):
        assert f"<!-- table: {name} -->\n" in text


def test_targets_in_the_csv_are_those_of_the_rows(bench: Any) -> None:
    asked = {goal.work: goal for goal in bench.GOALS}
    assert len(asked) == len(bench.GOALS)
    assert {goal.part for goal in bench.GOALS} < set(bench.PARTS)
    for row in bench.read():
        if row["target"]:
            goal = asked[row["work"]]
            assert (row["part"], row["quantity"], row["bound"]) == (
                goal.part,
                goal.quantity,
                goal.bound,
            )
            assert float(row["target"]) == goal.target and row["processor"]


def test_a_part_that_fails_says_why(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    child = SimpleNamespace(returncode=1, communicate=lambda timeout: ("no such file", None))
    monkeypatch.setattr(bench.subprocess, "Popen", lambda *given, **more: child)
    with pytest.raises(RuntimeError, match="no such file"):
        bench.measured("round")


def runner(compare: Any, name: str, losses: list[float], lossy: bool = False) -> Any:
    contender = compare.Contender(name, "", 1, lossy=lossy)
    return SimpleNamespace(contender=contender, losses=losses)


def test_a_simulator_that_does_other_work_is_refused(compare: Any) -> None:
    ours = runner(compare, "fedsim, raw", [2.3, 2.2])
    lossy = runner(compare, "fedsim, sbc", [2.3, 2.25], lossy=True)
    assert compare.disagreement([lossy, ours, runner(compare, "a", [2.3, 2.20004])]) < 1e-4
    with pytest.raises(RuntimeError, match="b does not do the same work: its losses differ by 0.0"):
        compare.disagreement([lossy, ours, runner(compare, "b", [2.3, 2.21])])


def test_the_fastest_peer_counts(compare: Any) -> None:
    times = {
        ("fedsim, sbc(0.01)", 2): 1.0,
        ("pfl", 1): 3.0,
        ("pfl", 2): 1.5,
        ("Flower on Ray", 2): 2.0,
        ("by hand, channels-last", 2): 0.5,
    }
    rows = [{"name": n, "processes": p, "seconds": [s, s]} for (n, p), s in times.items()]
    assert compare.beside_peers({"rows": rows}) == 1.5
    assert compare.beside_peers({"rows": rows[:1]}) is None


@pytest.mark.slow
@pytest.mark.processes
def test_everyone_does_the_same_work(compare: Any, tmp_path: Path) -> None:
    """Of what needs no installation: Flower on Ray, fedsim with two workers, by hand."""
    wanted = {("Flower on Ray", 1), ("fedsim, raw", 2), ("by hand, channels-last", 2)}
    listed = [one for one in compare.contenders() if (one.name, one.processes) in wanted]
    result = compare.measure(4, 2, 2, listed, samples=1200)
    assert len(result["rows"]) == 3 and result["loss_disagreement"] < 1e-5
    for row in result["rows"]:
        assert row["rounds_per_second"] > 0 and row["processor_seconds"] > 0
    json.dumps(result)
