"""Several clients trained at once: ``--stack``.

Parameters, buffers and batches of K clients are stacked along a new first axis, and one step of
all is ``torch.func.vmap`` of the gradient of one: a matrix product of each client becomes one
batched product of all, a convolution one with groups. Each client has its own samples, its own
weights and its own memory, as one after the other; sums are taken in another order, so that last
bits differ.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

import torch
from torch import Tensor

from compressors import State, Tensors
from compressors.usercode import user_code
from fedsim.federation.room import enough
from fedsim.federation.stackable import Fit, fit_of, gradients_of
from fedsim.federation.stackedsteps import Asked, StackedSteps, apart
from fedsim.federation.trainer import Trainer, lr_factor, trainer_of
from fedsim.ground.errors import DeviceFull
from fedsim.settings.config import RunConfig
from fedsim.tasks.pytrees import Tree, leaves, stack, to_device
from strategies import TrainJob, TrainResult
from strategies.generators import drawing

Result = TrainResult | Exception
"""What became of one client: its failure is not the others'."""

AtOnce = Callable[[Sequence[Asked]], list[Result]]


class _NoBatch(Exception):
    """A client's samples could not be had."""

    def __init__(self, position: int, cause: Exception) -> None:
        super().__init__(position)
        self.position, self.cause = position, cause


class Stack:
    """One worker's way to train several clients at once, of one run or of several.

    Args:
        trainer: the worker's, whose model computes.
        fit: how the run's clients are stacked.

    Example:
        >>> config = RunConfig.of(task="digits", temporal=2, stack="2")
        >>> stack = stack_of(config)
        >>> weights = {n: p.detach().clone() for n, p in stack.trainer.parameters.items()}
        >>> jobs = [TrainJob(client, weights, {}, 0, 2, {}, 0) for client in (0, 1)]
        >>> [sorted(trained.update) == sorted(weights) for trained in stack.train(jobs)]
        [True, True]
    """

    def __init__(self, trainer: Trainer, fit: Fit) -> None:
        self.trainer = trainer
        self._width, self._auto = fit.width, trainer.config.machine.stack == "auto"
        self._gradients = gradients_of(trainer, fit.trained)

    def train(self, jobs: Sequence[TrainJob], at_once: AtOnce | None = None) -> list[Result]:
        """What each job of the trainer's run gave, or why it failed, in the order of ``jobs``.

        A client that no other is like (``Asked.kind``) is trained as ever, whoever trains beside
        the run. ``at_once`` trains all others; None: ``train_all``.
        """
        asked = [Asked(self.trainer, job) for job in jobs]
        kinds = Counter(one.kind for one in asked)
        several = [one for one in asked if kinds[one.kind] > 1]
        found = iter((at_once or self.train_all)(several) if several else [])
        return [next(found) if kinds[one.kind] > 1 else alone(one) for one in asked]

    def train_all(self, asked: Sequence[Asked]) -> list[Result]:
        """The same, of jobs of runs whose ``Fit.model`` is one.

        Clients of each kind are stacked among themselves. Under ``auto`` a stack that does not fit
        the device is halved, now and later.
        """
        found: dict[int, Result] = {}
        keys = [(one.kind, one.alike) for one in asked]  # the second had better be the same
        places = sorted(range(len(asked)), key=lambda i: keys[i])
        for _, group in groupby(places, key=lambda i: keys[i][0]):
            part, start = list(group), time.perf_counter()
            results = self._in_stacks([asked[i] for i in part])
            each = (time.perf_counter() - start) / len(part)
            for i, one in zip(part, results, strict=True):
                found[i] = replace(one, seconds=each) if isinstance(one, TrainResult) else one
        return [found[i] for i in range(len(asked))]

    def _in_stacks(self, asked: Sequence[Asked]) -> list[Result]:
        """As many at once as fit, which may become fewer meanwhile, in stacks of one size."""
        found: list[Result] = []
        while left := len(asked) - len(found):
            many = -(-left // -(-left // self._width))
            found += self._several(asked[len(found) : len(found) + many])
        return found

    def _several(self, asked: Sequence[Asked]) -> list[Result]:
        if self._width == 1:
            return [alone(asked[0])]
        try:
            with user_code(), enough(self.trainer.device), self.trainer.products():
                # One that is left beside itself: a convolution has other sums in a stack of one.
                pair = [*asked] * (2 if len(asked) == 1 else 1)
                trained = self.trainer.watch.call(partial(self._together, pair))
            failed: Exception = RuntimeError("its steps draw from torch's global generator")
        except Exception as error:
            trained, failed = None, _without_frames(error)
        if trained is not None:
            return list(trained[: len(asked)])
        if isinstance(failed, _NoBatch):  # the others are trained without that client
            at = failed.position % len(asked)
            rest = self._several([*asked[:at], *asked[at + 1 :]]) if len(asked) > 1 else []
            return [*rest[:at], failed.cause, *rest[at:]]
        if not self._auto:
            return [failed] * len(asked)
        # From now on fewer clients where the device is full, one where a stack cannot be.
        self._width = -(-len(asked) // 2) if isinstance(failed, DeviceFull) else 1
        logging.getLogger("fedsim").warning(
            "--stack auto: %d clients at once failed (%s); %d at once from here on",
            len(asked), failed, self._width,
        )  # fmt: skip
        return self._in_stacks(asked)

    def _together(self, asked: Sequence[Asked], alone: bool) -> list[TrainResult] | None:
        """All jobs at once; None where the steps must have the generators for themselves."""
        if alone:
            return None
        own = self.trainer
        own.model.train()
        filled = [mine.buffers.filled(job.buffers) for mine, job in asked]
        before, buffers = self._stacked([job.weights for _, job in asked]), self._stacked(filled)
        now = {name: x.clone() for name, x in before.items()}
        steps = StackedSteps(now, asked)
        total = torch.zeros(len(asked), device=own.device)
        gradients: State = {}
        n, start = asked[0].job.iterations, asked[0].job.start
        factors = [lr_factor(own.task, start + i) for i in range(n)]
        for i, factor in enumerate(factors):
            with drawing():  # a step that draws is seen after the call
                x, y = self._batch(asked, i)
                gradients, losses, buffers = self._gradients(now, buffers, x, y)
                if own.steps:
                    steps.step(gradients, factor)
            total += losses
        if own.steps:
            update = {name: now[name].sub_(x) for name, x in before.items()}
        else:  # a parameter that the loss does not reach, or no optimizer holds, has no gradient
            update = {
                name: gradients[name] if name in gradients and name in own.held
                else torch.zeros_like(x) for name, x in now.items()
            }  # fmt: skip
        memories = steps.states() if own.steps else [{}] * len(asked)
        means = [loss / n for loss in total.tolist()]
        rates = [float(mine.base_lr[0]) * sum(factors) for mine, _ in asked]
        each = zip(
            apart(update, len(asked)), memories, means, apart(buffers, len(asked)), rates,
            strict=True,
        )  # fmt: skip
        return [TrainResult(*one) for one in each]

    def _stacked(self, values: Sequence[Tensors]) -> State:
        device = self.trainer.device
        return {name: torch.stack([one[name].to(device) for one in values]) for name in values[0]}

    def _batch(self, asked: Sequence[Asked], i: int) -> tuple[Tree, Tree]:
        """Inputs and targets (K, B, ...) of the jobs' i-th iteration: one gather where they lie."""
        data, device = self.trainer.data, self.trainer.device
        one = all(mine.data is data for mine, _ in asked)
        looked = all(isinstance(x, Tensor) for x in leaves((data.train_x, data.train_y)))
        if one and data.draw is None and looked:
            index = [mine.batches_of(job.client).at(job.done + i) for mine, job in asked]
            every = torch.stack(index)
            x, y = data.read_train(every)
            return to_device(x, device), to_device(y, device)
        parts = []
        for position, (mine, job) in enumerate(asked):
            try:
                with user_code():
                    parts.append(mine.batch(job.client, job.done + i))
            except Exception as error:
                raise _NoBatch(position, error) from error
        x, y = zip(*parts, strict=True)
        return stack(x), stack(y)


def alone(asked: Asked) -> Result:
    """What one job gave, or why it failed."""
    start = time.perf_counter()
    try:
        with user_code():
            trained = asked.trainer.train(*asked.job)
    except Exception as error:
        return error
    return replace(trained, seconds=time.perf_counter() - start)


def _without_frames(error: Exception) -> Exception:
    """``error`` and all that it came of without the frames, which would keep the stack's tensors.

    A full device would otherwise have no room for a smaller stack either.
    """
    chain: list[BaseException] = [error]
    for one in chain:  # which grows
        one.__traceback__ = None
        chain += [x for x in (one.__cause__, one.__context__) if x and x not in chain]
    return error


_local = threading.local()


def stack_of(config: RunConfig) -> Stack:
    """This thread's stack for ``config``, made once."""
    trainer = trainer_of(config)
    if getattr(_local, "trainer", None) is not trainer:
        _local.stack, _local.trainer = Stack(trainer, fit_of(config)), trainer
    made: Stack = _local.stack
    return made
