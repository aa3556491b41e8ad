"""Messages whose kernels are repeated as one graph: bytes and memory are the host's.

A tape of torch's operations and of kernels plays the graph.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from compressors import UpdateError, arraycache, compress, parse
from compressors.device.write import RECORDINGS
from compressors.kernels.gpu import layout
from compressors.kernels.gpu.graphs import RECORDERS, Recording, Recordings, Repeated
from tests.compressors.device.test_device_messages import update
from tests.support.gpu import DEVICE, by_kernels, equal_bits, needs_triton, same_as_host, waits
from tests.support.tape import record_tape

pytestmark = needs_triton


@pytest.fixture
def records() -> Iterator[list[Recording]]:
    """What is recorded, as it is."""
    made: list[Recording] = []
    record = RECORDERS.get(DEVICE.type, record_tape)

    def noting(work: Any) -> Recording:
        made.append(record(work))
        return made[-1]

    before = dict(RECORDERS)
    RECORDERS[DEVICE.type] = noting
    RECORDINGS.forget()
    yield made
    RECORDERS.clear()
    RECORDERS.update(before)
    RECORDINGS.forget()


TEXTS = (
    "sbc(0.1)",
    "ef(topk(0.1) | shrink(qsgd(7, 8)) | golomb)",
    "topk(0.2) | dither(7, 2, standard, 16, cnat) | golomb",
    "ef(flat(topk(0.05) | float32 | golomb))",
    "by_name('t*', terngrad, 'w', raw, '*', ef(cnat))",
)


@pytest.mark.parametrize(
    "text", [TEXTS[0], *(pytest.param(text, marks=pytest.mark.slow) for text in TEXTS[1:])]
)
def test_repeated_messages_are_those_of_the_host(text: str, records: list[Recording]) -> None:
    """Four messages: made, recorded, and two by repeats, of other values, seeds and counts."""
    updates = [update(i) for i in range(4)]
    updates[3]["w"][:29] = 0.0  # fewer entries than are to be sent
    packets = same_as_host(text, updates)
    assert len(records) == text.count("'") // 2 or len(records) == 1
    first = {name: one.decoded.clone() for name, one in packets[2].sent.items()}
    again = {name: one.decoded for name, one in packets[2].sent.items()}
    assert all(equal_bits(x, again[name]) for name, x in first.items())


@pytest.mark.slow
def test_a_repeat_changes_no_message_before_it(records: list[Recording]) -> None:
    text, made = "sbc(0.2)", []
    state = None
    for i in range(5):
        packet, state = by_kernels(text, update(i), state)
        kept = {name: (x, x.clone()) for name, x in state.items()}
        sent = {name: (x.values, x.values.clone()) for name, x in packet.sent.items()}
        made.append((kept, sent))
    assert len(records) == 1
    for kept, sent in made:
        assert all(equal_bits(*pair) for pair in (*kept.values(), *sent.values()))


def test_a_repeat_waits_once_and_a_sum_in_doubt_twice_more(
    records: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "one_sided(1) | mean | golomb"
    sure = {"w": torch.tensor([1.0, 2.0, -3.0, 4.0])}
    wide = {"w": torch.tensor([2.0**60, 2.0**36, 1.0, 1.0])}
    for _ in range(2):
        by_kernels(text, sure)
    brought = waits(monkeypatch, "compressors.device.write")
    for one, many in ((sure, 1), (wide, 3), (sure, 1)):
        brought.clear()
        packet, _ = by_kernels(text, one)
        assert packet.payload == compress(parse(text), one)[0].payload
        assert len(brought) == many
    assert len(records) == 1


@pytest.mark.slow
def test_an_update_that_is_wrong_spoils_no_repeat(records: list[Recording]) -> None:
    fine = {"w": torch.tensor([1.0, -2.0, 3.0])}
    for i in range(5):
        if i == 3:
            with pytest.raises(UpdateError, match="'w' holds NaN"):
                by_kernels("sbc(0.4)", {"w": torch.tensor([1.0, torch.nan, 3.0])})
        packet, _ = by_kernels("sbc(0.4)", fine)
        assert packet.payload == compress(parse("sbc(0.4)"), fine)[0].payload
    assert len(records) == 1


@pytest.mark.parametrize("fails", [True, False])
def test_a_graph_that_fails_or_differs_is_refused_once(fails: bool) -> None:
    def record(work: Any) -> Recording:
        if fails:
            raise ValueError("not here")
        recording = record_tape(work)
        return recording._replace(repeat=lambda: recording.result.report[1:2].add_(1))  # a count

    RECORDINGS.forget()
    before = dict(RECORDERS)
    RECORDERS[DEVICE.type] = record
    one = {"w": torch.tensor([1.0, -2.0, 3.0])}
    try:
        by_kernels("sbc(0.4)", one)
        with pytest.warns(RuntimeWarning, match="not here" if fails else "bits differ"):
            by_kernels("sbc(0.4)", one)
        packet, _ = by_kernels("sbc(0.4)", one)
    finally:
        RECORDERS.clear()
        RECORDERS.update(before)
        RECORDINGS.forget()
    assert packet.payload == compress(parse("sbc(0.4)"), one)[0].payload


@pytest.mark.slow
def test_no_table_is_uploaded_while_a_message_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A graph would copy them each time, from memory of the host that is another's then."""

    def record(work: Any) -> Recording:
        with monkeypatch.context() as patch:
            patch.setattr(layout, "upload", None)
            return record_tape(work)

    monkeypatch.setitem(RECORDERS, DEVICE.type, record)
    monkeypatch.setattr(arraycache, "MOST_RESULTS", 3)  # of one rule, not of two
    RECORDINGS.forget()
    one = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([3.0])}
    for _ in range(2):  # a graph that is refused warns
        by_kernels("by_name('a', cnat, '*', raw)", one)
    RECORDINGS.forget()


def test_what_is_recorded_takes_no_more_than_its_bytes() -> None:
    some = Recordings(most_bytes=10, entries=2)
    assert some.takes(10, torch.device("cpu")) and not some.takes(11, torch.device("cpu"))
    for name, size in (("a", 6), ("b", 3), ("c", 4), ("d", 6)):
        some.put(name, Repeated(size=size))
    assert [some.take(name) is None for name in "abcd"] == [True, True, False, False]
    some.put("e", Repeated(size=7))
    some.put("f", Repeated(size=4))
    assert some.take("e") is None and some.take("f") is not None
