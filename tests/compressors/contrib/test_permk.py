"""Perm-K: parts that share out the entries, exact where updates are alike, unbiased where not."""

import numpy as np
import pytest
import torch

from compressors import PayloadError, UpdateError, compress, decompress, parse
from compressors.bounds import bound
from compressors.contrib.permk import _Part
from compressors.kernels.noise import words


def turn(seed: int, client: int) -> dict[str, torch.Tensor]:
    return {"turn/turn": torch.tensor([seed, client])}


def normal(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("n", [0, 1, 3, 10, 1000])
@pytest.mark.parametrize("parts", [1, 3, 7])
def test_parts_are_stretches_of_one_order(n: int, parts: int) -> None:
    order = sorted(range(n), key=lambda i: (int(words(5, np.array([i]))[0]), i))
    for part in range(parts):
        wanted = sorted(order[part * n // parts : (part + 1) * n // parts])
        one = _Part(5, part, parts)
        assert one.places(n, 0).tolist() == wanted
        assert one.count(n) == len(wanted)


def test_equal_updates_arrive_whole_and_every_message_is_a_part() -> None:
    update = {"a": normal(35).view(5, 7), "b": normal(6, 1), "c": normal(0)}
    method = parse("permk(4)")
    packets = [compress(method, update, turn(9, i))[0] for i in range(4)]
    for name, x in update.items():
        arrived = torch.stack([p.sent[name].decoded for p in packets])
        assert torch.equal(arrived.mean(0), x)
        assert int((arrived != 0).sum()) == x.numel()
    read = decompress(method, packets[2].payload, update)
    assert all(torch.equal(read[n], packets[2].sent[n].decoded) for n in update)
    # the frame of every message, seed and client, ten values of 41
    assert [8 * len(p.payload) for p in packets] == [24 + 48 + 32 * k for k in (10, 10, 10, 11)]


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 5])
def test_the_bound_is_that_of_a_client_drawn_by_chance(d: int) -> None:
    """Of the last one of four alone, two of five entries are sent: 1 + 2 * 4 * 2 / 5."""
    x, method, draws = normal(d), parse("permk(4)"), 1200
    sent = torch.stack(
        [
            torch.stack(
                [compress(method, {"w": x}, turn(s, i))[0].sent["w"].decoded for i in range(4)]
            )
            for s in range(draws)
        ]
    )
    errors = (sent - x).square().sum(2).mean(0) / x.square().sum()
    known = bound(method, d)
    assert torch.allclose(sent.mean((0, 1)), x) and "of a client drawn by chance" in known.note
    assert float(errors.mean()) == pytest.approx(known.omega, rel=1e-5)
    assert float(errors[3]) == pytest.approx(1 + -(-d // 4) * 4 * 2 / d, rel=0.05)


def test_what_is_not_a_turn_is_refused() -> None:
    method, update = parse("permk(3)"), {"w": normal(9)}
    with pytest.raises(UpdateError, match="client 3 of 3"):
        compress(method, update, turn(1, 3))
    payload = compress(parse("permk(9)"), update, turn(1, 8))[0].payload
    alone = compress(method, update, turn(1, 2))[0].payload
    with pytest.raises(PayloadError, match="client 8 of 3"):
        decompress(method, alone[:3] + payload[3:], update)
    for clients in ("0", "65536", "true"):
        with pytest.raises(ValueError, match="permk: clients"):
            parse(f"permk({clients})")
