"""Replies that were asked for and not used: counted, with their reasons and their bits."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message

from fedsim import RunConfig, load, run
from fedsim.engines import local
from fedsim.federation.trainer import Trainer
from strategies.channel.payload import KEY, put
from tests.support.hanging import asks, given_up
from tests.support.runs import Memories, clients, rounds, small

BAD = 1  # the client of these tests

Answer = Callable[..., Any]


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """Changes what the bad client answers on the local engine."""
    answer = local.call_app

    def set_to(change: Answer) -> None:
        def changed(app: Any, message: Message, context: Any) -> Message:
            reply = answer(app, message, context)
            if message.metadata.dst_node_id == BAD + 1 and reply.has_content():
                change(reply)
            return reply

        monkeypatch.setattr(local, "call_app", changed)

    return set_to


def test_a_client_that_always_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Trainer.train

    def fails(self: Trainer, client: int, *rest: Any) -> Any:
        if client == BAD:
            raise MemoryError("no room for the batch")
        return train(self, client, *rest)

    monkeypatch.setattr(Trainer, "train", fails)
    summary = run(small(min_replies=3), tmp_path).summary
    assert summary["status"] == "done"
    assert (summary["failures"], summary["failed_up_bits"]) == (4, 0)
    assert summary["failure_reasons"] == "MemoryError: no room for the batch x 4"
    frame = rounds(tmp_path)
    assert frame["failures"].tolist() == [1, 1, 1, 1]
    assert set(frame["failure_reasons"]) == {"MemoryError: no room for the batch x 1"}
    told = clients(tmp_path)
    assert told.groupby("client")["failures"].sum().tolist() == [0, 4, 0, 0]
    why = told.loc[told["client"] == BAD, "failure_reasons"].unique()
    assert list(why) == ["MemoryError: no room for the batch"]
    # three of four sent: a client of the federation sent three quarters of a participant's bits
    assert summary["up_wire_bits_per_client"] == pytest.approx(0.75 * summary["up_wire_bits"])
    assert summary["down_wire_bits_per_client"] == pytest.approx(summary["down_wire_bits"])
    assert load(tmp_path).runs["failures"].tolist() == [4]


def test_an_upload_that_cannot_be_decoded_is_charged(
    replies: Callable[[Answer], None], tmp_path: Path
) -> None:
    def cut(reply: Any) -> None:
        put(reply.content, bytes(reply.content[KEY]["payload"])[:-3])

    replies(cut)
    summary = run(small(method="raw", min_replies=3, timeout=60.0), tmp_path).summary
    bits = 4 * (32 * 21_386 + 24 - 24)  # four raw messages, three bytes less each
    assert (summary["failures"], summary["failed_up_bits"]) == (4, bits)
    assert rounds(tmp_path)["failed_up_bits"].tolist() == [bits // 4] * 4
    told = clients(tmp_path)
    assert told.groupby("client")["failed_up_bits"].sum().tolist() == [0, bits, 0, 0]
    assert summary["up_wire_bits"] == 4 * (32 * 21_386 + 24)  # of those that were used
    whole = rounds(tmp_path)["up_wire_bits"].sum() + bits
    assert summary["up_wire_bits_per_client"] == whole / 4
    assert summary["up_content_bits_per_client"] == 0.75 * summary["up_content_bits"]


def late_run(
    method: str, make_task: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[RunConfig, dict[str, Any], Memories]:
    """Three rounds of three clients; the bad client's first upload comes in the second."""
    task = make_task(iterations=12)
    config = RunConfig.of(
        task=task.name, method=method, temporal=4, min_replies=2, momentum=0.0, keep_payloads=True
    )
    given_up(monkeypatch, lambda message: asks(message, BAD, 1))
    memories = Memories(monkeypatch)
    return config, run(config, folder / "run").summary, memories


def test_an_upload_that_is_late_is_charged_in_the_round_in_which_it_comes(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is on its way its client is not asked; without a memory the update is lost."""
    _, summary, _ = late_run("raw", make_task, tmp_path, monkeypatch)
    bits = 32 * 43 + 24
    assert summary["failures"] == 2 and (summary["returned"], summary["lost"]) == (0, 1)
    assert summary["failure_reasons"] == (
        "no reply within the timeout x 1; still at work on an earlier round x 1"
    )
    frame = rounds(tmp_path / "run")
    assert frame["failures"].tolist() == [1, 1, 0] and frame["absent"].tolist() == [0, 1, 0]
    assert frame["failed_up_bits"].tolist() == [0, bits, 0]
    assert frame["lost"].tolist() == [0, 1, 0]  # as soon as it is seen
    assert summary["failed_up_bits"] == bits


def test_the_share_that_travelled_is_stored_beside_the_nominal_one(tmp_path: Path) -> None:
    """At least one entry a tensor: 7 of 21,386 where p says 2."""
    summary = run(replace(small(), method="sbc(0.0001)"), tmp_path).summary
    assert summary["gradient"] == 0.0001
    assert summary["up_share"] == summary["up_sent"] / 4 / 21_386 > 3 * 0.0001
    assert summary["total_sparsity"] == 0.0001 / 5
