"""Momentum that a kernel masks is what torch's operations make of it, in one launch for all."""

import pytest
import torch

from compressors.kernels.gpu import join
from fedsim.federation.client import Masking, mask_all
from tests.support.gpu import DEVICE, needs_triton, taken


@needs_triton
def test_masking_by_a_kernel_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(*given: object, **more: object) -> None:
        launched.append(given)
        start(*given, **more)

    launched: list[object] = []
    start = join.launch
    monkeypatch.setattr(join, "launch", launch)
    state = {
        "momentum_buffer/w": torch.arange(1.0, 7.0).view(2, 3),
        "step/w": torch.tensor(2.0),
        "exp_avg/w": torch.arange(6.0).view(2, 3),
        "exp_avg/b": torch.ones(4),
    }
    other = {name: 2 * x for name, x in state.items()}
    three = [
        Masking(state, {"w": torch.tensor([1, 5])}),
        Masking(other, {}),
        Masking(other, {"w": torch.tensor([0, 2, 3])}),
    ]
    expected = mask_all(three)
    assert not launched
    with taken():
        found = mask_all(
            [
                Masking(
                    {n: x.to(DEVICE) if x.dim() else x for n, x in one.optimizer.items()},
                    one.indices,
                )
                for one in three
            ]
        )
    assert len(launched) == 1
    for made, by_host in zip(found, expected, strict=True):
        assert made.keys() == by_host.keys()
        assert all(torch.equal(made[name].cpu(), x) for name, x in by_host.items())
    owners = [one["exp_avg/w"].untyped_storage().data_ptr() for one in found]
    assert len({*owners}) == 3  # no client's keeps another's alive
