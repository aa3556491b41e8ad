"""Batches of tensors, tuples and dicts are the same to a run: bits, weights, scores."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.utils.data import TensorDataset

from fedsim import Data, DataError, RunConfig, Task, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.tasks import from_frame, from_torch
from fedsim.tasks.base import check_data
from fedsim.tasks.data.samples import memory_digest
from fedsim.tasks.pytrees import forward, map_leaves
from tests.support.encoders import Encoder, Sentences
from tests.support.owntasks import X, Y
from tests.support.runs import assert_same, rounds
from tests.support.together import Together


class Joined(nn.Module):
    """A linear layer of whatever it is called with, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, *inputs: Tensor, **named: Tensor) -> dict[str, Tensor]:
        return {"logits": self.linear(torch.cat([*inputs, *named.values()], dim=1))}


LEFT, RIGHT = X[:, :2], X[:, 2:]
PAIRS = {
    "a tensor": [(x, int(y)) for x, y in zip(X, Y, strict=True)],
    "a tuple": [((a, b), int(y)) for a, b, y in zip(LEFT, RIGHT, Y, strict=True)],
    "several before the target": TensorDataset(LEFT, RIGHT, Y),
    "a dict": [({"a": a, "b": b}, int(y)) for a, b, y in zip(LEFT, RIGHT, Y, strict=True)],
    "a row": [{"a": a, "b": b, "label": int(y)} for a, b, y in zip(LEFT, RIGHT, Y, strict=True)],
    "a row with labels": [
        {"labels": int(y), "a": a.tolist(), "b": b.numpy()}
        for a, b, y in zip(LEFT, RIGHT, Y, strict=True)
    ],
}
SETTINGS: dict[str, Any] = {"method": "sbc(0.2)", "temporal": 3, "clients": 2, "iterations": 9}


def made(train: Any, **options: Any) -> Task:
    usual: dict[str, Any] = {"batch_size": 4, "optimizer": partial(SGD, lr=0.1, momentum=0.9)}
    return from_torch(train, 0.25, Joined, name="made", **(usual | options))


def ran(out: Path, task: Task, **settings: Any) -> Path:
    run(
        RunConfig.of(task=task, **(SETTINGS | {"evaluate_every": 1} | settings)),
        out,
        progress=False,
    )
    return out


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the same numbers in one tensor."""
    return ran(tmp_path_factory.mktemp("one"), made(PAIRS["a tensor"]), keep_payloads=True)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", [kind for kind in PAIRS if kind != "a tensor"])
def test_a_run_has_the_bits_of_one_tensor(
    kind: str, lazy: bool, reference: Path, tmp_path: Path
) -> None:
    """Training, evaluation and what is tried before; in memory, and read batch by batch."""
    ran(tmp_path, made(PAIRS[kind], lazy=lazy), keep_payloads=True)
    assert_same(reference, tmp_path)


@pytest.mark.parametrize("settings", [{"validation": 0.2}, {"evaluate_clients": 0.3}])
def test_training_samples_are_scored_as_one_tensor_is(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    one = ran(tmp_path / "one", made(PAIRS["a tensor"]), **settings)
    for i, lazy in enumerate((False, True)):
        other = ran(tmp_path / str(i), made(PAIRS["a row"], lazy=lazy), **settings)
        assert_same(one, other)


def test_clients_train_at_once_on_dicts(tmp_path: Path, together: Together) -> None:
    one = ran(tmp_path / "one", made(PAIRS["a tensor"]))
    together(2)
    assert_same(one, ran(tmp_path / "other", made(PAIRS["a dict"])))


def test_targets_may_be_several_too(tmp_path: Path) -> None:
    rows = [(x, {"half": float(x[0]) / 2, "place": (x[1:3], 1)}) for x in X]

    def loss(outputs: dict[str, Tensor], y: dict[str, Any]) -> Tensor:
        near = (outputs["logits"][:, 0] - y["half"]).square().mean()
        return near + (outputs["logits"][:, 1:] - y["place"][0]).square().mean()

    def metric(outputs: dict[str, Tensor], y: dict[str, Any]) -> Tensor:
        return (outputs["logits"][:, 0] - y["half"]).square().sum() * y["place"][1][0]

    for i, lazy in enumerate((False, True)):
        task = made(rows, lazy=lazy, loss=loss, metric=metric, optimizer=partial(SGD, lr=0.02))
        ran(tmp_path / str(i), task, method="raw")
    assert_same(tmp_path / "0", tmp_path / "1")
    assert rounds(tmp_path / "0")["metric"].is_monotonic_decreasing


def test_an_encoder_learns_from_dicts(tmp_path: Path) -> None:
    """Rows of a tokenizer, and an output that has ``logits``; the defaults do."""
    task = from_torch(
        partial(Sentences, 400),
        0.25,
        Encoder,
        name="films",
        batch_size=16,
        optimizer=partial(Adam, lr=0.01),
    )
    frame = rounds(
        ran(tmp_path, task, method="sbc(0.05)", temporal=10, iterations=60, evaluate_every=6)
    )
    assert frame["metric"].iloc[-1] > 0.75


def test_an_own_loss_is_given_what_the_model_returned(tmp_path: Path) -> None:
    kinds = set()

    def loss(outputs: Any, y: Tensor) -> Tensor:
        kinds.add(type(outputs).__name__)
        return nn.functional.cross_entropy(outputs.logits, y)

    def metric(outputs: Any, y: Tensor) -> Tensor:
        return (outputs.logits.argmax(1) == y).sum()

    task = from_torch(Sentences, 0.25, Encoder, name="films", loss=loss, metric=metric)
    ran(tmp_path, task, iterations=3)
    assert kinds == {"Output"}


def test_a_table_s_columns_may_be_several_inputs() -> None:
    frame = pd.DataFrame({"a": range(20), "b": range(20, 40), "odd": [0, 1] * 10})
    one = from_frame(frame, Joined, name="made", label="odd").load(None, False)
    data = from_frame(
        frame, Joined, name="made", label="odd", inputs={"x": "b", "more": ["a"]}
    ).load(None, False)
    assert [*data.train_x] == ["x", "more"] and data.train_count == 16
    assert torch.equal(data.train_x["more"], one.train_x[:, :1])
    assert torch.equal(data.test_x["x"], one.test_x[:, 1:])


def test_a_digest_knows_which_input_is_which() -> None:
    inputs = {"a": X, "b": -X}, {"a": -X, "b": X}, {"b": X, "a": -X}
    assert len({memory_digest(Data(x, Y, x, Y, "made up")) for x in inputs}) == 3


def test_a_model_is_called_by_name_and_by_place() -> None:
    class Difference(nn.Module):
        def forward(self, a: Any, b: Any = 1) -> Any:
            return a - b

    one, other = torch.tensor(5), torch.tensor(3)
    assert forward(Difference(), {"b": one, "a": other}) == -2
    assert forward(Difference(), (one, other)) == forward(Difference(), [one, other]) == 2
    assert forward(Difference(), one) == 4


class Point(NamedTuple):
    x: Any
    y: Any


def test_a_named_tuple_keeps_its_names() -> None:
    assert map_leaves(lambda x: x + 1, {"p": Point(1, [2])}) == {"p": Point(2, (3,))}
    with pytest.raises(ValueError, match="entries"):
        map_leaves(lambda x, y: x, {"a": 1}, {"b": 1})


# ---- what is refused


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"train_x": {"a": X, "b": X[:7]}}, r"train_x\['a'\] has 60 samples and train_x\['b'\] 7"),
        ({"train_x": (X, X.numpy())}, r"train_x\[1\] is a numpy.ndarray; give a torch tensor"),
        ({"train_x": {}}, "train_x is a dict without tensors"),
        ({"test_y": {"a": Y[:3]}}, "test_x has 60 samples and test_y 3"),
    ],
)
def test_trees_that_cannot_be(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        usual = {"train_x": X, "train_y": Y, "test_x": X, "test_y": Y, "source": ""}
        check_data("mine", Data(**(usual | fields)))


def named(model: Callable[..., Any]) -> type[nn.Module]:
    class Called(Joined):
        def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
            return model(super().forward(*inputs, **named))

    return Called


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (
            "a dict",
            {"model": lambda: nn.Linear(6, 3)},
            r"model\(\*\*x\).*fails.*train_x\['a'\] is float32 \(45, 2\), "
            r"train_x\['b'\] is float32",
        ),
        ("a tuple", {"model": lambda: nn.Linear(6, 3)}, r"model\(\*x\), of build's model, fails"),
        (
            "a dict",
            {"model": named(lambda out: {"scores": out["logits"]})},
            r"loss\(model\(\*\*x\), y\) fails .* KeyError: 'logits'",
        ),
        (
            "a late class",
            {"model": named(lambda out: {"logits": out["logits"][:, :2]})},
            "_y holds the classes 0 to 2, and build's model has 2 outputs",
        ),
    ],
)
def test_a_model_that_does_not_take_them(
    kind: str, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    late = [({"a": x[:2], "b": x[2:]}, 2 * (i == 7)) for i, x in enumerate(X)]
    train = late if kind == "a late class" else PAIRS[kind]
    task = from_torch(train, 0.25, options["model"], name="made", batch_size=4)
    with pytest.raises(UsageError, match=words):
        ran(tmp_path, task)


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ([({"a": [1.0], "b": "x"}, 0)] * 8, r"the input \['b'\] of sample 0 is 'x'"),
        ([({"a": np.ones(2)}, 0), ({"a": np.ones(3)}, 0)] * 4, r"sample 1 is \['a'\] torch"),
        ([({"a": [1.0]}, 0), ({"b": [1.0]}, 0)] * 4, "input of sample 1 is .*'b'"),
        ([([1.0], {"a": 0}), ([1.0], {"a": 1})] * 4, "a target is dict of several"),
        ([{"label": 0}] * 8, "there is no column beside 'label'"),
    ],
)
def test_samples_that_make_no_tree(train: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        made(train).load(None, False)


def test_the_feature_partition_averages_one_tensor() -> None:
    config = RunConfig.of(task=made(PAIRS["a dict"]), partition="feature")
    with pytest.raises(UsageError, match="--partition is 'feature'"):
        ClientData.of(config)
