"""Strategies of a user's own, by docs/own-strategy.md: in a file, in Python, in other processes."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from compressors import Raw, decompress
from fedsim import RunConfig, RunFailed, SweepConfig, UsageError, run, sweep
from fedsim.settings.config import from_toml
from strategies import DSGD, Algorithm, Client, ClientUpdate, FedBuff, Nesterov
from tests.support import replaying
from tests.support.markdown import ROOT, blocks
from tests.support.runs import Memories, assert_same, model, rounds, small

PAGE = "".join(b.text for b in blocks(ROOT / "docs" / "own-strategy.md") if b.language == "python")


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """The page's file."""
    (tmp_path / "mine.py").write_text(PAGE, encoding="utf-8")
    return str(tmp_path / "mine.py")


def test_fedper_s_last_layer_stays_with_the_client(
    mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages hold the other layers; each client has a last layer of its own, and goes on from
    that: the next begins where this one ended."""
    memories = Memories(monkeypatch)
    config = small(strategy=f"{mine}:FedPer", method="raw", keep_payloads=True)
    run(config, tmp_path / "run", callbacks=[memories])
    whole = replaying.initial(config)
    shared = {n: x for n, x in whole.items() if not n.startswith("7.")}
    assert 0 < len(shared) < len(whole)
    for file in (tmp_path / "run" / "payloads").rglob("*-up.bin"):
        decompress(Raw(), file.read_bytes(), shared)
    owns = [[states[c]["rule/7.weight"] for c in range(4)] for states in memories.rounds]
    assert not torch.equal(owns[-1][0], owns[-1][1])
    steps = [(after[0] - before[0]).norm() for before, after in zip(owns, owns[1:], strict=False)]
    assert all(0 < step < 0.5 * owns[0][0].norm() for step in steps)
    dense = small(method="raw")
    run(dense, tmp_path / "dense")
    frames = [rounds(tmp_path / name) for name in ("run", "dense")]
    entries = [sum(x.numel() for x in tensors.values()) for tensors in (shared, whole)]
    bits = [int(frame["up_content_bits"].iloc[0]) // 4 for frame in frames]
    assert bits == [32 * n for n in entries]
    assert frames[0]["train_loss"].iloc[-1] < frames[0]["train_loss"].iloc[0]


HALF = """
from strategies import DSGD

class Half(DSGD):
    def mean(self, uplinks, now):
        return {name: x / 2 for name, x in super().mean(uplinks, now).items()}
"""


def test_a_mean_of_ones_own_is_none_that_clients_make(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text(HALF, encoding="utf-8")
    own = f"{tmp_path / 'half.py'}:Half"
    with pytest.raises(UsageError, match="every client makes the model of the others' messages"):
        small(strategy=own, downlink="relay")


def test_without_layers_of_its_own_it_is_dsgd(mine: str, tmp_path: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "mine"}
    exec(PAGE, namespace)
    run(small(strategy=namespace["FedPer"](layer="none")), tmp_path / "own")
    run(small(), tmp_path / "dsgd")
    assert model(tmp_path / "own") == model(tmp_path / "dsgd")


def test_a_median_by_its_file_goes_on_and_is_written_down(mine: str, tmp_path: Path) -> None:
    config = small(strategy=f"{mine}:Median", method="raw", clients=3)
    run(config, tmp_path / "whole")
    written = from_toml(tmp_path / "whole" / "config.toml", trust_code=True)
    assert written.plan.strategy == f"{mine}:Median" and written.digest == config.digest
    run(small(method="raw", clients=3), tmp_path / "mean")
    assert model(tmp_path / "whole") != model(tmp_path / "mean")


def test_a_folder_that_names_another_file_is_refused(mine: str, tmp_path: Path) -> None:
    run(small(strategy=f"{mine}:Median", method="raw"), tmp_path / "theirs")
    Path(mine).write_text("raise SystemExit('carried out')")
    with pytest.raises(UsageError, match="names the strategy .*mine.py:Median"):
        run(small(method="raw"), tmp_path / "theirs")


@pytest.mark.slow
@pytest.mark.processes
def test_other_processes_are_sent_it(cluster: str, tmp_path: Path) -> None:
    """One that is known in this process alone: its class is in no module that they could import."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(PAGE, namespace)
    config = small(strategy=namespace["FedPer"](), method="raw")
    run(config, tmp_path / "here")
    on_ray = RunConfig.of(**{**config.flat(), "engine": "ray"})
    run(on_ray, tmp_path / "ray", ray_address=cluster)
    assert_same(tmp_path / "here", tmp_path / "ray")
    found = sweep(SweepConfig(config, temporal=(5, 10)), tmp_path / "sweep", jobs=2)
    assert {cell["status"] for cell in found} == {"done"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nesterov(server_lr=0.5, momentum=0.25)", Nesterov(server_lr=0.5, momentum=0.25)),
        ("nesterov", Nesterov()),
        ("fedbuff(3, staleness=polynomial(1))", FedBuff(3, "polynomial(1)")),
    ],
)
def test_settings_in_parentheses(text: str, value: Any) -> None:
    more = {"network": "4g, compute=20ms"} if "fedbuff" in text else {}
    by_text, by_value = (small(strategy=one, **more) for one in (text, value))
    assert by_text.plan.algorithm == by_value.plan.algorithm
    again = small(strategy=by_value.plan.strategy, **more)
    assert again.plan.algorithm == value and isinstance(by_value.strategy, str)


def test_a_flag_sets_what_the_text_does_not() -> None:
    assert small(strategy="nesterov(momentum=0.5)", server_lr=0.25).plan.algorithm == Nesterov(
        server_lr=0.25, momentum=0.5
    )
    with pytest.raises(UsageError, match="--server-lr is 0.25 and --strategy is .*give server_lr"):
        small(strategy="nesterov(server_lr=0.5)", server_lr=0.25)


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ("nestero", "unknown strategy 'nestero' .did you mean nesterov"),
        ("nesterov(rate=1)", "unknown setting 'rate'"),
        ("nesterov(momentum=2)", "momentum is 2: 0 <= momentum < 1"),
        ("nesterov(", "a name with its settings"),
        ("nesterov(momentum=0.5, momentum=0.6)", "a name with its settings"),
        ("nowhere.py:Mine", "there is no file nowhere.py"),
        ("strategies.algorithms.dsgd:WEIGHTINGS", "a strategies.Algorithm is wanted .there: DSGD"),
        (3, "strategy is 3; it takes str or Algorithm"),
    ],
)
def test_what_is_no_strategy_is_told(strategy: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        small(strategy=strategy)


def test_one_that_fails_is_told_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("\nx = 1 / 0\n")
    with pytest.raises(UsageError, match="bad.py, line 2: ZeroDivisionError"):
        small(strategy=f"{tmp_path / 'bad.py'}:Mine")


@dataclass(frozen=True)
class Half(DSGD):
    """Half of the mean: a class in a module that can be imported."""

    def step(self, *given: Any) -> Any:
        delta, memory = super().step(*given)
        return {n: x / 2 for n, x in (delta or {}).items()}, memory


def test_one_in_a_module(tmp_path: Path) -> None:
    name = f"{__name__}:Half"
    assert __name__ in sys.modules
    run(small(strategy=name, method="raw", iterations=5), tmp_path / "text")
    run(small(strategy=Half(), method="raw", iterations=5), tmp_path / "value")
    assert model(tmp_path / "text") == model(tmp_path / "value")


@dataclass(frozen=True)
class Stepless(Algorithm):
    """An algorithm whose author forgot the server's rule."""


@dataclass(frozen=True)
class Listed(DSGD):
    """One with a setting that cannot be compared by value."""

    layers: list[str] = field(default_factory=list)


def test_one_that_no_round_could_be_carried_out_with_is_refused_before_any_work() -> None:
    with pytest.raises(UsageError, match=r"it has no step\(uplinks, state, model, info\)"):
        small(strategy=Stepless())
    with pytest.raises(UsageError, match="unhashable type.*numbers, texts or tuples"):
        small(strategy=Listed())
    with pytest.raises(UsageError, match="it has no step"):
        small(strategy=f"{__name__}:Stepless")


@dataclass(frozen=True)
class Returns(Algorithm):
    """One whose step returns what its author wrote by mistake."""

    fault: str = ""

    def step(self, uplinks: Any, state: Any, model: Any, info: Any) -> Any:
        first, *others = model
        return {
            "no tuple": model,
            "a list": ([*model.values()], state),
            "numpy": ({name: x.numpy() for name, x in model.items()}, state),
            "missing": ({name: model[name] for name in others}, state),
            "unknown": ({**model, "more": model[first]}, state),
            "shape": ({**model, first: model[first][:1]}, state),
            "dtype": ({**model, first: model[first].double()}, state),
            "state": (model, {"rounds": 1}),
        }[self.fault]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("no tuple", "returned dict: give a tuple of two"),
        ("a list", "returned list: give a dict"),
        ("numpy", "returned ndarray as '0.weight': give a dict of names to tensors"),
        ("missing", "no tensor '0.weight'"),
        ("unknown", "an unknown tensor 'more'"),
        ("shape", r"'0.weight' of shape \(1, .*: give \(32, "),
        ("dtype", "'0.weight' as torch.float64: give torch.float32"),
        ("state", "returned int as 'rounds': give a dict"),
    ],
)
def test_a_step_that_returns_something_else_ends_the_run(fault: str, said: str) -> None:
    """A tensor of another shape would be added to the model by broadcasting."""
    with pytest.raises(RunFailed, match=f"Returns.*{said}"):
        run(small(strategy=Returns(fault), method="raw", iterations=5))


@dataclass(frozen=True)
class Mistaken(Client):
    """A half whose author wrote one of its methods by mistake."""

    fault: str = ""

    def initial_weights(self, delivery: Any, state: Any) -> Any:
        first = next(iter(delivery.weights))
        return delivery.weights | {
            "narrow": {first: delivery.weights[first][:1]},
            "misspelt": {"weight.0": delivery.weights[first]},
        }.get(self.fault, {})

    def make_update(self, delivery: Any, state: Any, job: Any, result: Any) -> Any:
        update = result.update
        return {
            "no update": update,
            "fewer": ClientUpdate(dict([*update.items()][1:])),
            "reversed": ClientUpdate(dict(reversed(update.items()))),
        }.get(self.fault, ClientUpdate(update))

    def next_state(self, *arguments: Any) -> Any:
        return {"rounds": 1} if self.fault == "counter" else {}


@dataclass(frozen=True)
class Halved(DSGD):
    """The mean of what ``Mistaken`` sends."""

    fault: str = ""

    @property
    def client(self) -> Client:
        return Mistaken(self.fault)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "narrow",
            r"initial_weights of Mistaken returned '0.weight' of shape \(1, .*: give \(32, ",
        ),
        ("misspelt", "initial_weights of Mistaken returned an unknown tensor 'weight.0'"),
        ("no update", "make_update of Mistaken returned dict: give a ClientUpdate"),
        ("fewer", "make_update of Mistaken returned no tensor '0.weight'"),
        ("counter", "next_state of Mistaken returned int as 'rounds'"),
    ],
)
def test_a_half_that_returns_something_else_is_named(fault: str, said: str) -> None:
    """A tensor of another shape would be broadcast; one of another name would not be trained."""
    with pytest.raises(RunFailed, match=said):
        run(small(strategy=Halved(fault=fault), method="raw", iterations=5))


def test_an_update_may_have_its_tensors_in_another_order() -> None:
    first, other = (
        run(small(strategy=Halved(fault=fault), method="raw", iterations=5)).model
        for fault in ("", "reversed")
    )
    assert all(torch.equal(first[name], x) for name, x in other.items())
