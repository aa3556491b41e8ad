"""``--weights``: a run begins with a file, whose digest names it; a wrong file is told."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, load_model, save_file
from torch import nn

from fedsim import RunConfig, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer
from fedsim.settings.config import from_toml
from fedsim.settings.masks import resolve_masking


def normed() -> nn.Module:
    """Frozen weights, a layer of buffers, and weights that are trained."""
    made = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    made[0].requires_grad_(False)
    return made


def settings(task: Any, **given: Any) -> RunConfig:
    base = {"task": task.name, "method": "sbc(0.5)", "temporal": 2, "iterations": 6}
    return RunConfig.of(**base | given)


@pytest.fixture
def start(make_task: Any, tmp_path: Path) -> tuple[Any, Path]:
    """A task, and the model of a run of another seed."""
    task = make_task(build=normed)
    run(settings(task, seed=7), tmp_path / "first")
    return task, tmp_path / "first" / "model.safetensors"


@pytest.mark.parametrize("given", [{}, {"workers": 2}, {"strategy": "fedadam"}])
def test_a_run_begins_with_the_file(
    start: tuple[Any, Path], given: dict[str, Any], tmp_path: Path
) -> None:
    task, file = start
    config, held = settings(task, weights=str(file), **given), load_file(file)
    trainer = Trainer(config, ClientData.of(config))
    begins = {**trainer.parameters, **trainer.frozen, **trainer.buffers.initial}
    assert {*held} == {*begins}
    assert all(torch.equal(held[name], begins[name]) for name in held)
    went = run(config, tmp_path / "went")
    ended = load_file(tmp_path / "went" / "model.safetensors")
    assert torch.equal(ended["0.weight"], held["0.weight"])  # frozen
    assert not torch.equal(ended["2.weight"], held["2.weight"])
    # all that follows from it is in the summary and in the tables
    assert went.summary["settings"]["weights"] == config.weights[-16:]
    plain = run(settings(task, **given), tmp_path / "plain").rounds
    assert plain["digest_model"].iloc[0] != went.rounds["digest_model"].iloc[0]


def test_the_digest_names_the_run_and_not_the_place(
    start: tuple[Any, Path], tmp_path: Path
) -> None:
    task, file = start
    other, moved = tmp_path / "other.safetensors", tmp_path / "moved.safetensors"
    moved.write_bytes(file.read_bytes())
    save_file({name: x + 1 for name, x in load_file(file).items()}, other)
    digests = [settings(task, weights=str(f)).digest for f in (file, moved, other)]
    assert digests[0] == digests[1] != digests[2]
    assert settings(task).digest not in digests
    out = tmp_path / "out"
    config = settings(task, weights=str(file))
    first = run(config, out)
    assert from_toml(out / "config.toml") == resolve_masking(config, config.plan)
    again = run(settings(task, weights=str(moved)), out)  # is done
    assert again.summary["seconds"] == first.summary["seconds"]
    with pytest.raises(UsageError, match="results of other settings .weights"):
        run(settings(task, weights=str(other)), out)
    with pytest.raises(UsageError, match="results of other settings .weights .* the default here"):
        run(settings(task), out)


def test_a_run_does_not_go_on_from_a_file_that_has_changed(
    start: tuple[Any, Path], tmp_path: Path
) -> None:
    task, file = start
    config = settings(task, weights=str(file))
    save_file({name: x + 1 for name, x in load_file(file).items()}, file)
    with pytest.raises(UsageError, match="the file has changed .digest [0-9a-f]{16} when"):
        run(config, tmp_path / "out")
    assert not (tmp_path / "out").exists()


WRONG = {
    "lacks": (lambda held: held.pop("2.bias"), r"it lacks '2.bias' of the model"),
    "more": (lambda held: held.update(x=torch.ones(1)), r"it holds 'x', which the model"),
    "shape": (lambda held: held.update({"2.bias": torch.ones(4)}), r"shape \(4,\), and \(3,\) in"),
    "type": (lambda held: held.update({"2.bias": held["2.bias"].half()}), r"is torch.float16, and"),
    "finite": (lambda held: held["2.bias"].fill_(float("nan")), "holds NaN or infinity"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_is_told_before_any_work(
    what: str, start: tuple[Any, Path], tmp_path: Path
) -> None:
    task, file = start
    held = load_file(file)
    change, words = WRONG[what]
    change(held)
    save_file(held, tmp_path / "wrong.safetensors")
    with pytest.raises(UsageError, match=f"--weights is '.*wrong.safetensors': .*{words}"):
        run(settings(task, weights=str(tmp_path / "wrong.safetensors")), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_no_file_of_tensors(start: tuple[Any, Path], tmp_path: Path) -> None:
    task, file = start
    with pytest.raises(UsageError, match=r"--weights is 'x.pt': give a file of tensors"):
        settings(task, weights="x.pt")
    with pytest.raises(UsageError, match=r"--weights is 'none.safetensors': cannot be read"):
        settings(task, weights="none.safetensors")
    file.write_bytes(b"nothing")
    with pytest.raises(UsageError, match="no file of safetensors"):
        run(settings(task, weights=str(file)))


def test_buffers_that_the_file_lacks_are_new(start: tuple[Any, Path]) -> None:
    task, file = start
    held = {name: x for name, x in load_file(file).items() if "running" not in name}
    save_file(held, file)
    config = settings(task, weights=str(file))
    assert not Trainer(config, ClientData.of(config)).buffers.initial["1.running_mean"].any()


def tied() -> nn.Module:
    """Two layers whose weights are one tensor."""
    made = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 3))
    made[2].weight = made[0].weight
    return made


@pytest.mark.parametrize("names", [("0.weight",), ("2.weight",), ("0.weight", "2.weight")])
def test_tied_weights_stand_under_any_of_their_names(
    names: tuple[str, ...], make_task: Any, tmp_path: Path
) -> None:
    """``save_model`` of safetensors writes one of them, a ``state_dict`` of copies has both."""
    task, file = make_task(build=tied), tmp_path / "start.safetensors"
    held = {name: x.clone() + 1 for name, x in tied().state_dict().items()}
    held["2.weight"] = held["0.weight"].clone()
    left_out = {"0.weight", "2.weight"} - {*names}
    save_file({name: x for name, x in held.items() if name not in left_out}, file)
    config = settings(task, weights=str(file))
    trainer = Trainer(config, ClientData.of(config))
    assert "2.weight" not in trainer.parameters
    assert all(torch.equal(x, held[name]) for name, x in trainer.parameters.items())
    result = run(config, tmp_path / "out")
    model = load_file(tmp_path / "out" / "model.safetensors")
    assert "0.weight" in model and "2.weight" not in model
    load_model(tied(), tmp_path / "out" / "model.safetensors")  # which knows of names that are one
    again = run(settings(task, weights=str(tmp_path / "out" / "model.safetensors")), None)
    assert len(again.rounds) == len(result.rounds)


def test_tied_weights_that_differ_are_refused(make_task: Any, tmp_path: Path) -> None:
    task, file = make_task(build=tied), tmp_path / "start.safetensors"
    held = {name: x.clone() for name, x in tied().state_dict().items()}
    held["2.weight"] += 1
    save_file(held, file)
    with pytest.raises(UsageError, match="--weights .*'0.weight' and '2.weight' differ"):
        run(settings(task, weights=str(file)), tmp_path / "out")
    assert not (tmp_path / "out").exists()
