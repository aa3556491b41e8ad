"""Several clients trained at once: ``--stack``.

Parameters, buffers and batches of K clients are stacked along a new first axis, and one step of
all is ``torch.func.vmap`` of the gradient of one: a matrix product of each client becomes one
batched product of all, a convolution one with groups. Each client has its own samples, its own
weights and its own memory, as one after the other; sums are taken in another order, so that last
bits differ.
"""

import logging
import threading
from collections.abc import Sequence
from functools import partial
from itertools import groupby

import torch
from torch import Tensor

from compressors import State, Tensors
from fedsim.federation.room import enough
from fedsim.federation.stackable import Fit, fit_of, gradients_of
from fedsim.federation.stackedsteps import StackedSteps, alike
from fedsim.federation.trainer import Trainer, lr_factor, trainer_of
from fedsim.ground.errors import DeviceFull
from fedsim.settings.config import RunConfig
from strategies import Job, Trained
from strategies.generators import drawing

Result = Trained | Exception
"""What became of one client: its failure is not the others'."""


class _NoBatch(Exception):
    """A client's samples could not be had."""

    def __init__(self, position: int, cause: Exception) -> None:
        super().__init__(position)
        self.position, self.cause = position, cause


class Stack:
    """One worker's way to train several clients at once.

    Args:
        trainer: the worker's.
        fit: how the run's clients are stacked.

    Example:
        >>> config = RunConfig.of(task="digits", temporal=2, stack="2")
        >>> stack = stack_of(config)
        >>> weights = {n: p.detach().clone() for n, p in stack.trainer.parameters.items()}
        >>> jobs = [Job(client, weights, {}, 0, 2, {}, 0) for client in (0, 1)]
        >>> [sorted(trained.update) == sorted(weights) for trained in stack.train(jobs)]
        [True, True]
    """

    def __init__(self, trainer: Trainer, fit: Fit) -> None:
        self.trainer = trainer
        self._width, self._auto = fit.width, trainer.config.machine.stack == "auto"
        self._gradients = gradients_of(trainer, fit.trained)

    def train(self, jobs: Sequence[Job]) -> list[Result]:
        """What each job gave, or why it failed, in the order of ``jobs``.

        Clients with batches of another size, or another number of iterations, are stacked among
        themselves. Under ``auto`` a stack that does not fit the device is halved, now and later.
        """
        found: dict[int, Result] = {}
        own = self.trainer
        keys = [  # what must be the same for jobs of one stack, and what had better be
            ((job.iterations, job.start, own.batches_of(job.client).size),
             alike(job.optimizer or own.fresh, own.parameters))
            for job in jobs
        ]  # fmt: skip
        places = sorted(range(len(jobs)), key=lambda i: keys[i])
        for _, group in groupby(places, key=lambda i: keys[i][0]):
            part = list(group)
            found |= zip(part, self._in_stacks([jobs[i] for i in part]), strict=True)
        return [found[i] for i in range(len(jobs))]

    def _in_stacks(self, jobs: Sequence[Job]) -> list[Result]:
        """As many at once as fit, which may become fewer meanwhile."""
        found: list[Result] = []
        while len(found) < len(jobs):
            found += self._several(jobs[len(found) : len(found) + self._width])
        return found

    def _several(self, jobs: Sequence[Job]) -> list[Result]:
        if len(jobs) == 1:
            try:
                return [self.trainer.train(*jobs[0])]
            except Exception as error:
                return [error]
        try:
            with enough(self.trainer.device), self.trainer.products():
                trained = self.trainer.watch.call(partial(self._together, jobs))
            failed: Exception = RuntimeError("its steps draw from torch's global generator")
        except Exception as error:
            trained, failed = None, _without_frames(error)
        if trained is not None:
            return list(trained)
        if isinstance(failed, _NoBatch):  # the others are trained without that client
            at = failed.position
            rest = self._several([*jobs[:at], *jobs[at + 1 :]])
            return [*rest[:at], failed.cause, *rest[at:]]
        if not self._auto:
            return [failed] * len(jobs)
        # From now on fewer clients where the device is full, one where a stack cannot be.
        self._width = -(-len(jobs) // 2) if isinstance(failed, DeviceFull) else 1
        logging.getLogger("fedsim").warning(
            "--stack auto: %d clients at once failed (%s); %d at once from here on",
            len(jobs), failed, self._width,
        )  # fmt: skip
        return self._in_stacks(jobs)

    def _together(self, jobs: Sequence[Job], alone: bool) -> list[Trained] | None:
        """All jobs at once; None where the steps must have the generators for themselves."""
        if alone:
            return None
        own = self.trainer
        own.model.train()
        filled = [own.buffers.filled(job.buffers) for job in jobs]
        before, buffers = self._stacked([job.weights for job in jobs]), self._stacked(filled)
        now = {name: x.clone() for name, x in before.items()}
        steps = StackedSteps(own, now, [job.optimizer or own.fresh for job in jobs])
        total = torch.zeros(len(jobs), device=own.device)
        gradients: State = {}
        for i in range(jobs[0].iterations):
            with drawing():  # a step that draws is seen after the call
                x, y = self._batch(jobs, i)
                gradients, losses, buffers = self._gradients(now, buffers, x, y)
                if own.steps:
                    steps.step(gradients, lr_factor(own.task, jobs[0].start + i))
            total += losses
        if own.steps:
            update = {name: now[name].sub_(x) for name, x in before.items()}
        else:  # a parameter that the loss does not reach has no gradient
            update = {name: gradients.get(name, torch.zeros_like(x)) for name, x in now.items()}
        memories = steps.states() if own.steps else [{}] * len(jobs)
        means = [loss / jobs[0].iterations for loss in total.tolist()]
        n, start = jobs[0].iterations, jobs[0].start
        rate = float(own.base_lr[0]) * sum(lr_factor(own.task, start + i) for i in range(n))
        return [
            Trained(_of(update, i), memories[i], means[i], _of(buffers, i), rate)
            for i in range(len(jobs))
        ]

    def _stacked(self, values: Sequence[Tensors]) -> State:
        device = self.trainer.device
        return {name: torch.stack([one[name].to(device) for one in values]) for name in values[0]}

    def _batch(self, jobs: Sequence[Job], i: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets (K, B, ...) of the jobs' i-th iteration: one gather where they lie."""
        data, device = self.trainer.data, self.trainer.device
        if data.draw is None and isinstance(data.train_x, Tensor):
            index = [self.trainer.batches_of(job.client).at(job.done + i) for job in jobs]
            every = torch.stack(index)
            return data.train_x[every].to(device), data.train_y[every].to(device)
        parts = []
        for position, job in enumerate(jobs):
            try:
                parts.append(self.trainer.batch(job.client, job.done + i))
            except Exception as error:
                raise _NoBatch(position, error) from error
        x, y = zip(*parts, strict=True)
        return torch.stack(x), torch.stack(y)


def _without_frames(error: Exception) -> Exception:
    """``error`` and all that it came of without the frames, which would keep the stack's tensors.

    A full device would otherwise have no room for a smaller stack either.
    """
    chain: list[BaseException] = [error]
    for one in chain:  # which grows
        one.__traceback__ = None
        chain += [x for x in (one.__cause__, one.__context__) if x and x not in chain]
    return error


def _of(stacked: State, i: int) -> State:
    """One client's tensors, which keep no other's alive."""
    plain = torch.contiguous_format
    return {name: x[i].clone(memory_format=plain) for name, x in stacked.items()}


_local = threading.local()


def stack_of(config: RunConfig) -> Stack:
    """This thread's stack for ``config``, made once."""
    trainer = trainer_of(config)
    if getattr(_local, "trainer", None) is not trainer:
        _local.stack, _local.trainer = Stack(trainer, fit_of(config)), trainer
    made: Stack = _local.stack
    return made
