"""AdaComp: by its Algorithm 2 line by line, and what it keeps."""

import numpy as np
import pytest
import torch

from compressors import UpdateError, compress, decompress, parse
from compressors.whole.feedback import take_back
from tests.support.generators import same_bits, whole_numbers


def slowly(residue: np.ndarray, update: np.ndarray, size: int) -> np.ndarray:
    """Algorithm 2: what is sent of one layer."""
    g = residue + update
    h = g + update
    tops = [np.abs(g[i : i + size]).max() for i in range(0, g.size, size)]
    sent = np.zeros(g.size)
    for j in range(g.size):
        if g[j] != 0 and abs(h[j]) >= tops[j // size]:
            sent[j] = np.sign(g[j]) * np.mean(tops)
    return sent


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_it_is_algorithm_2(size: int) -> None:
    drawn, state, residue = torch.Generator().manual_seed(3), None, np.zeros(230)
    method = parse(f"adacomp({size})")
    for _ in range(5):
        update = torch.randn(230, generator=drawn)
        packet, state = compress(method, {"w": update}, state)
        wanted = slowly(residue, update.double().numpy(), size)
        assert np.allclose(packet.sent["w"].decoded.numpy(), wanted, atol=1e-5)
        residue = residue + update.double().numpy() - wanted
        assert np.allclose(state["residue/w"].numpy(), residue, atol=1e-5)
        got = decompress(method, packet.payload, {"w": update})
        assert same_bits(got, {"w": packet.sent["w"].decoded})


def test_zeros_send_nothing() -> None:
    packet, state = compress(parse("adacomp(4)"), {"w": torch.zeros(9), "s": torch.zeros(())})
    assert packet.spans["values"] == packet.spans["side"] == packet.spans["positions"] == 0
    assert not any(x.any() for x in state.values())


def test_what_was_not_applied_goes_back() -> None:
    update = {"w": whole_numbers(60, 1)}
    packet, state = compress(parse("adacomp(8)"), update)
    back, lost = take_back(parse("adacomp(8)"), {"w": packet.sent["w"].decoded}, state)
    assert torch.allclose(back["residue/w"], update["w"], rtol=1e-6) and not lost


def test_it_is_refused_where_it_cannot_work() -> None:
    with pytest.raises(ValueError, match="ef around adacomp, which has a memory of its own"):
        parse("ef(adacomp)")
    with pytest.raises(ValueError, match="adacomp: size is 0"):
        parse("adacomp(0)")
    high = {"w": torch.full((3,), 3e38)}
    with pytest.raises(UpdateError, match="'w' and its memory overflow float32"):
        compress(parse("adacomp"), high, {"residue/w": high["w"]})
