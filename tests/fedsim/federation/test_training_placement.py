"""Where a round's tensors lie on a GPU: batches, model, optimizer, update, message, model again.

Fake tensors know their device and hold no values, so that this needs no GPU. What torch cannot do
with them where there is no CUDA is made up: to move a module, to draw, to read a number, and the
gradient itself (autograd asks CUDA for the device).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from compressors import State, compress, decompress, parse
from fedsim import Data, RunConfig, Task
from fedsim.federation import device, draws, trainer
from fedsim.federation.branches import Branches
from fedsim.federation.clientdata import ClientData
from fedsim.federation.evaluation import evaluate
from fedsim.federation.modelbuffers import ModelBuffers
from fedsim.federation.recorder import StepRecorder
from fedsim.federation.trainer import Trainer
from strategies import TrainJob, TrainResult, generators
from tests.compressors.device.test_device_placement import CUDA, elsewhere
from tests.support.gpu import needs_triton

__all__ = ["elsewhere"]  # the fixture


def there(tensors: State) -> None:
    assert tensors
    assert all(x.device == CUDA for x in tensors.values())


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU that is not there."""

    def build(
        task: Task, seed: int, data: Data | None = None, weights: str | None = None
    ) -> nn.Module:
        with torch.device(CUDA):
            return task.model(data)

    def backward(loss: Tensor) -> None:
        assert loss.device == CUDA
        for p in (p for model in made for p in model.parameters()):
            p.grad = torch.zeros_like(p)

    def noted(model: nn.Module, task: str) -> ModelBuffers:
        made.append(model)
        return ModelBuffers(model, task)

    made: list[nn.Module] = []
    ClientData.of(RunConfig(task="digits", clients=3))  # real, and kept
    monkeypatch.setattr(trainer, "build_model", build)
    monkeypatch.setattr(trainer, "ModelBuffers", noted)
    monkeypatch.setattr(nn.Module, "to", lambda module, *_, **__: module)
    host = [torch.default_generator]
    monkeypatch.setattr(generators, "global_generators", lambda device: host)
    monkeypatch.setattr(draws, "global_generators", lambda device: [])  # whose states are compared
    monkeypatch.setattr(device, "free", lambda device: 1 << 40)
    monkeypatch.setattr(Tensor, "backward", backward)
    monkeypatch.setattr(Tensor, "__float__", lambda x: 0.0)
    monkeypatch.setattr(FakeTensor, "tolist", lambda x: [0.0] * len(x))
    monkeypatch.setattr(Tensor, "pin_memory", lambda x: x)  # not known to fake tensors
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield
    device._placed.clear()


class Watched(TorchDispatchMode):
    """What would make the host wait for the GPU within a loop of steps."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[tuple[torch.device, torch.device]] = []
        self.up = 0

    def __torch_dispatch__(self, op: Any, types: Any, given: Any = (), more: Any = None) -> Any:
        if op is torch.ops.aten.index.Tensor:
            self.looks += [(given[0].device, i.device) for i in given[1] if i is not None]
        out = op(*given, **(more or {}))
        if op is torch.ops.aten._to_copy.default:
            self.up += given[0].device.type == "cpu" and out.device == CUDA
        return out


def test_steps_look_into_the_gpu_by_numbers_that_lie_there(absent: None) -> None:
    """An epoch's numbers go up once, however many steps it has."""
    own = Trainer(*settings())
    weights = {n: p.detach().clone() for n, p in own.parameters.items()}
    own.train(0, weights, {}, 0, 1)
    many = own.batches_of(0).an_epoch
    went = []
    for first, count in ((1, 2), (3, 20), (many, 2)):
        with Watched() as watched:
            for iteration in range(first, first + count):
                own.step(*own.batch(0, iteration), ())
        assert [pair for pair in watched.looks if CUDA in pair] == [(CUDA, CUDA)] * 2 * count
        went.append(watched.up)
    assert many > 23 and went == [0, 0, 1]


class Waits(TorchDispatchMode):
    """Counts what makes the host wait for the GPU, whoever asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, op: Any, types: Any, given: Any = (), more: Any = None) -> Any:
        name, more = op.overloadpacket.__name__, more or {}
        flat = [x for x in torch.utils._pytree.tree_leaves((given, more)) if isinstance(x, Tensor)]
        out = op(*given, **more)
        there = {x.device == CUDA for x in flat}
        looks = name in ("_local_scalar_dense", "nonzero", "masked_select", "equal")
        if (looks and True in there) or (name == "index" and len(there) == 2):
            self.found.append(name)
        elif name in ("_to_copy", "copy_", "_foreach_copy_"):
            there |= {x.device == CUDA for x in [out] if isinstance(x, Tensor)}
            if len(there) == 2 and not more.get("non_blocking"):
                self.found.append(name)
        return out


@pytest.mark.parametrize("memory", [1 << 40, 0])
@pytest.mark.parametrize("steps", [1, 20])
def test_a_clients_steps_wait_once(
    memory: int, steps: int, absent: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the mean loss in the end, one client or several; samples on the GPU or on the host."""
    monkeypatch.setattr(device, "free", lambda device: memory)
    own = Trainer(*settings())
    assert (own.data.train_x.device == CUDA) == bool(memory)
    weights = {n: p.detach().clone() for n, p in own.parameters.items()}
    branches = Branches(own, 3, StepRecorder())
    first = own.train(0, weights, {}, 0, 1)
    jobs = [TrainJob(c, weights, first.optimizer, 1, steps, {}, 1) for c in range(3)]
    for work in (lambda: own.train(*jobs[0]), lambda: branches.train(jobs)):
        with Waits() as waits, monkeypatch.context() as patch:
            patch.setattr(Tensor, "__float__", lambda x: float(waits.found.append("float") or 0))
            patch.setattr(
                FakeTensor, "tolist", lambda x: waits.found.append("list") or [0.0] * len(x)
            )
            found = work()
        assert len(waits.found) == 1 and waits.found[0] in ("float", "list")
        assert isinstance(found, TrainResult) or all(isinstance(x, TrainResult) for x in found)


def settings(**more: Any) -> tuple[RunConfig, ClientData]:
    plain = RunConfig.of(task="digits", clients=3, batch_size=8, **more)
    return RunConfig.of(**{**plain.flat(), "device": "cuda:0"}), ClientData.of(plain)


def test_training_and_scoring(absent: None) -> None:
    own = Trainer(*settings())
    weights = {n: p.detach().clone() for n, p in own.parameters.items()}
    assert all(x.device == CUDA for x in (own.data.train_x, *own.batch(0, 0)))
    there(weights)
    first = own.train(0, weights, {}, 0, 2)
    arrived = {n: torch.zeros(x.shape) for n, x in weights.items()}  # on the host
    again = own.train(0, arrived, first.optimizer, 2, 1)
    for trained in (first, again):
        there(trained.update)
        there(trained.optimizer)
    evaluate(own, weights)


def test_scoring_waits_once(absent: None) -> None:
    """However many batches the held-out samples are."""
    own = Trainer(*settings())
    own.task = replace(own.task, evaluation_batch=40)
    weights = {n: p.detach().clone() for n, p in own.parameters.items()}
    evaluate(own, weights)  # a trainer's first step is watched
    assert own.data.test_count > 5 * 40
    with Waits() as waits:
        evaluate(own, weights)
    assert waits.found == ["_to_copy"]


def test_clients_at_once(absent: None) -> None:
    own = Trainer(*settings())
    weights = {n: p.detach().clone() for n, p in own.parameters.items()}
    branches = Branches(own, 3, StepRecorder())
    memory: list[State] = [{}, {}, {}]
    for start in (0, 2):
        jobs = [TrainJob(c, weights, memory[c], start, 2, {}, start) for c in range(3)]
        for client, trained in enumerate(branches.train(jobs)):
            assert isinstance(trained, TrainResult), trained
            there(trained.update)
            there(trained.optimizer)
            memory[client] = dict(trained.optimizer)
    assert not branches.reasons


@needs_triton
def test_a_round(absent: None, elsewhere: list[int]) -> None:
    """From the server's model to a client's message, and to the model of the next round."""
    own = Trainer(*settings())
    weights = {n: p.detach().clone() for n, p in own.parameters.items()}
    method = parse("cnat")
    packet, _ = compress(method, own.train(0, weights, {}, 0, 1).update)
    assert elsewhere
    there({name: one.values for name, one in packet.sent.items()})
    step = decompress(method, packet.payload, weights)
    there({name: weights[name] + x for name, x in step.items()})
