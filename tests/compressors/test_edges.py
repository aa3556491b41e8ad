"""Updates at the edges, whose meaning is stated: zeros, ties, scalars, nothing, denormals, NaN."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from compressors import ALL, ROWS, Row, UpdateError, compress, parse, text
from tests.support.generators import DEVICES, METHODS, decoded, moved, same_bits, whole_numbers
from tests.support.looping import looped
from tests.support.traits import frame_bits, keeps_single_entries, only_plain, pipelines, scales_up

TINY = 2.0**-149  # the smallest denormal
HUGE = torch.finfo(torch.float32).max
EDGES = {
    "zeros": torch.zeros(40),
    "minus zeros": torch.full((40,), -0.0),
    "one entry": torch.tensor([-2.5]),
    "one zero entry": torch.tensor([0.0]),
    "scalar": torch.tensor(1.5),
    "scalar zero": torch.tensor(0.0),
    "empty": torch.zeros(0),
    "empty matrix": torch.zeros(3, 0),
    "all equal": torch.full((5, 8), 2.0),
    "all equal and negative": torch.full((40,), -2.0),
    "fewer non-zeros than k": torch.eye(40)[7],
    "ties": torch.tensor([1.0, -2, 2, 2, -2, 0, 2] * 9),
    "denormals": torch.arange(-20, 21) * TINY,
    "largest": torch.tensor([HUGE, -HUGE] * 20),
    "two dimensions": whole_numbers(60, 5).reshape(3, 20),
}
SPARSE = [method for method in METHODS if only_plain(method)]
SCALING = [method for method in METHODS if scales_up(method)]
every_method = pytest.mark.parametrize("method", METHODS)
every_device = pytest.mark.parametrize("device", DEVICES)
sparse_methods = pytest.mark.parametrize("method", SPARSE)


def edges(method: str) -> dict[str, Tensor]:
    """All of them; without the largest floats where a method sends multiples of entries."""
    return {edge: x for edge, x in EDGES.items() if edge != "largest" or method not in SCALING}


@every_method
@every_device
def test_every_edge_goes_through(method: str, device: str) -> None:
    """Alone, and behind a tensor whose bits end within a byte."""
    for edge, x in edges(method).items():
        for update in ({edge: x}, {"first": whole_numbers(9, 1), edge: x}):
            update = moved(update, device)
            packet, _ = compress(parse(method), update)
            got = decoded(method, packet.payload, update)
            sent = {name: one.decoded for name, one in packet.sent.items()}
            assert same_bits(got, sent), edge


@pytest.mark.parametrize("method", SCALING)
def test_multiples_that_overflow_are_refused_by_name(method: str) -> None:
    with pytest.raises(UpdateError, match="overflow float32"):
        compress(parse(method), {"w": EDGES["largest"].repeat(10)})


@every_method
def test_the_empty_update_is_framing_alone(method: str) -> None:
    packet, memory = compress(parse(method), {})
    assert packet.payload[:1] == b"\x01"
    frame = frame_bits(parse(method))
    assert 8 * len(packet.payload) == frame
    assert packet.spans == {"header": frame, "positions": 0, "values": 0, "side": 0}
    assert not any(x.numel() > 1 for x in memory.values())  # at most counters
    assert decoded(method, packet.payload, {}) == {}


@every_method
def test_empty_tensors_take_no_bits(method: str) -> None:
    """One exception: a whole update of empty tensors is framing, too."""
    packet, _ = compress(parse(method), {"a": torch.zeros(0), "b": torch.zeros(3, 0)})
    assert 8 * len(packet.payload) == frame_bits(parse(method))
    assert [one.count for one in packet.sent.values()] == [0, 0]
    assert packet.sent["b"].decoded.shape == (3, 0)


@sparse_methods
@looped("edge", ["zeros", "minus zeros", "one zero entry", "scalar zero"])
def test_zeros_send_nothing(method: str, edge: str) -> None:
    """Two bits say so: not the nominal k, and gamma(0 + 1); the rest of the byte is padding."""
    packet, _ = compress(parse(method), {"w": EDGES[edge]})
    assert packet.spans == {"header": 32, "positions": 0, "values": 0, "side": 0}
    assert packet.payload[3] == 0b0_1_000000
    assert packet.sent["w"].count == 0
    assert torch.equal(packet.sent["w"].decoded, EDGES[edge].abs())


@pytest.mark.parametrize("row", [r for r in ROWS if r.kind == "quantizer"], ids=lambda r: r.name)
def test_a_quantizer_of_no_values_writes_nothing(row: Row) -> None:
    quantizer = text(pipelines(parse(row.example))[0].quantize)
    packet, _ = compress(parse(f"one_sided(0.5) | {quantizer}"), {"w": torch.zeros(40)})
    assert packet.spans["values"] == packet.spans["side"] == 0
    assert not packet.sent["w"].decoded.any()


@pytest.mark.parametrize("method", [m for m in METHODS if keeps_single_entries(m)])
@looped("edge", ["one entry", "scalar"])
def test_a_single_entry_is_exact(method: str, edge: str) -> None:
    """k is at least one, and the mean of one value is that value."""
    packet, _ = compress(parse(method), {"w": EDGES[edge]})
    assert same_bits({"w": packet.sent["w"].decoded}, {"w": EDGES[edge]})


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("sparse", ["topk(0.1) | float32", "one_sided(0.1) | mean"])
def test_ties_go_to_the_lowest_index(sparse: str, sign: int) -> None:
    packet, _ = compress(parse(sparse), {"w": sign * torch.full((5, 8), 2.0)})
    assert packet.sent["w"].indices.tolist() == [0, 1, 2, 3]  # exactly k = 0.1 * 40
    packet, _ = compress(parse(f"flat({sparse})"), {"a": torch.ones(3), "w": torch.ones(47)})
    assert packet.sent["a"].indices.tolist() == [0, 1, 2]
    assert packet.sent["w"].indices.tolist() == [0, 1]


@pytest.mark.parametrize("method", ["topk(0.5) | float32", "one_sided(0.5) | mean"])
def test_fewer_non_zeros_than_k_sends_those(method: str) -> None:
    packet, _ = compress(parse(method), {"w": EDGES["fewer non-zeros than k"]})
    assert packet.sent["w"].indices.tolist() == [7]


@pytest.mark.parametrize(
    ("method", "expected"),
    [("topk(0.1) | float32", [-20, -19, 19, 20]), ("one_sided(0.1) | float32", [17, 18, 19, 20])],
)
def test_denormals_are_sent_as_they_are(method: str, expected: list[int]) -> None:
    sent = compress(parse(method), {"w": EDGES["denormals"]})[0].sent["w"]
    assert sent.decoded[sent.indices].tolist() == [value * TINY for value in expected]


def test_raw_keeps_every_bit() -> None:
    packet, _ = compress(parse("raw"), EDGES)
    assert same_bits({name: one.decoded for name, one in packet.sent.items()}, EDGES)
    assert all(one.indices is ALL for one in packet.sent.values())
    assert packet.spans["values"] == 32 * sum(x.numel() for x in EDGES.values())


@every_method
@every_device
def test_what_is_not_finite_is_refused_by_name(method: str, device: str) -> None:
    for at, bad in itertools.product((0, 17, 39), (math.nan, math.inf, -math.inf)):
        x = whole_numbers(40, 3)
        x[at] = bad
        with pytest.raises(UpdateError, match="tensor 'fc.weight' holds NaN or infinity"):
            compress(parse(method), moved({"ok": torch.ones(3), "fc.weight": x}, device))


@every_method
@looped("dtype", [torch.float64, torch.float16, torch.int64])
def test_other_dtypes_are_refused_by_name(method: str, dtype: torch.dtype) -> None:
    with pytest.raises(UpdateError, match=f"tensor 'fc.bias' is {dtype}: updates are float32"):
        compress(parse(method), {"ok": torch.ones(3), "fc.bias": torch.ones(3, dtype=dtype)})


@pytest.mark.parametrize("method", ["sbc(0.5)", "raw", "per_tensor(bfloat16)"])
def test_bfloat16_updates_are_widened(method: str) -> None:
    """Every bfloat16 number is a float32 number: the message is that of the widened update."""
    narrow = torch.tensor([1.5, -3.0, 0.0, 7e30]).to(torch.bfloat16)
    packet, memory = compress(parse(method), {"w": narrow})
    again, wide = compress(parse(method), {"w": narrow.float()})
    assert packet.payload == again.payload and same_bits(memory, wide)
    assert packet.sent["w"].decoded.dtype == torch.float32
    if method != "sbc(0.5)":
        assert torch.equal(packet.sent["w"].decoded.to(torch.bfloat16), narrow)


@pytest.mark.parametrize(
    "method", [m for m in SPARSE if text(parse(m)).startswith("ef(")] + ["dgc(0.1, 0)"]
)
def test_a_residual_that_overflows_is_refused_by_name(method: str) -> None:
    update = {"w": torch.full((300,), HUGE)}
    _, memory = compress(parse(method), update)
    with pytest.raises(UpdateError, match="tensor 'w' and its memory overflow float32"):
        for _ in range(300):
            _, memory = compress(parse(method), update, memory)
