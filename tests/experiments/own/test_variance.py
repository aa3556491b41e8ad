"""Variance-based compression against its paper's algorithm, entry by entry."""

import math

import pytest
import torch

from compressors import NotFinite, PayloadError, compress, decompress, parse
from compressors.whole.feedback import take_back


def slow(updates: list[list[float]], alpha: float, zeta: float) -> list[list[float]]:
    """Section 4 in Python floats: what arrives of each update."""
    n, arrived = len(updates[0]), []
    r, v = [0.0] * n, [0.0] * n
    for update in updates:
        r = [a + b for a, b in zip(r, update, strict=True)]
        v = [a + b * b for a, b in zip(v, update, strict=True)]
        chosen = [i for i in range(n) if r[i] ** 2 > alpha * v[i]]
        got = [0.0] * n
        top = math.floor(math.log2(max((abs(r[i]) for i in chosen), default=1.0)))
        for i in chosen:
            low = 2.0 ** math.floor(math.log2(abs(r[i])))
            power = min(low if abs(r[i]) - low < 2 * low - abs(r[i]) else 2 * low, 2.0**top)
            if top - math.log2(power) < 8:
                got[i] = math.copysign(power, r[i])
        v = [0.0 if got[i] else zeta * v[i] for i in range(n)]
        r = [0.0 if got[i] else r[i] for i in range(n)]
        arrived.append(got)
    return arrived


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_it_is_the_papers_algorithm(alpha: float) -> None:
    drawn = torch.Generator().manual_seed(4)
    sizes = 2.0 ** torch.randint(-9, 4, (60,), generator=drawn)  # some wait for being small
    updates = [sizes * (torch.randn(60, generator=drawn) + 0.5) for _ in range(12)]
    method, state = parse(f"variance_based({alpha}, 0.99)"), None
    sent = 0
    for update, want in zip(updates, slow([u.tolist() for u in updates], alpha, 0.99), strict=True):
        packet, state = compress(method, {"w": update}, state)
        assert packet.sent["w"].decoded.tolist() == want
        got = decompress(method, packet.payload, {"w": update})["w"]
        assert torch.equal(got, packet.sent["w"].decoded)
        assert packet.spans["values"] == 4 * packet.sent["w"].count
        sent += packet.sent["w"].count
    assert 0 < sent < 12 * 60


def test_noise_waits_and_a_steady_entry_does_not() -> None:
    """One entry of mean 1 and deviation 0.1, one of mean 0 and deviation 1: the paper's point."""
    drawn, state, counts = torch.Generator().manual_seed(1), None, [0, 0]
    for _ in range(200):
        x = torch.randn(2, generator=drawn) * torch.tensor([0.1, 1.0]) + torch.tensor([1.0, 0.0])
        packet, state = compress(parse("variance_based(2)"), {"w": x}, state)
        counts = [c + int(y != 0) for c, y in zip(counts, packet.sent["w"].decoded, strict=True)]
    assert counts[0] > 60 and counts[1] < 40


def test_what_was_not_applied_is_sent_again() -> None:
    method, update = parse("variance_based(0.9)"), {"w": torch.tensor([4.0, 2.0])}
    first, state = compress(method, update)
    back, lost = take_back(method, {"w": first.sent["w"].decoded}, state)
    assert not lost and back["sums/w"].tolist() == [4.0, 2.0]


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("variance_based(0)", "variance_based: alpha is 0: give a number above 0"),
        ("variance_based(1, 1.5)", "variance_based: decay is 1.5: give a number above 0 and at"),
        ("ef(variance_based(1))", "has a memory of its own"),
        ("ef21(variance_based(1))", "has a memory of its own"),
        ("diana(variance_based(1))", "has a memory of its own"),
    ],
)
def test_it_is_refused(method: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(method)


def test_overflow_and_damage() -> None:
    method, high = parse("variance_based(0.9)"), {"w": torch.full((4,), 3e38)}
    state = method.init(high) | {"sums/w": high["w"]}
    with pytest.raises(NotFinite, match="'w' and its memory overflow float32"):
        compress(method, high, state)
    payload = compress(method, {"w": torch.ones(4)})[0].payload
    with pytest.raises(PayloadError):
        decompress(method, payload[:-1], high)
    none = compress(method, {"w": torch.full((4,), 1e-40)})[0]  # below the least normal number
    assert none.sent["w"].count == 0


@pytest.mark.parametrize("size", [1e-37, 1e-24, 1e19, 3e37])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_it_does_not_go_by_the_size_of_all(size: float, alpha: float) -> None:
    """What is sent of entries at either end of float32 is what is sent of them at one."""
    drawn, method = torch.Generator().manual_seed(3), parse(f"variance_based({alpha})")
    scale = 2.0 ** round(math.log2(size))
    one, other = None, None
    for _ in range(6):
        x = (torch.randn(30, generator=drawn) + 1).clamp(-2, 2)
        first, one = compress(method, {"w": x}, one)
        second, other = compress(method, {"w": x * scale}, other)
        assert torch.equal(first.sent["w"].decoded * scale, second.sent["w"].decoded)
