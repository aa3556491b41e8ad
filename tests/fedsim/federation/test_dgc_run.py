"""Deep Gradient Compression in a run: it learns, keeps the momentum itself, and resumes."""

import pytest
import torch
from torch import Tensor

from compressors import Packet, State, compress
from fedsim import RunConfig, Training
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer
from fedsim.settings.methods import resolve


def test_the_fraction_is_known() -> None:
    assert resolve("dgc(0.05)", None).gradient == 0.05
    assert resolve("dgc({p})", 0.02).text == "dgc(0.02)"


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in trainer.parameters.items()}


@pytest.mark.parametrize("momentum", [None, 0.0, 0.5])
def test_the_setting_is_the_optimizers_momentum(momentum: float | None, make_task) -> None:
    """The task's is 0.9. Two steps of momentum m: the buffer is g2 + m g1."""
    config = RunConfig(task=make_task().name, temporal=2, training=Training(momentum=momentum))
    trainer = Trainer(config, ClientData.of(config))
    first = trainer.train(0, weights_of(trainer), {}, 0, 1)
    assert all(
        g["momentum"] == (0.9 if momentum is None else momentum)
        for g in trainer.optimizer.param_groups
    )
    assert bool(first.optimizer) == (momentum != 0.0)  # SGD without momentum keeps nothing


def test_sent_whole_it_is_momentum_sgd_until_it_is_masked(make_task) -> None:
    """What DGC has accumulated of plain SGD's steps is what SGD with momentum moves by.

    With a share so small that one entry of each tensor is sent, all others keep u and v: v is
    the sum of momentum SGD's steps, up to float32 rounding, if the gradients are the same.
    """
    config = RunConfig(task=make_task().name, temporal=1, training=Training(momentum=0.0))
    trainer = Trainer(config, ClientData.of(config))
    start = weights_of(trainer)
    method = resolve("dgc(0.0001, 0)", None).compressor
    state: State | None = None
    buffer = {name: torch.zeros_like(x) for name, x in start.items()}
    moved = {name: torch.zeros_like(x) for name, x in start.items()}
    never_sent = {name: torch.ones_like(x, dtype=torch.bool) for name, x in start.items()}
    for step in range(4):
        update = trainer.train(0, start, {}, step, 1).update
        packet: Packet
        packet, state = compress(method, update, state)
        for name, x in update.items():
            buffer[name] = 0.9 * buffer[name] + x
            moved[name] += buffer[name]
            never_sent[name].view(-1)[packet.sent[name].indices] = False
    assert state is not None
    for name, kept in never_sent.items():
        assert bool(kept.any())
        torch.testing.assert_close(state[f"velocity/{name}"][kept], moved[name][kept])
