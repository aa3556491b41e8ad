"""The page of all numbers and the comparison with peers: what they compare, not how fast it is."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from fedsim import TASKS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def loaded(name: str) -> Iterator[Any]:
    """A script as a module; its neighbours are gone afterwards, and the tasks that it adds."""
    before = set(sys.modules)
    with patch.dict(TASKS), patch.object(sys, "path", [str(BENCHMARKS), *sys.path]):
        yield importlib.import_module(name)
    for added in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[added], "__file__", "")):
            sys.modules.pop(added)


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    yield from loaded("bench")


@pytest.fixture(scope="module")
def compare() -> Iterator[Any]:
    yield from loaded("compare")


@pytest.fixture
def place(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty table and a page of its own."""
    monkeypatch.setattr(bench, "TABLE", tmp_path / "bench.csv")
    monkeypatch.setattr(bench, "PAGE", tmp_path / "page.md")
    (tmp_path / "page.md").write_text("# Speed\n\n<!-- table: bench -->\n<!-- end -->\n")
    return tmp_path


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


def test_a_pass_goes_on_where_it_was_broken_off(
    bench: Any, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def measured(part: str, limit: int) -> list[dict[str, str]]:
        asked.append(part)
        if part == "round" and len(asked) < 3:
            raise RuntimeError("it took more than 180 s")
        work = next(goal.work for goal in bench.GOALS if goal.part == part)
        return [
            dict.fromkeys(bench.FIELDS, "")
            | bench.told({"work": work, "value": 1.5})
            | {
                "part": part,
                "commit": bench.commit(),
                "measured": "2199-01-01 00:00",
                "processor": bench.environment.describe_environment()["processor"],
                "load": "0.1",
            }
        ]

    monkeypatch.setattr(bench, "measured", measured)
    with pytest.raises(SystemExit, match="failed: round"):
        bench.main(["--parts", "round", "first"])
    bench.main(["--parts", "round", "first"])
    assert asked == ["round", "first", "round"]
    assert [row["part"] for row in bench.read()] == ["round", "first"]
    page = (place / "page.md").read_text()
    assert "| 1.16 | at most 1.04 | 1.5 | no |" in page and "| at most 6 | 1.5 | yes |" in page
    bench.main(["--parts", "first", "--again"])
    assert asked[-1] == "first" and "measured already" in capsys.readouterr().out


def test_a_part_that_fails_says_why(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    child = SimpleNamespace(returncode=1, communicate=lambda timeout: ("no such file", None))
    monkeypatch.setattr(bench.subprocess, "Popen", lambda *given, **more: child)
    with pytest.raises(RuntimeError, match="no such file"):
        bench.measured("round")


def test_a_straight_line_is_found(bench: Any) -> None:
    sizes = importlib.import_module("sizes")
    n = [10.0**k for k in range(4, 9)]
    assert max(map(abs, sizes.line_through(n, [5000 + 2 * x for x in n]))) < 1e-9
    bent = sizes.line_through(n, [*(2 * x for x in n[:4]), 4 * n[4]])
    assert max(bent) == bent[4] > 0.1


def test_a_family_is_a_process_with_its_children(bench: Any) -> None:
    measuring = importlib.import_module("measuring")
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"]) as child:
        while len(measuring.family_of(child.pid)) < 2:
            assert child.poll() is None
        assert child.pid in measuring.family_of(os.getpid())
        measuring.end_family(child.pid)


def test_a_peer_that_cannot_be_installed_is_named(
    compare: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    environments = importlib.import_module("peers.environments")
    monkeypatch.setattr(environments, "FOLDER", tmp_path / "peers")
    never = environments.newer_python
    monkeypatch.setattr(environments, "newer_python", lambda least: never((3, 99)))
    assert "make peers" in environments.ENVIRONMENTS["blazefl"].missing
    environments.main(["--only", "blazefl"])
    assert "blazefl: left out: no Python of" in capsys.readouterr().out
    assert not [one for one in compare.contenders() if one.environment == "blazefl"]


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
