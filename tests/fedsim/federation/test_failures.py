"""Clients that fail, hang or diverge: said so, and never averaged in silence."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fedsim import RunConfig, RunFailed, load, run
from fedsim.federation.server import Server
from fedsim.federation.trainer import Trainer
from fedsim.show.columns import failures_told
from tests.support import replaying
from tests.support.hanging import asks, given_up
from tests.support.runs import (
    Memories,
    clients,
    model,
    not_tried,
    payloads,
    rounds,
    run_module,
    small,
)

Train = Callable[..., Any]
MARINA = "marina(randk(0.1) | float32, 0.1)"
BAD = 1  # the client of these tests


@pytest.fixture
def in_round_two(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Train], None]]:
    """Sets what the bad client does instead of its second training, in whichever process."""
    train, calls = Trainer.train, tmp_path_factory.mktemp("calls") / "calls"

    def set_to(instead: Train) -> None:
        def changed(self: Trainer, client: int, *rest: Any) -> Any:
            if client == BAD:
                with calls.open("a") as file:
                    file.write(".")
                    second = file.tell() == 2
                if second:
                    return instead(train(self, client, *rest))
            return train(self, client, *rest)

        monkeypatch.setattr(Trainer, "train", changed)

    yield set_to


def raises(trained: Any) -> Any:
    raise MemoryError("no room for the batch")


def diverges(trained: Any) -> Any:
    bad = trained.update["3.weight"].clone()
    bad[0, 0] = float("nan")
    return replace(trained, update=trained.update | {"3.weight": bad})


def summary_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


def test_by_default_a_round_goes_on_without_who_fails(in_round_two: Any, tmp_path: Path) -> None:
    in_round_two(raises)
    summary = run(small(), tmp_path).summary
    assert (summary["status"], summary["failures"]) == ("done", 1)
    assert summary["failed_clients"] == "client 1"
    assert rounds(tmp_path)["clients"].tolist() == [4, 3, 4, 4]
    assert any("client 1" in line for line in failures_told(load(tmp_path).runs))
    trace = (tmp_path / "client-errors.txt").read_text()
    assert trace.startswith("round 2, client 1:\nTraceback")
    assert trace.rstrip().endswith("MemoryError: no room for the batch")


def test_a_folder_of_before_keeps_its_rule(
    in_round_two: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that knows no number of required replies is of a run that needed all."""
    state = Server.state

    def before(self: Server) -> tuple[Any, dict[str, Any]]:
        tensors, values = state(self)
        assert values.pop("required") == 1
        return tensors, values

    with monkeypatch.context() as patched:
        patched.setattr(Server, "state", before)
        run(small(iterations=5), tmp_path)
    in_round_two(raises)
    with pytest.raises(RunFailed, match="3 of 4 clients replied and 4 are required"):
        run(small(), tmp_path)


@pytest.mark.parametrize(
    ("more", "required"),
    [
        ({}, 1),
        ({"min_replies": 3}, 3),
        ({"dropout": 0.1}, 0),
        ({"strategy": "marina", "temporal": 1, "method": MARINA}, 4),
        ({"strategy": "permk", "method": "permk(4)"}, 4),
        ({"network": "4g, compute=1ms, topology=allreduce", "method": "raw"}, 4),
    ],
)
def test_how_many_replies_a_round_needs(more: dict[str, Any], required: int) -> None:
    assert small(**more).plan.required == required


def test_where_every_client_is_required_one_ends_the_run(in_round_two: Any, tmp_path: Path) -> None:
    in_round_two(raises)
    with pytest.raises(RunFailed) as error:
        run(small(min_replies=4), tmp_path)
    message = str(error.value)
    for word in ("round 2", "3 of 4", "4 are required", "client 1", "no room for the batch"):
        assert word in message
    summary = summary_of(tmp_path)
    assert (summary["status"], summary["error"]) == ("failed", message)
    assert summary["task"] == "digits" and "metric" not in summary
    trace = (tmp_path / "error.txt").read_text()
    assert trace.startswith("Traceback") and message in trace
    assert rounds(tmp_path)["round"].tolist() == [1]
    assert not (tmp_path / "model.safetensors").exists()


def test_a_nan_is_named(in_round_two: Any, tmp_path: Path) -> None:
    in_round_two(diverges)
    with pytest.raises(RunFailed, match=r"round 2.*client 1: .*'3\.weight' holds NaN"):
        run(small(min_replies=4), tmp_path)


@pytest.mark.parametrize("instead", [raises, diverges])
@pytest.mark.parametrize("downlink", ["raw", "sbc(0.1)"])
def test_a_failed_client_keeps_what_it_had(
    instead: Train,
    downlink: str,
    in_round_two: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_round_two(instead)
    memories = Memories(monkeypatch)
    config = small(downlink=downlink, keep_payloads=True)
    summary = run(config, tmp_path, callbacks=[memories]).summary
    assert summary["status"] == "done"
    frame = rounds(tmp_path)
    assert frame["clients"].tolist() == [4, 3, 4, 4]
    assert frame["failures"].tolist() == [0, 1, 0, 0]
    first, second, third, _ = (r[BAD] for r in memories.rounds)
    assert list(first) == list(second)
    assert all(torch.equal(second[name], x) for name, x in first.items())
    assert int(first["iterations"]) == int(second["iterations"]) == 5
    assert int(third["iterations"]) == 10
    other = [r[0] for r in memories.rounds]
    assert [int(state["iterations"]) for state in other] == [5, 10, 15, 20]
    # the rest of the run is what the mean of three gives
    stored = payloads(tmp_path)
    assert f"round-00002/client-{BAD:03d}-up.bin" not in stored
    if downlink == "raw":
        weights = replaying.raw_downlink(tmp_path, config)
    else:
        assert f"round-00003/client-{BAD:03d}-down-model.bin" in stored  # whole: it missed one
        assert "round-00003/client-000-down-update.bin" in stored
        _, weights = replaying.compressed_downlink(tmp_path, config)
    replaying.assert_equal(dict(sorted(weights.items())), final(tmp_path))
    # downlinks are charged to whoever was sent one, replies or not
    sent = sum(8 * len(p) for n, p in stored.items() if "00002" in n and "-down-" in n)
    assert frame["down_wire_bits"].iloc[1] == sent
    assert len([n for n in stored if "round-00002" in n and "-down-" in n]) == 4
    assert clients(tmp_path).groupby("round")["samples"].agg(lambda n: (n > 0).sum()).tolist() == [
        4,
        3,
        4,
        4,
    ]
    by_client = clients(tmp_path).groupby("round")["down_wire_bits"].sum()
    assert by_client.tolist() == frame["down_wire_bits"].tolist()


def final(folder: Path) -> dict[str, torch.Tensor]:
    return dict(sorted(load_file(folder / "model.safetensors").items()))


@pytest.mark.usefixtures(not_tried.__name__)
def test_a_client_that_hangs_is_given_up(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up(monkeypatch, lambda message: asks(message, BAD, 2))
    config = RunConfig.of(task=make_task().name, method="raw", temporal=4, min_replies=3)
    with pytest.raises(RunFailed, match=r"round 2: 2 of 3 .*client 1: no reply within"):
        run(config, tmp_path / "run")
    assert summary_of(tmp_path / "run")["status"] == "failed"


@pytest.mark.usefixtures(not_tried.__name__)
def test_the_others_go_on_without_one_that_hangs(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up(monkeypatch, lambda message: asks(message, BAD))
    run(RunConfig.of(task=make_task().name, method="raw", temporal=12), tmp_path)
    assert rounds(tmp_path)["clients"].tolist() == [2]
    told = clients(tmp_path)
    assert told.loc[told["failures"] == 0, "client"].tolist() == [0, 2]


def test_a_client_app_that_returns_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = run_module.make_client_app

    def broken(*arguments: Any) -> Any:
        app = make(*arguments)
        app._registered_funcs["train.default"] = lambda message, context: None
        return app

    monkeypatch.setattr(run_module, "make_client_app", broken)
    with pytest.raises(RunFailed, match=r"round 1: 0 of 4 .*client 0: .*NoneType"):
        run(small(), tmp_path)


def test_a_failed_run_can_be_tried_again(in_round_two: Any, tmp_path: Path) -> None:
    in_round_two(raises)
    with pytest.raises(RunFailed):
        run(small(min_replies=4), tmp_path / "a")
    summary = run(small(min_replies=4), tmp_path / "a").summary  # the client fails only once
    assert summary["status"] == "done" and not (tmp_path / "a" / "error.txt").exists()
    run(small(), tmp_path / "b")
    assert model(tmp_path / "a") == model(tmp_path / "b")
