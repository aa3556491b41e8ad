"""A codec on a random choice of the entries, and CocktailSGD."""

import numpy as np
import torch

from compressors import compress, parse, receive, text
from tests.support.generators import same_bits


def test_the_codec_sees_the_drawn_entries_alone() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    method = parse("subset(0.1, topk(0.2) | float32 | fixed)")
    packet, _ = compress(method, {"w": x}, seed=4)
    one = packet.sent["w"]
    drawn = compress(parse("subset(0.1, float32)"), {"w": x}, seed=4)[0].sent["w"].indices
    assert drawn.numel() == 100 and one.count == 20
    best = drawn[x[drawn].abs().topk(20).indices].sort().values
    assert torch.equal(one.indices, best) and torch.equal(one.values, x[best])
    assert packet.spans["positions"] == 20 * 7  # of 100, where 1000 take 10 bits
    other = compress(method, {"w": x}, seed=5)[0].sent["w"]
    assert not torch.equal(other.indices, one.indices)
    came = receive(method, packet.payload, {"w": x})
    assert same_bits(came.update, {"w": one.decoded}) and came.sent == {"w": 20}


def test_cocktailsgd_is_its_three_stages() -> None:
    """Drawn, the largest of them, 4 bits; what is not sent stays, over four messages."""
    drawn, state, memory = torch.Generator().manual_seed(6), None, np.zeros(400)
    method = parse("cocktailsgd(0.05, 0.25)")
    for seed in range(4):
        x = torch.randn(400, generator=drawn)
        packet, state = compress(method, {"w": x}, state, seed=seed)
        wanted = x.double().numpy() + memory
        places = compress(parse("subset(0.25, float32)"), {"w": x}, seed=seed)[0].sent["w"].indices
        chosen = sorted(places.numpy()[np.argsort(-np.abs(wanted[places]))[:20]])
        values = wanted[chosen]
        step = np.abs(values).max() / 7
        sent = np.zeros(400)
        sent[chosen] = np.sign(values) * np.floor(np.abs(values) / step + 0.5) * step
        assert np.allclose(packet.sent["w"].decoded.numpy(), sent, atol=1e-5)
        memory = wanted - sent
    assert text(parse("cocktailsgd(0.1)")) == "ef(per_tensor(subset(0.1, steps(4))))"
