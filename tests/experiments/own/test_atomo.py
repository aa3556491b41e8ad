"""Spectral ATOMO: chances, means and least variance, by its Algorithm 1."""

import math

import numpy as np
import pytest
import torch

from compressors import compress, decompress, parse
from compressors.bounds import bound
from tests.support.generators import same_bits

X = torch.randn(9, 12, generator=torch.Generator().manual_seed(1))
DRAWS = 400


def chances(sizes: np.ndarray, budget: int) -> np.ndarray:
    """Algorithm 1: those above their share are certain, and the others share what is left."""
    chance, certain = np.zeros(sizes.size), 0
    while True:
        rest = sizes[certain:]
        chance[:certain], chance[certain:] = 1, (budget - certain) * rest / rest.sum()
        if chance.max() <= 1:
            return chance
        certain += 1


def sent(method: str, x: torch.Tensor) -> torch.Tensor:
    made = parse(method)
    return torch.stack(
        [compress(made, {"w": x}, seed=s)[0].sent["w"].decoded for s in range(DRAWS)]
    ).double()


@pytest.mark.parametrize("rank", [1, 3])
def test_mean_number_and_variance_are_algorithm_1s(rank: int) -> None:
    got, sizes = sent(f"atomo({rank})", X), torch.linalg.svdvals(X.double()).numpy()
    p = chances(sizes, rank)
    assert p.sum() == pytest.approx(rank)
    error = (got - X).square().sum((1, 2))
    wanted = float((sizes**2 * (1 / p - 1)).sum())
    assert abs(float(error.mean()) - wanted) < 5 * float(error.std()) / math.sqrt(DRAWS)
    assert float(error.mean()) <= bound(parse(f"atomo({rank})"), 108).omega * float((X**2).sum())
    signs = torch.from_numpy(np.random.default_rng(2).choice([-1.0, 1.0], (108, 12)))
    sums = got.flatten(1) @ signs
    score = (sums.mean(0) - X.double().flatten() @ signs) / (sums.std(0) / math.sqrt(DRAWS))
    assert float(score.abs().max()) < 5


def test_plain_it_keeps_atoms_as_they_are() -> None:
    """A projection: the error and what arrives add up, and delta holds in the mean."""
    got = sent("atomo(2, false)", X)[:50]
    kept, error = got.square().sum((1, 2)), (got - X).square().sum((1, 2))
    assert torch.allclose(kept + error, X.double().square().sum().expand(50), rtol=1e-4)
    assert float(error.mean()) <= (1 - 2 / 10) * float(X.square().sum())


def test_what_travels() -> None:
    update = {"w": X, "thin": X[:2, :3], "b": X[0], "zero": torch.zeros(8, 9)}
    packet, _ = compress(parse("atomo(2)"), update, seed=3)
    k = (packet.spans["values"] // 32 - 6 - 12) / 21
    assert k == int(k) and 0 <= k <= 9
    got = decompress(parse("atomo(2)"), packet.payload, update)
    assert same_bits(got, {name: one.decoded for name, one in packet.sent.items()})
    assert torch.equal(got["thin"], X[:2, :3]) and torch.equal(got["b"], X[0])
    assert not got["zero"].any()
    for bad in ("atomo(0)", "atomo(2, 1)"):
        with pytest.raises(ValueError, match="atomo: (rank|scaled) is"):
            parse(bad)
