"""Majority vote: by hand, ties by a coin that can be told again, and one bit each way."""

import math

import pytest
import torch
from flwr.app import ConfigRecord

from compressors import compress, decompress, derive, parse
from compressors.base import tensor_seed
from compressors.kernels import noise
from strategies import DelayedDSGD, Majority, vote_code
from strategies.contrib.majority import vote
from tests.support.linear import Pull, grid_of, modded_app, record, vector

SIGN = parse("sign(0.5)")


def votes(*rows: list[float]) -> list[dict[str, torch.Tensor]]:
    return [{"w": torch.tensor(row)} for row in rows]


def test_the_side_with_more_votes() -> None:
    ballots = votes([2, -2, 2, -2], [2, -2, -2, 2], [-2, -2, 2, -2])
    with torch.device("meta"):  # they are counted where they are
        found = vote(ballots, 0, 1)["w"]
    assert found.tolist() == [2, -2, 2, -2]
    assert vote(votes([-3.0]), 0, 1)["w"].tolist() == [-3]


def test_ties_go_by_a_coin_of_seed_round_tensor_and_entry() -> None:
    """Every entry is a tie: fair within 5 standard errors, and other for every part of the key."""
    n = 40_000
    up, down = torch.full((200, 200), 0.5), torch.full((200, 200), -0.5)
    ballots = [{"a": up, "b": up}, {"a": down, "b": down}]
    found = vote(ballots, 3, 7)
    assert found["a"].shape == (200, 200) and found["a"].abs().unique().tolist() == [0.5]
    coins = noise.words(tensor_seed(derive(3, "vote", 7), 1), torch.arange(n).numpy()) >> 31
    assert torch.equal(found["b"].flatten() < 0, torch.from_numpy(coins.astype(bool)))
    others = [found["a"], vote(ballots, 4, 7)["b"], vote(ballots, 3, 8)["b"]]
    for other in [torch.full((200, 200), 0.5), *others]:
        agree = float((found["b"] == other).double().mean())
        assert abs(agree - 0.5) < 5 * math.sqrt(0.25 / n)
    again = vote(list(reversed(ballots)), 3, 7)
    assert torch.equal(again["b"], found["b"])  # nobody's order matters


def test_only_ties_get_a_coin() -> None:
    mixed = torch.tensor([0.5, -0.5]).repeat(500)
    found = vote(votes(mixed.tolist(), [0.5] * 1000), 0, 1)["w"]
    assert bool((found[::2] == 0.5).all())
    assert found[1::2].unique().numel() == 2


@pytest.mark.parametrize(
    "ballots", [votes([1.0, 2.0]), votes([1.0], [2.0]), votes([0.0]), votes([1.0, 0.0], [1.0, 1.0])]
)
def test_what_is_no_vote(ballots: list[dict[str, torch.Tensor]]) -> None:
    with pytest.raises(ValueError, match="a vote on 'w' is not plus or minus one magnitude"):
        vote(ballots, 0, 1)


def test_tensors_without_entries() -> None:
    empty = [{"w": torch.zeros(3, 0)}] * 2
    assert vote(empty, 0, 1)["w"].shape == (3, 0)


def test_which_methods_vote() -> None:
    for text in ("sign(0.5)", "flat(sign(0.5))", "per_tensor(identity | sign(0.5))"):
        assert vote_code(parse(text)) == parse(text)
        assert vote_code(parse(f"ef({text})")) == parse(text)
    for text in ("raw", "l1_sign", "onebit", "topk(0.1) | sign(0.5)", "by_name('*', sign(0.5))"):
        assert vote_code(parse(text)) is None


def test_the_downlink_carries_the_vote_exactly() -> None:
    torch.manual_seed(0)
    ups = [
        decompress(
            SIGN, compress(SIGN, {"w": torch.randn(40, 25)})[0].payload, {"w": torch.empty(40, 25)}
        )
        for _ in range(4)
    ]
    found = vote(ups, 1, 1)
    packet, _ = compress(vote_code(SIGN), found, seed=5)
    assert packet.spans == {"header": 24, "positions": 0, "values": 1000, "side": 0}
    assert torch.equal(decompress(SIGN, packet.payload, found)["w"], found["w"])


def test_three_rounds_by_hand() -> None:
    """Three clients pull towards (8, -8), (4, 8), (-8, 8): (+, +) by two to one.

    After the first round w is (0.5, 0.5), and so on; every update is one bit per entry, up and
    down, and what clients hold is what the server holds.
    """
    pull = Pull([(8.0, -8.0), (4.0, 8.0), (-8.0, 8.0)])
    grid = grid_of(modded_app(pull, SIGN, SIGN), 3)
    strategy = DelayedDSGD(SIGN, SIGN, clients=3, rule=Majority())
    arrays, sizes = record([0.0, 0.0]), []
    for number in (1, 2, 3):
        messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
        arrays, _ = strategy.aggregate_train(number, grid.send_and_receive(messages))
        traffic = strategy.channel.traffic
        sizes.append([len(d.payload) for d in traffic.downlinks.values()])
        assert {len(up.payload) for up in traffic.uplinks.values()} == {4}  # 24 bits and 2
        assert vector(strategy.channel.weights) == [number / 2, number / 2]
    grid.close()
    assert sizes[1:] == [[4] * 3] * 2
    assert pull.seen == {c: [[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]] for c in range(3)}


def test_the_mean_of_signs_is_not_the_vote() -> None:
    pull = Pull([(8.0, -8.0), (4.0, 8.0), (-8.0, 8.0)])
    grid = grid_of(modded_app(pull, SIGN), 3)
    strategy = DelayedDSGD(SIGN, clients=3)
    strategy.start(grid, record([0.0, 0.0]), num_rounds=1)
    grid.close()
    assert vector(strategy.channel.weights) == pytest.approx([1 / 6, 1 / 6])
