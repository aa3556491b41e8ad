"""What follows a run: the protocol, the writers of fedsim, and results without a folder."""

import csv
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from fedsim import Callback, CsvWriter, RunFailed, StoppedEarly, UsageError, run
from fedsim.results.schema import read_summary
from fedsim.results.values import REACHED
from fedsim.show.report import summarize, summary_rows
from tests.support.runs import rounds, small


class Diary(Callback):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def begin(self, known: Any, rows: Any) -> None:
        self.said.append(("begin", known["metric_name"], [row["round"] for row in rows]))

    def round(self, row: Any) -> None:
        self.said.append(("round", row["round"], row["last"]))

    def evaluation(self, row: Any) -> None:
        self.said.append(("evaluation", row["round"]))

    def end(self, summary: Any) -> None:
        self.said.append(("end", summary["status"]))


ALL = [
    ("begin", "accuracy", []),
    ("round", 1, False),
    ("round", 2, False),
    ("evaluation", 2),
    ("round", 3, False),
    ("round", 4, True),
    ("evaluation", 4),
    ("end", "done"),
]


@pytest.mark.parametrize("engine", ["memory", "folder"])
def test_every_method_is_called_in_order(engine: str, tmp_path: Path) -> None:
    diary, seen = Diary(), list[tuple[float, float]]()
    out = tmp_path if engine == "folder" else None
    bits = lambda row: seen.append((row["up_bits"], row["spent"]))  # noqa: E731
    run(small(evaluate_every=2, budget_of="total"), out, callbacks=[diary, bits])
    assert diary.said == ALL
    assert seen == sorted(seen) and len(seen) == 4
    assert all(last > 1.9 * second for second, last in zip(seen[1], seen[3], strict=True))


def test_a_run_that_goes_on_tells_of_the_rounds_before(tmp_path: Path) -> None:
    class Stop(Callback):
        def round(self, row: Any) -> None:
            if row["round"] == 2:
                raise KeyboardInterrupt

    config = small(evaluate_every=2, checkpoint_every=1)
    first, lines = Diary(), CsvWriter(tmp_path / "rows.csv", ["round", "up_bits"])
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "out", callbacks=[first, lines, Stop()])
    assert first.said == ALL[:3]
    diary, interrupted = Diary(), lines._file
    run(config, tmp_path / "out", callbacks=[diary, lines])
    assert interrupted.closed
    assert diary.said == [("begin", "accuracy", [1, 2]), *ALL[4:]]
    whole = CsvWriter(tmp_path / "whole.csv", ["round", "up_bits"])
    run(small(evaluate_every=2), callbacks=[whole])
    assert (tmp_path / "rows.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_a_column_that_no_row_has_is_refused(tmp_path: Path) -> None:
    lines = CsvWriter(tmp_path / "rows.csv", ["round", "up_bit"])
    with pytest.raises(UsageError, match=r"unknown column 'up_bit' \(did you mean up_bits\?\)"):
        run(small(), callbacks=[lines])
    assert (tmp_path / "rows.csv").read_text() == ""
    late = CsvWriter(tmp_path / "late.csv", ["round", "score_top5", "client_metric_worst"])
    late.begin({}, [{"round": 1}, {"round": 2, "score_top5": 0.5, "client_metric_worst": 0.25}])
    late.end({})
    written = (tmp_path / "late.csv").read_text().split()
    assert written == ["round,score_top5,client_metric_worst", "1,,", "2,0.5,0.25"]


def test_what_a_callback_raises_ends_the_run(tmp_path: Path) -> None:
    class Falls(Callback):
        error: Exception = ZeroDivisionError("oh")

        def evaluation(self, row: Any) -> None:
            raise self.error

    diary, falls = Diary(), Falls()
    with pytest.raises(ZeroDivisionError):
        run(small(), tmp_path / "failed", callbacks=[diary, falls])
    assert diary.said[-1] == ("end", "failed")
    assert (tmp_path / "failed" / "error.txt").exists()
    falls.error = StoppedEarly("enough")
    with pytest.raises(StoppedEarly, match="enough"):
        run(small(), callbacks=[diary, falls])
    assert diary.said[-1] == ("end", "stopped")


@pytest.mark.parametrize(("why", "status"), [(REACHED, "done"), ("behind others", "stopped")])
def test_a_report_counts_a_run_that_was_stopped_at_its_target(
    why: str, status: str, tmp_path: Path
) -> None:
    """Its numbers are those of a run of as many rounds; its folder says that it was stopped."""

    class Stop(Callback):
        def evaluation(self, row: Any) -> None:
            raise StoppedEarly(why)

    with pytest.raises(StoppedEarly):
        run(small(evaluate_every=2), tmp_path / "stopped", callbacks=[Stop()])
    assert read_summary(tmp_path / "stopped")["status"] == "stopped"
    results, whole = summarize(tmp_path / "stopped"), run(small(evaluate_every=2))
    cells, page = summary_rows(results), tmp_path / "stopped" / "report.html"
    assert cells[0]["status"] == status and len(results.done_rounds) == 2 * (status == "done")
    second = whole.rounds.iloc[1]
    assert (cells[0]["rounds"], cells[0]["metric"]) == (2, second["metric"])
    assert cells[0]["up_wire_bits"] == whole.rounds["up_wire_bits"].head(2).sum() / 4
    assert ("Failed cells" in page.read_text(encoding="utf-8")) is (status != "done")


def test_a_run_that_fails_says_so() -> None:
    diary = Diary()
    with pytest.raises(RunFailed, match="0 of 4 clients replied"):
        run(small(lr=1e30, method="raw"), callbacks=[diary])
    assert diary.said[-1] == ("end", "failed")


def test_a_csv_has_every_round_with_all_columns(tmp_path: Path) -> None:
    result = run(small(), callbacks=[CsvWriter(tmp_path / "rows.csv")])
    with (tmp_path / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["round"]) for row in rows] == [1, 2, 3, 4]
    assert {*rows[0]} == {*result.rounds.columns, "up_bits", "spent", "last"}
    assert [float(row["metric"]) for row in rows] == result.rounds["metric"].tolist()


def test_what_is_no_callback_is_told() -> None:
    with pytest.raises(UsageError, match="callbacks: 3 is neither a fedsim.Callback nor"):
        run(small(), callbacks=[3])


SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "a controller on links": {
        "method": "sbc",
        "gradient": 0.1,
        "controller": "plateau(1)",
        "network": "4g, compute=20ms",
        "evaluate_every": 2,
    },
    "asynchronous": {"strategy": "fedbuff(2)", "network": "4g, compute=lognormal(20ms, 1)"},
    "processes": {"workers": 2, "cohort": 3, "downlink": "sbc(0.5)"},
}


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_run_in_memory_is_the_run_of_a_folder(settings: dict[str, Any], tmp_path: Path) -> None:
    config = small(**settings)
    here, there = run(config), run(config, tmp_path)
    assert here.folder is None and there.folder == tmp_path
    for table in ("rounds", "clients", "layers"):
        one, other = getattr(here, table), getattr(there, table)
        assert [*one.columns] == [*other.columns]
        kept = [c for c in one.columns if not c.endswith("seconds") or "sim" in c]
        pd.testing.assert_frame_equal(one[kept], other[kept], check_exact=True)
    assert here.model.keys() == there.model.keys()
    assert all(torch.equal(x, there.model[name]) for name, x in here.model.items())
    left = {"files", "seconds"}
    assert {k: v for k, v in here.summary.items() if k not in left} == {
        k: v for k, v in there.summary.items() if k not in left
    }


def test_a_run_that_is_done_is_returned_again(tmp_path: Path) -> None:
    first, again = run(small(), tmp_path), run(small(), tmp_path)
    assert again.summary == first.summary
    pd.testing.assert_frame_equal(again.rounds, first.rounds)
    assert [*again.rounds["round"]] == [*rounds(tmp_path)["round"]]


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("keep_payloads", True, "--keep-payloads is True"),
        ("track", "tensorboard", "--track is tensorboard"),
        ("checkpoint_every", 1, "--checkpoint-every is 1"),
    ],
)
def test_without_a_folder_nothing_is_kept(setting: str, value: object, words: str) -> None:
    with pytest.raises(UsageError, match=f"{words}: it goes to a run's folder; give out"):
        run(small(**{setting: value}))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_csv_goes_to_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor() as reader:
        read = reader.submit((tmp_path / "pipe").read_text)
        run(small(), callbacks=[CsvWriter(tmp_path / "pipe", ["round", "metric"])])
    run(small(), callbacks=[CsvWriter(tmp_path / "file", ["round", "metric"])])
    assert read.result() == (tmp_path / "file").read_text() and read.result().count("\n") == 5


def test_a_line_is_written_again_where_its_scores_come_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, nan = CsvWriter(tmp_path / "rows.csv", ["round", "metric"]), float("nan")
    lines.begin({}, [])
    for row in ({"round": 1, "metric": 0.5}, {"round": 2, "metric": nan}):
        lines.round(row)
        with monkeypatch.context() as patched:  # a reader would see the file shrink
            patched.setattr(lines._file, "seek", lambda *_: pytest.fail("written again"))
            lines.evaluation(dict(row))  # as written
    lines.evaluation({"round": 2, "metric": 0.25})
    lines.round({"round": 3, "metric": nan})
    lines.end({})
    written = (tmp_path / "rows.csv").read_text().split()
    assert written == ["round,metric", "1,0.5", "2,0.25", "3,nan"]
