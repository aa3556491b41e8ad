"""Top-k within chunks: by a slow reference, with ties, zeros, and a shorter last chunk."""

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import compress, parse, text
from compressors.base import nominal_count
from compressors.bounds import bound
from compressors.sparsify.blocks import ChunkTopK, chunk_counts
from tests.support.generators import whole_numbers


def slowly(x: Tensor, p: float, size: int) -> list[int]:
    """Of each chunk the k first when sorted by falling magnitude, then by index; no zeros."""
    found = []
    for start in range(0, x.numel(), size):
        part = x[start : start + size].abs().tolist()
        order = sorted(range(len(part)), key=lambda i: (-part[i], i))
        kept = order[: nominal_count(p, len(part))]
        found += sorted(start + i for i in kept if part[i] > 0)
    return found


@pytest.mark.parametrize("size", [1, 3, 64, 100, 4096])
@pytest.mark.parametrize("p", [0.01, 0.3, 1])
def test_it_is_the_slow_reference(size: int, p: float) -> None:
    ties = torch.tensor([1.0, -1.0, 0.0, 1.0, 0.0] * 41)
    drawn = torch.randn(333, generator=torch.Generator().manual_seed(1))
    for x in (
        drawn,
        ties,
        whole_numbers(300, 2),
        torch.zeros(9),
        torch.zeros(0),
        torch.tensor([-0.0, 1e-45, -1e-45]),
    ):
        indices, scale = ChunkTopK(p, size).select(x, 0)
        assert scale == 1 and indices.tolist() == slowly(x, p, size)


def test_the_count_is_that_of_all_chunks_however_many_there_are() -> None:
    for p, size, n in ((0.3, 7, 0), (0.3, 7, 6), (0.3, 7, 7), (0.3, 7, 51), (0.01, 64, 1000)):
        assert ChunkTopK(p, size).count(n) == chunk_counts(p, size, n).sum()
    assert ChunkTopK(0.1, 64).count(10**18) == 10**18 // 64 * 6  # 64 divides it


def test_no_chunk_is_left_out() -> None:
    """One large chunk takes all of topk, and its share of chunk_topk."""
    x = torch.ones(1000)
    x[:100] *= 50
    assert int(ChunkTopK(0.1, 100).select(x, 0)[0].max()) == 909
    packet, _ = compress(parse("chunk_topk(0.1, 100) | float32"), {"w": x})
    assert packet.sent["w"].count == 100 and packet.spans["header"] < 40
    assert bound(parse("chunk_topk(0.1, 100) | float32"), 1000).delta == 0.1
    assert bound(parse("chunk_topk(0.5, 3) | float32"), 7).delta == pytest.approx(2 / 3)


def by_hand(updates: list[Tensor], p: float, decay: float, chunk: int) -> list[np.ndarray]:
    """What SparseLoCo's Algorithm 1 sends of each update, with the bins' means in float64."""
    memory, out = np.zeros(updates[0].numel()), []
    for update in updates:
        wanted = decay * memory + update.double().numpy()
        chosen = slowly(torch.from_numpy(wanted.astype(np.float32)), p, chunk)
        values, sent = wanted[chosen], np.zeros(memory.size)
        step = 4.02 * values.std(ddof=1) / 4
        place = np.clip(np.floor((values - values.mean()) / step + 2), 0, 3)
        for b in range(4):
            if (place == b).any():
                sent[np.array(chosen)[place == b]] = values[place == b].mean()
        out.append(sent)
        memory = wanted - sent
    return out


def test_sparseloco_is_algorithm_1() -> None:
    drawn = torch.Generator().manual_seed(5)
    updates = [torch.randn(500, generator=drawn) for _ in range(6)]
    state, method = None, parse("sparseloco(0.1, 0.9, 64)")
    for update, wanted in zip(updates, by_hand(updates, 0.1, 0.9, 64), strict=True):
        packet, state = compress(method, {"w": update}, state)
        assert np.allclose(packet.sent["w"].decoded.numpy(), wanted, atol=1e-4)
        assert packet.spans["values"] == 2 * packet.sent["w"].count
    assert text(parse("sparseloco()")) == (
        "ef(per_tensor(chunk_topk(0.015625) | bins(2) | golomb), 0.95)"
    )
