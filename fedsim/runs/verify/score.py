"""Check of a run's summary against its settings, and of its scores against its model."""

from collections.abc import Iterator
from dataclasses import replace

from safetensors.torch import load

from fedsim.federation import evaluation
from fedsim.federation.clientdata import ClientData
from fedsim.federation.evaluation import evaluate
from fedsim.federation.trainer import Trainer, settings_used
from fedsim.ground.columns import row_of
from fedsim.ground.threads import one_thread
from fedsim.results.schema import KEYS, TRAINED
from fedsim.runs.run import describe_run
from fedsim.runs.verify.recordedrun import RecordedRun
from fedsim.runs.verify.rerun import elsewhere, of_this_version
from fedsim.runs.verify.tables import LAST_DIGITS, Shares, value_differences
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import flags_of

SCORED = 0.01
"""How far scores of the same model may be apart on another processor or device, as a share."""


def scoring_trainer(config: RunConfig) -> Trainer:
    """A trainer that scores the run's model on the CPU."""
    on_cpu = replace(config, machine=replace(config.machine, engine="local", device="cpu"))
    return Trainer(on_cpu, ClientData.of(on_cpu))


def has_own_models(config: RunConfig, trainer: Trainer) -> bool:
    """Whether clients have models of their own, by which the run is scored: no file holds them."""
    return evaluation.differ(trainer, config.plan.client.payload_template(trainer.template))


def score_differences(recorded: RecordedRun, config: RunConfig, trainer: Trainer) -> Iterator[str]:
    """Where the model in ``model.safetensors`` scores otherwise than the last round says.

    The run is done; ``trainer`` is that of ``scoring_trainer``.
    """
    device = config.machine.device
    with one_thread():
        stored = load(recorded.read("model.safetensors"))
        needed = {**trainer.parameters, **trainer.frozen}
        for name, tensor in needed.items():
            if name not in stored or stored[name].shape != tensor.shape:
                yield f"model.safetensors lacks {name} of shape {[*tensor.shape]}"
                return
        if buffers := {name: x for name, x in stored.items() if name not in needed}:
            trainer.buffers.load(buffers)
        scores = row_of(evaluate(trainer, {name: stored[name] for name in trainer.parameters}))
    last = recorded.rounds.iloc[-1].to_dict()
    far = SCORED if device != "cpu" or elsewhere(recorded.folder) else LAST_DIGITS
    expected = {name: last[name] for name in scores if name in last}
    yield from value_differences(
        "model.safetensors", expected, scores, Shares(scored=far), "when scored here"
    )


def settings_differences(recorded: RecordedRun, config: RunConfig) -> Iterator[str]:
    """Where a run's summary is of other settings than its ``config.toml``."""
    description = describe_run(config, None)
    done = ("iterations", "rounds", "total_sparsity")  # they are what was done
    columns = {name: x for name, x in description.items() if name not in done}
    where = "by config.toml"
    yield from value_differences("summary.json", recorded.summary, columns, Shares(), where)
    filled, summary = config.filled(), recorded.summary.get(TRAINED) or {}
    trained = {k: x for k, x in filled.items() if x is not None}
    stored = {name: x for name, x in summary.items() if name not in _OF_OPTIMIZER}
    yield from value_differences(_SETTINGS, stored, trained, Shares(), where)
    for name in ("lr", "momentum"):
        value, expected = summary.get(name), trained.get(name)
        if expected is not None and value not in (None, expected):
            yield f"{_SETTINGS}: {name} is {value}, and {expected} {where}"
    if summary and of_this_version(recorded.folder):  # earlier ones filled in other settings
        both = stored.keys() & trained.keys()
        others = {*KEYS, *_OF_OPTIMIZER, *flags_of(config.plan.algorithm)}
        for name in sorted((stored.keys() | trained.keys()) & filled.keys() - both - others):
            yield f"{_SETTINGS}: {name} is {stored.get(name)}, and {trained.get(name)} {where}"


_SETTINGS = f"summary.json: {TRAINED}"
_OF_OPTIMIZER = ("optimizer", "weight_decay", "lr_steps", "lr", "momentum")
"""What is the optimizer's, and so the task's where ``config.toml`` does not have it."""


def optimizer_differences(
    recorded: RecordedRun, config: RunConfig, trainer: Trainer
) -> Iterator[str]:
    """Where a run's summary is of another optimizer than its task and its ``config.toml`` make.

    Tasks of an earlier version may have had others.
    """
    if not of_this_version(recorded.folder):
        return
    used = settings_used(config, trainer.parameters.values())
    expected = {name: used[name] for name in _OF_OPTIMIZER}
    stored = recorded.summary.get(TRAINED) or {}
    yield from value_differences(_SETTINGS, stored, expected, Shares(), "by config.toml")
