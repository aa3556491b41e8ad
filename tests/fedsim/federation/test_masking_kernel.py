"""Momentum that a kernel masks is what torch's operations make of it, in one launch."""

import pytest
import torch

from compressors import ALL, Sent, SentTensor
from compressors.kernels.gpu import clear
from fedsim.federation.masking import mask_momentum
from tests.support.gpu import DEVICE, needs_triton, taken


@needs_triton
def test_masking_by_a_kernel_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(*given: object, **more: object) -> None:
        launched.append(given)
        start(*given, **more)

    launched: list[object] = []
    start = clear.launch
    monkeypatch.setattr(clear, "launch", launch)
    state = {"momentum_buffer/w": torch.arange(1.0, 7.0).view(2, 3), "step/w": torch.tensor(2.0),
             "exp_avg/w": torch.arange(6.0).view(2, 3), "exp_avg/b": torch.ones(4)}  # fmt: skip
    two = torch.tensor([1, 5])
    sent: Sent = {"w": SentTensor(torch.ones(2), two, torch.Size((2, 3))),
                  "b": SentTensor(torch.ones(4), ALL, torch.Size((4,)))}  # fmt: skip
    expected = mask_momentum(state, sent)
    assert not launched
    with taken():
        found = mask_momentum({n: x.to(DEVICE) if x.dim() else x for n, x in state.items()}, sent)
    assert len(launched) == 1 and found.keys() == expected.keys()
    assert all(torch.equal(found[name].cpu(), x) for name, x in expected.items())
