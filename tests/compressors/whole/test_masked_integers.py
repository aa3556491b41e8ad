"""Fixed point modulo a power of two: whole sums, no bias within the clip, bits by hand."""

import numpy as np
import pytest
import torch

from compressors import UpdateError, compress, decompress
from compressors.whole.masked_integers import MaskedIntegers
from tests.support import contract

UPDATE = {"w": torch.tensor([[0.5, -0.25], [0.0, 9.0]]), "b": torch.tensor([-9.0])}


def test_a_message_is_a_header_and_an_integer_for_each_entry() -> None:
    packet, state = compress(MaskedIntegers(3, 0.75, 11), UPDATE)  # steps of 0.25
    assert 8 * len(packet.payload) == 80 and state == {}  # 24 + 1 + 5 x 11
    assert packet.sent["w"].decoded.tolist() == [[0.5, -0.25], [0.0, 0.75]]
    assert packet.sent["b"].decoded.tolist() == [-0.75]


def test_masked_messages_decode_to_the_mask_and_their_sum_without_it_to_the_sum() -> None:
    method, mask = MaskedIntegers(3, 0.75, 5), torch.tensor([31, 1, 12, 30, 7])
    packet = compress(method, UPDATE, {"mask/mask": mask})[0]
    numbers = torch.cat([x.flatten() for x in packet.sent.values() for x in [x.decoded]]) / 0.25
    assert numbers.tolist() == [1, 0, 12, -31 + 32, 4]  # 2 - 1 + 32, ... modulo 32, from -16 on
    assert decompress(method, packet.payload, UPDATE)["b"].item() == 1.0
    again = (numbers.long() - mask) % 32
    assert method.mean_of_sum(again.numpy(), 1, UPDATE)["w"].tolist() == [[0.5, -0.25], [0, 0.75]]
    with pytest.raises(UpdateError, match="5"):
        compress(method, UPDATE, {"mask/mask": mask[:4]})


def test_weighted_sums_by_hand() -> None:
    """Integers 2, -1, 0, 3, -3 times 5, and 1, 1, 1, 0, 0 times 2, then the weights: 7 in all."""
    method = MaskedIntegers(3, 0.75, 9, weight=3)
    other = {"w": torch.tensor([[0.25, 0.25], [0.25, 0.0]]), "b": torch.zeros(1)}
    packets = [
        compress(method, update, {"mask/weight": torch.tensor(weight)})[0]
        for update, weight in ((UPDATE, 5), (other, 2))
    ]
    assert [8 * len(packet.payload) for packet in packets] == [80, 80]  # 24 + 1 + 6 x 9
    for packet, update in zip(packets, (UPDATE, other), strict=True):
        contract.decodes_to_what_was_sent(method, packet, update)
    assert packets[0].sent["w"].decoded.tolist() == [[0.5, -0.25], [0.0, 0.75]]
    sums = np.array([12, -3, 2, 15, -15, 7]) % 512
    mean = method.mean_of_sum(sums, 2, UPDATE)
    wanted = torch.tensor([[12, -3], [2, 15]]) * 0.25 / 7
    assert torch.equal(mean["w"], wanted) and mean["b"].item() == pytest.approx(-15 * 0.25 / 7)
    assert method.needed(3) == (6 * 7 * 3).bit_length() and not compress(method, {})[0].sent
    for weight in (0, 8):
        with pytest.raises(UpdateError, match=f"weight of {weight} where 1 to 7"):
            compress(method, UPDATE, {"mask/weight": torch.tensor(weight)})


def test_a_fraction_of_the_entries_travels_the_same_for_one_seed() -> None:
    """24 bits, one for the mask, 32 of the seed, 4 of 10 entries in 7 bits; times 10 / 4."""
    method, update = MaskedIntegers(3, 0.75, 7, 0.4), {"v": torch.ones(4), "w": torch.ones(3, 2)}
    states = [{"mask/round_seed": torch.tensor(seed)} for seed in (8, 8, 9)]
    packets = [compress(method, update, state, 5)[0] for state in states]
    assert {8 * len(packet.payload) for packet in packets} == {8 * -(-(57 + 28) // 8)}
    flat = [torch.cat([x.decoded.flatten() for x in p.sent.values()]) for p in packets]
    assert all(sorted(x.tolist()) == [0.0] * 6 + [0.75 * 2.5] * 4 for x in flat)
    assert torch.equal(flat[0], flat[1]) and not torch.equal(flat[0], flat[2])
    contract.counts_are_what_travelled(method, packets[0], update)
    contract.decodes_to_what_was_sent(method, packets[0], update)
    contract.sent_indices_are_what_travelled(packets[0])


def test_the_least_modulus_holds_every_sum_and_one_bit_less_does_not() -> None:
    for clients in (2, 3, 4, 10, 100):
        for bits in (2, 3, 8):
            needed = MaskedIntegers(bits, 1.0).needed(clients)
            ends = np.array([-clients, clients]) * MaskedIntegers(bits, 1.0).largest
            for modulus, fits in ((needed, True), (needed - 1, False)):
                if modulus < bits:
                    continue
                method = MaskedIntegers(bits, 1.0, modulus)
                means = method.mean_of_sum(ends & 2**modulus - 1, clients, {"w": torch.empty(2)})
                assert (means["w"].tolist() == [-1.0, 1.0]) == fits


def test_rounding_has_no_bias() -> None:
    method, x = MaskedIntegers(2, 1.0), {"w": torch.full((10_000,), 0.3)}
    decoded = compress(method, x, seed=1)[0].sent["w"].decoded
    assert {*decoded.tolist()} == {0.0, 1.0}
    assert decoded.mean().item() == pytest.approx(0.3, abs=4 * (0.3 * 0.7 / 10_000) ** 0.5)
