"""The contract suite, run over every row of the catalogue by its example and a few more methods."""

import inspect
import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor

import compressors
from compressors import (
    ALL,
    ROWS,
    Compressor,
    Packet,
    State,
    Tensors,
    compress,
    decompress,
    explain,
    from_json,
    parse,
    receive,
    text,
    to_json,
)
from tests.support.examples import asked_of
from tests.support.generators import (
    DEVICES,
    METHODS,
    decoded,
    moved,
    residual,
    runs,
    same_bits,
    small_update,
    updates,
    whole_numbers,
)
from tests.support.traits import forgets_nothing, frame_bits, only_plain

NAMES = {name: getattr(compressors, name) for name in compressors.__all__}
NAMES |= {row.make.__name__: row.make for row in ROWS if inspect.isclass(row.make)}
LASTING = [method for method in METHODS if forgets_nothing(parse(method))]
every_method = pytest.mark.parametrize("method", METHODS)
every_device = pytest.mark.parametrize("device", DEVICES)


@every_method
@every_device
@asked_of(updates())
def test_a_message(method: str, device: str, update: dict[str, Tensor]) -> None:
    """One update, one message, and all that is to hold of the two: a check below per claim."""
    compressor, update = parse(method), moved(update, device)
    packet, memory = compress(compressor, update, seed=7)
    decodes_to_what_was_sent(compressor, packet, update)
    spans_account_for_every_bit(compressor, packet, update)
    counts_are_what_travelled(compressor, packet, update)
    sent_indices_are_what_travelled(packet)
    same_seed_same_bytes(compressor, packet, memory, update)


def decodes_to_what_was_sent(compressor: Compressor, packet: Packet, update: Tensors) -> None:
    template = {name: torch.full_like(x, math.nan) for name, x in update.items()}  # values unread
    got = decompress(compressor, packet.payload, template)
    assert list(got) == list(packet.sent) == list(update)
    for name, x in update.items():
        assert got[name].shape == x.shape
        assert got[name].dtype == torch.float32
        assert got[name].device == x.device
    assert same_bits(got, {name: one.decoded for name, one in packet.sent.items()})


def counts_are_what_travelled(compressor: Compressor, packet: Packet, update: Tensors) -> None:
    came = receive(compressor, packet.payload, update)
    assert came.sent == {name: one.count for name, one in packet.sent.items()}


def spans_account_for_every_bit(compressor: Compressor, packet: Packet, update: Tensors) -> None:
    assert packet.spans == explain(compressor, packet.payload, update)
    assert list(packet.spans) == ["header", "positions", "values", "side"]
    assert sum(packet.spans.values()) == 8 * len(packet.payload)


def sent_indices_are_what_travelled(packet: Packet) -> None:
    for one in packet.sent.values():
        if isinstance(one.indices, Tensor):
            assert one.indices.dtype == torch.int64
            assert bool((one.indices[1:] > one.indices[:-1]).all())
            assert one.count == one.indices.numel() <= one.shape.numel()
            nothing = torch.ones(one.shape.numel(), dtype=torch.bool, device=one.indices.device)
            nothing[one.indices] = False
            assert not bool(one.decoded.flatten()[nothing].any())
        else:
            assert one.indices is ALL
            assert one.count == one.decoded.numel()


def same_seed_same_bytes(
    compressor: Compressor, packet: Packet, memory: State, update: Tensors
) -> None:
    torch.default_generator.manual_seed(1)  # nothing may come from, or go to, global generators
    np.random.seed(1)
    drawn = torch.get_rng_state()
    second, again = compress(compressor, update, seed=7)
    assert packet.payload == second.payload
    assert same_bits(memory, again)
    assert torch.equal(drawn, torch.get_rng_state())


@every_method
@every_device
@asked_of(runs())
def test_a_run_of_messages(method: str, device: str, many: list[dict[str, Tensor]]) -> None:
    """Input and memory are left alone, and nothing is lost over rounds.

    sum(decoded) + residual = sum(updates), up to float32 rounding. A round rounds twice, in
    ``update + residual`` and in ``wanted - decoded``, each time by at most half a unit in the
    last place: 2**-24 of the result. 1.01 covers the rounding of the terms in the bound and of
    the float64 sums here.
    """
    compressor, state = parse(method), None
    many = [moved(update, device) for update in many]
    total = {name: torch.zeros_like(x, dtype=torch.float64) for name, x in many[0].items()}
    bound = {name: x.clone() for name, x in total.items()}
    for update in many:
        kept = {name: x.clone() for name, x in update.items()}
        memory = None if state is None else {key: x.clone() for key, x in state.items()}
        old = state
        packet, state = compress(compressor, update, state)
        assert same_bits(update, kept)
        assert old is None or same_bits(old, memory)
        for name, x in update.items():
            before, after = residual(old or {}, name, x), residual(state, name, x)
            total[name] += x.double() - packet.sent[name].decoded.double()
            bound[name] += 2.0**-24 * (x.abs().double() + before.abs() + after.abs())
    for name, x in total.items() if method in LASTING else ():
        gap = (x - residual(state, name, many[0][name]).double()).abs()
        assert bool((gap <= 1.01 * bound[name]).all())


@every_method
def test_layout_of_memory_does_not_matter(method: str) -> None:
    """Transposed, strided and gradient-carrying tensors are written by their logical order."""
    update = small_update()
    odd = {
        "conv": update["conv"].transpose(0, 2).contiguous().transpose(0, 2).requires_grad_(),
        "bias": torch.stack([update["bias"], update["bias"]], 1)[:, 0],
        "none": update["none"],
        "scale": update["scale"],
    }
    packet, memory = compress(parse(method), odd)
    assert packet.payload == compress(parse(method), update)[0].payload
    assert not any(x.requires_grad for x in memory.values())
    assert not any(one.decoded.requires_grad for one in packet.sent.values())


@every_method
def test_framing(method: str) -> None:
    """At most 8 bytes a message and a bit a tensor; where the data decide how many entries
    travel, a gamma code of the number beside it: at most 2 log2(n + 1) + 1 bits."""
    update = {f"layer{i}": whole_numbers(50 + i, i) for i in range(9)}
    packet, _ = compress(parse(method), update)
    counts = sum(one.count + 1 for one in packet.sent.values())
    assert packet.spans["header"] >= frame_bits(parse(method))
    nominal = packet.spans["header"] <= 64 + len(update)
    assert nominal or packet.spans["header"] <= 64 + len(update) * (2 + 2 * counts.bit_length())
    assert nominal or not only_plain(method)


@every_method
def test_another_method_or_other_tensors_are_refused(method: str) -> None:
    update = small_update()
    payload = compress(parse(method), update)[0].payload
    renamed = {name.upper(): x for name, x in update.items()}
    reshaped = {name: x.reshape(-1) for name, x in update.items()}
    for template in (renamed, reshaped, dict(reversed(update.items())), {}):
        with pytest.raises(ValueError, match="was not made by"):
            decoded(method, payload, template)
    with pytest.raises(ValueError, match="was not made by"):
        decoded("per_tensor(topk(0.123) | float32)", payload, update)


@every_method
def test_text_and_json_rebuild_an_equal_compressor(method: str) -> None:
    compressor = parse(method)
    assert parse(text(compressor)) == compressor
    assert from_json(json.loads(json.dumps(to_json(compressor)))) == compressor
    assert hash(parse(text(compressor))) == hash(compressor)
    assert eval(repr(compressor), NAMES) == compressor
