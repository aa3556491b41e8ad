"""Local training: against plain PyTorch loops, and what is kept between rounds."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.optim import SGD, Adagrad, Adam
from torch.utils._python_dispatch import TorchDispatchMode

from compressors import ALL, SentTensor, derive
from fedsim import RunConfig, Training, run
from fedsim.federation.branches import Branches
from fedsim.federation.client import mask_momentum
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import Batches
from fedsim.federation.trainer import Trainer, build_model
from strategies import TrainJob, TrainResult
from tests.support.runs import distance, small, steps


def plain(config: RunConfig, client: int, iterations: int, reset: int | None = None) -> nn.Module:
    """A bare PyTorch loop over the client's batches; ``reset``: a new optimizer so often."""
    task, federation = config.plan.task, ClientData.of(config)
    model = build_model(task, config.seed)
    if task.channels_last:
        model = model.to(memory_format=torch.channels_last)
    shard = federation.shards[client]
    batches = Batches(shard, config.plan.batch_size, config.seed, client)
    optimizer = task.optimizer(model.parameters())
    for i in range(iterations):
        if reset and i % reset == 0:
            optimizer = task.optimizer(model.parameters())
        steps(task, model, federation.data, [batches.at(i)], optimizer)
    return model


def test_one_raw_client_is_plain_pytorch(tmp_path: Path) -> None:
    config = small(method="raw", clients=1, batch_size=16)
    run(config, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert distance(plain(config, 0, 20), weights) < 1e-6
    assert distance(plain(config, 0, 20, reset=5), weights) > 1e-3  # the momentum was kept


@pytest.mark.parametrize("make", [SGD, Adam])
def test_the_optimizer_is_kept_over_rounds(make: Any, make_task: Any, tmp_path: Path) -> None:
    extra = {"momentum": 0.9, "nesterov": True} if make is SGD else {}
    task = make_task(optimizer=lambda parameters: make(parameters, lr=0.05, **extra))
    config = RunConfig(task=task.name, method="raw", temporal=5, clients=1)  # 5 + 5 + 2
    run(config, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert distance(plain(config, 0, 12), weights) < 1e-6
    assert distance(plain(config, 0, 12, reset=5), weights) > 1e-3


def test_two_clients_average_their_updates(make_task: Any, tmp_path: Path) -> None:
    config = RunConfig(task=make_task().name, method="raw", temporal=12, clients=2)
    run(config, tmp_path)
    both = [dict(plain(config, client, 12).named_parameters()) for client in (0, 1)]
    for name, x in load_file(tmp_path / "model.safetensors").items():
        mean = (both[0][name].detach() + both[1][name].detach()) / 2
        torch.testing.assert_close(x, mean, rtol=0, atol=1e-6)


def test_the_learning_rate_steps_by_local_iteration(make_task: Any, tmp_path: Path) -> None:
    """From 3 on a tenth, from 7 on a hundredth of the base, in the midst of rounds of two."""
    task = make_task(
        lr_steps=((3, 0.1), (7, 0.01)), optimizer=lambda parameters: SGD(parameters, lr=0.4)
    )
    config = RunConfig(task=task.name, method="raw", temporal=2, clients=1, iterations=10)
    run(config, tmp_path)
    model, federation = build_model(task, 0), ClientData.of(config)
    batches = Batches(federation.shards[0], 4, 0, 0)
    for i in range(10):
        rate = 0.4 if i < 3 else 0.04 if i < 7 else 0.004
        optimizer = SGD(model.parameters(), lr=rate)
        steps(task, model, federation.data, [batches.at(i)], optimizer)
    assert distance(model, load_file(tmp_path / "model.safetensors")) < 1e-6


def test_a_learning_rate_of_the_users(make_task: Any) -> None:
    task = make_task(lr_steps=((1, 0.5),))
    config = RunConfig(task=task.name, method="raw", temporal=1, training=Training(lr=0.8))
    trainer = Trainer(config, ClientData.of(config))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    rates = []
    for done in range(3):
        trainer.train(0, weights, {}, done, 1)
        rates.append(trainer.optimizer.param_groups[0]["lr"])
    assert rates == [0.8, 0.4, 0.4]


def test_parameters_of_five_dimensions_train(make_task: Any) -> None:
    """NHWC is a layout of four; a model of both kinds keeps its own."""
    task = make_task(
        build=lambda: nn.Sequential(
            nn.Unflatten(1, (1, 3, 2, 1)),
            nn.Conv3d(1, 2, 1),
            nn.Flatten(1, 2),
            nn.Conv2d(6, 4, 1),
            nn.Flatten(),
            nn.Linear(8, 3),
        ),
        channels_last=True,
    )
    config = RunConfig.of(task=task, method="raw", temporal=2, iterations=2)
    assert run(config).summary["status"] == "done"


def test_what_a_trainer_is_given_is_not_changed(make_task: Any) -> None:
    config = RunConfig(task=make_task().name, method="raw", temporal=2)
    trainer = Trainer(config, ClientData.of(config))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    kept = {n: x.clone() for n, x in weights.items()}
    first = trainer.train(0, weights, {}, 0, 2)
    state = {n: x.clone() for n, x in first.optimizer.items()}
    update = {n: x.clone() for n, x in first.update.items()}
    again = trainer.train(0, weights, first.optimizer, 2, 2)
    assert all(torch.equal(weights[n], x) for n, x in kept.items())
    assert all(torch.equal(first.optimizer[n], x) for n, x in state.items())
    assert all(torch.equal(first.update[n], x) for n, x in update.items())
    # nor does a trainer remember: another one does the same
    other = Trainer(config, ClientData.of(config)).train(0, weights, state, 2, 2)
    assert all(torch.equal(again.update[n], x) for n, x in other.update.items())
    assert again.loss == other.loss


def test_it_serves_clients_in_any_order(make_task: Any) -> None:
    config = RunConfig(task=make_task().name, method="raw", temporal=2)
    trainer = Trainer(config, ClientData.of(config))
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    alone = {
        c: Trainer(config, ClientData.of(config)).train(c, weights, {}, 0, 3) for c in range(3)
    }
    for client in (2, 0, 1, 0):
        trained = trainer.train(client, weights, {}, 0, 3)
        for name, x in trained.update.items():
            assert torch.equal(x, alone[client].update[name])
    assert not torch.equal(alone[0].update["0.weight"], alone[1].update["0.weight"])


def sent(name: str, shape: tuple[int, ...], indices: Any) -> dict[str, SentTensor]:
    chosen = indices if indices is ALL else torch.tensor(indices, dtype=torch.int64)
    values = torch.zeros(shape) if chosen is ALL else torch.zeros(len(chosen))
    return {name: SentTensor(values, chosen, torch.Size(shape))}


@pytest.mark.parametrize("kind", ["momentum_buffer", "exp_avg"])
def test_masking_zeroes_what_was_sent_and_nothing_else(kind: str) -> None:
    shape = (2, 3, 2, 2)
    full = torch.arange(1.0, 25.0).view(shape).to(memory_format=torch.channels_last)
    state = {
        f"{kind}/w": full,
        "exp_avg_sq/w": full.clone(),
        "step/w": torch.tensor(5.0),
        f"{kind}/b": torch.ones(3),
    }
    before = {name: x.clone() for name, x in state.items()}
    masked = mask_momentum(state, sent("w", shape, [0, 7, 23]))
    expected = torch.arange(1.0, 25.0)
    expected[[0, 7, 23]] = 0.0
    assert torch.equal(masked[f"{kind}/w"], expected.view(shape))
    for name in ("exp_avg_sq/w", "step/w", f"{kind}/b"):
        assert torch.equal(masked[name], before[name])
    assert all(torch.equal(state[name], x) for name, x in before.items())


def test_masking_spares_what_was_sent_whole() -> None:
    state = {"momentum_buffer/w": torch.ones(4)}
    assert torch.equal(
        mask_momentum(state, sent("w", (4,), ALL))["momentum_buffer/w"], torch.ones(4)
    )
    none = mask_momentum(state, sent("w", (4,), []))
    assert torch.equal(none["momentum_buffer/w"], torch.ones(4))


def test_global_generators_are_left_alone(tmp_path: Path) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    run(small(seed=3, partition="dirichlet(0.5)", cohort=2, workers=2), tmp_path)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()
    assert random.getstate() == before[2]


def test_the_seed_decides_the_weights_and_nothing_else_does() -> None:
    task = small().plan.task
    one = dict(build_model(task, 0).named_parameters())
    torch.randn(7)
    same = dict(build_model(task, 0).named_parameters())
    other = dict(build_model(task, 1).named_parameters())
    assert all(torch.equal(x, same[name]) for name, x in one.items())
    assert not torch.equal(one["0.weight"], other["0.weight"])


def test_adagrads_sums_are_kept_over_rounds(make_task: Any, tmp_path: Path) -> None:
    """It makes its state when it is made, not at its first step."""
    task = make_task(optimizer=lambda parameters: Adagrad(parameters, lr=0.05))
    config = RunConfig(task=task.name, method="raw", temporal=5, clients=1)
    run(config, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert distance(plain(config, 0, 12), weights) < 1e-6
    assert distance(plain(config, 0, 12, reset=5), weights) > 1e-3


def test_bfloat16_is_autocast(make_task: Any) -> None:
    """Float32 weights and updates, near those of float32 and not equal to them."""
    updates = []
    for precision in ("float32", "bfloat16"):
        config = RunConfig.of(task=make_task().name, method="raw", temporal=2, precision=precision)
        trainer = Trainer(config, ClientData.of(config))
        weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
        updates.append(trainer.train(0, weights, {}, 0, 2).update)
    for name, x in updates[0].items():
        assert updates[1][name].dtype == torch.float32
        assert not torch.equal(x, updates[1][name])
        assert (x - updates[1][name]).norm() < 0.05 * x.norm()


class Read(TorchDispatchMode):
    """How many numbers the host reads of tensors: on a GPU it would wait for each."""

    count = 0

    def __torch_dispatch__(self, op: Any, types: Any, given: Any = (), more: Any = None) -> Any:
        self.count += op is torch.ops.aten._local_scalar_dense.default
        return op(*given, **(more or {}))


@pytest.mark.parametrize("together", [False, True])
def test_no_step_reads_a_number(together: bool, make_task: Any) -> None:
    """Momentum's SGD: as many numbers are read of six iterations as of two."""
    config = RunConfig.of(task=make_task().name, method="raw", temporal=6)
    trainer = Trainer(config, ClientData.of(config))
    branches = Branches(trainer, 2)
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}

    def read(iterations: int) -> int:
        jobs = [TrainJob(client, weights, {}, 0, iterations, {}, 0) for client in (0, 1)]
        with Read() as read:
            found = branches.train(jobs) if together else [trainer.train(*jobs[0])]
        assert all(isinstance(one, TrainResult) for one in found), found
        return read.count

    read(1)  # a trainer's first step is watched
    assert read(6) == read(2)


def test_what_is_drawn_differs_from_iteration_to_iteration() -> None:
    config = small()
    trainer, seeds = Trainer(config, ClientData.of(config)), []
    assert not trainer.draws_batches  # the digits are only looked into
    trainer.draws_batches = True
    for client, iteration in ((0, 0), (0, 1), (1, 0)):
        trainer.batch(client, iteration)
        seeds.append(trainer._noise.initial_seed())
    assert seeds == [derive(config.seed, "step", c, i) for c, i in ((0, 0), (0, 1), (1, 0))]
    assert len(set(seeds)) == 3
