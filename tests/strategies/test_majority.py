"""Majority vote: by hand, ties by a coin that can be told again, and one bit each way."""

import math

import pytest
import torch

from compressors import derive, parse
from compressors.base import tensor_seed
from compressors.kernels import noise
from strategies import vote_code
from strategies.contrib.majority import vote


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


@pytest.mark.parametrize(
    "ballots", [votes([1.0, 2.0]), votes([1.0], [2.0]), votes([0.0]), votes([1.0, 0.0], [1.0, 1.0])]
)
def test_what_is_no_vote(ballots: list[dict[str, torch.Tensor]]) -> None:
    with pytest.raises(ValueError, match="a vote on 'w' is not plus or minus one magnitude"):
        vote(ballots, 0, 1)


def test_which_methods_vote() -> None:
    for text in ("sign(0.5)", "flat(sign(0.5))", "per_tensor(identity | sign(0.5))"):
        assert vote_code(parse(text)) == parse(text)
        assert vote_code(parse(f"ef({text})")) == parse(text)
    for text in ("raw", "l1_sign", "onebit", "topk(0.1) | sign(0.5)", "by_name('*', sign(0.5))"):
        assert vote_code(parse(text)) is None
