"""Each private thing of Flower's that fedsim touches: it is there, and does what is needed."""

import re
from pathlib import Path

import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedsim.engines import compat

ROOT = Path(__file__).parents[3]
PRIVATE = re.compile(
    r"flwr\.(supercore|superlink|server\.|common\.serde|proto|simulation\.\w+\.)"
    r"|__dict__\[\"_|\._(run|task|node|message)_id\b"
)


def test_without_an_identity_no_message_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, None)
    with pytest.raises(RuntimeError, match="is not set"):
        Message(RecordDict(), 1, "train")
    compat.identify(7)
    assert Message(RecordDict(), 1, "train").metadata.run_id == 7


def test_a_reply_refers_to_the_name_of_its_message() -> None:
    compat.identify()
    message = Message(RecordDict(), 3, "train")
    assert message.metadata.message_id == ""
    compat.name(message, "a")
    reply = Message(RecordDict(), reply_to=message)
    assert (reply.metadata.reply_to_message_id, reply.metadata.src_node_id) == ("a", 3)


def test_unchecked_numbers_are_a_record_like_any_other() -> None:
    values = {"num-examples": 3, "loss": 0.5, "counts": [1, 2]}
    made, usual = compat.metrics_of({**values}), MetricRecord({**values})
    assert made == usual and list(made) == list(usual)
    a, b = RecordDict({"m": made}), RecordDict({"m": usual})
    assert compat.to_bytes(a) == compat.to_bytes(b)


def test_contents_go_to_bytes_and_back() -> None:
    content = RecordDict(
        {
            "c": ConfigRecord({"payload": b"\x00\xff", "n": 3, "x": 0.1, "words": ["a", "b"]}),
            "m": MetricRecord({"loss": 1.5, "counts": [1, 2]}),
            "a": ArrayRecord({"w": Array("uint8", (3,), "numpy.ndarray", b"123")}),
        }
    )
    again = compat.from_bytes(compat.to_bytes(content))
    assert again == content and list(again) == list(content)
    assert compat.to_bytes(again) == compat.to_bytes(content)


def test_a_run_has_its_number() -> None:
    assert compat.run_of(5).run_id == 5


@pytest.mark.parametrize("package", ["compressors", "strategies", "fedsim"])
def test_nothing_private_of_flower_s_is_named_elsewhere(package: str) -> None:
    files = {str(f.relative_to(ROOT)): f for f in (ROOT / package).rglob("*.py")}
    found = {name for name, f in files.items() if PRIVATE.search(f.read_text(encoding="utf-8"))}
    assert found <= {"fedsim/engines/compat.py"}
