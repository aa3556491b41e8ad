"""n local iterations of one client: weights and optimizer state in, update and state out.

A trainer belongs to one process and serves any client: nothing of a client stays in it
but a cache of data, and of what clients are all sent (``means``). Optimizer state and buffers are
kept over rounds as plain tensors by name.
"""

import time
from collections.abc import Iterable
from copy import copy
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer, SparseAdam

from compressors import Compressor, State, Tensors, derive
from compressors.kernels.gpu.layout import send
from compressors.whole.masking import ALL, masking
from fedsim.federation.clientdata import ClientData
from fedsim.federation.device import enough, looked_into, products, resident
from fedsim.federation.draws import Watch, untouched
from fedsim.federation.ledger import digest_of_model
from fedsim.federation.modelbuffers import ModelBuffers
from fedsim.federation.startweights import start_from
from fedsim.ground.threads import one_thread
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import flags_of
from fedsim.tasks import Data, Task
from fedsim.tasks.datacache import load_data, task_content
from fedsim.tasks.models.dropout import dropouts, own_masks, reseed
from fedsim.tasks.pytrees import Tree, forward, to_device
from strategies import ClientEnd, GradientHook, TrainResult
from strategies.channel.client_end import Line
from strategies.channel.parts import PartsEnd
from strategies.channel.relay import Means
from strategies.client_optimizers import load_optimizer_state, optimizer_state, settings_of
from strategies.generators import seeded

_HOST = torch.device("cpu")


def epoch_length(samples: int, size: int) -> int:
    """How many batches an epoch has: whole ones, and the samples that are left over are in none.

    Args:
        samples: of the client.
        size: samples a batch; a client with fewer has one batch of all.

    Example:
        >>> epoch_length(101, 32), epoch_length(378, 32), epoch_length(5, 32)
        (3, 11, 1)
    """
    return samples // min(size, samples)


class Batches:
    """Batches of one client's shard, a fresh order every epoch.

    Args:
        shard: indices (m,) of the client's training samples.
        size: samples a batch; a shard smaller than that is one batch.
        seed: the order of epoch e follows from (seed, client, e).
        client: the number of the client.
        device: where the indices are wanted; an epoch's go there at once, and nothing waits.

    Example:
        >>> Batches(np.arange(10), 5, seed=0, client=0).at(0).shape
        torch.Size([5])
    """

    def __init__(
        self, shard: np.ndarray, size: int, seed: int, client: int, device: torch.device = _HOST
    ) -> None:
        self.shard = torch.from_numpy(shard)
        self.size = min(size, len(shard))
        self.an_epoch = epoch_length(len(shard), size)
        self.seed, self.client, self.device = seed, client, device
        self._epoch, self._order = -1, self.shard

    def at(self, iteration: int) -> Tensor:
        """Sample indices (batch,) of local iteration ``iteration`` (0, 1, ...)."""
        epoch, slot = divmod(iteration, self.an_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(
                derive(self.seed, "batches", self.client, epoch)
            )
            order = self.shard[torch.randperm(len(self.shard), generator=generator)]
            self._order = send(order, self.device)
            self._epoch = epoch
        return self._order[slot * self.size : (slot + 1) * self.size]


def build_model(
    task: Task, seed: int, data: Data | None = None, weights: str | None = None
) -> nn.Module:
    """The task's model (for ``data``, where that decides its size) with the weights of ``seed``.

    torch's global generator is left as it was. ``weights``: the setting, a file to start from.
    """
    with seeded(derive(seed, "init"), torch.device("cpu")):
        model = own_masks(task.model(data))
    if weights is not None:
        start_from(model, weights, task.name)
    return model


def start_of(config: RunConfig) -> dict[str, str]:
    """Digests of what a run begins with: of its weights. They change with torch.

    Example:
        >>> start_of(RunConfig(seed=1)) == start_of(RunConfig(seed=2))
        False
    """
    task, source = config.plan.task, config.machine.source
    content = task_content(task, *source)
    return {"weights": weights_of(task, config.seed, config.weights, source, content)}


@lru_cache(maxsize=64)
def weights_of(
    task: Task, seed: int, weights: str | None, source: tuple[str | None, bool], content: str
) -> str:
    """The digest of the initial weights and buffers of a task, built once a process.

    ``content``: of the data, from which a task may build its model.
    """
    with one_thread(), untouched(torch.device("cpu")):
        model = build_model(task, seed, load_data(task, *source).data, weights)
    return digest_of_model({**dict(model.named_parameters()), **dict(model.named_buffers())})[:16]


def make_optimizer(config: RunConfig, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """The task's, with the learning rate and momentum of the run where it names them."""
    optimizer = config.plan.task.optimizer(parameters)
    for key, value in (("lr", config.training.lr), ("momentum", config.training.momentum)):
        if value is not None:
            for group in optimizer.param_groups:
                group[key] = value
    return optimizer


def lr_factor(task: Task, iteration: int) -> float:
    """The factor on the base learning rate in iteration 0, 1, ... of the run."""
    factor = 1.0
    for start, value in task.lr_steps:
        factor = value if iteration >= start else factor
    return factor


_BATCHES = 4096
"""Of how many clients a trainer keeps the order of their batches."""


class Trainer:
    """One worker's model and optimizer, shared by all clients that it trains.

    Attributes:
        parameters: those that are trained, and travel: they require a gradient when the task has
            built its model.
        template: these, for names, shapes and devices; values are those of whoever trained last.
        frozen: the others. They follow from the task and the seed, and nobody is sent them.
        held: names of the parameters that the optimizer has. The others travel and never move.
        precision: inside, float32, or bfloat16 where autocast knows it to do; weights and updates
            stay float32.
        masks_all: whether momentum is forgotten wherever entries are sent.
        products: inside what it returns, a GPU multiplies as the run's precision says.
        means: of the messages that are relayed to clients.

    Example:
        >>> config = RunConfig(task="digits", temporal=2)
        >>> trainer = Trainer(config, ClientData.of(config))
        >>> weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
        >>> sorted(trainer.train(0, weights, {}, 0, 2).update) == sorted(weights)
        True
    """

    def __init__(self, config: RunConfig, federation: ClientData) -> None:
        self.config, self.plan, self.federation = config, config.plan, federation
        self.task = self.plan.task
        self.device = torch.device(config.machine.device)
        self.data = resident(federation.data, self.device)
        with enough(self.device):
            self.model = self._built().to(self.device)
        held = chain(self.model.parameters(), self.model.buffers())
        # NHWC is not for Conv3d; and under vmap a GPU's BatchNorm has no rule for it.
        plain = self.device.type == "cuda" and config.machine.stack != "1"
        if self.task.channels_last and not plain and all(x.dim() != 5 for x in held):
            self.layout = torch.channels_last
            self.model.to(memory_format=self.layout)
        else:
            self.layout = torch.contiguous_format
        self.model.train()
        named = dict(self.model.named_parameters())
        self.parameters = {name: p for name, p in named.items() if p.requires_grad}
        self.template = {name: p.detach() for name, p in self.parameters.items()}
        self.frozen = {name: p.detach() for name, p in named.items() if not p.requires_grad}
        self.buffers = ModelBuffers(self.model, self.task.name)
        self.has_buffers = any(True for _ in self.model.buffers())
        self.optimizer = make_optimizer(config, self.parameters.values())
        self.defaults = settings_of(self.optimizer)
        self.fresh = {n: x.clone() for n, x in self.optimizer_state().items()}  # Adagrad's sums
        self.steps = not self.plan.algorithm.gradients
        moved = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        self.held = frozenset(n for n, p in self.parameters.items() if id(p) in moved)
        self.means = Means()
        self.masks_all = (
            config.training.momentum_masking != "auto"
            or masking(self.plan.method.compressor) == ALL
        )
        self.base_lr = [group["lr"] for group in self.optimizer.param_groups]
        self._batches: dict[int, Batches] = {}
        self.dropouts, self._noise = dropouts(self.model), torch.Generator()
        self.watch = Watch(self.task, self.device)
        precision = config.training.precision
        lower = precision == "bfloat16"
        self.precision = torch.autocast(self.device.type, torch.bfloat16, enabled=lower)
        self.products = partial(products, precision == "tf32")

    def train(
        self,
        client: int,
        weights: Tensors,
        optimizer: State,
        done: int,
        iterations: int,
        buffers: State | None = None,
        start: int | None = None,
        gradient_hooks: tuple[GradientHook, ...] = (),
    ) -> TrainResult:
        """``iterations`` local iterations of ``client`` from ``weights``.

        Args:
            client: its number, which decides the samples.
            weights: parameters by name, on any device; not changed.
            optimizer: the state that the last call returned for this client ({}: none yet).
            done: local iterations that this client has done before.
            iterations: how many to do now.
            buffers: the model's by name; those that are not given are as in a new model.
            start: the run's iterations before these, by which the rate goes; None: ``done``.
            gradient_hooks: what each step adds to the gradients.
        """
        began = time.perf_counter()
        first = done if start is None else start  # the run is ahead of a client that sat out
        factors = [lr_factor(self.task, first + i) for i in range(iterations)]

        named: list[Tensor] = [*self.parameters.values()]
        begun = [weights[name] for name in self.parameters]

        def local(seeds: bool) -> TrainResult:
            with torch.no_grad():  # copied: steps work in place, states may not
                torch._foreach_copy_(named, begun)
            self.optimizer.state.clear()
            load_optimizer_state(
                self.optimizer, self.parameters, optimizer or self.fresh, self.defaults
            )
            if self.has_buffers:
                self.buffers.load(buffers or {})
            hooks = tuple(map(copy, gradient_hooks))  # this may be the second time
            total = torch.zeros((), device=self.device)
            if not self.model.training:  # a walk through all of its modules
                self.model.train()
            for iteration, factor in enumerate(factors, start=done):
                for group, base in zip(self.optimizer.param_groups, self.base_lr, strict=True):
                    group["lr"] = base * factor
                path = self.config.seed, "global", client, iteration
                with self.watch.turn(partial(derive, *path), seeds):
                    total += self._step(*self.batch(client, iteration), hooks)
            loss, state = float(total) / iterations, self.optimizer_state() if self.steps else {}
            rate = float(self.base_lr[0]) * sum(factors)
            with torch.no_grad():  # what the client sends: after minus before, or the gradient
                if self.steps:
                    before = [x.to(self.device) for x in begun]
                    differences = [*torch._foreach_sub(named, before)]
                else:
                    differences = [
                        torch.zeros_like(p) if p.grad is None or name not in self.held else p.grad
                        for name, p in self.parameters.items()
                    ]
            update = {n: x.contiguous() for n, x in zip(self.parameters, differences, strict=True)}
            after = self.buffers.copy() if self.has_buffers else {}
            return TrainResult(update, state, loss, after, rate, time.perf_counter() - began)

        with enough(self.device), self.products():
            return self.watch.call(local)

    @cached_property
    def line(self) -> Line:
        """The clients' end of the channel, with the method of the settings."""
        return self.line_with(self.plan.method.compressor)

    def line_with(self, uplink: Compressor, before: Compressor | None = None) -> Line:
        """The clients' end of the channel.

        Args:
            uplink: how the client encodes its update.
            before: how it encoded the last one; None: in the same way.
        """
        plan, initial, seed = self.plan, self.buffers.initial, self.config.seed
        template = plan.client.payload_template(self.template)
        end = ClientEnd(uplink, plan.downlink, template, initial, seed, before, self.means)
        count = plan.algorithm.parts(plan.clients)
        return PartsEnd(end, count) if count else end

    def filled(self, weights: Tensors) -> Tensors:
        """Every parameter: as in ``weights``, and where these lack one, as in a new model."""
        return weights if self.parameters.keys() <= weights.keys() else {**self._new, **weights}

    @cached_property
    def _new(self) -> State:
        named = self._built().named_parameters()
        return {n: p.detach() for n, p in named if n in self.parameters}

    @cached_property
    def unused(self) -> frozenset[str]:
        """Names of the parameters that the loss of client 0's first batch does not reach.

        The losses of fedsim's own tasks reach all parameters, and are not tried.
        """
        if not isinstance(self.config.task, Task):
            return frozenset()
        with untouched(self.device), self.precision:
            self.model.train()
            x, y = self.batch(0, 0)
            self.backward(self.task.loss(forward(self.model, x), y))
        self.buffers.load({})
        return frozenset(name for name, p in self.parameters.items() if p.grad is None)

    def _built(self) -> nn.Module:
        config = self.config
        return build_model(self.task, config.seed, self.federation.data, config.weights)

    def batch(self, client: int, iteration: int) -> tuple[Tree, Tree]:
        """Inputs and targets of a local iteration of ``client``, as the model takes them.

        The draws of an iteration (augmentation, negatives, and the model's masks) are seeded.
        """
        seed = derive(self.config.seed, "step", client, iteration)
        reseed(self.dropouts, seed)
        index = self.batches_of(client).at(iteration)
        x, y = self.data.batch(index, self._noise.manual_seed(seed))
        return to_device(x, self.device, self.layout), to_device(y, self.device)

    def _step(self, x: Tree, y: Tree, gradient_hooks: tuple[GradientHook, ...]) -> Tensor:
        with self.precision:
            loss = self.task.loss(forward(self.model, x), y)
        self.backward(loss)
        for force in gradient_hooks:
            force(self.parameters)
        if self.steps:
            self.optimizer.step()
        return loss.detach()

    def backward(self, loss: Tensor) -> None:
        """Sets the gradient of every parameter to that of ``loss``; None where it has none.

        Sparse gradients become dense, except for a step of SparseAdam, which takes no others.
        """
        self.optimizer.zero_grad(set_to_none=True)
        for p in self.parameters.values():  # of which the optimizer may hold a part
            p.grad = None
        loss.backward()
        if not (self.steps and isinstance(self.optimizer, SparseAdam)):
            for p in self.parameters.values():
                if p.grad is not None and p.grad.is_sparse:
                    p.grad = p.grad.to_dense()

    def batches_of(self, client: int) -> Batches:
        """The batches of ``client``."""
        if client not in self._batches:
            if len(self._batches) == _BATCHES:  # of a million clients few are met again
                self._batches.clear()
            shard, size = self.federation.shards[client], self.plan.batch_size
            looked = looked_into(self.data)
            self._batches[client] = Batches(shard, size, self.config.seed, client, looked)
        return self._batches[client]

    def optimizer_state(self) -> State:
        """The optimizer's memory; ``ValueError`` names state that cannot be kept for a client."""
        return optimizer_state(self.optimizer, self.parameters, self.defaults)


_TRAINERS: list[Trainer] = []


def trainer_of(config: RunConfig) -> Trainer:
    """This process's trainer for ``config``, made once."""
    for trainer in _TRAINERS:
        if trainer.config == config:
            return trainer
    torch.set_num_threads(1)  # more would fight over the cores
    _TRAINERS.append(Trainer(config, ClientData.of(config)))
    return _TRAINERS[-1]


def forget_trainer(config: RunConfig) -> None:
    """Frees the memory of the trainer for ``config``, whose run has ended."""
    _TRAINERS[:] = [trainer for trainer in _TRAINERS if trainer.config != config]


_CELL = ("task", "method", "temporal", "gradient", "seed")  # columns of their own


def entries(trainer: Trainer) -> int:
    """How many entries of the model are trained, and travel: those that require a gradient."""
    return sum(p.numel() for p in trainer.parameters.values())


def settings_used(config: RunConfig, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The settings that trained a run's model, by name, as JSON has them.

    `lr`, `momentum` and `weight_decay` are the optimizer's, a list where its groups of parameters
    differ; None: it has none. `lr_steps` are the task's: from which iteration the rate is times
    which factor.

    Args:
        config: the run.
        parameters: the model's; the task makes its optimizer of them.

    Example:
        >>> import torch
        >>> trained = settings_used(RunConfig(task="digits"), [Parameter(torch.zeros(1))])
        >>> trained["optimizer"], trained["batch_size"], trained["clients"]
        ('SGD', 32, 4)
    """
    plan, values = config.plan, config.filled()
    optimizer = make_optimizer(config, parameters)
    groups = optimizer.param_groups
    return {
        "optimizer": type(optimizer).__name__,
        "weight_decay": _common([g.get("weight_decay") for g in groups]),
        "lr_steps": [list(step) for step in plan.task.lr_steps],
        **{k: v for k, v in values.items() if k not in _CELL and v is not None},
        **{k: _common([g.get(k) for g in groups]) for k in ("lr", "momentum")},
        **flags_of(plan.algorithm),
    }


def _common(values: list[Any]) -> Any:
    """The value that all groups have; else theirs, in order."""
    numbers = [float(value) if isinstance(value, int | float) else None for value in values]
    return numbers[0] if len(set(numbers)) == 1 else numbers
