"""A step that is captured is the step: graphs played on the CPU, and torch.compile for real."""

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedsim import RunConfig, UsageError, run
from fedsim.federation import captured
from fedsim.federation.capturable import check
from fedsim.federation.captured import Graphed
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer
from fedsim.tasks import Dropout
from tests.support.runs import make_task

__all__ = ["make_task"]  # the fixture


class Drawing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(functional.dropout(x, 0.5, self.training))
        return out


class Asking(Drawing):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x)
        return -out if float(out.detach().sum()) > 0 else out


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))


def trained(trainer: Trainer, clients: int = 3) -> list[Tensor]:
    """Everything that two rounds of all clients give: each client goes on from its memory."""
    weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
    found = []
    for client in range(clients):
        first = trainer.train(client, weights, {}, 0, 3)
        second = trainer.train(client, weights, dict(first.optimizer), 3, 2, first.buffers)
        for one in (first, second):
            found += [*one.update.values(), *one.buffers.values(), torch.tensor(one.loss)]
    return found


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Recordings that are played again operation by operation; how often each was played."""
    played: list[int] = []

    def record(work: Callable[[], Tensor], device: torch.device) -> Any:
        for _ in range(3):
            work()
        result, number = work(), len(played)
        grads = [p.grad for p in own[0].parameters.values()]
        played.append(0)

        def replay() -> None:
            played[number] += 1
            result.copy_(work())
            for p, grad in zip(own[0].parameters.values(), grads, strict=True):
                if grad is not None and p.grad is not None:
                    grad.copy_(p.grad)  # a graph writes to where it wrote when it was recorded

        return replay, result

    def made(graphed: Graphed, trainer: Trainer) -> None:
        own.append(trainer)
        init(graphed, trainer)

    own: list[Trainer] = []
    init = Graphed.__init__
    monkeypatch.setattr(captured, "record", record)
    monkeypatch.setattr(Graphed, "__init__", made)
    return played


@pytest.mark.parametrize("more", [{"proximal": 0.5}, {"strategy": "gradients", "temporal": 1}])
def test_graphs_give_the_numbers_of_a_plain_step(
    more: Any, make_task: Any, recorded: list[int]
) -> None:
    config = RunConfig(task=make_task(build=normed).name, method="raw", **more)
    plain, graphed = (Trainer(config, ClientData.of(config)) for _ in range(2))
    graphed._gradients = Graphed(graphed)
    object.__setattr__(graphed.config, "compile_step", "graphs")  # which the CPU is refused
    for one, other in zip(trained(plain), trained(graphed), strict=True):
        assert torch.equal(one, other)
    assert sum(recorded) == 15  # every step, of each shape of a batch one recording


def test_a_shard_of_another_size_has_its_own_recording(
    make_task: Any, recorded: list[int]
) -> None:
    config = RunConfig(task=make_task().name, method="raw")
    trainer = Trainer(config, ClientData.of(config))
    gradients = Graphed(trainer)
    x, y = trainer.batch(0, 0)
    for batch in ((x, y), (x[:2], y[:2]), (x, y)):
        gradients(*batch)
    assert recorded == [2, 1]


def test_a_recording_is_warmed_up_beside_the_stream_it_plays_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    class Stream:
        def __init__(self, name: Any = "aside") -> None:
            self.name = "aside" if isinstance(name, torch.device) else name

        def wait_stream(self, other: "Stream") -> None:
            done.append(f"{self.name} waits for {other.name}")

    class Graph:
        def replay(self) -> None:
            done.append("replay")

    @contextmanager
    def entered(what: Any, **given: Any) -> Any:
        done.append(f"into {getattr(what, 'name', 'graph')}")
        yield

    for name, one in (("Stream", Stream), ("current_stream", lambda _: Stream("current")),
                      ("stream", entered), ("graph", entered), ("CUDAGraph", Graph)):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, one)
    work = lambda: done.append("work") or torch.ones(1)  # noqa: E731
    replay, result = captured.record(work, torch.device("cuda"))
    replay()
    assert result.item() == 1.0
    assert done == [
        "aside waits for current", "into aside", "work", "work", "work", "current waits for aside",
        "into graph", "work", "replay",
    ]  # fmt: skip


@pytest.mark.slow
def test_compiled_steps_are_near(make_task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "BACKEND", "aot_eager")  # the same but for generated kernels
    config = RunConfig(task=make_task(build=normed).name, method="raw", compile_step="compile")
    check(config)
    plain = RunConfig(**{**vars(config), "compile_step": "none"})
    both = (Trainer(one, ClientData.of(one)) for one in (plain, config))
    for one, other in zip(*map(trained, both), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: nn.Sequential(nn.Linear(6, 3), Dropout(0.5)), "dropout draws its masks anew"),
        (Drawing, "it draws from torch's global generator"),
        pytest.param(Asking, "data-dependent", marks=pytest.mark.slow),
    ],
)
def test_what_cannot_be_captured_is_refused_before_the_run(
    build: Any, why: str, make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captured, "BACKEND", "aot_eager")
    config = RunConfig(task=make_task(build=build).name, method="raw", compile_step="compile")
    with pytest.raises(UsageError, match=f"--compile-step is compile: .* be captured: .*{why}"):
        run(config, tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_a_step_that_differs_is_refused(make_task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(trainer: Trainer) -> Any:
        exact = captured.eager(trainer)
        return lambda x, y: exact(x * 1.01, y)

    monkeypatch.setattr("fedsim.federation.capturable.gradients_of", wrong)
    config = RunConfig(task=make_task().name, method="raw", compile_step="compile")
    with pytest.raises(UsageError, match="cannot be captured: .* differs"):
        check(config)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"compile_step": "some"}, "it is one of none, graphs, compile"),
        ({"compile_step": "graphs"}, "--device is 'cpu': graphs are CUDA's"),
        ({"compile_step": "compile", "stack": "2"}, "it goes with --stack 1"),
        ({"compile_step": "compile", "workers": 2}, "it goes with one worker"),
    ],
)
def test_what_a_captured_step_goes_with(given: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        RunConfig(**given)


def test_the_name_of_a_run_tells_whether_its_step_was_captured() -> None:
    plain, compiled = RunConfig(), RunConfig(compile_step="compile")
    assert "compile_step" not in plain.identity()
    assert compiled.identity()["compile_step"] == "compile"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
@pytest.mark.parametrize("how", ["graphs", "compile"])
def test_captured_on_a_gpu(how: str, tmp_path: Path) -> None:
    plain = RunConfig(task="digits", temporal=5, iterations=10, device="cuda")
    one = run(plain, tmp_path / "none", progress=False)
    config = RunConfig(**{**vars(plain), "compile_step": how})
    assert run(config, tmp_path / how, progress=False)["loss"] == pytest.approx(one["loss"], 0.05)
