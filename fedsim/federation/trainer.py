"""n local iterations of one client: weights and optimizer state in, update and state out.

A trainer belongs to one process and serves any client: nothing of a client stays in it
but a cache of data, and of what clients are all sent (``means``). Optimizer state and buffers are
kept over rounds as plain tensors by name.
"""

import time
from collections.abc import Iterable, Sequence
from copy import copy
from functools import cached_property, lru_cache, partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer, SparseAdam

from compressors import Compressor, State, Tensors, derive
from compressors.kernels.gpu.layout import send
from compressors.whole.masking import ALL, masking
from fedsim.federation.clientdata import ClientData
from fedsim.federation.device import device_of, enough, looked_into, products, repeatable, resident
from fedsim.federation.draws import Batches, Watch, evenly_spread, untouched
from fedsim.federation.ledger import digest_of_model
from fedsim.federation.modelbuffers import ModelBuffers
from fedsim.federation.startweights import start_from
from fedsim.ground.threads import one_thread
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import flags_of
from fedsim.tasks import Data, Task
from fedsim.tasks.data.images import Augmentation
from fedsim.tasks.data.lazy import Lazy
from fedsim.tasks.datacache import load_data, task_content
from fedsim.tasks.models.dropout import dropouts, own_masks, reseed
from fedsim.tasks.pytrees import Tree, forward, take, to_device
from strategies import ClientEnd, GradientHook, TensorHook, TrainResult
from strategies.algorithms.chain import flat_hooks
from strategies.channel.client_end import LastModel
from strategies.channel.parts import Line, PartsEnd
from strategies.channel.relay import Means
from strategies.client_optimizers import load_optimizer_state, optimizer_state, settings_of
from strategies.generators import seeded


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
    """Digests of what a run begins with: of its weights. They change with torch."""
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
    """The task's, with the learning rate and momentum of the run where it names them.

    On a GPU it is ``capturable`` where it can be (Adam), for clients together and one by one: their
    bits are then the same.
    """
    optimizer = config.plan.task.optimizer(parameters)
    for group in optimizer.param_groups:  # as Adam counts its steps in a recorded step
        if "capturable" in group and all(p.is_cuda for p in group["params"]):
            group["capturable"] = True
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


_BATCHES = 4096  # of how many clients a trainer keeps the order of their batches


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
        draws_batches: whether a batch is more than a look into tensors, for which a step is seeded.
        masks_all: whether momentum is forgotten wherever entries are sent.
        products: inside what it returns, a GPU multiplies as the run's precision says; where its
            memory is full, ``DeviceFull``.
        hooks_gradients: whether the clients' half of the algorithm adds to gradients.
        optimizer_state: returns what the optimizer remembers, as the function of that name.
        means: of the messages that are relayed to clients.
        last_model: that clients were sent.

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
        repeatable(self.device)
        self.data = resident(federation.data, self.device)
        indexed = type(self.data) is Data and not isinstance(self.data.train_x, Lazy)
        self.draws_batches = not indexed or self.data.draw is not None
        self.steps = not self.plan.algorithm.gradients
        self.hooks_gradients = self.plan.client.hooks_gradients
        with enough(self.device):
            self._hold(self._built())
        self.means, self.last_model = Means(), LastModel()
        self.masks_all = (
            config.training.momentum_masking != "auto" or masking(self.plan.masking_method) == ALL
        )
        self._batches: dict[int, Batches] = {}
        self._noise = torch.Generator()
        self.watch = Watch(self.task, self.device)
        precision = config.training.precision
        lower = precision == "bfloat16"
        self.precision = torch.autocast(self.device.type, torch.bfloat16, enabled=lower)
        self.products = partial(products, precision == "tf32", self.device)

    def _hold(self, model: nn.Module) -> None:
        """Makes ``model`` the one that is trained, with an optimizer of its own."""
        self.model = model.to(self.device)
        stored = chain(model.parameters(), model.buffers())
        self.layout = torch.contiguous_format
        if self.task.channels_last and all(x.dim() != 5 for x in stored):  # NHWC is not for Conv3d
            self.layout = torch.channels_last
            self.model.to(memory_format=self.layout)
        self.model.train()
        named = dict(self.model.named_parameters())
        self.parameters = {name: p for name, p in named.items() if p.requires_grad}
        self.template = {name: p.detach() for name, p in self.parameters.items()}
        self.frozen = {name: p.detach() for name, p in named.items() if not p.requires_grad}
        self.buffers = ModelBuffers(self.model, self.task.name)
        self.has_buffers = any(True for _ in self.model.buffers())
        self.dropouts = dropouts(self.model)
        self.optimizer = make_optimizer(self.config, self.parameters.values())
        self.defaults = settings_of(self.optimizer)
        self.optimizer_state = partial(
            optimizer_state, self.optimizer, self.parameters, self.defaults
        )
        self.fresh = {n: x.clone() for n, x in self.optimizer_state().items()}  # Adagrad's sums
        moved = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        self.held = frozenset(n for n, p in self.parameters.items() if id(p) in moved)
        self.base_lr = [group["lr"] for group in self.optimizer.param_groups]

    def twin(self) -> "Trainer":
        """A trainer of the same run and the same data, with a model and optimizer of its own."""
        other = copy(self)
        with enough(self.device):
            other._hold(self._built())
        return other

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
        factors = [1.0] * iterations
        if self.task.lr_steps:
            factors = [lr_factor(self.task, first + i) for i in range(iterations)]
        begun = [weights[name] for name in self.parameters]

        def local(seeds: bool) -> TrainResult:
            self.begin(begun, optimizer, buffers or {})
            hooks = [
                hook.at(self.parameters) if isinstance(hook, TensorHook) else copy(hook)
                for hook in (flat_hooks(gradient_hooks) if gradient_hooks else ())
            ]  # new ones, as this may be the second time
            total, last_factor = torch.zeros((), device=self.device), None
            for iteration, factor in enumerate(factors, start=done):
                if factor != last_factor:
                    self.set_rates(factor)
                    last_factor = factor
                path = self.config.seed, "global", client, iteration
                with self.watch.turn(partial(derive, *path), seeds):
                    total += self.step(*self.batch(client, iteration), hooks)
            loss, state = float(total) / iterations, self.optimizer_state() if self.steps else {}
            update = self.update([x.to(self.device) for x in begun])
            after = self.buffers.copy() if self.has_buffers else {}
            rate = float(self.base_lr[0]) * sum(factors)
            return TrainResult(update, state, loss, after, rate, time.perf_counter() - began)

        with self.products():
            return self.watch.call(local)

    @cached_property
    def scored_samples(self) -> Tensor:
        """The numbers of the held-out samples that are scored, int64 (N,), where these lie."""
        chosen = evenly_spread(self.data.test_count, self.config.evaluation.test_samples)
        return send(chosen, device_of(self.data.test_x))

    @cached_property
    def line(self) -> Line:
        """The clients' end of the channel, with the method of the settings."""
        return self.line_with(self.plan.method.compressor)

    def line_with(self, uplink: Compressor, before: Compressor | None = None) -> Line:
        """The clients' end of the channel, of a client that encodes with ``uplink``.

        ``before``: how it encoded the last one; None: in the same way.
        """
        plan, initial, seed = self.plan, self.buffers.initial, self.config.seed
        template = plan.client.payload_template(self.template)
        shared = self.means, self.last_model
        end = ClientEnd(uplink, plan.downlink, template, initial, seed, before, *shared)
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
        batches = self._batches.get(client) or self.batches_of(client)
        index = batches.at(iteration)
        if self.draws_batches or self.dropouts:
            self._noise.manual_seed(self.seed_masks(client, iteration))
        if self.draws_batches:
            x, y = self.data.batch(index, self._noise)
        else:
            x, y = take(self.data.train_x, index), take(self.data.train_y, index)
        return to_device(x, self.device, self.layout), to_device(y, self.device)

    def seed_masks(self, client: int, iteration: int) -> int:
        """Seeds the model's masks for a local iteration; returns the iteration's seed."""
        seed = derive(self.config.seed, "step", client, iteration)
        if self.dropouts:
            reseed(self.dropouts, seed)
        return seed

    def numbers(self, client: int, first: int, count: int) -> Tensor:
        """What makes batches where the samples lie: int64 (n, B, 1 + M) on the host.

        A row has the number of a sample, and M numbers of an ``Augmentation``. The batches are
        those of n = ``count`` local iterations from number ``first`` on.
        """
        rows = self.batches_of(client).run(first, count)[..., None]
        draw = self.data.draw
        if not isinstance(draw, Augmentation):
            return rows
        seeds = (derive(self.config.seed, "step", client, first + i) for i in range(len(rows)))
        drawn = [draw.numbers(len(rows[0]), self._noise.manual_seed(seed)) for seed in seeds]
        return torch.cat([rows, torch.stack(drawn)], dim=2)

    def batch_of(self, numbers: Tensor) -> tuple[Tree, Tree]:
        """Inputs and targets of one batch, as ``batch``, made of its ``numbers`` (B, 1 + M)."""
        draw, index = self.data.draw, numbers[:, 0]
        if isinstance(draw, Augmentation):
            x, y = draw.batch(index, numbers[:, 1:])
        else:
            x, y = self.data.read_train(index)
        return to_device(x, self.device, self.layout), to_device(y, self.device)

    def begin(self, weights: Sequence[Tensor], optimizer: State, buffers: State) -> None:
        """Sets parameters (``weights``, in their order), optimizer state and buffers, copied."""
        with torch.no_grad():  # copied: steps work in place, states may not
            torch._foreach_copy_([*self.parameters.values()], [*weights])
        self.optimizer.state.clear()
        load_optimizer_state(
            self.optimizer, self.parameters, optimizer or self.fresh, self.defaults
        )
        if self.has_buffers:
            self.buffers.load(buffers)
        if not self.model.training:  # a walk through all of its modules
            self.model.train()

    def set_rates(self, factor: float) -> None:
        """Sets the learning rates of the next step: the base rates times ``factor``."""
        for group, base in zip(self.optimizer.param_groups, self.base_lr, strict=True):
            group["lr"] = base * factor

    @torch.no_grad()
    def update(self, before: Sequence[Tensor]) -> dict[str, Tensor]:
        """What the client sends: its weights less ``before``, or the gradient, of new tensors."""
        if self.steps:
            differences = [*torch._foreach_sub([*self.parameters.values()], [*before])]
        else:
            differences = [
                torch.zeros_like(p) if p.grad is None or name not in self.held else p.grad
                for name, p in self.parameters.items()
            ]
        return {n: x.contiguous() for n, x in zip(self.parameters, differences, strict=True)}

    def step(self, x: Tree, y: Tree, gradient_hooks: Iterable[GradientHook]) -> Tensor:
        """One local step with a batch; returns its loss, which stays on the device."""
        with self.precision:
            loss = self.task.loss(forward(self.model, x), y)
        self.backward(loss)
        for hook in gradient_hooks:
            hook(self.parameters)
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
        """The batches of ``client``, made where it is met for the first time."""
        if client not in self._batches:
            if len(self._batches) == _BATCHES:  # of a million clients few are met again
                self._batches.clear()
            shard, size = self.federation.shards[client], self.plan.batch_size
            looked = looked_into(self.data)
            self._batches[client] = Batches(shard, size, self.config.seed, client, looked)
        return self._batches[client]


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


def settings_used(config: RunConfig, parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The settings that trained a run's model, by name, as JSON has them.

    `lr`, `momentum` and `weight_decay` are the optimizer's, a list where its groups of parameters
    differ; None: it has none. `lr_steps` are the task's: from which iteration the rate is times
    which factor. ``parameters``: the model's; the task makes its optimizer of them.

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
