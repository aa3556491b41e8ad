"""Trial of a user's own task with one batch before any round: an error names the wrong field.

fedsim's own tasks are tested, but a user's loss or model may not accept the task's data. The trial
has no effect on the run: it trains a model of its own, and restores the states of all random
generators.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from compressors import ErrorFeedback, derive, own_rows, text
from compressors.base import finite
from compressors.errors import PartError
from compressors.usercode import located, user_code
from compressors.verify import check_draws
from compressors.whole.growth import may_grow
from compressors.whole.keepers import parts_of
from compressors.whole.masked_integers import MaskedIntegers
from fedsim.federation import isolation
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import evenly_spread, untouched
from fedsim.federation.fingerprint import attributes, contents, same
from fedsim.federation.modelbuffers import ModelBuffers
from fedsim.federation.trainer import Trainer, build_model
from fedsim.federation.trial import TrialRun
from fedsim.ground.errors import UsageError
from fedsim.settings.config import RunConfig
from fedsim.settings.fields import SETTINGS
from fedsim.settings.samplers.base import LOCAL_LOSS
from fedsim.settings.versions import STACKED, former_stack
from fedsim.tasks import Data, Task
from fedsim.tasks.base import correct, cross_entropy, logits_of
from fedsim.tasks.datacache import load_data
from fedsim.tasks.pytrees import Tree, call_text, forward, leaves, named_leaves, to_device
from strategies.algorithms.base import PLAIN
from strategies.generators import seeded

_KEPT = "what a client keeps is a tensor or a number in optimizer.state[parameter] or param_groups"
"""Each client has an optimizer's memory of its own, which must be what can be handed to it."""
_UNSEEN = ("temporal", "gradient", "iterations")  # settings on which no batch and no step depends


def check_trainable(config: RunConfig) -> None:
    """Refuses what no round could be trained with, before anything is written.

    Raises:
        DataError: the data is missing or is not what a task's `load` returns.
        UsageError: it cannot be split so; or the sampler asks clients for losses of layers that
            they keep; or, of a user's own task, a field refuses the first
            batch of client 0 or returns what it should not; or the memory of the method would grow
            without end for the task's tensors; or the model has buffers, and the strategy
            refuses them; or the file of ``--weights`` is not of the model; or a method of the
            user draws from a global generator; or a client's samples exceed its message's weight;
            or the run is of 0.1.0 and its clients were stacked, which gives other last bits.
    """
    if former_stack(config.machine.stack):
        raise UsageError(
            f"--stack is {config.machine.stack}: {STACKED}; give a number above 0, or auto"
        )
    ClientData.of(config)
    if config.weights is not None:
        plan = config.plan
        build_model(plan.task, config.seed, ClientData.of(config).data, config.weights)
    _sends_something(config)
    _weights_fit(config)
    _buffers(config)
    _draws_by_seed(config)
    if isinstance(config.task, Task) or not isinstance(config.strategy, str):
        _passes(TrialRun(config, _visible(config)))
    check_growth(config)


def _draws_by_seed(config: RunConfig) -> None:
    """Raises ``UsageError`` where a user's method draws from a global generator."""
    plan, rows = config.plan, own_rows()
    if not rows:
        return
    methods = {"method": plan.method.compressor, "downlink": plan.downlink}
    user_methods = {
        name: method
        for name, method in methods.items()
        if not rows.keys().isdisjoint(re.findall(r"\w+", text(method)))
    }
    if not user_methods:
        return
    model = build_model(plan.task, config.seed, ClientData.of(config).data)
    generator = torch.Generator().manual_seed(0)
    update = {
        name: torch.randn(p.shape, generator=generator)
        for name, p in plan.client.payload_template(dict(model.named_parameters())).items()
        if p.requires_grad
    }
    for name, method in user_methods.items():
        with untouched(torch.device("cpu")):
            try:
                check_draws(method, update)
            except PartError as error:
                raise UsageError(f"--{name}: {error}") from error


def _buffers(config: RunConfig) -> None:
    """Raises ``UsageError`` where the model has buffers that the run does not go with."""
    plan, start = config.plan, f"--strategy is {config.plan.strategy!r}"
    reason = plan.algorithm.refuses_buffers
    if plan.network is not None and plan.network.tree is not None:
        start, reason = f"--network is {plan.network.name!r}", "edge servers do not average"
    if not reason:
        return
    model = build_model(plan.task, config.seed, ClientData.of(config).data)
    if ModelBuffers(model, plan.task.name).names:
        raise UsageError(
            f"{start}: the model of task {plan.task.name} has buffers (BatchNorm's statistics), "
            f"which {reason}"
        )


def _weights_fit(config: RunConfig) -> None:
    """Raises ``UsageError`` where a client has more samples than its message's weight holds."""
    plan, method = config.plan, config.plan.method.compressor
    if not isinstance(method, MaskedIntegers) or not method.weight:
        return
    samples = [len(shard) for shard in ClientData.of(config).shards]
    if (largest := max(samples)) <= method.largest_weight:
        return
    weight = largest.bit_length()
    wider = replace(method, modulus=32, weight=weight) if method.bits + weight <= 32 else None
    instead = "fewer bits" if wider is None else repr(text(wider))
    raise UsageError(
        f"--method is {config.method!r}: client {samples.index(largest)} of task {plan.task.name} "
        f"has {largest} samples, and a weight of {method.weight} bits holds "
        f"{method.largest_weight}; give {instead}"
    )


def _sends_something(config: RunConfig) -> None:
    """Raises ``UsageError`` where the clients' half of the strategy refuses the task's model."""
    plan, half = config.plan, config.plan.algorithm.client
    if half is PLAIN:
        return
    model = build_model(plan.task, config.seed, ClientData.of(config).data)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    try:
        shared = half.payload_template(trained)
    except ValueError as error:
        raise UsageError(f"--strategy is {plan.strategy!r}: {error}") from error
    if LOCAL_LOSS in plan.draws.needs and (personal := sorted(trained.keys() - shared.keys())):
        raise UsageError(
            f"--sampler is {plan.sampler!r} and --strategy is {plan.strategy!r}: clients keep "
            f"{', '.join(personal)}, without which nobody else knows their loss; give "
            "power_of_choice(d, stale=true)"
        )


def _visible(config: RunConfig) -> Hashable:
    settings = {name: x for name, x in config.flat().items() if SETTINGS[name].result}
    user_rows = tuple(own_rows().items())  # a notebook may define a method again
    source = config.machine.source
    data = source, load_data(config.plan.task, *source).content
    return user_rows, data, tuple((name, x) for name, x in settings.items() if name not in _UNSEEN)


@lru_cache(maxsize=256)
def _passes(trial: TrialRun) -> None:
    """Once a process for all cells that differ only in what a batch does not depend on."""
    config = trial.config
    with untouched(torch.device(config.machine.device)):
        if isinstance(config.task, Task):
            trainer = _trainer(config)
            _one_step(trainer)
            _one_score(trainer)
        isolation.check_isolation(config)


@contextmanager
def _calling(
    task: Task,
    call: str,
    facts: Callable[[], str] | None = None,
    diagnose: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Says what of the task failed, on what; what fedsim refuses itself is said already.

    ``diagnose`` raises a ``UsageError`` of its own if it knows the cause of the failure.
    """
    try:
        with user_code():
            yield
    except UsageError:
        raise
    except Exception as error:
        diagnose()
        reason = " ".join(located(error).split())
        where = f" on a batch: {reason}{facts()}" if facts else f": {reason}"
        raise UsageError(f"task {task.name}: {call} fails{where}") from error


def _check_classes(task: Task, data: Data, outputs: Any) -> None:
    """Raises ``UsageError`` if a class number of a classifier has no output."""
    if isinstance(outputs, Mapping) and "logits" not in outputs:
        return
    outputs = logits_of(outputs)
    if not isinstance(outputs, Tensor) or outputs.dim() != 2:
        return
    for part in ("train_y", "test_y"):
        y = getattr(data, part)
        if not isinstance(y, Tensor) or y.dtype != torch.int64 or y.dim() != 1:
            continue  # not all have been read, or they are other targets than classes
        first, last, width = int(y.min()), int(y.max()), outputs.shape[1]
        if last >= width:
            shifted = first > 0 and last - first < width
            cure = f"subtract {first}" if shifted else f"give it {last + 1} outputs"
            raise UsageError(
                f"task {task.name}: {part} holds the classes {first} to {last}, and build's model "
                f"has {width} outputs; classes are numbered from 0: {cure}"
            )


def _check_repeats(task: Task, first: nn.Module, second: nn.Module) -> None:
    """Raises ``UsageError`` if two models of one seed begin with other weights or buffers."""
    again = second.state_dict()
    for name, x in first.state_dict().items():
        if isinstance(x, Tensor) and name in again and not same(x.cpu(), again[name].cpu()):
            raise UsageError(
                f"task {task.name}: build made two models of one seed whose {name!r} differ; it "
                "draws from torch's global generator, which --seed sets, and not from numpy's or "
                "Python's: torch.randn, nn.init; or numpy.random.default_rng(0)"
            )


def _trainer(config: RunConfig) -> Trainer:
    task, federation = config.plan.task, ClientData.of(config)
    with _calling(task, "build"), seeded(derive(config.seed, "init"), torch.device("cpu")):
        model = task.model(federation.data)
    if not isinstance(model, nn.Module):
        raise _returned(task, "build", model, "a torch.nn.Module")
    named = dict(model.named_parameters())
    if not any(p.requires_grad for p in named.values()):
        raise UsageError(f"task {task.name}: build made a model without parameters to train")
    for name, p in named.items():
        if p.dtype != torch.float32:
            raise UsageError(
                f"task {task.name}: build made a model whose {name!r} is {_type(p)}; parameters "
                "are float32, and so are the inputs that they take (x.float())"
            )
    parameters = [p for p in model.parameters() if p.requires_grad]
    with _calling(task, "optimizer(parameters)"):
        optimizer: Any = task.optimizer(parameters)
    if not isinstance(optimizer, Optimizer):
        raise _returned(task, "optimizer", optimizer, "a torch.optim.Optimizer")
    used = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if used - {id(p) for p in parameters}:
        raise UsageError(
            f"task {task.name}: optimizer returned one of other parameters than it was given; it "
            "makes a new one of those: lambda parameters: torch.optim.SGD(parameters, lr=0.1)"
        )
    trainer = Trainer(config, federation)
    if trainer.model is model:
        raise UsageError(
            f"task {task.name}: build returned the same model twice; it makes a new one with every "
            "call: lambda: nn.Sequential(...)"
        )
    if config.weights is None:
        _check_repeats(task, model, trainer.model)
    return trainer


def _one_step(trainer: Trainer) -> None:
    """The first local iteration of client 0, a field at a time."""
    task, data = trainer.task, trainer.federation.data
    with _calling(task, "load: a batch of its data"):
        x, y = trainer.batch(0, 0)
    facts, call = partial(_facts, "train", data, x, y), call_text(x)
    trainer.model.train()
    with trainer.precision:
        with _calling(task, f"{call}, of build's model,", facts):
            outputs = forward(trainer.model, x)
        classes = partial(_check_classes, task, data, outputs)
        if task.loss in (cross_entropy, nn.functional.cross_entropy):
            classes()  # on a GPU the loss would end the process
        with _calling(task, f"loss({call}, y)", facts, classes):
            loss: Any = task.loss(outputs, y)
    if not isinstance(loss, Tensor) or loss.dim():
        raise _returned(task, "loss", loss, "the mean over the batch, a tensor of one number")
    if not loss.requires_grad:
        raise UsageError(
            f"task {task.name}: loss returned a number without a gradient; it is made of the "
            "outputs by torch's functions"
        )
    if math.isnan(float(loss.detach())):
        raise UsageError(f"task {task.name}: loss is NaN on a first batch{facts()}")
    with _calling(task, f"the gradient of loss({call}, y)", facts):
        trainer.backward(loss)
    before = attributes(trainer.optimizer)
    for _ in range(2):  # memory may begin with the second
        with _calling(task, "optimizer: its step()"):
            trainer.optimizer.step()
        try:
            trainer.optimizer_state()
        except ValueError as error:
            raise UsageError(f"task {task.name}: optimizer: {error}; {_KEPT}") from error
        for name, value in attributes(trainer.optimizer).items():
            if name not in before or not same(before[name], value):
                raise UsageError(
                    f"task {task.name}: optimizer changes its attribute {name!r}, which all "
                    f"clients of a worker would share; {_KEPT}"
                )


@torch.no_grad()
def _one_score(trainer: Trainer) -> None:
    """Held-out samples as the server scores them, once and twice: a sum doubles, a mean stays."""
    task, data = trainer.task, trainer.federation.data
    index = evenly_spread(data.test_count, max(1, task.evaluation_batch // 2))
    trainer.model.eval()
    scores = []
    for i in (index, torch.cat([index] * 2)):
        with _calling(task, "load: a batch of its held-out data"):
            x, y = (to_device(part, trainer.device) for part in data.read_test(i))
        facts, call = partial(_facts, "test", data, x, y), call_text(x)
        with _calling(task, f"{call}, of build's model,", facts):
            outputs = forward(trainer.model, x)
        before = contents((outputs, y))
        with _calling(task, f"loss({call}, y)", facts):
            mean = float(task.loss(outputs, y))
        _check_unchanged(task, "loss", before, (outputs, y))
        _check_pairs(task, outputs, y)
        with _calling(task, f"metric({call}, y)", facts):
            score: Any = task.metric(outputs, y)
        _check_unchanged(task, "metric", before, (outputs, y))
        if isinstance(score, Tensor) and score.numel() != 1:
            raise _returned(task, "metric", score, "the sum over the batch, one number")
        with _calling(task, "metric: float() of what it returned"):
            sums = task.sums(outputs, y)
        with _calling(task, "reported: of the means of what metric returned"):
            task.scores(sums, len(i))
        totals = {name: float(torch.as_tensor(x).sum()) for name, x in sums.items()}
        scores.append((mean, totals, f"outputs are {_shape(outputs)} and targets {_shape(y)}"))
    (loss, sums, shapes), (losses, doubled, _) = scores
    text = f"for {len(index)} samples and {{:g}} for the same samples twice"
    if abs(losses - 2 * loss) < abs(losses - loss):
        raise UsageError(
            f"task {task.name}: loss is {loss:g} {text.format(losses)}; it returns the mean over "
            "the batch, not the sum: reduction='mean'"
        )
    for name, once in sums.items():
        twice, called = doubled.get(name, 2 * once), f"metric's {name!r}" if name else "metric"
        problem = f"task {task.name}: {called} is {once:g} {text.format(twice)}"
        if abs(twice - once) < abs(twice - 2 * once):
            raise UsageError(
                f"{problem}; it returns the sum of the score over the samples, not their mean: "
                ".sum(), not .mean()"
            )
        if abs(twice - 4 * once) < abs(twice - 2 * once):
            raise UsageError(
                f"{problem}, where the sum of a score over the samples is twice as much: {shapes}; "
                "a sample's score is of its own output and target, both of one shape "
                "(nn.Flatten(0) behind the model, or outputs.squeeze(1))"
            )


def _check_pairs(task: Task, outputs: Any, y: Any) -> None:
    """Refuses a loss of all outputs with all targets, and an accuracy of several classes a sample.

    A loss of shapes (B, 1) and (B,) broadcasts to (B, B): the order of the targets is lost.
    """
    if not isinstance(y, Tensor):
        return
    if task.metric is correct and y.dim() != 1:
        raise UsageError(
            f"task {task.name}: metric is the accuracy of one class per sample, and a sample's "
            f"target has the shape {tuple(y.shape[1:])}; give loss= and metric="
        )
    if not isinstance(outputs, Tensor) or outputs.numel() != y.numel() or outputs.shape == y.shape:
        return
    turned = y.flip(0)
    if not math.isclose(
        float(task.loss(outputs, y)), float(task.loss(outputs, turned)), rel_tol=1e-5
    ):
        return
    first = second = 0.0
    with suppress(Exception):  # a user's loss may take one shape alone, and pairs them itself
        paired = outputs.reshape(y.shape)
        first, second = (float(task.loss(paired, targets)) for targets in (y, turned))
    if not math.isclose(first, second, rel_tol=1e-4):
        raise UsageError(
            f"task {task.name}: loss is {first:g} for samples in another order, too: outputs are "
            f"{_shape(outputs)} and targets {_shape(y)}, which broadcast; both need one shape "
            "(nn.Flatten(0) behind the model, or outputs.squeeze(1))"
        )


def _check_unchanged(task: Task, role: str, before: Any, after: tuple[Any, Any]) -> None:
    """Refuses a loss or a metric that works in place: the other one is given the same tensors."""
    if not same(before, contents(after)):
        raise UsageError(
            f"task {task.name}: {role} changes the outputs or targets that it is given, which loss "
            "and metric share; it works on a copy (outputs.clone()), or without in-place "
            "operations such as sub_()"
        )


def _shape(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__


def _returned(task: Task, role: str, value: object, expected: str) -> UsageError:
    what = f"a tensor of shape {_shape(value)}" if isinstance(value, Tensor) else _shape(value)
    return UsageError(f"task {task.name}: {role} returned {what}; it returns {expected}")


def _facts(part: str, data: Data, x: Tree, y: Tree) -> str:
    """A description of the tensors, with notes where they differ from a classifier's."""
    shown, notes = [], []
    for letter, batch in (("x", x), ("y", y)):
        name, tensors = f"{part}_{letter}", getattr(data, f"{part}_{letter}")
        drawn = part == "train" and data.draw is not None
        if drawn or not all(isinstance(leaf, Tensor) for leaf in leaves(tensors)):
            name, tensors = f"a batch of {name}", batch
        for path, leaf in named_leaves(tensors):
            if not isinstance(leaf, Tensor):
                shown.append(f"{name}{path} is of type {type(leaf).__name__}")
                continue
            shown.append(f"{name}{path} is {_type(leaf)} {tuple(leaf.shape)}")
            if leaf.is_floating_point() and not finite(leaf):
                notes.append(f"{name}{path} holds NaN or infinity")
    if any(isinstance(leaf, Tensor) and leaf.dtype == torch.float64 for leaf in leaves(x)):
        notes.append("most models take float32 inputs (x.float())")
    if not isinstance(y, Tensor) or y.dtype != torch.int64 or y.dim() != 1:
        notes.append("cross entropy takes int64 class numbers of shape (n,)")
    return "; " + "; ".join([", ".join(shown), *notes])


def _type(x: Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def check_growth(config: RunConfig) -> None:
    """Refuses a method whose memory would grow without end for the sizes of the task's tensors.

    The model is built only where the answer depends on them. Raises ``UsageError``, which names the
    flag and the method, and says what to use in its place.
    """
    plan = config.plan
    for flag, method in (("--method", plan.method.compressor), ("--downlink", plan.downlink)):
        residuals = [part for part in parts_of(method) if isinstance(part, ErrorFeedback)]
        if not any(may_grow(part.inner) for part in residuals):
            continue
        model = build_model(plan.task, config.seed, ClientData.of(config).data)
        try:
            named = model.named_parameters()
            method.init({name: p.detach() for name, p in named if p.requires_grad})
        except ValueError as error:
            raise UsageError(f"{flag}: {error}") from error
