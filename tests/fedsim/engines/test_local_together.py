"""Clients that are trained together in one process: whole runs, and clients that fail in them."""

from pathlib import Path
from typing import Any

import pytest

from compressors.device import numbers
from compressors.device import write as device_write
from fedsim import RunConfig, run
from strategies.channel.client_end import ClientEnd
from tests.support.gpu import needs_triton, taken
from tests.support.models import normed
from tests.support.runs import assert_same, clients, make_task
from tests.support.together import Together, together

__all__ = ["make_task", "together"]  # fixtures


def config(task: str, **more: Any) -> RunConfig:
    given = {"method": "raw", "temporal": 3, "iterations": 12, "clients": 5}
    return RunConfig.of(task=task, **(given | more))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_is_that_of_one_after_the_other(
    workers: int, make_task: Any, tmp_path: Path, together: Together
) -> None:
    """To the bit, with residuals, a model that travels, buffers and parts of a cohort."""
    more = {"method": "sbc(0.3)", "downlink": "sbc(0.5)", "cohort": 4}
    task = make_task(build=normed).name
    run(config(task, **more), tmp_path / "one", progress=False)
    together(3)
    run(config(task, workers=workers, **more), tmp_path / "other", progress=False)
    assert_same(tmp_path / "one", tmp_path / "other")


def test_a_client_that_fails_among_others_fails_alone(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: Together
) -> None:
    """Client 1 in round 2 when it decodes, client 3 in round 3 when it encodes; client 0 in round 4
    has an update that no message can carry.
    """
    decode, encode = ClientEnd.decode, ClientEnd.encode

    def failing_decode(end: ClientEnd, *of_message: Any) -> Any:
        delivery = decode(end, *of_message)
        if delivery.round == 2 and next(told) == 1:
            raise OSError("cannot read")
        return delivery

    def failing_encode(end: ClientEnd, client: Any, update: Any, delivery: Any) -> Any:
        if (client, delivery.round) == (3, 3):
            raise OSError("cannot write")
        if (client, delivery.round) == (0, 4):
            update = {name: x / 0 for name, x in update.items()}
        return encode(end, client, update, delivery)

    told = iter(range(5))
    monkeypatch.setattr(ClientEnd, "decode", failing_decode)
    monkeypatch.setattr(ClientEnd, "encode", failing_encode)
    together(5)
    run(config(make_task().name, min_replies=4), tmp_path, progress=False)
    failed = clients(tmp_path).query("failures > 0")
    assert failed[["round", "client"]].to_numpy().tolist() == [[2, 1], [3, 3], [4, 0]]
    *reasons, last = failed["failure_reasons"]
    assert reasons == ["OSError: cannot read", "OSError: cannot write"]
    assert "tensor '0.weight' holds NaN or infinity" in last and "(round 4, " in last


@pytest.mark.slow
@needs_triton
def test_messages_that_kernels_make_together_are_those_of_each_client(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: Together
) -> None:
    """The same run: payloads, residuals' sums, masked momentum and model, bit for bit."""
    many: list[int] = []

    def counted(method: Any, begun: Any) -> Any:
        many.append(len(begun))
        return made(method, begun)

    def clearing(groups: Any, chosen: Any) -> Any:
        masked.append(len(groups))
        return cleared(groups, chosen)

    masked: list[int] = []
    made, cleared = device_write.write_messages, numbers.cleared
    monkeypatch.setattr(device_write, "write_messages", counted)
    monkeypatch.setattr(numbers, "cleared", clearing)
    more = {"method": "sbc(0.1)", "cohort": 3, "iterations": 6, "keep_payloads": True}
    together(3)
    again = config(make_task().name, **more)
    run(again, tmp_path / "host", progress=False)
    assert not many
    with taken():
        run(again, tmp_path / "kernels", progress=False)
    assert sorted(many) == [1, 1, 3, 3]  # the server's, and those of the cohort's clients
    assert masked == [3, 3]
    assert_same(tmp_path / "host", tmp_path / "kernels")
