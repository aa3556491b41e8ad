"""Whether clients of a run can be trained at once, and how many ``--stack auto`` takes."""

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value, vmap

from compressors import State
from compressors.usercode import typed
from fedsim.federation.clientdata import ClientData
from fedsim.federation.device import products
from fedsim.federation.fingerprint import model_contents, same
from fedsim.federation.stackedsteps import ENTRY_BY_ENTRY
from fedsim.federation.trainer import Trainer, build_model
from fedsim.ground.errors import UsageError
from fedsim.settings.config import RunConfig
from fedsim.tasks.data.lazy import Lazy
from fedsim.tasks.pytrees import Tree, arguments, forward, stack
from strategies.generators import seeded, states

AT_ONCE = 32
"""Clients at once under ``auto``, where stacks gain."""
TURNS = 5
"""How often the trial of ``auto`` times a stack and its clients one by one."""
RULED = ("cpu",)
"""Devices where ``auto`` follows a rule, of what was measured; on others it times a trial."""
AT_MOST = 250_000
"""Entries of a model above which dense layers gain nothing on a CPU: benchmarks/README.md."""
NEAR = {"float32": 1e-3, "tf32": 1e-3, "bfloat16": 0.3}
"""Allowed difference, as a share of a gradient's norm. Sums in another order differ by less, and
wrong steps by more: in bfloat16 the gradients of a small CNN are off by 0.1 either way."""

Gradients = Callable[[State, State, Tree, Tree], tuple[State, Tensor, State]]
"""(weights, buffers, x, y), all stacked -> gradients by name, losses (K,), the buffers after."""


class _Cannot(Exception):
    """Why a step of several clients is not the steps of each."""


@dataclass(frozen=True)
class Fit:
    """How many clients are trained at once, and by which parameters.

    Attributes:
        width: clients, of one run or of several; 1: one after the other.
        trained: parameters that the loss reaches; an optimizer leaves the others as they are.
        model: equal for runs whose clients can be trained at once: these differ in numbers that
            each client has of its own (weights, samples, rate), and in messages. None where a
            client's last bits would depend on who else is in the stack: no other run joins.
    """

    width: int
    trained: frozenset[str] = frozenset()
    model: Hashable = None


def check_stack(config: RunConfig) -> None:
    """Refuses ``--stack K`` for a task that cannot be stacked; under ``auto`` it is said once."""
    fit_of(config)


@lru_cache(maxsize=1024)
def fit_of(config: RunConfig) -> Fit:
    """How the clients of a run are stacked.

    Raises ``UsageError``, which says why, where a number was given and the task cannot be stacked.
    """
    stack = config.machine.stack
    if stack == "1" or config.machine.engine != "local":
        return Fit(1)
    trainer = Trainer(config, ClientData.of(config))
    auto, ruled = stack == "auto", trainer.device.type in RULED
    width = AT_ONCE if auto else int(stack)
    if auto and ruled:
        small = sum(p.numel() for p in trainer.parameters.values()) <= AT_MOST
        width = AT_ONCE if small and not convolved(trainer) else 1
    if min(width, config.plan.cohort) == 1:
        return Fit(1)
    try:
        return _try_stack(trainer, width, timed=auto and not ruled)
    except _Cannot as error:
        reason = f"--stack is {stack}: task {trainer.task.name} cannot be stacked: {error}"
        if not auto:
            raise UsageError(f"{reason} (--stack 1 trains one after the other)") from error
        logging.getLogger("fedsim").warning("%s; its clients train one after the other", reason)
        return Fit(1)


def gradients_of(trainer: Trainer, trained: frozenset[str]) -> Gradients:
    """One step's gradients of several clients, each by its own weights and samples."""

    def loss(
        trained_weights: State, others: State, buffers: State, x: Tree, y: Tree
    ) -> tuple[Tensor, State]:
        args, named = arguments(x)
        with trainer.precision:
            outputs = functional_call(
                trainer.model, {**trained_weights, **others, **buffers}, args, named
            )
            return trainer.task.loss(outputs, y), buffers  # which the model has changed in place

    vectorized = vmap(grad_and_value(loss, has_aux=True))

    def gradients(weights: State, buffers: State, x: Tree, y: Tree) -> tuple[State, Tensor, State]:
        trained_weights = {name: w for name, w in weights.items() if name in trained}
        others = {name: w for name, w in weights.items() if name not in trained}
        gradients_k, (losses, after) = vectorized(trained_weights, others, buffers, x, y)
        return gradients_k, losses, after

    return gradients


def _try_stack(trainer: Trainer, width: int, timed: bool) -> Fit:
    """The fit of so many clients, after two batches at once were as one by one.

    ``timed``: of as many as the clock says that gain.
    """
    if trainer.plan.client.hooks_gradients:
        raise _Cannot("--proximal, or the strategy, adds to each client's own gradients")
    if trainer.config.controller is not None:
        raise _Cannot("with --controller clients may do different numbers of local iterations")
    if trainer.plan.algorithm.clock != "rounds":
        raise _Cannot(f"strategy {trainer.plan.strategy} asks its clients one by one")
    kind = type(trainer.optimizer)
    if kind not in ENTRY_BY_ENTRY:
        raise _Cannot(f"{kind.__name__} is not known to work entry by entry")
    if held := _hooks(trainer):
        raise _Cannot(f"{held} would be given all clients' parameters at once")
    if any(layer.p > 0 for layer in trainer.dropouts):
        raise _Cannot("dropout draws its masks client by client")
    x = trainer.data.train_x
    if isinstance(x, Lazy) and x.collate is not None:
        raise _Cannot("its collate_fn may make batches of several shapes")
    with seeded(0, trainer.device), products(tf32=False):
        before = states(trainer.device)
        try:
            trial = _Trial(trainer)
            steady = trial.compared()
            width = trial.gaining(width) if timed else width
        except _Cannot:
            raise
        except Exception as error:
            reason = " ".join(typed(error).split()).split(". ")[0]
            raise _Cannot(f"{reason:.200}") from error
        after = states(trainer.device)
        if not all(torch.equal(a, b) for a, b in zip(before, after, strict=True)):
            raise _Cannot("its steps draw from torch's global generator")
    trained = trial.trained
    if width == 1:
        return Fit(1)
    # Of convolutions and BatchNorm other stacks have other sums: this trial may not show them all.
    if not steady or trainer.buffers.filled({}) or convolved(trainer):
        return Fit(width, trained)
    config, machine = trainer.config, trainer.config.machine
    # By the seed, and no client brings it along: frozen weights, tensors and modules in attributes.
    other = build_model(trainer.task, config.seed + 1, trainer.federation.data, config.weights)
    other = other.to(trainer.device).train()
    drawn = trainer.frozen or not same(model_contents(trainer.model), model_contents(other))
    return Fit(
        width,
        trained,
        (
            trainer.task,
            machine.data,
            machine.device,
            machine.stack,
            config.training.precision,
            trainer.steps,
            trained,
            tuple((name, *p.shape) for name, p in trainer.parameters.items()),
            (config.seed, config.weights) if drawn else None,
        ),
    )


def _hooks(trainer: Trainer) -> str:
    """Words for what a user hung on the steps of the optimizer or on gradients; empty: nothing."""
    optimizer = trainer.optimizer
    if "step" in vars(optimizer):
        return "the optimizer's own step()"
    if any(x for name, x in vars(optimizer).items() if name.endswith("step_pre_hooks")):
        return "a hook before the optimizer's steps"
    if any(x for name, x in vars(optimizer).items() if name.endswith("step_post_hooks")):
        return "a hook after the optimizer's steps"
    for name, p in trainer.parameters.items():
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            return f"a hook on the gradient of {name!r}"
    return ""


def convolved(trainer: Trainer) -> bool:
    """Whether there may be convolutions among what is trained."""
    return any(p.dim() > 2 for p in trainer.parameters.values())


class _Trial:
    """Steps of two batches, one by one as the trainer's, and at once; raises torch's own errors.

    Attributes:
        trained: parameters that the loss reaches.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self._batches = trainer, [trainer.batch(0, i) for i in (0, 1)]
        self._single(0)
        self.trained = frozenset(n for n, p in trainer.parameters.items() if p.grad is not None)
        self._step = gradients_of(trainer, self.trained)

    def _single(self, i: int) -> Tensor:
        """The loss of a batch; the trainer's model then has its gradients and buffers."""
        trainer, (x, y) = self.trainer, self._batches[i]
        trainer.buffers.load({})
        trainer.model.train()
        with trainer.precision:
            loss = trainer.task.loss(forward(trainer.model, x), y)
        trainer.backward(loss)
        return loss.detach()

    def _stacked(self, places: list[int]) -> tuple[State, State, Tree, Tree]:
        """What a step at once takes, of clients with the batches at ``places``."""
        k, trainer = len(places), self.trainer
        weights = {n: torch.stack([p.detach()] * k) for n, p in trainer.parameters.items()}
        buffers = {n: torch.stack([x] * k) for n, x in trainer.buffers.filled({}).items()}
        x, y = (stack([self._batches[i][part] for i in places]) for part in (0, 1))
        return weights, buffers, x, y

    def compared(self) -> bool:
        """Whether five at once have the bits of two; refuses where two are not as one by one."""
        trainer = self.trainer
        together = self._step(*self._stacked([0, 1]))
        more = self._step(*self._stacked([0, 1, 1, 0, 1]))
        for i in (0, 1):
            loss, after = self._single(i), trainer.buffers.copy()
            gradients = {n: p.grad for n, p in trainer.parameters.items() if p.grad is not None}
            pairs = [(gradients[n], together[0][n][i], n) for n in self.trained]
            pairs += [(after[n], together[2][n][i], n) for n in after]
            for one, other, name in [*pairs, (loss, together[1][i], "the loss")]:
                if not near(one, other, trainer.config.training.precision):
                    raise _Cannot(f"{name} differs where clients train at once")
        return all(
            torch.equal(more[0][n][j], together[0][n][i])
            for n in self.trained
            for i, j in ((0, 0), (0, 3), (1, 1), (1, 2), (1, 4))
        )

    def gaining(self, width: int) -> int:
        """``width`` where a round's stack of at most so many is faster than one by one; else 1.

        A stack that the device has no room for is halved until it fits.
        """
        many = min(width, self.trainer.config.plan.cohort)
        while many > 1:
            try:
                together, single = self._seconds(many)
            except torch.OutOfMemoryError:
                many = width = many // 2
            else:
                return width if together < single else 1
        return 1

    def _seconds(self, many: int) -> tuple[float, float]:
        """The median seconds of a step of ``many`` clients at once, and one by one."""
        stacked = self._stacked([i % 2 for i in range(many)])
        together, single = [], []
        for _ in range(TURNS):  # the first one also compiles, which no median shows
            start = time.perf_counter()
            self._step(*stacked)[1].tolist()  # waits for the device
            middle = time.perf_counter()
            for i in (0, 1):
                self._single(i).tolist()
            together.append(middle - start)
            single.append((time.perf_counter() - middle) / 2 * many)
        return median(together), median(single)


def near(one: Tensor, other: Tensor, precision: str) -> bool:
    """Whether ``other`` differs from ``one`` only as sums in another order do.

    Example:
        >>> near(torch.ones(3), torch.ones(3) * 1.0001, "float32")
        True
    """
    allowed = NEAR[precision] * float(one.double().norm()) + 1e-6
    return float((one.double() - other.double()).norm()) <= allowed
