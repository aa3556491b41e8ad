"""One pass for an update: the bytes, the account, the memory and the errors of the general way."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from compressors import compress, decompress, parse
from compressors.base import tensor_seed
from compressors.kernels import noise
from compressors.kernels.segments import choose
from compressors.segments import room
from compressors.segments.layout import inputs_of, layout_of
from compressors.whole.pipeline import ROUND
from tests.support.examples import asked_of
from tests.support.generators import runs, whole_numbers
from tests.support.looping import looped
from tests.support.onepass import (
    KINDS,
    TEXTS,
    both_ways,
    drawn,
    equal,
    is_one_pass,
    part_by_part,
    read_alike,
)

every_text = pytest.mark.parametrize("text", TEXTS)
SIZES = (1, 0, 7, 511, 513, 4095, 4097, 9001)


@every_text
@asked_of(runs())
def test_small_updates(text: str, updates: list[dict[str, torch.Tensor]]) -> None:
    both_ways(text, updates, seed=5)


@every_text
@looped("kind", KINDS)
def test_values_of_every_kind(text: str, kind: str) -> None:
    """Three messages of a sender; sizes around what a sample and a block take."""
    rng = np.random.default_rng(KINDS.index(kind))
    both_ways(text, [drawn(rng, list(SIZES), kind) for _ in range(3)], seed=77)


@pytest.mark.slow
@every_text
def test_many_layouts_and_seeds(text: str) -> None:
    rng = np.random.default_rng(len(text))
    for _ in range(25):
        sizes = rng.integers(0, 10 ** rng.integers(1, 5), rng.integers(1, 9)).tolist()
        kind = str(rng.choice(KINDS))
        both_ways(text, [drawn(rng, sizes, kind) for _ in range(2)], int(rng.integers(2**32)))


@pytest.mark.slow
@pytest.mark.parametrize("text", ["sbc(0.001)", "topk(0.3) | cnat", "ef_sign()", "qsgd(127)"])
def test_large_tensors(text: str) -> None:
    """Memory that is used again, in huge pages; positions far apart."""
    rng = np.random.default_rng(1)
    both_ways(text, [drawn(rng, [1_200_000, 3, 400_000], kind) for kind in ("normal", "few")])


@pytest.mark.slow
@every_text
def test_hostile_payloads_are_refused_in_the_same_words(text: str) -> None:
    rng = np.random.default_rng(3)
    update = drawn(rng, [40, 0, 9, 700], "normal")
    payload = both_ways(text, [update])[0].payload
    refused = 0
    for turn in range(150):
        changed = bytearray(payload)
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(3, len(changed))] ^= 1 << rng.integers(8)
        cut = bytes(changed[: rng.integers(len(changed))] if turn % 3 == 0 else changed)
        refused += read_alike(text, cut, update) is None
    refused += read_alike(text, payload + b"\0", update) is None
    for length in range(5):
        refused += read_alike(text, payload[:length], update) is None
    assert refused > 50


@pytest.mark.parametrize(
    "text",
    [
        "one_sided(1) | mean",
        "topk(1) | l1_sign",
        "ef_sign()",
        "ef(one_sided(1) | mean)",
        "topk(1) | magnitude",
    ],
)
def test_means_that_the_order_of_a_sum_could_change(text: str) -> None:
    """Halfway between two float32 numbers: the bytes are those of numpy's sum."""
    wide = torch.tensor([2.0**60, 2.0**36, 1.0, 1.0])  # halfway, but for what float64 cannot hold
    half = torch.tensor([1.0, 1.0 + 2.0**-23] * 4)
    both_ways(text, [{"sure": torch.tensor([3.0, 1.0]), "wide": wide, "half": half}])


def test_tensors_as_they_come() -> None:
    """Views of one vector, columns first, transposed, parameters, bfloat16, and a numpy seed."""
    whole = whole_numbers(4000, 3) / 64
    update: dict[str, Any] = {
        "view": whole[5:65].view(3, 20),
        "next": whole[65:73],
        "turned": whole[100:160].view(6, 10).t(),
        "last": whole[200:344].view(2, 8, 3, 3).to(memory_format=torch.channels_last),
        "step": whole[400:500:3],
        "parameter": torch.nn.Parameter(whole[600:640].clone()),
    }
    for text in ("sbc(0.1)", "raw", "cnat", "topk(0.2) | float32", "fedpaq(3)"):
        both_ways(text, [update, update])
        short = {name: x.detach().to(torch.bfloat16) for name, x in update.items()}
        packet, _ = compress(parse(text), short, seed=np.int64(4))  # type: ignore[arg-type]
        with part_by_part():
            assert compress(parse(text), short, seed=4)[0].payload == packet.payload


def test_nothing_is_changed_and_nothing_is_shared() -> None:
    """Update and memory stay; the memory after has storages of its own, each for one tensor."""
    update = drawn(np.random.default_rng(2), [60, 600, 0, 5], "normal")
    copies = {name: x.clone() for name, x in update.items()}
    method = parse("sbc(0.1)")
    _, first = compress(method, update)
    before = {key: x.clone() for key, x in first.items()}
    packet, second = compress(method, update, first)
    assert all(equal(x, copies[name]) for name, x in update.items())
    assert all(equal(x, before[key]) for key, x in first.items())
    second["residual/w"].add_(1.0)
    assert equal(second["residual/t"], compress(method, update, first)[1]["residual/t"])
    found = decompress(method, packet.payload, update)
    for x in [*second.values(), *found.values()]:
        assert x.untyped_storage().nbytes() == 4 * x.numel() and x.storage_offset() == 0


def test_what_is_sent_is_made_when_it_is_asked_for() -> None:
    for text in ("sbc(0.1)", "cnat", "raw", "flat(topk(0.1) | float32)"):
        packet, _ = compress(parse(text), {"w": torch.arange(50.0), "v": torch.ones(3)})
        assert "sent" not in vars(packet)
        assert packet.counts == {name: one.count for name, one in packet.sent.items()}
        assert "sent" in vars(packet)
        other = pickle.loads(pickle.dumps(packet))
        assert other.payload == packet.payload and other.counts == packet.counts


def test_updates_that_do_not_go_in_one_pass() -> None:
    plain, long = {"w": torch.ones(4)}, {"w": torch.ones(4, dtype=torch.float64)}
    assert inputs_of(plain) is not None
    odd: list[Any] = [
        long,
        {1: torch.ones(4)},
        {"w": np.ones(4)},
        [("w", torch.ones(4))],
        None,
        {"w": torch.ones(4, device="meta")},
        {"w": torch.eye(3).to_sparse()},
    ]
    assert all(inputs_of(one) is None for one in odd)
    for text in (
        "sketch(16)",
        "topk(0.1) | float32 | elias_gamma",
        "randk(0.1) | float32",
        "topk(0.1) | float32 | golomb(exact)",
        "ef(cnat, 0.9)",
        "ef21(cnat)",
    ):
        assert layout_of(parse(text), ("w",), (torch.Size([4]),)) is None
    packet, _ = compress(parse("cnat"), {"w": torch.zeros(0)})
    assert not is_one_pass(packet)


@asked_of(st.integers(0, 2**32 - 1))
def test_seeds_are_those_of_the_parts(seed: int) -> None:
    for s in (0, 1, 77, 1000):
        own = tensor_seed(tensor_seed(seed, s), ROUND)
        assert int(choose.of_segment(seed, s)) == own
        assert tuple(map(int, choose.key_of(own))) == tuple(map(int, noise.key(own)))
    assert choose.ROUND == ROUND


def test_memory_is_used_again_once_nobody_looks_at_it() -> None:
    large = room._LARGE // 4
    first = room.empty_floats(large)
    place, view = first.ctypes.data, torch.from_numpy(first)[7:9]
    del first
    second = room.empty_floats(large)
    assert second.ctypes.data != place  # the view is still there
    view[0] = 3.0
    del view
    third = room.zeros(large)
    assert third.ctypes.data == place
    assert not third.any()
    small = room.empty_floats(3)
    assert small.base is None  # and is not worth it


def test_a_stream_gives_its_own_memory_away() -> None:
    for bits in (0, 100, 8 * room._LARGE + 9):
        stream = room.Stream(bits)
        assert not stream.words.any() and 64 * stream.words.size >= bits + 128
        place = stream.words.ctypes.data
        stream.words[0] = 5
        payload = stream.close(bits // 8)
        assert len(payload) == bits // 8 and payload[:1] in (b"", b"\5")
        if bits > 1000:
            assert np.frombuffer(payload, np.uint8).ctypes.data == place
