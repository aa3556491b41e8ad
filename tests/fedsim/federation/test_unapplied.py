"""What is held back: residuals, and updates that come late and cannot be applied."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from compressors import compress, decompress
from fedsim import RunConfig, run
from fedsim.federation.orders import uplink_at
from tests.support.runs import clients, small
from tests.support.threes import give_links, table, threes


def test_the_norm_of_what_residuals_hold(tmp_path: Path) -> None:
    """Of the mean over four clients, from the memory that the run keeps."""
    summary = run(small(method="sbc(0.1)", keep_checkpoint=True), tmp_path).summary
    kept = load_file(tmp_path / "final" / "memory.safetensors")
    total: dict[str, torch.Tensor] = {}
    for name, x in kept.items():
        client, _, of = name.removeprefix("client/").partition("/uplink/residual/")
        if of:
            total[of] = total.get(of, torch.zeros(())) + x.double()
    norm = sum(float((x / 4).square().sum()) for x in total.values()) ** 0.5
    assert summary["held_norm"] == pytest.approx(norm) and norm > 0 and summary["held"] == 0


@pytest.mark.parametrize(
    ("method", "settings", "holds"),
    [
        ("diana(qsgd(7))", {"strategy": "diana"}, False),
        ("by_name('*.bias', raw, '*', sbc(0.1))", {}, True),
    ],
)
def test_what_is_held_is_what_will_be_sent(
    method: str, settings: dict[str, Any], holds: bool, tmp_path: Path
) -> None:
    """Not a shift, which is of what was sent; with rules by name, what the rules hold."""
    config = small(method=method, keep_checkpoint=True, **settings)
    summary = run(config, tmp_path).summary
    kept = load_file(tmp_path / "final" / "memory.safetensors")
    total: dict[str, torch.Tensor] = {}
    for name, x in kept.items():
        _, of, tensor = name.partition("/residual/")
        if of:
            total[tensor] = total.get(tensor, torch.zeros(())) + x.double()
    norm = sum(float((x / 4).square().sum()) for x in total.values()) ** 0.5
    assert summary["held_norm"] == pytest.approx(norm) and (norm > 0) == holds


def test_what_is_raw_at_one_sends_what_waited() -> None:
    """A controller goes from p = 0.5 to 1: 4 of (4, 1) was sent, and 1 waits."""
    config = small(method="sbc", gradient=0.5, controller="plateau(1)")
    first, memory = compress(uplink_at(config, 0.5), {"w": torch.tensor([4.0, 1.0])})
    assert first.sent["w"].decoded.tolist() == [4.0, 0.0]
    method, update = uplink_at(config, 1.0), {"w": torch.tensor([1.0, 1.0])}
    packet, memory = compress(method, update, memory)
    assert decompress(method, packet.payload, update)["w"].tolist() == [1.0, 2.0]
    assert memory["residual/w"].tolist() == [0.0, 0.0]


def test_a_method_that_is_raw_at_one_keeps_its_residual_under_a_controller() -> None:
    """Rounds of p = 1, then of p = 1/5: updates of clients that drop out return in both."""
    settings = {"method": "sbc", "gradient": 1.0, "dropout": "after=0.4", "iterations": 20}
    config = small(**settings, temporal=5, controller="delay_first(0.5)")
    summary = run(config, progress=False).summary
    assert summary["lost"] == 0 < summary["returned"] and summary["held_norm"] > 0
    assert config.plan.masks and not config.but(controller=None).plan.masks


@pytest.mark.parametrize(
    "method", ["raw", "cnat", "sbc(0.1)", "by_name('*bias', raw, '*', sbc(0.1))"]
)
def test_what_is_held_does_not_depend_on_the_downlink(method: str) -> None:
    """For a relay a client keeps its message, which its method may have no place for."""
    settings: dict[str, Any] = {"method": method, "dropout": "after=0.4", "iterations": 10}
    sent, relayed = (
        run(small(**settings, temporal=2, downlink=down), progress=False).summary
        for down in ("raw", "relay")
    )
    names = ("held", "held_norm", "lost", "returned", "failures")
    assert [sent[name] for name in names] == [relayed[name] for name in names]
    assert sent["lost"] + sent["returned"] > 0


def test_what_comes_late_and_cannot_be_applied_is_one_failure(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Client 2's first update, of norm 48 sqrt(3), is late in round 1 and comes in round 2.

    Latencies of 0.5 s, 2 s of training, and uploads of 1, 2 and 4 s: they come at 4, 5 and 7 s.
    """
    give_links(monkeypatch, up=[120, 60, 30])
    network = "down=120bit, latency=500ms, compute=1s"
    settings = {"method": "ef(raw)", "temporal": 2, "iterations": 4, "network": network}
    task = make_task(**threes([16.0, 32.0, 64.0])).name
    config = RunConfig.of(task=task, deadline="6.5s", late="count", max_norm=50, **settings)
    run(config, tmp_path)
    rows, came = table(tmp_path), clients(tmp_path).set_index(["round", "client"])
    assert rows["failures"].tolist() == [1, 0] and rows["absent"].tolist() == [0, 0]
    assert came["failures"][1, 2] == 1 and came["failures"][2, 2] == 0
    assert "norm 83.1: at most 50" in came["failure_reasons"][2, 2]
    assert "norm 83.1: at most 50" in rows["failure_reasons"][1]
    assert rows["failed_up_bits"].tolist() == [0, 120] == [0, came["failed_up_bits"][2, 2]]
