"""Deep Gradient Compression: three rounds by hand, the warm-up's shares, clipping, memory."""

import math

import pytest
import torch
from torch import Tensor

from compressors import DGC, BitWriter, State, Tensors, compress, decompress, parse
from tests.support.generators import same_bits, whole_numbers

# p = 1/4 of four entries, momentum 1/2: (update, sent index, sent value, u after, v after)
BY_HAND = [
    # u = v = g; 4 is sent
    ([4.0, 2.0, 1.0, 0.0], 0, 4.0, [0.0, 2.0, 1.0, 0.0], [0.0, 2.0, 1.0, 0.0]),
    # u = (0, 1, 0.5, 0) + g = (1, 1, 1.5, 0); v = (1, 3, 2.5, 0); 3 is sent
    ([1.0, 0.0, 1.0, 0.0], 1, 3.0, [1.0, 0.0, 1.5, 0.0], [1.0, 0.0, 2.5, 0.0]),
    # u = (0.5, 0, 0.75, 0) + g = (0.5, 0, -0.25, 2); v = (1.5, 0, 2.25, 2); 2.25 is sent
    ([0.0, 0.0, -1.0, 2.0], 2, 2.25, [0.5, 0.0, 0.0, 2.0], [1.5, 0.0, 0.0, 2.0]),
]


def test_three_rounds_by_hand() -> None:
    dgc, state = DGC(0.25, warmup=0, momentum=0.5), None
    for step, (update, index, value, u, v) in enumerate(BY_HAND):
        packet, state = compress(dgc, {"w": torch.tensor(update)}, state)
        assert packet.sent["w"].indices.tolist() == [index]
        assert packet.sent["w"].values.tolist() == [value]
        assert state["momentum/w"].tolist() == u
        assert state["velocity/w"].tolist() == v
        assert int(state["messages"]) == step + 1


def test_without_momentum_it_is_top_k_with_error_feedback() -> None:
    """The same messages but for the fingerprint: u is the update, v update and residual."""
    mine, theirs = parse("dgc(0.1, warmup=0, momentum=0)"), parse("ef(topk(0.1) | float32)")
    memory: State | None = None
    other: State | None = None
    for salt in range(4):
        update = {"w": whole_numbers(90, salt).reshape(9, 10), "b": whole_numbers(7, salt + 9)}
        packet, memory = compress(mine, update, memory)
        expected, other = compress(theirs, update, other)
        assert packet.payload[3:] == expected.payload[3:]


def test_the_papers_warm_up() -> None:
    """25 %, 6.25 %, 1.5625 %, 0.4 %, 0.1 % (section 3.3): rounded by at most 1.5 %."""
    shares = [DGC(0.001).share(t) for t in range(6)]
    for mine, theirs in zip(shares, [0.25, 0.0625, 0.015625, 0.004, 0.001, 0.001], strict=True):
        assert math.isclose(mine, theirs, rel_tol=0.015)
    ratios = [a / b for a, b in zip(shares[1:5], shares[:4], strict=True)]
    assert all(math.isclose(r, 0.001**0.2) for r in ratios)  # exponential


def test_stages_of_several_messages_and_none() -> None:
    stages = [DGC(0.01, warmup=2, stage=3).share(t) for t in range(8)]
    assert stages == [0.01 ** (1 / 3)] * 3 + [0.01 ** (2 / 3)] * 3 + [0.01] * 2
    assert DGC(0.01, warmup=0).share(0) == 0.01
    assert DGC(1).share(0) == 1


def test_the_receiver_is_told_how_many_travel() -> None:
    """n = 1000 at 1 %: 215, 46, 10, 10 entries, and the same receiver for all of them.

    One bit says nominal; else gamma(216) takes 15 bits beside it and gamma(47) takes 11.
    """
    dgc, state = DGC(0.01, warmup=2), None
    update = {"w": whole_numbers(1000, 3, bits=20)}
    for count, header in ((215, 16), (46, 12), (10, 1), (10, 1)):
        out = BitWriter()
        dgc.write(update, state or dgc.init(update), out, 0)
        assert out.spans()["header"] == header
        packet, state = compress(dgc, update, state)
        assert packet.sent["w"].count == count
        got = decompress(parse("dgc(0.01, 2)"), packet.payload, update)
        assert same_bits(got, {"w": packet.sent["w"].decoded})


@pytest.mark.parametrize(("clip", "factor"), [(10.0, 0.5), (20.0, 1.0), (100.0, 1.0), (5, 0.25)])
def test_the_whole_update_is_clipped(clip: float, factor: float) -> None:
    """Norm sqrt(4 + 16 + 64 + 316) = 20, over both tensors together."""
    update = {"a": torch.tensor([2.0, -4.0]), "b": torch.tensor([[8.0], [math.sqrt(316)]])}
    packet, _ = compress(DGC(1, clip=clip), update)
    for name, x in update.items():
        assert torch.allclose(packet.sent[name].decoded, factor * x, rtol=1e-6)


def test_the_strongest_of_each_tensor() -> None:
    """Per tensor, as the paper has it: small tensors are not starved by large ones."""
    update: dict[str, Tensor] = {"large": 1e6 * torch.ones(50), "small": 1e-6 * torch.ones(50)}
    packet, _ = compress(DGC(0.1, warmup=0), update)
    assert [one.count for one in packet.sent.values()] == [5, 5]


def test_the_bound_is_that_of_the_entries_that_are_sent() -> None:
    """k / d: 2 of 8; a fraction of 0.3 of 5 entries is 2 of 5."""
    assert [parse(f"dgc({p})").bound_on(d).delta for p, d in ((0.25, 8), (0.3, 5))] == [0.25, 0.4]


def test_nothing_of_the_callers_is_kept() -> None:
    """The owner of an update may reuse its memory, whatever the settings."""
    for dgc in (DGC(0.1), DGC(0.1, momentum=0.0), DGC(0.5, clip=1e9)):
        update: Tensors = {"w": whole_numbers(40, 1)}
        _, state = compress(dgc, update)
        kept = {key: x.clone() for key, x in state.items()}
        update["w"].fill_(7.0)
        assert same_bits(state, kept)
