"""Clients that train together end with the bits of one after the other.

A GPU's graph is played by a tape of torch's operations (``tests.support.tape``), which repeats them
on the same tensors and calls no Python.
"""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, RMSprop
from torch.utils._python_dispatch import TorchDispatchMode

from compressors import State
from fedsim import Data, RunConfig
from fedsim.federation.branches import Branches
from fedsim.federation.clientdata import ClientData
from fedsim.federation.recorder import (
    ClientStep,
    GraphRecorder,
    NotRecorded,
    StepRecorder,
)
from fedsim.federation.trainer import Trainer
from fedsim.tasks import Dropout
from fedsim.tasks.data.images import CropAndFlip, Pixels
from fedsim.tasks.models.text import LanguageModel, sgd, summed_loss
from strategies import TrainJob, TrainResult
from strategies import client_optimizers as own
from strategies.algorithms.chain import Hooks
from strategies.algorithms.fedbabu import Freeze
from strategies.algorithms.fedprox import Pull
from strategies.algorithms.scaffold import Correction
from tests.support.models import normed
from tests.support.tape import TapeRecorder

HooksOf = Callable[[int, State], tuple[Any, ...]]


def trainer_for(task: Any, **settings: Any) -> Trainer:
    config = RunConfig.of(**{"task": task.name, "method": "raw", "temporal": 4} | settings)
    return Trainer(config, ClientData.of(config))


def weights_of(trainer: Trainer) -> State:
    return {n: p.detach().clone() for n, p in trainer.parameters.items()}


def assert_equal(one: State, other: State) -> None:
    assert one.keys() == other.keys()
    for name, x in one.items():
        y = other[name]
        assert (x.shape, x.stride(), x.dtype) == (y.shape, y.stride(), y.dtype), name
        assert torch.equal(x, y), name


def assert_same(one: Any, other: Any) -> TrainResult:
    for result in (one, other):
        assert isinstance(result, TrainResult), repr(result)
    assert_equal(one.update, other.update)
    assert_equal(one.optimizer, other.optimizer)
    assert_equal(one.buffers, other.buffers)
    assert (one.loss, one.rate) == (other.loss, other.rate)
    assert isinstance(one, TrainResult)
    return one


def no_hooks(client: int, weights: State) -> tuple[Any, ...]:
    return ()


def compare_rounds(
    trainer: Trainer,
    recorder: StepRecorder | None = None,
    cohorts: tuple[tuple[int, ...], ...] = ((0, 1, 2), (2, 0, 1), (1, 2, 0)),
    hooks: HooksOf = no_hooks,
    width: int = 8,
) -> TapeRecorder:
    """Rounds of both ways, from the memory that one after the other leaves."""
    tape = TapeRecorder()
    other, branches = trainer.twin(), Branches(trainer.twin(), width, recorder or tape)
    weights, start, n = weights_of(trainer), 0, trainer.plan.temporal
    memory: dict[int, TrainResult] = {}
    done: dict[int, int] = {}
    for cohort in cohorts:
        jobs = []
        for c in cohort:
            held = (memory[c].optimizer, memory[c].buffers) if c in memory else ({}, {})
            more = hooks(c, weights)
            jobs.append(TrainJob(c, weights, held[0], done.get(c, 0), n, held[1], start, more))
        for job, result in zip(jobs, branches.train(jobs), strict=True):
            memory[job.client] = assert_same(other.train(*job), result)
            done[job.client] = done.get(job.client, 0) + n
        weights = {name: x + memory[cohort[0]].update[name] for name, x in weights.items()}
        start += n
    return tape


OPTIMIZERS: dict[str, Any] = {
    "momentum": lambda p: SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "nesterov": lambda p: SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "dampened": lambda p: SGD(p, lr=0.05, momentum=0.9, dampening=0.1),
    "plain": lambda p: SGD(p, lr=0.05),
    "foreach": lambda p: SGD(p, lr=0.05, momentum=0.9, foreach=True),
    "fedsim's": lambda p: own.SGD(p, lr=0.05, momentum=0.9),
}
COUNTING: dict[str, Any] = {  # on a CPU they read their count of steps, which a tape does not
    "adam": lambda p: Adam(p, lr=0.01),
    "fedsim's adam": lambda p: own.Adam(p, lr=0.01, amsgrad=True),
    "adagrad": lambda p: Adagrad(p, lr=0.05, initial_accumulator_value=0.5),
    "rmsprop": lambda p: RMSprop(p, lr=0.01, centered=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str, make_task: Any) -> None:
    """Of 12 steps one makes state, one is the first with it; 10 are one record, repeated."""
    tape = compare_rounds(trainer_for(make_task(optimizer=OPTIMIZERS[name])))
    eager = 1 if name == "plain" else 2
    assert tape.counts == {"run": eager, "record": 1, "repeat": 12 - eager}


@pytest.mark.parametrize("name", COUNTING)
def test_optimizers_that_count(name: str, make_task: Any) -> None:
    compare_rounds(trainer_for(make_task(optimizer=COUNTING[name])), StepRecorder())


class Partly(nn.Module):
    """Two layers share a weight, one is frozen, and the loss reaches one not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.idle = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(2, 2)
        self.last = nn.Linear(6, 3)
        self.second.weight = self.first.weight
        self.last.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.second(self.first(x).tanh()))
        return out


def masked() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), Dropout(0.5), nn.Tanh(), Dropout(0.2), nn.Linear(8, 3))


MODELS: dict[str, dict[str, Any]] = {
    "BatchNorm": {"build": normed},
    "dropout": {"build": masked},
    "frozen and tied": {"build": Partly},
    "steps of the rate": {"lr_steps": ((3, 0.1), (7, 0.5))},
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, make_task: Any) -> None:
    compare_rounds(trainer_for(make_task(**MODELS[name])))


def test_bfloat16(make_task: Any) -> None:
    compare_rounds(trainer_for(make_task(), precision="bfloat16"))


def test_convolutions() -> None:
    config = RunConfig.of(task="digits", clients=3, batch_size=8, temporal=3)
    compare_rounds(Trainer(config, ClientData.of(config)))


@pytest.mark.parametrize("drop", [0.0, 0.3])
def test_an_lstm_with_clipped_gradients(drop: float, make_task: Any) -> None:
    """``char_lstm`` in small: the norm is compared with the bound on the device."""
    x = torch.randint(9, (48, 8), generator=torch.Generator().manual_seed(1))
    data = Data(x[:, :-1], x[:, 1:], x[:, :-1], x[:, 1:], "", labels=torch.arange(48) % 3)
    task = make_task(
        build=lambda: LanguageModel(9, 6, drop, 0.1),
        load=lambda folder, download: data,
        optimizer=sgd,
        loss=lambda out, y: nn.functional.cross_entropy(out.flatten(0, 1), y.flatten()),
        metric=summed_loss,
    )
    compare_rounds(trainer_for(task))


def both_hooks(client: int, weights: State) -> tuple[Any, ...]:
    """Of FedProx and SCAFFOLD, whose variate is another for each client and round."""
    scale = 0.01 * (client + 1) * float(weights["0.weight"].sum())
    correction = Correction({name: scale * torch.ones_like(x) for name, x in weights.items()})
    return (Hooks([Pull(weights, 0.3), Hooks([correction])]),)


def frozen_hooks(client: int, weights: State) -> tuple[Any, ...]:
    return (Freeze({}, frozenset(n for n in weights if n.startswith("2"))),)


@pytest.mark.parametrize("hooks", [both_hooks, frozen_hooks])
def test_gradient_hooks(hooks: HooksOf, make_task: Any) -> None:
    tape = compare_rounds(trainer_for(make_task()), hooks=hooks)
    assert tape.counts["repeat"] == 10


def test_other_gradient_hooks_are_called_client_by_client(
    make_task: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def hooks(client: int, weights: State) -> tuple[Any, ...]:
        return (lambda parameters: [p.grad.mul_(client + 1) for p in parameters.values()],)

    with caplog.at_level(logging.WARNING, "fedsim"):
        tape = compare_rounds(trainer_for(make_task()), hooks=hooks)
    assert tape.counts["run"] == 0 and len(caplog.records) == 1


def test_the_gradient_where_the_strategy_takes_it(make_task: Any) -> None:
    tape = compare_rounds(trainer_for(make_task(), temporal=1, strategy="gradients"))
    assert tape.counts == {"run": 1, "record": 1, "repeat": 2}


def test_batches_of_another_size_and_other_cohorts(make_task: Any) -> None:
    """48 samples: 7 clients have 7 or 6, of which a batch of 7 takes all; some sit out."""
    cohorts = ((3, 0, 6, 2), (1, 5, 4, 0, 6), (2, 3), (0, 1, 2, 3, 4, 5, 6))
    compare_rounds(trainer_for(make_task(batch_size=7, clients=7), clients=7), cohorts=cohorts)


def test_more_clients_than_train_at_once(make_task: Any) -> None:
    cohorts = ((0, 1, 2, 3, 4), (4, 2, 0, 1, 3))
    task = make_task(clients=5)
    tape = compare_rounds(trainer_for(task, clients=5), cohorts=cohorts, width=3)
    assert tape.counts["record"] == 2  # three at once, and two


def images(draw: bool) -> Data:
    generator = torch.Generator().manual_seed(2)
    stored = torch.randint(256, (48, 3, 4, 4), dtype=torch.uint8, generator=generator)
    x, y = Pixels(stored, (0.5, 0.4, 0.3), (0.2, 0.2, 0.3)), torch.arange(48) % 3
    return Data(x, y, x, y, "", draw=CropAndFlip(x, y, 1) if draw else None)


@pytest.mark.parametrize("draw", [True, False])
def test_crops_and_flips_are_a_part_of_the_step(draw: bool, make_task: Any) -> None:
    task = make_task(
        load=lambda folder, download: images(draw),
        build=lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)),
        channels_last=True,
    )
    tape = compare_rounds(trainer_for(task))
    assert tape.counts["repeat"] == 10


def test_batches_that_the_host_draws(make_task: Any) -> None:
    """Client 0's samples fail in the second round: the others are as if it were not there."""
    fails = [False]

    def draw(index: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        if fails[0] and int(index.min()) < 16:
            raise OSError("sample 3 cannot be read")
        return torch.randn(len(index), 6, generator=generator), index % 3

    x, y = torch.zeros(48, 6), torch.arange(48) % 3
    data = Data(x, y, x, y, "", draw=draw)
    trainer = trainer_for(make_task(load=lambda *_: data, partition="contiguous"))
    assert compare_rounds(trainer).counts["repeat"] == 10
    fails[0] = True
    weights, other = weights_of(trainer), trainer.twin()
    jobs = [TrainJob(c, weights, {}, 0, 4, {}, 0) for c in range(3)]
    failed, *results = Branches(trainer, 3, TapeRecorder()).train(jobs)
    assert isinstance(failed, OSError)
    for job, result in zip(jobs[1:], results, strict=True):
        assert_same(other.train(*job), result)


def test_batches_of_many_shapes_train_one_after_the_other(
    make_task: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def draw(index: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        length = 1 + int(torch.randint(40, (1,), generator=generator))
        return torch.randn(len(index), length, 6, generator=generator), index % 3

    class Mean(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).mean(dim=1)

    x, y = torch.zeros(48, 1, 6), torch.arange(48) % 3
    data = Data(x, y, x, y, "", draw=draw)
    task = make_task(load=lambda *_: data, build=lambda: Mean(6, 3))
    with caplog.at_level(logging.WARNING, "fedsim"):
        tape = compare_rounds(trainer_for(task, temporal=9))
    assert tape.counts["run"] < 27 and "more than 16 shapes" in caplog.text


class Silent(StepRecorder):
    """Repeated steps do nothing, and are counted."""

    def __init__(self) -> None:
        self.repeated = 0

    def record(self, works: Any, generators: Any) -> ClientStep:
        def repeat() -> None:
            self.repeated += 1

        return repeat


class Operations(TorchDispatchMode):
    """Counts what the host starts."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return op(*args, **(kwargs or {}))


@pytest.mark.parametrize("clients", [2, 6])
def test_a_repeated_step_is_a_copy_and_a_call(clients: int, make_task: Any) -> None:
    """Of however many clients: each starts a view of the step's numbers, their copy, the graph."""
    task = make_task(clients=clients, batch_size=1, optimizer=OPTIMIZERS["plain"])
    silent = Silent()
    trainer = trainer_for(task, clients=clients)
    branches, weights = Branches(trainer, 8, silent), weights_of(trainer)

    def operations(steps: int) -> int:
        jobs = [TrainJob(c, weights, {}, 0, steps, {}, 0) for c in range(clients)]
        with Operations() as started:
            branches.train(jobs)
        return started.count

    operations(3)
    before = silent.repeated
    assert operations(8) - operations(3) == 2 * 5 and silent.repeated - before == 11


class Halving(SGD):
    """Its rate is halved by a number in its state, which no recorded step would count."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for p in self.param_groups[0]["params"]:
            count = self.state[p]["count"] = self.state[p].get("count", 0) + 1
            p.sub_(p.grad, alpha=0.1 / 2**count)


def test_an_optimizer_that_counts_in_python_is_not_recorded(make_task: Any) -> None:
    trainer = trainer_for(make_task(optimizer=lambda p: Halving(p, lr=0.1)))
    assert compare_rounds(trainer).counts == {"run": 12, "record": 0, "repeat": 0}


def test_a_loss_that_is_not_finite_stays_with_its_client(make_task: Any) -> None:
    trainer = trainer_for(make_task())
    weights, other = weights_of(trainer), trainer.twin()
    huge = {name: x * 3e38 for name, x in weights.items()}
    jobs = [TrainJob(c, huge if c == 1 else weights, {}, 0, 4, {}, 0) for c in range(3)]
    results = Branches(trainer, 3, TapeRecorder()).train(jobs)
    assert isinstance(results[1], TrainResult) and not abs(results[1].loss) < 1e30
    for c in (0, 2):
        assert_same(other.train(*jobs[c]), results[c])


class Full(TapeRecorder):
    """Room for so many clients."""

    def __init__(self, room: int, recording: bool) -> None:
        super().__init__()
        self.room, self.recording, self.freed = room, recording, 0

    def check(self, count: int) -> None:
        if count > self.room:
            raise torch.cuda.OutOfMemoryError("Tried to allocate 2.00 GiB. 1.00 GiB is free.")

    def run(self, works: Any) -> None:
        if not self.recording:
            self.check(len(works))
        super().run(works)

    def record(self, works: Any, generators: Any) -> ClientStep:
        self.check(len(works))
        return super().record(works, generators)

    def free(self) -> None:
        self.freed += 1


@pytest.mark.parametrize("recording", [True, False])
def test_clients_that_do_not_fit_are_halved(
    recording: bool, make_task: Any, caplog: pytest.LogCaptureFixture
) -> None:
    full = Full(2, recording)
    task = make_task(clients=7)
    with caplog.at_level(logging.WARNING, "fedsim"):
        compare_rounds(trainer_for(task, clients=7), full, ((*range(7),), (6, 0, 5, 1, 4)))
    assert full.freed == len(caplog.records) == 2 and full.counts["record"]


class Refusing(StepRecorder):
    """A device that records nothing."""

    def record(self, works: Any, generators: Any) -> ClientStep:
        raise NotRecorded from RuntimeError("operation not permitted when stream is capturing")


def test_what_cannot_be_recorded_trains_one_after_the_other(
    make_task: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fedsim"):
        compare_rounds(trainer_for(make_task()), Refusing())
    (record,) = caplog.records
    assert "not permitted when stream is capturing" in record.getMessage()


def test_nothing_that_is_taken_is_changed_and_nothing_is_shared(make_task: Any) -> None:
    trainer = trainer_for(make_task(build=normed))
    weights = weights_of(trainer)
    before = {n: x.clone() for n, x in weights.items()}
    branches = Branches(trainer, 3, TapeRecorder())
    results = branches.train([TrainJob(c, weights, {}, 0, 4, {}, 0) for c in range(3)])
    first = [one for one in results if isinstance(one, TrainResult)]
    copies = [{n: x.clone() for n, x in (one.optimizer | one.buffers).items()} for one in first]
    branches.train(
        [TrainJob(c, weights, one.optimizer, 4, 4, {}, 4) for c, one in enumerate(first)]
    )
    assert_equal(weights, before)
    for one, copy in zip(first, copies, strict=True):
        assert_equal(one.optimizer | one.buffers, copy)
    tensors = [x for one in first for x in (one.update | one.optimizer | one.buffers).values()]
    assert len({x.untyped_storage().data_ptr() for x in tensors}) == len(tensors)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    "fields",
    [{}, *MODELS.values(), {"optimizer": COUNTING["adam"]}, {"optimizer": OPTIMIZERS["dampened"]}],
    ids=["digits", *MODELS, "adam", "dampened"],
)
def test_on_a_gpu(fields: dict[str, Any], make_task: Any) -> None:
    """Graphs and streams of a real one."""
    if not fields:
        config = RunConfig.of(task="digits", clients=3, batch_size=8, temporal=4, device="cuda")
        trainer = Trainer(config, ClientData.of(config))
    else:
        trainer = trainer_for(make_task(**fields), device="cuda")
    compare_rounds(trainer, GraphRecorder(trainer.device))
