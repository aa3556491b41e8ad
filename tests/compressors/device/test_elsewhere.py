"""Updates that lie on another device and have no kernels there: the CPU's bytes, by two copies."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import ROWS, arguments, compress, decompress, parse
from tests.support.generators import same_bits
from tests.support.otherdevice import OTHER, OtherTensor, other_device

SIZES = {"w": (30, 20), "b": (7,), "none": (0, 3), "one": ()}


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "PLAIN", (*arguments.PLAIN, OtherTensor))


def update(seed: int) -> dict[str, Tensor]:
    rng = np.random.default_rng(seed)
    return {n: torch.from_numpy(rng.normal(size=s).astype(np.float32)) for n, s in SIZES.items()}


def here(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    assert all(x.device == OTHER for x in tensors.values())
    return {name: x.values for name, x in tensors.items()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_method_has_the_bytes_of_the_cpu(row: Any) -> None:
    method, state, memory = parse(row.example), None, None
    for number in range(2):
        one = update(number)
        expected, memory = compress(method, one, memory, number)
        with other_device() as device:
            there = {name: OtherTensor(x) for name, x in one.items()}
            packet, state = compress(method, there, state, number)
            assert device.copies == [("cpu", 608)]  # all tensors at once; the memory stays
            sent = {name: part.decoded for name, part in packet.sent.items()}
            device.copies.clear()
            got = decompress(method, packet.payload, there)
            assert len(device.copies) <= 2 and {to for to, _ in device.copies} <= {OTHER.type}
        assert packet.payload == expected.payload
        assert packet.spans == expected.spans and packet.counts == expected.counts
        assert same_bits(state, memory)
        wanted = {name: part.decoded for name, part in expected.sent.items()}
        assert same_bits(here(sent), wanted) and same_bits(here(got), wanted)
