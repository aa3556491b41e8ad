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
from fedsim.federation.device import enough
from fedsim.federation.stackable import Fit, fit_of, gradients_of
from fedsim.federation.stackedsteps import StackedSteps, StackJob, unstack
from fedsim.federation.trainer import Trainer, lr_factor, trainer_of
from fedsim.ground.errors import DeviceFull
from fedsim.settings.config import RunConfig
from fedsim.tasks.pytrees import Tree, leaves, stack, to_device
from strategies import TrainJob, TrainResult

Result = TrainResult | Exception
"""What became of one client: its failure is not the others'."""

AtOnce = Callable[[Sequence[StackJob]], list[Result]]


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
        """The result or the error of each job of the trainer's run, in the order of ``jobs``.

        A client that shares its ``StackJob.kind`` with no other is trained alone, as without
        ``--stack``. ``at_once`` trains all others; None: ``train_all``.
        """
        stack_jobs = [StackJob(self.trainer, job) for job in jobs]
        kinds = Counter(one.kind for one in stack_jobs)
        several = [one for one in stack_jobs if kinds[one.kind] > 1]
        several_results = iter((at_once or self.train_all)(several) if several else [])
        return [
            next(several_results) if kinds[one.kind] > 1 else train_one(one) for one in stack_jobs
        ]

    def train_all(self, jobs: Sequence[StackJob]) -> list[Result]:
        """The same, of jobs of runs whose ``Fit.model`` is one.

        Clients of each kind are stacked among themselves. Under ``auto`` a stack that does not fit
        the device is halved, now and later.
        """
        results_at: dict[int, Result] = {}
        keys = [(one.kind, one.alike) for one in jobs]  # the second had better be the same
        places = sorted(range(len(jobs)), key=lambda i: keys[i])
        for _, group in groupby(places, key=lambda i: keys[i][0]):
            part, start = list(group), time.perf_counter()
            results = self._in_stacks([jobs[i] for i in part])
            each = (time.perf_counter() - start) / len(part)
            for i, one in zip(part, results, strict=True):
                results_at[i] = replace(one, seconds=each) if isinstance(one, TrainResult) else one
        return [results_at[i] for i in range(len(jobs))]

    def _in_stacks(self, jobs: Sequence[StackJob]) -> list[Result]:
        """As many at once as fit, which may become fewer meanwhile, in stacks of one size."""
        results: list[Result] = []
        while left := len(jobs) - len(results):
            many = -(-left // -(-left // self._width))
            results += self._several(jobs[len(results) : len(results) + many])
        return results

    def _several(self, jobs: Sequence[StackJob]) -> list[Result]:
        if self._width == 1:
            return [train_one(jobs[0])]
        try:
            with user_code(), enough(self.trainer.device), self.trainer.products():
                # A single job is stacked with itself: convolutions of a stack of one sum otherwise.
                pair = [*jobs] * (2 if len(jobs) == 1 else 1)
                trained = self.trainer.watch.call(partial(self._together, pair))
            failed: Exception = RuntimeError("its steps draw from torch's global generator")
        except Exception as error:
            trained, failed = None, _without_frames(error)
        if trained is not None:
            return list(trained[: len(jobs)])
        if isinstance(failed, _NoBatch):  # the others are trained without that client
            at = failed.position % len(jobs)
            others = self._several([*jobs[:at], *jobs[at + 1 :]]) if len(jobs) > 1 else []
            return [*others[:at], failed.cause, *others[at:]]
        if not self._auto:
            return [failed] * len(jobs)
        # From now on fewer clients where the device is full, one where a stack cannot be.
        self._width = -(-len(jobs) // 2) if isinstance(failed, DeviceFull) else 1
        logging.getLogger("fedsim").warning(
            "--stack auto: %d clients at once failed (%s); %d at once from here on",
            len(jobs),
            failed,
            self._width,
        )
        return self._in_stacks(jobs)

    def _together(self, jobs: Sequence[StackJob], exclusive: bool) -> list[TrainResult] | None:
        """All jobs at once; None where the steps must have the generators for themselves."""
        if exclusive:
            return None
        worker = self.trainer
        worker.model.train()
        filled = [trainer.buffers.filled(job.buffers) for trainer, job in jobs]
        before, buffers = self._stacked([job.weights for _, job in jobs]), self._stacked(filled)
        now = {name: x.clone() for name, x in before.items()}
        steps = StackedSteps(now, jobs)
        total = torch.zeros(len(jobs), device=worker.device)
        gradients: State = {}
        n, start = jobs[0].job.iterations, jobs[0].job.start
        factors = [lr_factor(worker.task, start + i) for i in range(n)]
        for i, factor in enumerate(factors):
            x, y = self._batch(jobs, i)  # a step that draws is seen after the call
            gradients, losses, buffers = self._gradients(now, buffers, x, y)
            if worker.steps:
                steps.step(gradients, factor)
            total += losses
        if worker.steps:
            update = {name: now[name].sub_(x) for name, x in before.items()}
        else:  # a parameter that the loss does not reach, or no optimizer holds, has no gradient
            update = {
                name: gradients[name]
                if name in gradients and name in worker.held
                else torch.zeros_like(x)
                for name, x in now.items()
            }
        memories = steps.states() if worker.steps else [{}] * len(jobs)
        means = [loss / n for loss in total.tolist()]
        rates = [float(trainer.base_lr[0]) * sum(factors) for trainer, _ in jobs]
        each = zip(
            unstack(update, len(jobs)),
            memories,
            means,
            unstack(buffers, len(jobs)),
            rates,
            strict=True,
        )
        return [TrainResult(*one) for one in each]

    def _stacked(self, values: Sequence[Tensors]) -> State:
        device = self.trainer.device
        return {name: torch.stack([one[name].to(device) for one in values]) for name in values[0]}

    def _batch(self, jobs: Sequence[StackJob], i: int) -> tuple[Tree, Tree]:
        """Inputs and targets (K, B, ...) of the jobs' i-th iteration: one gather where they lie."""
        data, device = self.trainer.data, self.trainer.device
        one = all(trainer.data is data for trainer, _ in jobs)
        looked = all(isinstance(x, Tensor) for x in leaves((data.train_x, data.train_y)))
        if one and data.draw is None and looked:
            index = [trainer.batches_of(job.client).at(job.done + i) for trainer, job in jobs]
            indices = torch.stack(index)
            x, y = data.read_train(indices)
            return to_device(x, device), to_device(y, device)
        parts = []
        for position, (trainer, job) in enumerate(jobs):
            try:
                with user_code():
                    parts.append(trainer.batch(job.client, job.done + i))
            except Exception as error:
                raise _NoBatch(position, error) from error
        x, y = zip(*parts, strict=True)
        return stack(x), stack(y)


def train_one(job: StackJob) -> Result:
    """The result of one job, or its error."""
    try:
        with user_code():
            return job.trainer.train(*job.job)
    except Exception as error:
        return error


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
    stack: Stack = _local.stack
    return stack
