"""A run's clock from the messages that it sends: every byte that travels takes its time, no other.

A model or an update of three numbers has 15 bytes; the first model, which all know, costs its
latency alone. Orders of a controller travel in every round, the first too, and reports go up.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fedsim import RunConfig, run
from fedsim.settings.controllers import CONTROLLERS, ListedController
from tests.support.models import normed
from tests.support.runs import payloads
from tests.support.threes import table, threes

TOPK = "topk({p}) | float32 | bitmap"
"""One entry of three: 4 bytes of header and bitmap, and 4 of the value."""

BYTES: dict[str, tuple[dict[str, Any], tuple[int, int], int]] = {
    "no orders": ({"method": "raw"}, (0, 15), 15),
    "n": ({"method": "raw", "controller": "fixed"}, (1, 16), 15),
    "n above 127": ({"method": "raw", "controller": "fixed", "temporal": 128}, (2, 17), 15),
    "n and p": ({"method": TOPK, "gradient": 0.34, "controller": "fixed"}, (3, 18), 8),
    "n and a report": ({"method": "raw", "controller": "adacomm(999)"}, (1, 16), 19),
    "an update down": (
        {"method": "raw", "controller": "fixed", "downlink": TOPK.format(p=0.34)},
        (1, 9),
        15,
    ),
    "two reports": ({"method": "raw", "controller": "two_reports"}, (1, 16), 23),
}
"""Settings; bytes down in the first round and in later ones; bytes up."""


@dataclass(frozen=True)
class TwoReports:
    """What a user's own controller may want."""

    needs: ClassVar[tuple[str, ...]] = ("train_loss", "update_norm")
    moves: ClassVar[tuple[str, ...]] = ()

    def choose(self, told: Any, memory: Any) -> Any:
        return told.base, memory


@pytest.fixture
def reporting(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ListedController(TwoReports, "", "this test", "two_reports")
    monkeypatch.setitem(CONTROLLERS, "two_reports", row)


@pytest.mark.usefixtures("reporting")
@pytest.mark.parametrize("name", BYTES)
def test_a_byte_takes_a_second(name: str, make_task: Any, tmp_path: Path) -> None:
    """8 bit/s both ways, 3 s of training, and 1 s of latency: 5 s beside the bytes."""
    settings, (first, later), up = BYTES[name]
    n = settings.get("temporal", 2)
    given = {"temporal": n, "iterations": 3 * n, **settings}
    network = f"up=8bit, down=8bit, latency=1s, compute={3 / n}s"
    task = make_task(**threes([16.0]))
    run(RunConfig.of(task=task.name, network=network, **given), tmp_path)
    expected = [5 + first + up, 5 + later + up, 5 + later + up]
    assert table(tmp_path)["sim_seconds"].tolist() == pytest.approx(expected, abs=1e-9)
    bits = table(tmp_path)[["down_wire_bits", "up_wire_bits"]].to_numpy().tolist()
    assert bits == [[8 * down, 8 * up] for down in (first, later, later)]


def test_the_run_s_iterations_travel_where_the_rate_has_steps(
    make_task: Any, tmp_path: Path
) -> None:
    """n = 64; the iterations before each round are 0, 64 and 128, the last of them two bytes."""
    task = make_task(**threes([16.0], lr_steps=((64, 0.5),)))
    common = {"method": "raw", "temporal": 64, "iterations": 192, "controller": "fixed"}
    run(RunConfig.of(task=task.name, network="up=8bit, down=8bit, compute=0s", **common), tmp_path)
    assert table(tmp_path)["sim_seconds"].tolist() == [2 + 15, 17 + 15, 18 + 15]
    assert table(tmp_path)["down_order_bits"].tolist() == [16, 16, 24]


def test_buffers_travel_beside_the_model(make_task: Any, tmp_path: Path) -> None:
    """24 + 4 weights of the first layer, 4 + 4 of the norm, 12 + 3 of the last; 8 statistics."""
    task = make_task(build=normed, clients=1)
    common = {"method": "raw", "temporal": 1, "iterations": 2, "keep_payloads": True}
    run(RunConfig.of(task=task.name, network="up=8bit, down=8bit, compute=0s", **common), tmp_path)
    lengths = {name: len(data) for name, data in payloads(tmp_path).items()}
    for name in ("round-00001/client-000-up", "round-00002/client-000-up"):
        assert lengths[f"{name}.bin"] == 51 * 4 + 3 and lengths[f"{name}.buffers"] == 8 * 4 + 3
    assert table(tmp_path)["sim_seconds"].tolist() == [207 + 35, 2 * (207 + 35)]
