"""Clients that a worker trains together on a GPU, with the bits of one after the other.

Each has a model, an optimizer and a stream of its own (``branch``). A step of all is recorded once
(``recorder``) and repeated; numbers of all samples of a round go to the device at once, and each
step copies its own to where the recorded step reads them. The host waits once, for the losses.

What a recorded step depends on is its key: the batches' shape, the learning rate, and of each
client which state its optimizer has and which gradient hooks. A step is carried out as by itself
when its key is met first: then libraries choose their kernels and the optimizer makes its state. It
is recorded when the key is met again, unless it makes state.

The rate is a part of the key, because a rate that is a tensor makes other kernels, with other
roundings, than those of a client by itself, or waits for the device. A step of the rate costs one
record; there are few in a run.
"""

import logging
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from compressors.usercode import typed, user_code
from fedsim.federation.branch import Branch
from fedsim.federation.device import gathers, looked_into
from fedsim.federation.recorder import NotRecorded, StepRecorder, recorder_on
from fedsim.federation.trainer import Trainer, forget_trainer, lr_factor, trainer_of
from fedsim.ground.errors import DeviceFull
from fedsim.settings.config import RunConfig
from strategies import TensorHook, TrainJob, TrainResult
from strategies.algorithms.chain import flat_hooks

Result = TrainResult | Exception  # a client's outcome: its failure is not the others'

WIDEST = 64  # clients at once where no number is set: more gain nothing, and each takes memory
_RECORDS, _KINDS = 32, 4096  # how many recorded steps, and kinds of state, are remembered


class Branches:
    """One worker's clients that train together, ``width`` of them at most.

    Each branch is a twin of the worker's ``trainer``. ``reasons``: why clients have trained one
    after the other, as the log has it.

    Example:
        >>> trainer = trainer_of(RunConfig(task="digits", temporal=2))
        >>> weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
        >>> jobs = [TrainJob(client, weights, {}, 0, 2, {}, 0) for client in (0, 1)]
        >>> results = Branches(trainer, width=2).train(jobs)
        >>> expected = trainer.train(*jobs[1]).update
        >>> all(torch.equal(x, expected[name]) for name, x in results[1].update.items())
        True
    """

    def __init__(self, trainer: Trainer, width: int, recorder: StepRecorder | None = None) -> None:
        self.trainer = trainer
        self._width, self._recorder = width, recorder or recorder_on(trainer.device)
        self._branches = list[Branch]()
        self._recorded = OrderedDict[Hashable, Callable[[], None]]()
        self._met = set[Hashable]()
        self._kinds: dict[Hashable, int] = {}  # a short name of each ``state_kind``
        self._numbers: dict[tuple[int, ...], Tensor] = {}
        self.reasons = set[str]()

    def train(self, jobs: Sequence[TrainJob]) -> list[Result]:
        """The result or the error of each job, in their order.

        Jobs of as many steps, rates, samples a batch and keys of the optimizer's state train
        together; a job without its like is trained by the trainer, as are those with gradient hooks
        that are no ``TensorHook``.
        """
        groups = defaultdict[Hashable, list[int]](list)
        for i, job in enumerate(jobs):
            groups[self._kind(job)].append(i)
        results: dict[int, Result] = {}
        for kind, places in groups.items():
            part, start = [jobs[i] for i in places], time.perf_counter()
            outcomes = self._in_parts(part) if kind else self._one_by_one(part)
            each = (time.perf_counter() - start) / len(part)
            for i, one in zip(places, outcomes, strict=True):
                results[i] = replace(one, seconds=each) if isinstance(one, TrainResult) else one
        return [results[i] for i in range(len(jobs))]

    def _kind(self, job: TrainJob) -> Hashable:
        """Equal for jobs that can train together; None: by itself."""
        if not all(isinstance(hook, TensorHook) for hook in flat_hooks(job.gradient_hooks)):
            self._say("its gradient hooks are no TensorHook")
            return None
        start = job.start if self.trainer.task.lr_steps else 0
        size = self.trainer.batches_of(job.client).size
        return job.iterations, start, size, frozenset(job.optimizer)

    def _say(self, reason: str) -> None:
        """Logs once why clients train one after the other."""
        if reason not in self.reasons:
            self.reasons.add(reason)
            logging.getLogger("fedsim").warning(
                "task %s: clients train one after the other: %s", self.trainer.task.name, reason
            )

    def _in_parts(self, jobs: Sequence[TrainJob]) -> list[Result]:
        """As many at once as fit, which may become fewer meanwhile, in parts of about one size."""
        results: list[Result] = []
        while left := len(jobs) - len(results):
            many = -(-left // -(-left // self._width))
            results += self._together(jobs[len(results) : len(results) + many])
        return results

    def _one_by_one(self, jobs: Sequence[TrainJob]) -> list[Result]:
        return [train_one(self.trainer, job) for job in jobs]

    def _together(self, jobs: Sequence[TrainJob]) -> list[Result]:
        """All at once; where that fails fewer or, with the same results, one after the other."""
        if len(jobs) == 1:
            return self._one_by_one(jobs)
        try:
            with user_code(), self.trainer.products():
                return [*self._trained(jobs)]
        except Exception as error:
            failed = _without_frames(error)
        if isinstance(failed, DeviceFull):
            self._width = -(-len(jobs) // 2)
            self._free()
            logging.getLogger("fedsim").warning(
                "%d clients at once do not fit (%s); %d at once from here on",
                len(jobs),
                failed,
                self._width,
            )
            return self._in_parts(jobs)
        if isinstance(failed, NotRecorded):
            self._width = 1
            self._free()
            failed = _without_frames(failed.__cause__ or failed)
        self._say(f"{' '.join(typed(failed).split()):.300}")
        return self._one_by_one(jobs)

    def _free(self) -> None:
        """Frees what branches beyond the present width, and all recorded steps, take."""
        for table in (self._recorded, self._met, self._numbers):
            table.clear()
        self._branches = self._branches[: self._width if self._width > 1 else 0]
        self._recorder.free()

    def _trained(self, jobs: Sequence[TrainJob]) -> list[TrainResult]:
        trainer, n, start = self.trainer, jobs[0].iterations, jobs[0].start
        while len(self._branches) < len(jobs):
            self._branches.append(Branch(trainer.twin()))
        branches = self._branches[: len(jobs)]
        moved: dict[int, Tensor] = {}  # clients may share the server's model
        first = list[list[Tensor]]()
        for branch, job in zip(branches, jobs, strict=True):
            given_weights = [job.weights[name] for name in trainer.parameters]
            for x in given_weights:
                if id(x) not in moved:
                    moved[id(x)] = x.to(trainer.device)
            first.append([moved[id(x)] for x in given_weights])
            branch.begin(job, first[-1])
        ready = self._gathered(branches, jobs) if gathers(trainer.data, trainer.device) else None
        factors = [lr_factor(trainer.task, start + i) for i in range(n)]
        names = self._names(branches)
        for i, factor in enumerate(factors):
            shapes = ready(i) if ready else _drawn(branches, jobs, i)
            names = self._step(branches, (shapes, factor, names))
        outcomes = [
            (branch.update(before), *branch.memory())
            for branch, before in zip(branches, first, strict=True)
        ]
        losses = torch.stack([branch.total for branch in branches]).tolist()  # waits
        rate = float(trainer.base_lr[0]) * sum(factors)
        return [
            TrainResult(update, state, loss / n, buffers, rate)
            for (update, state, buffers), loss in zip(outcomes, losses, strict=True)
        ]

    def _names(self, branches: Sequence[Branch]) -> tuple[int, ...]:
        """Short names of what each branch's state is: keys of steps are compared in every step."""
        kinds = self._kinds
        if len(kinds) > _KINDS:  # an optimizer that counts in Python has others in every step
            for table in (kinds, self._met, self._recorded):
                table.clear()
            self._recorder.free()
        return tuple(kinds.setdefault(branch.state_kind, len(kinds)) for branch in branches)

    def _step(
        self, branches: Sequence[Branch], key: tuple[Hashable, float, tuple[int, ...]]
    ) -> tuple[int, ...]:
        """One step of all; returns the names of the branches' state after it."""
        for branch in branches:
            branch.set_rates(key[1])
        repeat = self._recorded.get(key)
        if repeat is None and key in self._met:
            repeat = self._record(branches, key)
        if repeat is not None:
            self._recorded.move_to_end(key)
            repeat()
            return key[2]
        self._recorder.run([branch.step for branch in branches])
        for branch in branches:
            branch.settle()
        names = self._names(branches)
        if names == key[2]:  # a step that makes state is never recorded
            self._met.add(key)
        return names

    def _record(self, branches: Sequence[Branch], key: Hashable) -> Callable[[], None]:
        generators = [one for branch in branches for one in branch.generators()]
        for branch in branches:
            branch.clear_gradients()
        repeat = self._recorder.record([branch.step for branch in branches], generators)
        self._recorded[key] = repeat
        if len(self._recorded) > _RECORDS:
            self._recorded.popitem(last=False)
        return repeat

    def _gathered(
        self, branches: Sequence[Branch], jobs: Sequence[TrainJob]
    ) -> Callable[[int], Hashable]:
        """Makes the batch of step i ready, from numbers that all go to the device now."""
        numbers = torch.stack(
            [self.trainer.numbers(job.client, job.done, job.iterations) for job in jobs],
            dim=1,
        )  # (n, K, B, 1 + M)
        shape = tuple(numbers.shape[2:])
        at = looked_into(self.trainer.data)
        if shape not in self._numbers:
            self._numbers[shape] = torch.zeros(self._width, *shape, dtype=torch.int64, device=at)
        place = self._numbers[shape][: len(jobs)]
        for branch, part in zip(branches, self._numbers[shape], strict=False):
            branch.gather(part)
        uploaded = numbers.pin_memory().to(at, non_blocking=True) if at.type == "cuda" else numbers

        def ready(i: int) -> Hashable:
            place.copy_(uploaded[i])
            for branch, job in zip(branches, jobs, strict=True):
                if branch.trainer.dropouts:
                    branch.trainer.seed_masks(job.client, job.done + i)
            return shape

        return ready


def _drawn(branches: Sequence[Branch], jobs: Sequence[TrainJob], i: int) -> Hashable:
    """Makes the batch of step i ready, which the host makes client by client."""
    return tuple(
        branch.take(branch.trainer.batch(job.client, job.done + i))
        for branch, job in zip(branches, jobs, strict=True)
    )


def train_one(trainer: Trainer, job: TrainJob) -> Result:
    """The result of one job, or its error."""
    try:
        with user_code():
            return trainer.train(*job)
    except Exception as error:
        return error


def _without_frames(error: BaseException) -> BaseException:
    """``error`` and its causes without the frames, which would keep the branches' tensors alive.

    A full device would otherwise have no room for fewer clients either.
    """
    errors = [error]
    for one in errors:  # which grows
        one.__traceback__ = None
        errors += [x for x in (one.__cause__, one.__context__) if x and x not in errors]
    return error


_BRANCHES: list[Branches] = []


def branches_of(config: RunConfig, width: int) -> Branches:
    """This process's branches for ``config``, made once; ``width``: how many clients at most."""
    trainer = trainer_of(config)
    for branches in _BRANCHES:
        if branches.trainer is trainer:
            return branches
    _BRANCHES.append(Branches(trainer, width))
    return _BRANCHES[-1]


def forget_clients(config: RunConfig) -> None:
    """Frees the memory of the trainer for ``config`` and of its branches: its run has ended."""
    _BRANCHES[:] = [branches for branches in _BRANCHES if branches.trainer.config != config]
    forget_trainer(config)
