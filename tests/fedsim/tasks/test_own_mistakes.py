"""A task of a user's own that cannot be, and rounds that fail of its data: told by the field."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from fedsim import Data, DataError, RunConfig, RunFailed, Task, Training, UsageError, run
from fedsim.tasks.base import check_data, correct
from tests.support.owntasks import MODEL, X, Y, holding


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"build": MODEL},
            "build is a model (Sequential); give a function that makes a new model: lambda: ",
        ),
        (
            {"optimizer": SGD(MODEL.parameters(), lr=0.1)},
            "optimizer is an optimizer (SGD); give a function that makes an optimizer: lambda",
        ),
        (
            {"load": lambda: 1},
            "load is called as load(folder, download), and <lambda> does not take that: too many",
        ),
        ({"build": lambda data: MODEL}, "build is called as build(), and <lambda> does not take"),
        ({"build": lambda: MODEL, "from_data": True}, "build is called as build(data), and "),
        ({"loss": lambda outputs: 0}, "loss is called as loss(outputs, targets), and <lambda>"),
        ({"loss": nn.MSELoss}, "loss is the class MSELoss; give an instance: MSELoss()"),
        ({"metric": None}, "metric is None; give a function, metric(outputs, targets)"),
        ({"load": holding()}, "give a function, load(folder, download)"),
        ({"name": "a/b"}, "name is 'a/b'"),
        ({"name": ""}, "name is ''"),
        ({"metric": "accuracy"}, "metric is 'accuracy'; give a function"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"lr_steps": (100, 0.1)}, "lr_steps is (100, 0.1); give pairs (first iteration, factor)"),
        ({"lr_steps": ((100, "0.1"),)}, "lr_steps is ((100, '0.1'),); give pairs"),
        ({"lr_steps": ((100, 0.1), (50, 0.5))}, "lr_steps is ((100, 0.1), (50, 0.5)); give pairs"),
        ({"lr_steps": ((100, -0.1),)}, "lr_steps is ((100, -0.1),); give pairs"),
    ],
)
def test_a_field_that_is_no_such_function(
    fields: dict[str, Any], words: str, make_task: Any
) -> None:
    with pytest.raises(UsageError) as error:
        replace(make_task(), **fields)
    assert words in str(error.value)


def test_functions_that_do_not_tell_what_they_take(make_task: Any) -> None:
    """Classes, builtins, modules, partial functions."""
    task = make_task(
        build=nn.Identity,
        optimizer=Adam,
        loss=nn.CrossEntropyLoss(),
        metric=max,
        reported=partial(round, ndigits=2),
    )
    assert isinstance(replace(task, metric=correct), Task)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"train_x": X.numpy()}, "train_x is a numpy.ndarray; give a torch tensor (torch.from_n"),
        ({"train_y": Y.numpy()}, "train_y is a numpy.ndarray; give a torch tensor (torch.from_n"),
        ({"labels": Y.numpy()}, "labels is a numpy.ndarray; give a torch tensor (torch.from_n"),
        ({"test_x": pd.DataFrame(X)}, "tensor (torch.from_numpy of its .to_numpy())"),
        ({"test_y": Y.tolist()}, "test_y is a list; give a torch tensor (torch.tensor)"),
        ({"test_y": Y[0]}, "test_y is a single number; its rows are the samples"),
        ({"train_y": None}, "train_y is a NoneType; give a torch tensor"),
        ({"train_x": [1.0]}, "train_x is a list; give a torch tensor"),
        ({"train_y": Y[:7]}, "train_x has 60 samples and train_y 7"),
        ({"labels": Y[:3]}, "train_x has 60 samples and labels 3"),
        ({"test_x": X[:0], "test_y": Y[:0]}, "test_x has no samples; it has one or more"),
    ],
)
def test_data_that_cannot_be(fields: dict[str, Any], words: str) -> None:
    data = replace(Data(X, Y, X, Y, "made up"), **fields)
    with pytest.raises(DataError) as error:
        check_data("mine", data)
    assert words in str(error.value) and str(error.value).startswith("task mine: ")
    with pytest.raises(DataError, match="load returned tuple; it returns fedsim.Data"):
        check_data("mine", (X, Y))


# ---- rounds that fail


def test_a_run_that_diverges_says_why(make_task: Any, tmp_path: Path) -> None:
    task = make_task(build=lambda: nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3)))
    config = RunConfig(task=task, temporal=3, training=Training(lr=1e30))
    with pytest.raises(RunFailed) as error:
        run(config, tmp_path)
    assert str(error.value).endswith(
        "holds NaN or infinity: no message can carry it (round 1, training loss nan: the data hold "
        "NaN or infinity, or the learning rate, --lr, is too high)"
    )


def test_nan_that_the_first_batch_does_not_meet(make_task: Any, tmp_path: Path) -> None:
    x = X.clone()
    x[:48][torch.rand(48, generator=torch.Generator().manual_seed(4)) < 0.1] = float("nan")
    task = make_task(**holding(x))
    config = RunConfig.of(task=task, method="raw", temporal=12, min_replies=3)
    with pytest.raises(RunFailed, match=r"round 1, training loss nan: the data hold NaN"):
        run(config, tmp_path)
