"""Every update that was trained is applied, or counted as lost, or held.

Three of nine clients send so slowly that each of their updates comes when its round is over.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from compressors import compress, decompress
from fedsim import run
from fedsim.federation.orders import uplink_at
from tests.support.cases import cases
from tests.support.runs import clients, rounds, small


def always_late(folder: Path, up: str = "600000", **more: Any) -> dict[str, Any]:
    """31 rounds, half of which three clients of nine miss."""
    folder.mkdir()
    rows = [f"{c},0,{up if c < 3 else '20000000'},100000000" for c in range(9)]
    (folder / "links.csv").write_text("\n".join(["client,seconds,up,down", *rows]))
    network = {"network": f"trace={folder / 'links.csv'}, compute=1ms", "deadline": "1s"}
    return {"clients": 9, "temporal": 1, "iterations": 31, **network, **more}


def trained(folder: Path) -> int:
    """Updates of which the upload began, or that dropped out after training."""
    told = clients(folder)
    return int(
        (told["down_message_bits"] > 0).sum()
        - told["failure_reasons"].str.contains("before training").sum()
    )


LOSSY = {
    "late": {"method": "raw"},
    "late, and dropped": {"method": "raw", "late": "drop"},
    "late, and counted": {"method": "raw", "late": "count"},
    "late, of a method with random numbers": {"method": "qsgd(4)", "up": "70000"},
    "late, and dropped out": {"method": "raw", "dropout": "before=0.1, after=0.2"},
}


@pytest.mark.parametrize("settings", cases(LOSSY, quick=("late", "late, and dropped out")))
def test_every_update_is_applied_or_lost_or_held(settings: dict[str, Any], tmp_path: Path) -> None:
    summary = run(small(**always_late(tmp_path / "in", **settings)), tmp_path / "run").summary
    told, each = rounds(tmp_path / "run"), clients(tmp_path / "run")
    applied = told["clients"].sum()
    assert trained(tmp_path / "run") == applied + summary["lost"] + summary["held"]
    assert summary["lost"] == told["lost"].sum() == each["lost"].sum()
    is_lost = settings.get("late", "hold") != "count"
    assert (summary["lost"] > 2) == is_lost and summary["held"] <= 3


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
