"""Which clients train together: settings, a trial that finds what cannot, and its process."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import SGD

from fedsim import Machine, RunConfig, UsageError, run
from fedsim.federation import trial
from fedsim.federation.drivers import at_once
from fedsim.federation.trainer import Trainer
from fedsim.federation.trial import trial_difference, trial_outcome, width_of
from fedsim.ground.errors import RunFailed
from fedsim.tasks import Dropout
from strategies import ClientEnd
from tests.support.models import normed
from tests.support.tape import TapeRecorder

FULL = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 1.20 GiB is free. Process 7 has 77 GiB in use."
)


class Drawing(nn.Module):
    """It draws from torch's global generator."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(6, 3), 0

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(functional.dropout(x, 0.5, self.training))
        return out


class Asking(Drawing):
    """What it does depends on a value, which it reads on the host."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return (1 + float(out.detach().sum())) * out


class Counting(Drawing):
    """It counts its calls, which changes nothing."""

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        out: Tensor = self.layer(x)
        return out


class Replacing(SGD):
    """It has new tensors as its state after each step."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            state["mean"] = 0.5 * state.get("mean", torch.zeros_like(p)) + p.grad
            p.sub_(state["mean"], alpha=0.1)


def hooked(parameters: Any) -> torch.optim.Optimizer:
    optimizer = SGD(parameters, lr=0.1)

    def clamp(*_: Any) -> None:
        for p in parameters:
            p.grad.clamp_(-0.1, 0.1)

    optimizer.register_step_pre_hook(clamp)
    return optimizer


def clipped() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 3))
    model[0].weight.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
    return model


TRIALS: dict[str, tuple[dict[str, Any], str]] = {
    "as usual": ({}, ""),
    "BatchNorm": ({"build": normed}, ""),
    "fedsim's dropout": ({"build": lambda: nn.Sequential(Dropout(0.5), nn.Linear(6, 3))}, ""),
    "hooks of torch": ({"build": clipped}, ""),
    "draws": ({"build": Drawing}, "draw from torch's global generator"),
    "reads": ({"build": Asking}, "the update of 'layer.weight' differs"),
    "counts": ({"build": Counting}, "attribute 'calls' changes in a step"),
    "new state": ({"optimizer": lambda p: Replacing(p, lr=0.1)}, "differs"),
    "a step's hook": ({"optimizer": lambda p: hooked([*p])}, ""),
}


@pytest.mark.parametrize("name", TRIALS)
def test_a_trial_finds_what_cannot_train_together(name: str, make_task: Any) -> None:
    fields, reason = TRIALS[name]
    config = RunConfig.of(task=make_task(**fields).name, method="raw", temporal=5)
    tape = TapeRecorder()
    result = trial_difference(config, tape)
    assert reason in result and bool(result) == bool(reason)
    if not reason:
        assert tape.counts["repeat"] >= 3  # two steps and the last


@pytest.mark.parametrize("settings", [{"proximal": 0.1}, {"strategy": "scaffold"}], ids=str)
def test_a_trial_has_the_hooks_of_the_strategy(settings: Any, make_task: Any) -> None:
    plain = {"method": "raw", "temporal": 5, "momentum": 0.0}
    config = RunConfig.of(task=make_task().name, **plain, **settings)
    tape = TapeRecorder()
    assert trial_difference(config, tape) == "" and tape.counts["repeat"] >= 3


def test_hooks_that_count_steps_train_one_after_the_other(make_task: Any) -> None:
    config = RunConfig.of(task=make_task().name, method="raw", temporal=6, strategy="fedrep")
    assert "TensorHook" in trial_difference(config, TapeRecorder())


@pytest.mark.slow
def test_a_trial_runs_in_a_process_of_its_own(make_task: Any) -> None:
    """With a task that only this process can name; one that ends its process is a reason, too."""

    def ends() -> nn.Module:
        import os

        if os.getpid() != here:
            os._exit(7)
        return nn.Linear(6, 3)

    import os

    here = os.getpid()
    good, bad = (RunConfig.of(task=make_task(**x), method="raw") for x in ({}, {"build": ends}))
    assert trial_outcome(trial.TrialRun(good, 0)) == ""
    assert "ended with 7" in trial_outcome(trial.TrialRun(bad, 1))


def test_a_gpu_s_clients_train_together_after_a_trial(
    make_task: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter(["", "the loss differs", ""])
    monkeypatch.setattr(trial, "trial_outcome", lambda trial_run: next(answers))
    task = make_task(clients=90)
    base = {"task": task.name, "method": "raw", "device": "cuda", "clients": 90}
    with caplog.at_level(logging.WARNING, "fedsim"):
        assert width_of(RunConfig.of(**base)) == 64
        assert width_of(RunConfig.of(**base, seed=1)) == 1
        assert at_once(RunConfig.of(**base, stack=7)) == 7
    assert len(caplog.records) == 1 and "the loss differs" in caplog.text
    assert at_once(RunConfig.of(**base, stack=1)) == at_once(RunConfig.of(**base, cohort=1)) == 1
    assert width_of(RunConfig.of(**{**base, "device": "cpu"}, stack=7)) == 1
    assert width_of(RunConfig.of(**base, engine="ray")) == 1
    runs = [trial.TrialRun(RunConfig.of(**base, seed=seed), "steps") for seed in (0, 1)]
    assert runs[0] == runs[1]  # runs of the same steps are tried once


def test_how_many_clients_train_together_is_no_part_of_a_run_s_name() -> None:
    plain, other = RunConfig(), RunConfig(machine=Machine(stack="4"))
    assert plain.identity() == other.identity() and plain.digest == other.digest
    former = RunConfig(machine=Machine(stack="vmap(4)"))
    assert former.identity()["stack"] == "4" and former.digest != plain.digest


def test_a_stacked_run_of_0_1_0_is_not_begun_again(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--stack is vmap\(4\): .*fedsim 0.1.0"):
        run(RunConfig(machine=Machine(stack="vmap(4)")), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("part", [(Trainer, "step"), (ClientEnd, "decode"), (ClientEnd, "encode")])
def test_what_does_not_fit_ends_the_run(
    part: tuple[type, str], make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Tensor:
        raise torch.cuda.OutOfMemoryError(FULL)

    monkeypatch.setattr(*part, full)
    expected = "cpu: 20.00 GiB more needed, 1.20 GiB free; lower --stack, --workers, --batch-size"
    with pytest.raises(RunFailed, match=expected):
        run(RunConfig(task=make_task().name, method="raw"), tmp_path, progress=False)
