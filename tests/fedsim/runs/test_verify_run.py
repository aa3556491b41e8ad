"""A folder is what its run did: all of it is looked at, and each change is named."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from flwr.supercore.task_identity import TaskIdentity
from safetensors.torch import load_file, save_file

from fedsim import UsageError, run
from fedsim.federation import ledger
from fedsim.ground.files import FILES, digest_of, write_parquet
from fedsim.results.schema import read_summary, write_run
from fedsim.runs import checkpoint
from fedsim.runs.totals import totals
from fedsim.runs.verify.recordedrun import RecordedRun
from fedsim.runs.verify.rerun import Span
from fedsim.runs.verify.verify import folders, verify
from tests.fedsim.runs.test_resume import checkpoint as made
from tests.support.asyncruns import NETWORK
from tests.support.commands import Typed
from tests.support.runs import small

ALL = Span(1, None)
LATE = {
    "clients": 8,
    "cohort": 5,
    "network": NETWORK,
    "deadline": "150ms",
    "dropout": "0.1",
    "downlink": "sbc(0.1)",
    "seed": 1,
}
"""Clients that come late or not at all, and models that are sent as updates and whole."""

HEALTHY: dict[str, dict[str, Any]] = {
    "dsgd": LATE | {"late": "count", "catch_up": True},
    "fedbuff": {
        "strategy": "fedbuff",
        "buffer_size": 3,
        "network": NETWORK,
        "downlink": "sbc(0.1)",
    },
    "scaffold": {
        "strategy": "scaffold",
        "momentum": 0,
        "clients": 6,
        "cohort": 4,
        "downlink": "sbc(0.1)",
    },
}


def kept(out: Path, **settings: Any) -> Path:
    """A run that has kept its messages, shorter where nothing is said."""
    run(small(keep_payloads=True, test_samples=50, **settings), out, progress=False)
    return out


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kept(tmp_path_factory.mktemp("first") / "n5", downlink="sbc(0.1)")


@pytest.fixture
def folder(first: Path, tmp_path: Path) -> Path:
    """A healthy run, to be harmed."""
    return Path(shutil.copytree(first, tmp_path / "n5"))


def reseal(folder: Path) -> None:
    """Makes the summary's digests those of the files as they are now."""
    cell = read_summary(folder)
    write_run(folder, {name: value for name, value in cell.items() if name != FILES})


def change(folder: Path, name: str, harm: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Changes a table, and hides that from the digest of its file."""
    file = folder / f"{name}.parquet"
    write_parquet(file, harm(pd.read_parquet(file)))
    reseal(folder)


def first_failure(folder: Path, span: Span | None = None) -> str:
    verdict = verify(folder, span)
    assert verdict.failures and "FAILS" in verdict.line
    return verdict.failures[0]


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_passes(name: str, tmp_path: Path) -> None:
    verdict = verify(kept(tmp_path / "run", **HEALTHY[name]), ALL)
    assert verdict.failures == [] == verdict.remarks
    count = len([*(tmp_path / "run" / "payloads").rglob("*.bin")])
    assert verdict.looked == [
        "sums",
        "summary",
        f"{count} messages",
        "model",
        "settings",
        "score",
        "4 rounds replayed",
        "rounds 1 to 4 run again",
        "files",
    ]
    if name == "dsgd":
        clients = pd.read_parquet(tmp_path / "run" / "clients.parquet")
        assert clients["failures"].sum() > 0


def test_a_process_that_has_made_no_run_verifies(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskIdentity, "_run_id", None)
    assert not verify(folder, None).failures


def test_digests_are_those_of_the_stored_files_and_of_the_model(folder: Path) -> None:
    clients = pd.read_parquet(folder / "clients.parquet")
    row = clients[(clients["round"] == 3) & (clients["client"] == 2)].iloc[0]
    place = folder / "payloads" / "round-00003"
    assert row["digest_up"] == digest_of((place / "client-002-up.bin").read_bytes())
    assert row["digest_down"] == digest_of((place / "client-002-down-update.bin").read_bytes())
    last = pd.read_parquet(folder / "rounds.parquet").iloc[-1]
    assert last["digest_model"] == ledger.digest_of_model(load_file(folder / "model.safetensors"))


@pytest.mark.parametrize("way", ["up", "down-update"])
def test_a_flipped_byte_in_a_message_is_named(folder: Path, way: str) -> None:
    file = folder / "payloads" / "round-00003" / f"client-001-{way}.bin"
    before = file.read_bytes()
    file.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    what = "payload" if way == "up" else "payload sent to it"
    one, other = digest_of(before)[:4], digest_of(file.read_bytes())[:4]
    said = f"round 3, client 1: {what} differs: {one}… recorded, {other}… found"
    assert first_failure(folder) == said
    file.unlink()
    assert first_failure(folder) == f"round 3, client 1: {what} is missing: it is kept in no file"


def test_a_message_that_belongs_to_nobody_is_named(folder: Path) -> None:
    (folder / "payloads" / "round-00003" / "client-077-up.bin").write_bytes(b"more")
    said = "payloads/round-00003/client-077-up.bin belongs to no row of clients.parquet"
    assert first_failure(folder) == said


def test_a_changed_row_is_found_by_its_round(folder: Path) -> None:
    def more(table: pd.DataFrame) -> pd.DataFrame:
        table.loc[(table["round"] == 2) & (table["client"] == 1), "up_wire_bits"] += 8
        return table

    was = int(pd.read_parquet(folder / "rounds.parquet")["up_wire_bits"][1])
    change(folder, "clients", more)
    said = first_failure(folder)
    assert said == f"round 2: up_wire_bits is {was}, and {was + 8} over its clients"


def test_a_row_that_is_gone_or_another_client_s_is_found(folder: Path) -> None:
    change(folder, "clients", lambda table: table.assign(client=table["client"][::-1].to_numpy()))
    assert first_failure(folder).startswith("round 1: the digest of its clients' rows differs: ")
    change(folder, "clients", lambda table: table.iloc[:-1])
    assert any(said.startswith("round 4: ") for said in verify(folder).failures)


def test_a_changed_model_is_found(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] += 1e-6
    save_file(weights, folder / "model.safetensors")
    assert first_failure(folder).startswith("round 4: the model in model.safetensors differs: ")
    reseal(folder)
    assert len(verify(folder).failures) == 1


def test_a_file_that_only_its_digest_knows_is_found(folder: Path) -> None:
    with (folder / "environment.json").open("a") as file:
        file.write(" ")
    assert verify(folder).failures == ["environment.json: its content is not what was written"]


def forged(folder: Path) -> None:
    """Client 1 has sent in round 2 what client 0 has; every digest and every sum agrees."""
    place = folder / "payloads" / "round-00002"
    shutil.copy(place / "client-000-up.bin", place / "client-001-up.bin")
    clients = pd.read_parquet(folder / "clients.parquet")
    of = [clients.index[(clients["round"] == 2) & (clients["client"] == c)][0] for c in (0, 1)]
    for name in (name for name in clients if name == "digest_up" or name.startswith("up_")):
        clients.loc[of[1], name] = clients.loc[of[0], name]
    write_parquet(folder / "clients.parquet", clients)
    rounds = pd.read_parquet(folder / "rounds.parquet")
    rows = clients[clients["round"] == 2]
    for name in (name for name in rows if name.startswith("up_")):
        rounds.loc[1, name] = rows[name].sum()
    rounds.loc[1, "digest_payloads"] = ledger.digest_of_rows(rows.to_dict("records"))
    write_parquet(folder / "rounds.parquet", rounds)
    reseal(folder)


def test_what_agrees_with_all_tables_is_found_by_the_model(folder: Path) -> None:
    forged(folder)
    said = [one for one in verify(folder).failures if not one.startswith("summary.json: ")]
    assert said == []  # tables are all that it was compared with
    cell = json.loads((folder / "summary.json").read_text())
    recorded = RecordedRun(folder)
    cell |= totals(recorded.rounds, recorded.clients, cell, None, controlled=False, epochs=False)
    write_run(folder, {name: value for name, value in cell.items() if name != FILES})
    assert first_failure(folder).startswith("round 2: model differs: ")


def test_another_machine_is_given_a_tolerance(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(folder / "payloads")
    reseal(folder)
    right = ledger.digest_of_model
    monkeypatch.setattr("fedsim.runs.verify.verify.digest_of_model", right)
    monkeypatch.setattr(ledger, "digest_of_model", lambda tensors: right(tensors)[::-1])
    assert first_failure(folder, ALL).startswith("round 1: model differs: ")
    file = folder / "environment.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"processor": "a Z80"}))
    reseal(folder)
    verdict = verify(folder, ALL)
    assert verdict.failures == []
    (said,) = verdict.remarks
    assert "(processor a Z80 there, " in said and said.endswith("were compared, within 5%")
    change(folder, "rounds", lambda table: table.assign(train_loss=table["train_loss"] * 1.1))
    assert first_failure(folder, ALL).startswith("round 1: train_loss is ")


def test_a_table_without_digests_is_refused(folder: Path) -> None:
    change(folder, "clients", lambda table: table.drop(columns="digest_up"))
    assert first_failure(folder) == "clients.parquet lacks the columns digest_up"


def test_a_file_that_a_folder_names_is_carried_out_only_where_it_is_trusted(
    folder: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.py"
    own.write_text("raise SystemExit('carried out')")
    file, place = folder / "config.toml", f"{own}:TASK"
    file.write_text(file.read_text().replace('task = "digits"', f'task = "{place}"'))
    verdict = verify(folder)
    assert verdict.failures == [] and f"(--own {place})" in verdict.remarks[0]
    assert f"(--own {place})" in first_failure(folder, ALL)
    assert "carried out" in verify(folder, ALL, [place]).failures[0]


def test_a_run_that_has_not_ended_is_not_looked_at(folder: Path) -> None:
    (folder / "summary.json").unlink()
    assert verify(folder).line == "n5: not finished: nothing is looked at"


def test_the_last_checkpoint_before_a_round(tmp_path: Path) -> None:
    for number in (2, 4):
        checkpoint.save_checkpoint(tmp_path, made(number), number - 2)
    found = [checkpoint.before(tmp_path, number) for number in range(1, 6)]
    assert [one and one.round for one in found] == [None, None, 2, 2, 4]


@pytest.mark.parametrize("text", ["0", "3-2", "two", "-1", "1-", "²"])
def test_rounds_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--rerun is .*: give all, a number of rounds"):
        Span.parse(text)


def test_the_command_says_a_line_for_each_run(folder: Path, typed: Typed, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    for name in ("cells/n1", "cells/n2", "finals/cells/n3"):
        shutil.copytree(folder, sweep / name)
    assert [one.name for one in folders(sweep)] == ["n1", "n2", "n3"]
    said = typed("verify", sweep)
    assert said.code == 0 and said.err == ""
    lines = said.out.splitlines()
    assert lines[0] == (
        "n1: sums, summary, 32 messages, model, settings, score, 4 rounds replayed, files agree"
    )
    assert lines[-2] == "3 of 3 runs agree with what they recorded"
    assert lines[-1].startswith("not checked: that training gives these models (--rerun) (3 of 3)")
    (sweep / "cells" / "n2" / "model.safetensors").write_bytes(b"no model")
    said = typed("verify", sweep)
    assert said.code == 1 and "n2: FAILS: model.safetensors cannot be read: " in said.out
    told = json.loads(typed("verify", sweep, "--json").out)
    assert told["differ"] == 1 and [run["name"] for run in told["runs"]] == ["n1", "n2", "n3"]


def test_what_fedsim_does_not_write_is_a_failure_of_its_run_alone(
    folder: Path, typed: Typed, tmp_path: Path
) -> None:
    for name in ("n1", "n2"):
        shutil.copytree(folder, tmp_path / "cells" / name)
    (tmp_path / "cells" / "n1" / "environment.json").write_text("[]")
    said = typed("verify", tmp_path, "--rerun", "1")
    assert said.code == 1 and said.err == ""
    assert "n1: FAILS: environment.json " in said.out
    assert said.out.splitlines()[-2].startswith("1 of 2 runs")


def test_the_command_runs_rounds_again(folder: Path, typed: Typed) -> None:
    assert "rounds 2 to 3 run again" in typed("verify", folder, "--rerun", "2-3").out
    assert "it has no round 9" in typed("verify", folder, "--rerun", "9-12").out
    assert typed("verify", folder, "--rerun", "x").code == 2
    assert typed("verify", folder.parent / "none").code == 2
