"""EF21 trains the digits; the stored messages, added up, make the final weights."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from compressors import parse
from fedsim import UsageError, run
from strategies import EF21, DelayedDSGD, build
from tests.support import replaying
from tests.support.runs import small

METHOD = {"method": "ef21(topk(0.1) | float32)", "strategy": "ef21"}


def final(folder: Path) -> dict[str, torch.Tensor]:
    return dict(sorted(load_file(folder / "model.safetensors").items()))


@pytest.mark.parametrize("some", [{}, {"clients": 5, "cohort": 2}], ids=["all", "cohort"])
def test_it_learns_and_its_messages_add_up(tmp_path: Path, some: dict[str, int]) -> None:
    config = small(**METHOD, **some, keep_payloads=True)
    summary = run(config, tmp_path).summary
    weights, total = replaying.initial(config), {}
    for ups in replaying.uplinks(tmp_path, config):
        for client in sorted(ups):
            total = {n: total.get(n, torch.zeros_like(x)) + x for n, x in ups[client].items()}
        weights = {n: x + total[n] / config.plan.clients for n, x in weights.items()}
    replaying.assert_equal(dict(sorted(weights.items())), final(tmp_path))
    assert summary["metric"] > 0.3  # ten classes, a tenth by chance


def test_differences_and_their_strategy_belong_together() -> None:
    for settings in (
        {"method": METHOD["method"]},
        {**METHOD, "strategy": "fedadam"},
        {"method": "raw", "downlink": METHOD["method"]},
        {**METHOD, "downlink": "by_name('*', ef21(cnat))"},
    ):
        with pytest.raises(UsageError, match="messages of ef21 are read by --strategy ef21"):
            small(**settings)
    with pytest.raises(UsageError, match=r"--method is 'sbc\(0.1\)'.*give 'ef21"):
        small(method="sbc(0.1)", strategy="ef21")
    with pytest.raises(UsageError, match="--late is 'drop'.*give hold or count"):
        small(**METHOD, late="drop")
    with pytest.raises(ValueError, match="messages of ef21 are read by strategy ef21 alone"):
        DelayedDSGD(parse(METHOD["method"]), clients=2)
    with pytest.raises(ValueError, match="messages of ef21 are read by strategy ef21 alone"):
        DelayedDSGD(parse("raw"), parse(METHOD["method"]), clients=2)
    with pytest.raises(ValueError, match="uplink is raw.*give 'ef21"):
        build(EF21(), parse("raw"), clients=2)
