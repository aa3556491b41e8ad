"""The commands, their JSON, their tables and their exit codes."""

import json
import math
from pathlib import Path

import pandas as pd
import pytest

import fedsim
from fedsim.commands.cli import COMMANDS, main, parser
from fedsim.commands.flags import FLAG_SETTINGS
from fedsim.commands.output import print_document
from tests.support.commands import SMALL, Typed, document, files

CELL = {
    "task", "method", "temporal", "gradient", "seed", "clients", "iterations", "rounds",
    "metric_name", "metric", "up_wire_bits", "up_content_bits", "down_wire_bits", "ratio_wire",
    "ratio_content", "seconds", "status",
}  # fmt: skip
NAMES = [
    "search", "sweep", "run", "report", "verify", "list", "compress", "decompress", "measure",
    "experiment", "theory", "price", "deploy", "compare", "doctor", "new", "schema",
    "show", "completion",
]  # fmt: skip


@pytest.mark.parametrize("command", NAMES)
def test_help(command: str, typed: Typed) -> None:
    said = typed(command, "--help")
    assert said.code == 0 and said.err == ""
    assert said.out.startswith(f"usage: fedsim {command}")


def test_help_of_all(typed: Typed) -> None:
    said = typed("--help")
    assert said.code == 0
    assert all(name in said.out for name in NAMES)
    assert "exit codes: 0 done, 1 some runs failed, 2 bad usage" in said.out
    assert {*COMMANDS} == {*NAMES} == {*parser().subparsers}
    assert parser().prog == "fedsim"


def test_a_command_needs_its_own_parser_alone() -> None:
    assert {*parser(["--rows", "sweep", "--debug", "run", "list"]).subparsers} == {"run"}
    assert {*parser(["completion", "run"]).subparsers} == {*parser(["rnu", "run"]).subparsers}


def test_every_setting_is_a_flag_with_its_default(typed: Typed) -> None:
    text = " ".join(typed("run", "--help-all").out.split())
    for name in FLAG_SETTINGS:
        assert f"--{name.replace('_', '-')} " in text
    assert "a name from `fedsim list tasks`, FILE.py:NAME for a task of your own" in text
    assert "or in Python a Task (default: digits)" in text
    assert "seed of every random draw (default: 0)" in text
    text = " ".join(typed("sweep", "--help-all").out.split())
    assert "stands for --gradient (default: sbc)" in text
    assert "local iterations per round (default: 10)" in text


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the default sweep, shortened, with everything it writes."""
    out = tmp_path_factory.mktemp("demo")
    assert main(["sweep", "--out", str(out), *SMALL]) == 0
    return out


def test_the_default_sweep_writes_all_that_is_promised(demo: Path) -> None:
    assert sorted(f.name for f in demo.iterdir()) == [
        "cells",
        "report.html",
        "summary.csv",
        "summary.parquet",
        "summary.tex",
        "sweep.toml",
    ]
    assert sorted(f.name for f in (demo / "cells").iterdir()) == ["n1-p1-s0", "n10-p0.01-s0"]
    for cell in (demo / "cells").iterdir():
        assert sorted(f.name for f in cell.iterdir()) == [
            "clients.parquet",
            "config.toml",
            "environment.json",
            "layers.parquet",
            "model.safetensors",
            "rounds.parquet",
            "summary.json",
        ]
    table = pd.read_csv(demo / "summary.csv")
    assert set(table) >= CELL and len(table) == 2
    assert table["status"].tolist() == ["done", "done"]
    assert table["ratio_content"].iloc[1] > 1000 > 2 > table["ratio_content"].iloc[0]


def test_the_table_of_the_same_command_again(
    demo: Path, typed: Typed, no_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (80, 100, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        said = typed("sweep", "--out", demo, *SMALL)
        assert said.code == 0 and said.err.startswith("2 of 2 ") and str(demo) in said.err
        lines = said.out.splitlines()
        assert all("…" not in line for line in lines)
        table = [line for line in lines if str(demo) not in line]
        assert max(len(line) for line in table) <= columns
        for word in (
            "accuracy",
            "vs dense",
            "up",
            "content",
            "down",
            "ratio",
            "both",
            "p/n",
            "seconds",
        ):
            assert word in said.out
        assert lines[-2:] == [f"Results: {demo}", f"Report:  {demo}/report.html"]


def test_sweep_json(demo: Path, typed: Typed, no_page: None) -> None:
    said = typed("sweep", "--out", demo, *SMALL, "--json")
    assert said.code == 0
    printed = document(said.out)
    assert set(printed) == {"out", "cells"} and printed["out"] == str(demo)
    table = pd.read_csv(demo / "summary.csv")
    for cell, (_, row) in zip(printed["cells"], table.iterrows(), strict=True):
        assert set(cell) >= CELL
        assert set(cell) == {*table.columns, "settings"}
        for name in CELL:
            assert cell[name] == row[name], name
    assert [c["gradient"] for c in printed["cells"]] == [1, 0.01]


@pytest.mark.slow
def test_report_writes_it_all_again_and_leaves_an_altered_row(demo: Path, typed: Typed) -> None:
    before = {name: (demo / name).read_bytes() for name in ("summary.csv", "report.html")}
    said = typed("report", demo, "--json")
    assert said.code == 0
    printed = document(said.out)
    assert printed["report"] == str(demo / "report.html")
    assert all(set(cell) >= CELL for cell in printed["cells"])
    assert said.err == ""
    pd.read_csv(demo / "summary.csv").assign(clients=7).to_csv(demo / "summary.csv", index=False)
    said = typed("report", demo, "--json")
    (line,) = said.err.splitlines()
    assert said.code == 0 and "summary.csv: row 1: clients is 7, and 4 by run n1-p1-s0" in line
    altered = (demo / "summary.csv").read_bytes()
    assert altered != before["summary.csv"]
    (demo / "summary.csv").unlink()
    assert typed("report", demo, "--json").err == ""
    assert {name: (demo / name).read_bytes() for name in before} == before


def test_report_table(demo: Path, typed: Typed, no_page: None) -> None:
    said = typed("report", demo)
    assert said.code == 0 and said.err == ""
    assert "accuracy" in said.out and "status" not in said.out
    chosen = typed("report", demo, "--columns", "gradient, metric,ratio_both", "--per-seed")
    assert chosen.out.splitlines()[2].split() == ["p", "accuracy", "both"]
    for command in (("report", demo), ("sweep", "--out", "new")):
        refused = typed(*command, "--columns", "metric,speed")
        assert refused.code == 2 and "--columns has speed: it may name label, " in refused.err


def test_run_json(typed: Typed, no_page: None) -> None:
    arguments = ("run", "--iterations", "20", "--evaluate-every", "2", "--out", "out")
    said = typed(*arguments, "--json")
    assert said.code == 0
    printed = document(said.out)
    assert printed["out"] == "out"
    assert set(printed) >= CELL
    summary = json.loads(Path("out/summary.json").read_text())
    assert {k: v for k, v in printed.items() if k != "out"} == summary
    before = files(Path("out/"))
    assert typed(*arguments).code == 0
    changed = {n for n, t in files(Path("out")).items() if t != before[n]}
    assert changed <= {"summary.csv", "summary.parquet"}


def test_a_budget_below_a_round_makes_one_short_round(typed: Typed, no_page: None) -> None:
    printed = document(typed("run", "--iterations", "4", "--json").out)
    assert (printed["temporal"], printed["iterations"], printed["rounds"]) == (4, 4, 1)


def test_run_has_a_folder_of_its_own(typed: Typed, no_page: None) -> None:
    said = typed("run", "--iterations", "20", "--evaluate-every", "2")
    assert said.code == 0
    (folder,) = Path("fedsim-results").iterdir()
    digest = fedsim.RunConfig(iterations=20, evaluation=fedsim.Evaluation(every=2)).digest
    assert folder.name == f"digits-sbc-n10-{digest}"
    assert f"Results: fedsim-results/{folder.name}" in said.out
    assert "accuracy" in said.err  # progress
    former = folder.rename(folder.with_name(f"digits-run-{digest}"))  # as versions before named it
    summary = (former / "summary.json").read_bytes()
    again = typed("run", "--iterations", "20", "--evaluate-every", "2")
    assert [*Path("fedsim-results").iterdir()] == [former] and f"Results: {former}" in again.out
    assert (former / "summary.json").read_bytes() == summary  # it was done, and is not run again


@pytest.mark.slow
def test_a_failed_cell_is_code_1_and_the_rest_is_done(typed: Typed, no_page: None) -> None:
    blocked = Path("out/cells/n5-p0.1-s0/model.safetensors")
    blocked.mkdir(parents=True)
    arguments = ("sweep", "--temporal", "5,10", "--gradient", "0.1", *SMALL, "--out", "out")
    said = typed(*arguments, "--json")
    assert said.code == 1
    cells = document(said.out)["cells"]
    assert [c["status"] for c in cells] == ["done", "failed", "done"]
    assert all(set(c) >= CELL for c in cells)
    said = typed(*arguments)
    assert said.code == 1
    assert "failed: n5-p0.1-s0: RunFailed: " in said.err and "(Is a directory)" in said.err
    assert "Traceback" not in said.out + said.err
    blocked.rmdir()
    assert typed(*arguments).code == 0


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    print_document({"metric": math.nan, "rows": [{"loss": -math.inf}, 1.5]})
    assert json.loads(capsys.readouterr().out) == {"metric": None, "rows": [{"loss": None}, 1.5]}
