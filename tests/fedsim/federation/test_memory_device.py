"""A client's memory comes back from a checkpoint and from Flower's context where it trains."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from flwr.app import Context, RecordDict
from torch import Tensor

from compressors import ALL, Packet, Raw, SentTensor, State
from fedsim.federation import drivers
from fedsim.federation.client import serve
from fedsim.federation.client_memory import AtNode
from fedsim.federation.drivers import serve_one
from fedsim.runs import checkpoint
from strategies import ClientEnd, TrainResult
from strategies.channel import directions
from strategies.channel.payload import put, settings_in
from tests.support.runs import small

META = torch.device("meta")
STATE = {
    "iterations": torch.tensor(5),
    "uplink/residual/w": torch.ones(3),
    "uplink/inner/messages": torch.tensor(1),
}


def from_checkpoint(folder: Path) -> State:
    saved = checkpoint.Checkpoint(1, {}, {}, {0: STATE}, [{"round": 1}], [{"round": 1}])
    checkpoint.save_checkpoint(folder, saved, 0)
    found = checkpoint.load_checkpoint(folder)
    assert found is not None
    return found.clients[0]


def from_context(folder: Path) -> State:
    context = Context(0, 0, {}, RecordDict(), {})
    asked = {"channel": 0, "round": 1}
    AtNode().commit(context, asked, STATE)
    return AtNode().load(context, asked)


def trainer_on_meta(*_: Any) -> Any:
    w = torch.zeros(3, device=META)
    trained, config = TrainResult({"w": torch.ones(3, device=META)}, {}, 0.5), small()
    return SimpleNamespace(
        device=META,
        parameters={"w": w},
        template={"w": w},
        buffers=SimpleNamespace(initial={}),
        federation=SimpleNamespace(shards=[range(2)]),
        train=lambda *_: trained,
        filled=lambda weights: weights,
        config=config,
        plan=config.plan,
        masks_all=True,
        line=ClientEnd(config.plan.method.compressor, Raw(), {"w": w}),
    )


def summed(_: Any, update: dict[str, Tensor], held: State, seed: int) -> tuple[Packet, State]:
    """As ``ef`` begins: a sum of tensors on two devices is an error."""
    w = update["w"] + held["residual/w"]
    assert int(held["inner/messages"]) == 1  # a counter is read by the host
    return Packet(b"payload", {"w": SentTensor(w, ALL, w.shape)}, {}), {"residual/w": w}


@pytest.mark.parametrize("load", [from_checkpoint, from_context])
def test_what_comes_back_goes_to_the_training_device(
    load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = load(tmp_path)
    assert state["uplink/residual/w"].device.type == "cpu"
    trainer = trainer_on_meta()
    monkeypatch.setattr(directions, "decompress", lambda *_: {"w": torch.zeros(3, device=META)})
    monkeypatch.setattr(drivers, "compress", summed)
    content = RecordDict()
    put(content, b"", round=2, iterations=5, kind="model")
    serving = serve(content, settings_in(content), 0, trainer, state)
    _, after = serve_one(serving, trainer.train)
    assert after["uplink/residual/w"].device == META
