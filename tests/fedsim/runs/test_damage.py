"""What a disk damages after it was written is named, and never taken for what was written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from fedsim import UsageError, load, run
from fedsim.runs import checkpoint
from tests.fedsim.runs.test_resume import checkpoint as made
from tests.support.commands import files
from tests.support.interrupting import Stopped, recording, stop_after
from tests.support.runs import assert_same, small


def flip(file: Path) -> None:
    """One bit of it, in the middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def cut(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 3])


HARM: dict[str, Callable[[Path], None]] = {"flip": flip, "cut": cut, "missing": Path.unlink}
OF_CHECKPOINT = (
    "memory.safetensors",
    "values.json",
    "rounds.parquet",
    "clients.parquet",
    "layers.parquet",
)
OF_RUN = (
    "model.safetensors",
    "clients.parquet",
    "rounds.parquet",
    "layers.parquet",
    "environment.json",
    "payloads/round-00002/client-001-up.bin",
)


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("name", OF_CHECKPOINT)
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_read(
    name: str, harm: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (2, 4):
        checkpoint.save_checkpoint(tmp_path, made(number), number - 2)
    last = tmp_path / "checkpoint-00000004"
    HARM[harm](last / name)
    found = checkpoint.load_checkpoint(tmp_path)
    assert found is not None and found.round == 2
    (line,) = caplog.messages
    assert line.startswith(f"{last} is damaged and passed over (") and line.endswith("round 3")
    assert f"({name}: " in line
    if harm != "missing" and name != "values.json":
        assert "its content is not what was written" in line
    for number in (3, 5):  # a run that goes on keeps what is whole
        again = tmp_path / str(number)
        shutil.copytree(tmp_path, again, ignore=shutil.ignore_patterns("[35]"))
        checkpoint.save_checkpoint(again, made(number), found.round)
        kept = sorted(folder.name for folder in again.iterdir())
        assert kept == ["checkpoint-00000002", f"checkpoint-0000000{number}"]


def test_a_checkpoint_with_another_key_is_not_taken_for_an_older_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One flipped bit in the name under which the digests stand."""
    checkpoint.save_checkpoint(tmp_path, made(2), 0)
    values = tmp_path / "checkpoint-00000002" / "values.json"
    values.write_text(values.read_text().replace('"files"', '"fileq"'))
    assert checkpoint.load_checkpoint(tmp_path) is None
    assert "there is none before it: the run starts again at round 1" in caplog.text


def test_a_run_goes_on_from_the_checkpoint_before_and_ends_as_it_would_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config, seen, out = small(checkpoint_every=1), list[int](), tmp_path / "parts"
    run(config, tmp_path / "whole")
    with pytest.raises(Stopped):
        run(config, out, callbacks=[stop_after(3)])
    flip(out / "checkpoint-00000003" / "memory.safetensors")
    with pytest.raises(Stopped):
        run(config, out, callbacks=[stop_after(3)])
    assert "checkpoint-00000003 is damaged" in caplog.text
    for folder in out.glob("checkpoint-*"):
        cut(folder / "memory.safetensors")
    run(config, out, callbacks=[recording(seen)])
    assert seen == [1, 2, 3, 4]
    assert_same(tmp_path / "whole", out)


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("name", OF_RUN)
def test_a_finished_run_is_done_where_all_that_it_left_is_there(
    name: str, harm: str, done: Path
) -> None:
    HARM[harm](done / name)
    before = files(done)
    shown = done / ("payloads" if "payloads" in name else name)
    why = "it is missing" if harm == "missing" and shown.name == Path(name).name else "its content"
    with pytest.raises(UsageError, match=f"{shown} cannot be read: {why}.*\n.*run it again"):
        run(small(keep_payloads=True), done)
    assert files(done) == before


def test_a_summary_of_other_numbers_is_refused(done: Path) -> None:
    file = done / "summary.json"
    cell = json.loads(file.read_text())
    file.write_text(json.dumps(cell | {"metric": cell["metric"] + 0.1}))
    for look in (lambda: load(done), lambda: run(small(keep_payloads=True), done)):
        with pytest.raises(UsageError, match="summary.json cannot be read: its content is not"):
            look()


@pytest.mark.parametrize("name", ["rounds.parquet", "layers.parquet"])
def test_tables_of_other_numbers_are_not_reported(name: str, done: Path) -> None:
    flip(done / name)
    with pytest.raises(UsageError, match=f"{name} cannot be read: its content is not what was"):
        load(done)


def test_a_run_is_not_extended_from_a_damaged_memory(done: Path) -> None:
    flip(done / "final" / "memory.safetensors")
    before = files(done)
    with pytest.raises(UsageError, match="cannot be extended: its memory is damaged .memory.safe"):
        run(small(keep_payloads=True, iterations=40), done)
    assert files(done) == before
    again = run(small(keep_payloads=True), done)
    assert again.summary["status"] == "done"  # the run itself is whole


def test_a_run_that_failed_goes_on_whatever_its_tables_hold(tmp_path: Path) -> None:
    """As after a kill between the tables and the summary of its next try."""
    with pytest.raises(ZeroDivisionError):
        run(small(), tmp_path, callbacks=[stop_after(3, ZeroDivisionError)])
    file = tmp_path / "rounds.parquet"
    pd.read_parquet(file).iloc[:1].to_parquet(file)
    assert len(load(tmp_path).rounds) == 1
    assert run(small(), tmp_path).summary["status"] == "done"
    assert len(load(tmp_path).rounds) == 4
