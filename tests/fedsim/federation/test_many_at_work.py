"""A server that does not wait does as much for an update of many clients at work as of few."""

import sys
from types import CodeType, FrameType
from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

import fedsim.federation.concurrent
import fedsim.network
from fedsim import run
from fedsim.engines import local
from strategies.channel import nodes
from strategies.channel.payload import KEY, ROUND
from tests.support.runs import small

NETWORK = "up=lognormal(1Mbit, 1), down=4Mbit, latency=10ms, compute=lognormal(20ms, 1)"
CASES: dict[str, dict[str, Any]] = {
    "always there": {"memory": "256KiB"},
    "on and off": {"availability": "onoff(20s, 10s)", "dropout": "before=0.1, after=0.1"},
    "a fraction": {"availability": "0.7"},
    "batteries": {"network": f"{NETWORK}, energy_up=1mJ/bit, battery=lognormal(1kJ, 1)"},
    "late": {"network": f"{NETWORK}, server_up=20Mbit", "deadline": "1s", "late": "count"},
}
first, *others = CASES
PARTS = (
    fedsim.federation.__path__[0],
    fedsim.network.__path__[0],
    nodes.__file__,
)
"""Where it is decided who is asked when; replies are decoded elsewhere."""


@pytest.fixture(autouse=True)
def _one_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """All clients send what the first one has sent."""
    train, sent = local.call_app, list[Message]()

    def answer(app: ClientApp, message: Message, context: Context) -> Message:
        if message.metadata.message_type != "train":
            return train(app, message, context)
        if not sent:
            sent.append(train(app, message, context))
        records = RecordDict(dict(sent[0].content))
        number = {ROUND: message.content[KEY][ROUND]}
        records[KEY] = ConfigRecord(dict(records[KEY]) | number)
        return Message(records, reply_to=message)

    monkeypatch.setattr(local, "call_app", answer)


def lines_per_update(at_work: int, **settings: Any) -> float:
    """Lines of ``PARTS`` that are carried out per update, over two rows of as many updates."""
    rows, lines, ours = 4, [0], dict[CodeType, bool]()
    shared = {"clients": at_work, "partition": "whole", "temporal": 1, "iterations": rows}
    config = small(**{"network": NETWORK, "strategy": "fedbuff(5)"} | shared | settings)

    def count(frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        if code not in ours:
            ours[code] = code.co_filename.startswith(PARTS)
        lines[0] += event == "line"
        return count if ours[code] else None

    def at_row(row: dict[str, Any]) -> None:
        sys.settrace(count if 1 < row["round"] + 1 < rows else None)

    try:
        run(config, callbacks=[at_row], progress=False)
    finally:
        sys.settrace(None)
    return lines[0] / ((rows - 2) * at_work)


@pytest.mark.parametrize(
    "name", [first, *(pytest.param(name, marks=pytest.mark.slow) for name in others)]
)
def test_an_update_takes_as_many_steps_of_many_at_work_as_of_few(name: str) -> None:
    few, many = (lines_per_update(at_work, **CASES[name]) for at_work in (20, 200))
    assert 0 < many < 1.2 * few
