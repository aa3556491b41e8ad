"""PowerSGD: factors that are orthonormal, a start that stays warm, and nothing lost by zeros."""

import math

import pytest
import torch
from torch import Tensor

from compressors import BitReader, LowRank, State, UpdateError, compress
from compressors.whole.lowrank import orthonormal
from tests.support.generators import same_bits, whole_numbers


def noise(*shape: int, salt: int = 0) -> Tensor:
    """Normal numbers from a seed of their own."""
    generator = torch.Generator().manual_seed(1000 + salt)
    return torch.randn(*shape, generator=generator)


def of_rank(rank: int, n: int, m: int, salt: int = 0) -> Tensor:
    return noise(n, rank, salt=salt) @ noise(rank, m, salt=salt + 50)


def relative(x: Tensor, y: Tensor) -> float:
    return float((x - y).double().norm() / y.double().norm())


def factors(payload: bytes, rank: int, n: int, m: int) -> tuple[Tensor, Tensor]:
    """P and Q as they lie in the message of one matrix, behind version and fingerprint."""
    values = torch.from_numpy(BitReader(payload[3:]).float32s(rank * (n + m)))
    return values[: rank * n].view(rank, n), values[rank * n :].view(rank, m)


def test_p_is_orthonormal_and_q_is_the_projection() -> None:
    """float32 rounds each of n = 50 squares of a unit vector by at most 2**-24 of its size."""
    matrix = noise(50, 70)
    payload = compress(LowRank(4), {"w": matrix})[0].payload
    p, q = factors(payload, 4, 50, 70)
    assert torch.allclose(p.double() @ p.double().T, torch.eye(4).double(), atol=1e-6)
    assert torch.allclose(q, p @ matrix, atol=1e-4)
    assert len(payload) == 3 + 4 * 4 * (50 + 70)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_a_matrix_of_that_rank_is_recovered(rank: int) -> None:
    """Its range is that of M Q for any Q, so once; and again from a warm start."""
    state: State | None = None
    for salt in (0, 0, 9):  # the third is another matrix: the old start does no harm
        matrix = of_rank(rank, 40, 30, salt)
        packet, state = compress(LowRank(rank), {"w": matrix}, state)
        assert relative(packet.sent["w"].decoded, matrix) < 1e-5


def spectrum() -> Tensor:
    """A 40 x 30 matrix with singular values 1, 0.8, 0.64, ..."""
    left, _ = torch.linalg.qr(noise(40, 30))
    right, _ = torch.linalg.qr(noise(30, 30, salt=1))
    return left * 0.8 ** torch.arange(30.0) @ right


def test_a_warm_start_finds_the_best_approximation() -> None:
    """The truncated singular values are the best of rank 3; cold starts stay away from it."""
    matrix, method = spectrum(), LowRank(3)
    best = math.sqrt(sum(0.64**i for i in range(3, 30)))
    cold = (compress(method, {"w": matrix})[0].sent["w"].decoded - matrix).norm()
    state: State | None = None
    for _ in range(25):
        packet, state = compress(method, {"w": matrix}, state)
    warm = (packet.sent["w"].decoded - matrix).norm()
    assert float(warm) < 1.002 * best
    assert float(cold) > 1.05 * best


def test_zeros_do_not_end_a_direction() -> None:
    """A message of zeros, and one of lower rank, leave the rest of Q for the messages after."""
    method, matrix = LowRank(3), of_rank(3, 30, 20)
    state = method.init({"w": matrix})
    packet, after = compress(method, {"w": torch.zeros(30, 20)}, state)
    assert not bool(packet.sent["w"].decoded.any())
    assert same_bits(after, state)
    one = torch.zeros(30, 20)
    one[4, 7] = -2.0
    packet, after = compress(method, {"w": one}, after)
    assert torch.equal(packet.sent["w"].decoded, one)
    assert bool(after["q/w"].any(dim=1).all())
    packet, _ = compress(method, {"w": matrix}, after)
    assert relative(packet.sent["w"].decoded, matrix) < 1e-5


def test_orthonormal_rows() -> None:
    """Independent rows span what they spanned; dependent rows and zeros come out as zeros."""
    rows = noise(5, 12).double()
    rows[1] = 3 * rows[0]
    rows[3] = 0
    rows[4] *= 1e-30
    found = orthonormal(rows)
    expected = torch.diag(torch.tensor([1.0, 0, 1, 0, 1]).double())
    assert torch.allclose(found @ found.T, expected, atol=1e-14)
    assert torch.allclose(rows @ found.T @ found, rows, atol=1e-14)


def test_only_what_pays_is_factored() -> None:
    """32 bits an entry of P, Q and of every tensor that travels raw, bit for bit."""
    update = {
        "conv": whole_numbers(20 * 2 * 9, 1).reshape(20, 2, 3, 3),  # 2 (20 + 18) < 360
        "square": whole_numbers(16, 2).reshape(4, 4),  # 2 (4 + 4) = 16: raw
        "bias": whole_numbers(50, 3),
        "scalar": torch.tensor(3.5),
        "none": torch.zeros(0, 4),
    }
    packet, state = compress(LowRank(2), update)
    assert packet.spans == {
        "header": 24,
        "positions": 0,
        "values": 32 * (2 * 38 + 16 + 50 + 1),
        "side": 0,
    }
    assert list(state) == ["q/conv"] and state["q/conv"].shape == (2, 18)
    for name in ("square", "bias", "scalar", "none"):
        assert torch.equal(packet.sent[name].decoded, update[name])


def test_the_first_start_depends_on_the_ordinal_alone() -> None:
    update = {"a": noise(10, 10), "b": noise(10, 10)}
    state = LowRank(2).init(update)
    assert not torch.equal(state["q/a"], state["q/b"])
    assert torch.equal(state["q/b"], LowRank(2).init({"x": update["a"], "y": update["b"]})["q/y"])
    payloads = {compress(LowRank(2), update, seed=seed)[0].payload for seed in range(3)}
    assert len(payloads) == 1
    spread = LowRank(4).init({"w": torch.empty(500, 1000)})["q/w"]
    assert -1 <= float(spread.min()) < -0.99 and 0.99 < float(spread.max()) <= 1
    assert abs(float(spread.mean())) < 5 * math.sqrt(1 / 3 / 4000)  # 5 standard errors


@pytest.mark.parametrize("scale", [2.0**-149, 1e-38, 1.0, 2.0**60, 2.0**120])
def test_any_scale(scale: float) -> None:
    """Sums on the way to P cannot overflow, nor the start of the next message."""
    matrix = torch.ones(12, 9) * scale
    packet, state = compress(LowRank(1), {"w": matrix})
    packet, state = compress(LowRank(1), {"w": matrix}, state)
    assert bool(torch.isfinite(state["q/w"]).all())
    if scale > 1e-38:
        assert relative(packet.sent["w"].decoded, matrix) < 1e-6


def test_what_overflows_is_refused() -> None:
    """Q's entries are norms of columns: sqrt(n) times the largest float32 is none."""
    with pytest.raises(UpdateError, match=r"'w': what arrives by lowrank\(1\) overflows"):
        compress(LowRank(1), {"w": torch.full((30, 20), torch.finfo(torch.float32).max)})


def test_nearly_dependent_rows_are_orthonormal_too() -> None:
    """One pass of Gram-Schmidt leaves 1e-7 of the first row in the second; two leave nothing."""
    rows = noise(3, 40).double()
    rows[1] = rows[0] + 1e-9 * rows[1]
    rows[2] = rows[0] - 1e-9 * rows[2]
    found = orthonormal(rows)
    assert torch.allclose(found @ found.T, torch.eye(3).double(), atol=1e-14)
