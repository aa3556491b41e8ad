"""Means of messages: the bits of decoding each and adding, and errors before anything is added."""

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import ROWS, PayloadError, compress, decompress, mean_of, parse
from compressors.segments.read import Decoded

LIKE = {"a": torch.zeros(60, 100), "b": torch.zeros(3), "c": torch.zeros(50, 20)}
WEIGHTS = (1.0, 2.0, 3.0, 0.5, 7.0)
FEW = parse("topk(0.25) | float32 | golomb")


def updates(count: int) -> list[dict[str, Tensor]]:
    made = []
    for k in range(count):
        generator = torch.Generator().manual_seed(k)
        made.append(
            {
                n: 10.0 ** (k - 2) * torch.randn(x.shape, generator=generator)
                for n, x in LIKE.items()
            }
        )
    return made


def naive(every: list[dict[str, Tensor]], weights: tuple[float, ...]) -> Tensor:
    """All updates decoded, then added in their order, tensor by tensor."""
    total = {name: torch.zeros_like(x) for name, x in every[0].items()}
    for update, weight in zip(every, weights, strict=True):
        for name, x in update.items():
            total[name].add_(x, alpha=weight / sum(weights))
    return torch.cat([x.reshape(-1) for x in total.values()])


def bits(x: Tensor) -> list[int]:
    return x.numpy().view(np.int32).tolist()  # which tell 0 from -0


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_bits_are_those_of_decoding_each_and_adding(row):
    method = parse(row.example)
    payloads = [compress(method, x, seed=k)[0].payload for k, x in enumerate(updates(5))]
    every = [decompress(method, payload, LIKE) for payload in payloads]
    assert bits(mean_of(method, payloads, WEIGHTS, LIKE)) == bits(naive(every, WEIGHTS))


def test_a_mean_by_hand():
    like = {"w": torch.zeros(4), "v": torch.zeros(4)}
    one = {"w": torch.tensor([0.0, 4.0, 1.0, 0.5]), "v": torch.tensor([0.0, 0.0, 0.0, -8.0])}
    two = {"w": torch.tensor([8.0, 1.0, 0.0, 0.0]), "v": torch.tensor([0.0, 0.0, 0.0, 2.0])}
    payloads = [compress(FEW, x)[0].payload for x in (one, two)]
    found = mean_of(FEW, payloads, [1, 3], like)
    assert found.tolist() == [6.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.5]


@pytest.mark.parametrize("weights", [(1.0, 1.0, 1.0), (1.0, 1e-30, 1.0)])
def test_zeros_have_the_sign_of_the_dense_sum(weights):
    """-1e-45 / 3 is rounded to -0, to which the dense sum then adds 0 where nothing is sent."""
    values = ([0.0, -1e-45, 0.0, 0.0], [-1e-45, 0.0, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0])
    every = [{"w": torch.tensor(x)} for x in values]
    payloads = [compress(FEW, update)[0].payload for update in every]
    for count in (1, 2, 3):
        found = mean_of(FEW, payloads[:count], weights[:count], every[0])
        assert bits(found) == bits(naive(every[:count], weights[:count]))


def infinite(payload: bytes) -> bytes:
    """A message whose last value is 3, with infinity in its place."""
    whole = int.from_bytes(payload, "big")
    (shift,) = (s for s in range(8) if (whole >> s) & 0xFFFFFFFF == 0x40400000)
    return (whole ^ ((0x40400000 ^ 0x7F800000) << shift)).to_bytes(len(payload), "big")


@pytest.mark.parametrize("spoil", [infinite, lambda payload: payload[:-1]])
def test_a_bad_payload_among_good_ones_has_its_own_error(spoil):
    update = {"w": torch.tensor([2.0, 0.0, 0.0, 0.0]), "v": torch.tensor([0.0, 3.0, 0.0, 0.0])}
    good = compress(FEW, update)[0].payload
    bad = spoil(good)
    with pytest.raises(PayloadError) as own:
        decompress(FEW, bad, update)
    with pytest.raises(PayloadError) as error:
        mean_of(FEW, [good, bad, good], [1, 2, 1], update)
    assert str(error.value) == str(own.value)


def test_a_mean_makes_no_tensors_of_few_entries(monkeypatch):
    monkeypatch.setattr(Decoded, "tensors", property(lambda self: pytest.fail("tensors")))
    method = parse("sbc(0.01)")
    payloads = [compress(method, update)[0].payload for update in updates(2)]
    assert int(mean_of(method, payloads, [1, 1], LIKE).count_nonzero()) > 0


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1], "payloads 2"),
        ([1, -1], r"weights\[1\] is -1"),
        ([0, 0], "sum to 0"),
        ([1, torch.inf], r"weights\[1\] is inf"),
    ],
)
def test_weights_that_make_no_mean_are_refused(weights, said):
    payload = compress(FEW, updates(1)[0])[0].payload
    with pytest.raises(ValueError, match=said):
        mean_of(FEW, [payload, payload], weights, LIKE)
