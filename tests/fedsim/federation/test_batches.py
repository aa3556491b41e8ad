"""Batches follow from the seed, the client and the iteration, without memory."""

import numpy as np
import pytest
import torch

from fedsim.federation.draws import Batches

SHARD = np.array([3, 5, 8, 13, 21, 34, 55, 89, 144, 233], np.int64)


def epoch(batches: Batches, number: int) -> list[int]:
    first = number * batches.an_epoch
    return torch.cat([batches.at(first + i) for i in range(batches.an_epoch)]).tolist()


@pytest.mark.parametrize(("size", "an_epoch"), [(1, 10), (3, 3), (5, 2), (10, 1), (64, 1)])
def test_an_epoch_sees_every_sample_at_most_once(size: int, an_epoch: int) -> None:
    batches = Batches(SHARD, size, seed=0, client=0)
    assert batches.an_epoch == an_epoch
    for number in range(3):
        seen = epoch(batches, number)
        assert len(seen) == len(set(seen)) == an_epoch * min(size, 10)
        assert set(seen) <= set(SHARD.tolist())


def test_every_epoch_has_its_own_order() -> None:
    batches = Batches(SHARD, 5, seed=0, client=0)
    orders = [tuple(epoch(batches, number)) for number in range(8)]
    assert len(set(orders)) == 8


def test_seeds_and_clients_have_their_own_order() -> None:
    orders = {
        (seed, client): tuple(epoch(Batches(SHARD, 5, seed, client), 0))
        for seed in range(3)
        for client in range(3)
    }
    assert len(set(orders.values())) == 9


def test_it_does_not_matter_what_was_asked_before() -> None:
    batches = Batches(SHARD, 3, seed=4, client=2)
    forwards = [batches.at(i).tolist() for i in range(12)]
    backwards = [batches.at(i).tolist() for i in range(11, -1, -1)][::-1]
    fresh = [Batches(SHARD, 3, seed=4, client=2).at(i).tolist() for i in range(12)]
    assert forwards == backwards == fresh


def test_torchs_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    Batches(SHARD, 3, seed=4, client=2).at(7)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_numbers_of_an_epoch_go_to_a_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []

    def send(order: torch.Tensor, device: torch.device) -> torch.Tensor:
        sent.append(device)
        return order

    monkeypatch.setattr("fedsim.federation.draws.send", send)
    there, here = (Batches(SHARD, 3, 4, 2, torch.device(name)) for name in ("meta", "cpu"))
    for i in range(9):
        assert torch.equal(there.at(i), here.at(i))
    assert sent.count(torch.device("meta")) == 3
