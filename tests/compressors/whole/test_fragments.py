"""Fragments: whose turn it is, what the others' memory is then, and what a damaged turn is."""

import pytest
import torch

from compressors import PayloadError, UpdateError, compress, decompress, parse
from compressors.message import explain
from compressors.whole.feedback import holds, loses, take_back
from compressors.whole.fragments import Fragments

NAMES = ["0.weight", "0.bias", "2.weight", "2.bias", "4", "6.norm.weight", "6.norm.bias"]


def update(seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(40, generator=generator) for name in NAMES}


@pytest.mark.parametrize(
    ("method", "fragments"),
    [
        ("fragments(raw, 2)", [0, 0, 1, 1, 0, 1, 1]),
        ("fragments(raw, 2, sequential)", [0, 0, 0, 0, 1, 1, 1]),
        ("fragments(raw, 3)", [0, 0, 1, 1, 2, 0, 0]),
        ("fragments(raw, 9)", [0, 0, 1, 1, 2, 3, 3]),
    ],
)
def test_layers_are_dealt(method: str, fragments: list[int]) -> None:
    compressor = parse(method)
    assert isinstance(compressor, Fragments)
    assert [*compressor.numbers(NAMES).values()] == fragments
    memory, one, turns = None, update(0), []
    for turn in range(2 * compressor.count):
        packet, memory = compress(compressor, one, memory)
        sent = [name for name, count in packet.counts.items() if count]
        assert sent == [
            n for n, f in zip(NAMES, fragments, strict=True) if f == turn % compressor.count
        ]
        arrived = decompress(compressor, packet.payload, one)
        assert all(torch.equal(arrived[n], one[n] * (n in sent)) for n in NAMES)
        bits = explain(compressor, packet.payload, one)
        width = (compressor.count - 1).bit_length()
        assert bits["values"] == 32 * 40 * len(sent)
        assert 8 * len(packet.payload) == -(-(24 + width + bits["values"]) // 8) * 8
        turns.append(sent)
    assert turns[: compressor.count] == turns[compressor.count :]


def test_each_fragment_has_the_memory_of_its_own_messages() -> None:
    """As a compressor by itself for each fragment, which hears of its turns alone."""
    method, alone = parse("fragments(ef(topk(0.1) | float32), 2)"), parse("ef(topk(0.1) | float32)")
    memory, memories = None, [None, None]
    for number in range(6):
        one, turn = update(number), number % 2
        part = {n: x for n, x in one.items() if method.numbers(NAMES)[n] == turn}
        packet, memory = compress(method, one, memory)
        expected, memories[turn] = compress(alone, part, memories[turn])
        assert all(torch.equal(packet.sent[n].decoded, expected.sent[n].decoded) for n in part)
        back, lost = take_back(method, decompress(method, packet.payload, one), memory)
        assert not lost and memory.keys() == back.keys()
        for n in part:  # as if nothing had been sent
            whole = expected.sent[n].decoded + memories[turn][f"residual/{n}"]
            assert torch.equal(back[f"{turn}/residual/{n}"], whole)
    assert holds(method, one) and not loses(method, one)


def test_a_turn_of_no_fragment() -> None:
    method, one = parse("fragments(raw, 3)"), update(0)
    packet, memory = compress(method, one)
    with pytest.raises(UpdateError, match="fragment 3 of 3"):
        compress(method, one, memory | {"turn": torch.tensor(3)})
    damaged = packet.payload[:3] + bytes([packet.payload[3] | 0b11000000]) + packet.payload[4:]
    with pytest.raises(PayloadError, match="fragment 3 of 3"):
        decompress(method, damaged, one)
    for text in ("fragments(raw, 0)", "fragments(raw, 2, random)"):
        with pytest.raises(ValueError, match=r"count is 0|order is 'random'"):
            parse(text)
