"""What is computed of a message's bytes is what Flower would send."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, MetricRecord, RecordDict

from strategies.channel import framing
from strategies.channel.framing import to_client, to_server
from tests.support.byflower import by_flower, payload

EVERYTHING = {
    "yes": True, "no": False, "zero": 0, "count": 300, "below": -70000, "rate": 0.5, "none": 0.0,
    "text": "änderung", "empty": "", "bytes": b"abc", "floats": [1.0, 2.0], "counts": [1, -500, 0],
    "flags": [True, False], "texts": ["a", "bc"], "parts": [b"a", b""],
}  # fmt: skip
ARRAYS = ArrayRecord(
    {"w": Array(np.arange(6.0).reshape(2, 3)), "b": Array(np.zeros(3)), "c": Array(np.zeros(3))}
)
CONTENTS = {
    "nothing": RecordDict(),
    "payload": RecordDict({"fedsim": ConfigRecord({"payload": payload(100), "round": 200})}),
    "everything": RecordDict({"fedsim": ConfigRecord(dict(EVERYTHING)), "ü": ConfigRecord()}),
    "metrics": RecordDict({"metrics": MetricRecord({"n": 3, "loss": 0.5, "sent": [1, 2, 900]})}),
    "arrays": RecordDict({"arrays": ARRAYS, "config": ConfigRecord({"lr": 0.1})}),
    "the same bytes": RecordDict(
        {
            "arrays": ArrayRecord(
                {str(shape): Array("float32", shape, "raw", bytes(24)) for shape in ((6,), (2, 3))}
            )
        }
    ),
    "chunks": RecordDict({"arrays": ArrayRecord({"w": Array(np.ones(1_500_000))})}),
}


@pytest.mark.parametrize("kind", ["train", "evaluate"])
@pytest.mark.parametrize("name", CONTENTS)
def test_computed_is_measured(name: str, kind: str) -> None:
    content = CONTENTS[name]
    assert to_client(content, kind) == by_flower(content, False, kind)
    assert to_server(content, kind) == by_flower(content, True, kind)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 10**7])
def test_every_length_of_a_payload(length: int) -> None:
    content = RecordDict({"fedsim": ConfigRecord({"payload": payload(length), "kind": "update"})})
    assert to_client(content) == by_flower(content, False)
    assert to_server(content) == by_flower(content, True)


@pytest.mark.parametrize("reason", ["", "out of order", 300 * "ö"])
def test_a_failure_travels_too(reason: str) -> None:
    error = Error(code=2, reason=reason)
    assert to_server(error) == by_flower(error, True)


def test_the_size_of_a_chunk_is_flowers() -> None:
    from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE

    assert framing._CHUNK == FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE
