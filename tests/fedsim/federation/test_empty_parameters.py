"""Parameters without entries: digests, memories and models of every strategy have them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedsim import run
from fedsim.federation import ledger
from fedsim.federation.slots import SlotFile
from tests.support.runs import assert_same, small

ODD = {
    "empty": torch.zeros(0).as_strided((0,), (0,)),
    "empty rows": torch.zeros(0).as_strided((0, 3), (0, 0)),
    "one entry of no stride": torch.full((), 2.0).expand(1),
    "every other": torch.arange(6.0)[::2],
    "turned": torch.arange(6.0).reshape(2, 3).T,
    "repeated": torch.full((), 2.0).expand(2, 2),
    "half": torch.ones(3, dtype=torch.bfloat16),
    "a number": torch.tensor(3),
}


@pytest.mark.parametrize("name", ODD)
def test_strides_change_no_digest_and_no_slot(name: str) -> None:
    odd = ODD[name]
    plain = torch.empty(odd.shape, dtype=odd.dtype)
    plain.copy_(odd)
    assert ledger.digest_of_model({"w": odd}) == ledger.digest_of_model({"w": plain})
    file = SlotFile(None)
    file.begin()
    slot = file.write({"w": odd, "v": plain})
    assert all(torch.equal(x, plain) and x.dtype == plain.dtype for x in file.read(slot).values())


class Empty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.none = nn.Linear(6, 3), nn.Parameter(torch.empty(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.none.sum()


@pytest.mark.parametrize("strategy", ["dsgd", "nesterov", "fedavg", "fedadam"])
@pytest.mark.parametrize("downlink", ["raw", "sbc(0.2)"])
def test_a_model_with_one_trains_and_goes_on(
    strategy: str, downlink: str, make_task: Any, tmp_path: Path
) -> None:
    config = small(
        task=make_task(build=Empty),
        method="sbc(0.1)",
        temporal=3,
        iterations=6,
        strategy=strategy,
        downlink=downlink,
        evaluate_every=1,
    )
    run(config.but(iterations=12), tmp_path / "once")
    run(config, tmp_path / "twice")
    done = run(config.but(iterations=12), tmp_path / "twice")
    assert done.model["none"].shape == (0,)
    assert_same(tmp_path / "once", tmp_path / "twice")
