"""Where a message's tensors lie: on the GPU of the update, from ``compress`` to ``decompress``.

Fake tensors know their device and hold no values, so that this needs no GPU. Kernels do not run;
what the host would fetch is made up.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from compressors import arguments, arraycache, compress, decompress, parse
from compressors.device import read, write
from compressors.device.encode import Report, read_report
from compressors.device.layout import Frame
from compressors.kernels.gpu import codes, join, measure, select, stream, tried, unpack
from compressors.kernels.gpu.graphs import RECORDERS, Recordings
from tests.support.gpu import needs_triton

pytestmark = needs_triton
CUDA = torch.device("cuda", 0)


def as_long(frame: Frame, fetched: np.ndarray) -> Report:
    """A made-up report, whose messages of all entries have their length."""
    report, scheme = read_report(frame, fetched), frame.plan.scheme
    if frame.plan.sides:
        return report
    counts = frame.nominal_counts.reshape(frame.many, -1)
    numbers = (-(-counts // (scheme.bucket or 1 << 62))).sum(1) * scheme.number_bits
    report.books[:, 2:] = np.stack([counts.sum(1) * scheme.width, numbers], 1)
    return report._replace(counts=frame.nominal_counts)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A GPU that is not there; how many kernels were started on it."""
    started = []

    def launch(
        kernel: Any, programs: int, *arguments: Any, warps: int = 4, **constants: Any
    ) -> None:
        assert all(isinstance(x, Tensor) and x.device == CUDA for x in arguments), kernel.__name__
        started.append(programs)

    def fetch(*tensors: Tensor) -> list[np.ndarray]:
        """Zeros: nothing is wrong, all numbers are certain, and nothing is sent."""
        assert all(x.device == CUDA for x in tensors)
        kinds = (np.dtype(str(x.dtype).removeprefix("torch.")) for x in tensors)
        return [np.zeros(tuple(x.shape), kind) for x, kind in zip(tensors, kinds, strict=True)]

    for room in (codes, join, measure, select, stream, unpack):
        monkeypatch.setattr(room, "launch", launch)
    monkeypatch.setattr(tried, "works", lambda device: True)
    monkeypatch.delitem(RECORDERS, "cuda")
    monkeypatch.setattr(arguments, "PLAIN", (*arguments.PLAIN, FakeTensor))
    monkeypatch.setattr(write, "fetch", fetch)
    monkeypatch.setattr(write, "read_report", as_long)
    monkeypatch.setattr(read, "fetch", fetch)
    monkeypatch.setattr(Tensor, "data_ptr", lambda x: 0)
    monkeypatch.setattr(Tensor, "pin_memory", lambda x: x)  # not known to fake tensors
    monkeypatch.setattr(torch.cuda, "device", lambda device: torch.inference_mode(False))
    arraycache.forget()
    monkeypatch.setattr(write, "RECORDINGS", Recordings())
    yield started
    arraycache.forget()


@pytest.mark.parametrize(
    "text",
    [
        "sbc(0.01)",
        "ef(topk(0.1) | cnat | golomb)",
        "cnat",
        "qsgd(7)",
        "flat(topk(0.1) | float32)",
        "shrink(qsgd(7, 4))",
        "terngrad",
        "by_name('w', raw, '*', ef(cnat))",
    ],
)
def test_everything_lies_on_the_gpu(
    text: str, elsewhere: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = parse(text)
    real = {"w": torch.ones(3, 5), "b": torch.arange(1.0, 8.0)}
    payload = compress(method, real)[0].payload
    elsewhere.clear()
    with FakeTensorMode(allow_non_fake_inputs=True):
        update = {name: torch.empty(x.shape, device=CUDA) for name, x in real.items()}
        packet, state = compress(method, update)
        again, _ = compress(method, update, state)
        found = decompress(method, payload, update)
        # The made-up bits of a message cannot be read; those of the host's can.
        monkeypatch.setattr(
            write,
            "decode_on_device",
            lambda method, _, template: read.decode_on_device(method, payload, template),
        )
        sent = (*packet.sent.values(), *again.sent.values())
    assert len(elsewhere) > 5
    kept = [*state.values(), *found.values(), *(one.values for one in sent)]
    assert all(x.device == CUDA for x in kept)
    assert all(x.shape == real[name].shape for name, x in found.items())
