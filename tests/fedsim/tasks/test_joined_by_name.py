"""Tables and samples are joined by names, and a task's data are those of when it was made."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from fedsim import DataError, Task
from fedsim.tasks import from_csv, from_frame, from_torch

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(40, 3)), columns=["a", "b", "c"]).assign(y=[0, 1] * 20)
TRAIN, TEST = FRAME[:30], FRAME[30:]
PARTS = ("train_x", "train_y", "test_x", "test_y")


def linear() -> nn.Module:
    return nn.Linear(3, 2)


def read(task: Task) -> Any:
    return task.load(None, False)


def of_frames(train: pd.DataFrame, test: pd.DataFrame, folder: Path, **more: Any) -> Any:
    return read(from_frame(train, linear, name="made", label="y", test=test, **more))


def of_files(train: pd.DataFrame, test: pd.DataFrame, folder: Path, **more: Any) -> Any:
    for name, table in (("train", train), ("test", test)):
        table.to_csv(folder / f"{name}.csv", index=False)
    return read(
        from_csv(
            folder / "train.csv", linear, name="made", label="y", test=folder / "test.csv", **more
        )
    )


WAYS = pytest.mark.parametrize("way", [of_frames, of_files])


@WAYS
@pytest.mark.parametrize("order", [["a", "b", "c", "y"], ["y", "c", "b", "a"]])
@pytest.mark.parametrize("named", [{}, {"inputs": ["a", "b", "c"]}])
def test_columns_of_the_test_table_may_have_any_order(
    way: Any, order: list[str], named: Any, tmp_path: Path
) -> None:
    found = way(TRAIN, TEST[order], tmp_path, standardize=False, **named)
    wanted = torch.tensor(TEST[["a", "b", "c"]].to_numpy(), dtype=torch.float32)
    torch.testing.assert_close(found.test_x, wanted)


@WAYS
@pytest.mark.parametrize(
    ("test", "words"),
    [
        (TEST.rename(columns={"a": "d"}), "it lacks: a; it alone has: d.*name the inputs"),
        (TEST.drop(columns="a"), "it lacks: a; it alone has: none"),
        (TEST.assign(d=0.0), "it lacks: none; it alone has: d"),
    ],
)
def test_other_columns_are_refused_unless_inputs_are_named(
    way: Any, test: pd.DataFrame, words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=words):
        way(TRAIN, test, tmp_path)
    if "a" in test:
        assert way(TRAIN, test, tmp_path, inputs=["a", "b", "c"]).test_x.shape == (10, 3)


@WAYS
@pytest.mark.parametrize("twice", ["a", "y"])
def test_two_columns_of_one_name_are_refused(way: Any, twice: str, tmp_path: Path) -> None:
    other = FRAME.rename(columns={"b": twice})
    with pytest.raises(DataError, match=f"has two columns '{twice}'"):
        way(other[:30], other[30:], tmp_path)
    with pytest.raises(DataError, match="inputs has two columns 'a'"):
        way(TRAIN, TEST, tmp_path, inputs=["a", "a", "c"])


def test_a_file_whose_rows_have_more_fields_than_names_is_refused(tmp_path: Path) -> None:
    """pandas takes the first of them for an index, and every name moves by a column."""
    (tmp_path / "more.csv").write_text("a,b,y\n" + "1,2,3,0\n2,3,4,1\n" * 5)
    with pytest.raises(DataError, match="more fields than its first line has names.*a, b, y"):
        read(from_csv(tmp_path / "more.csv", linear, name="made", label="y"))


class Rows:
    """Rows whose one input has a name of its own."""

    def __init__(self, column: str) -> None:
        self.column = column

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return {self.column: [float(index)], "label": index % 2}


def test_rows_of_the_test_set_have_the_training_set_s_column() -> None:
    assert read(from_torch(Rows("x"), Rows("x"), linear, name="made")).test_x.shape == (4, 1)
    with pytest.raises(DataError, match="inputs is 'x'; the columns are z, label"):
        read(from_torch(Rows("x"), Rows("z"), linear, name="made"))


class Folder(TensorDataset):
    """What is in a folder per class, as torchvision numbers them."""

    def __init__(self, *classes: str) -> None:
        super().__init__(torch.ones(6, 3), torch.arange(6) % len(classes))
        self.class_to_idx = {name: i for i, name in enumerate(classes)}


def test_two_folders_number_their_classes_alike() -> None:
    same = from_torch(Folder("cat", "dog"), Folder("cat", "dog"), linear, name="made")
    assert read(same).test_y.tolist() == [0, 1] * 3
    with pytest.raises(DataError, match=r"train numbers .*'dog': 1.* and test \{'dog': 0"):
        read(from_torch(Folder("cat", "dog"), Folder("dog"), linear, name="made"))


class Held:
    """A data set of a user's own, over an array that may be written into."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], self.y[index]


def frame() -> tuple[Task, Any]:
    made = FRAME.copy()
    task = from_frame(made, linear, name="made", label="y")
    return task, lambda: made.__setitem__("y", 0)


def frame_held_out() -> tuple[Task, Any]:
    held = TEST.copy()
    task = from_frame(TRAIN, linear, name="made", label="y", test=held)
    return task, lambda: held.__setitem__("a", 7.0)


def tensors() -> tuple[Task, Any]:
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    return from_torch(TensorDataset(x, y), 0.2, linear, name="made"), lambda: y.fill_(0)


def arrays() -> tuple[Task, Any]:
    x, y = RNG.normal(size=(20, 3)), np.arange(20) % 2
    return from_torch(Held(x, y), Held(x, y), linear, name="made"), lambda: y.fill(0)


def pairs() -> tuple[Task, Any]:
    given = [([float(i), 0.0, 1.0], i % 2) for i in range(20)]
    return from_torch(given, 0.2, linear, name="made"), lambda: given.reverse()


def groups() -> tuple[Task, Any]:
    members = ["one", "two"] * 10
    given = [([float(i), 0.0, 1.0], i % 2) for i in range(20)]
    task = from_torch(given, given, linear, name="made", groups=members)
    return task, lambda: members.sort()


def inputs() -> tuple[Task, Any]:
    columns = ["a", "b"]
    task = from_frame(FRAME, linear, name="made", label="y", inputs=columns)
    return task, lambda: columns.reverse()


@pytest.mark.parametrize(
    "made",
    [frame, frame_held_out, tensors, arrays, pairs, groups, inputs],
    ids=lambda made: made.__name__,
)
@pytest.mark.parametrize("read_before", [True, False])
def test_what_changes_after_the_call_changes_no_task(made: Any, read_before: bool) -> None:
    torch.manual_seed(0)
    task, change = made()
    torch.manual_seed(0)
    before = read(task) if read_before else read(made()[0])
    change()
    read(from_frame(FRAME, linear, name="other", label="y"))  # one data set stays in memory
    after = read(task)
    if made is not arrays or read_before:  # of which each call draws its own
        for part in PARTS:
            assert torch.equal(getattr(before, part), getattr(after, part)), part
    assert len(after.train_y.unique()) == 2
    assert (before.labels is None) == (after.labels is None)
    assert before.labels is None or torch.equal(before.labels, after.labels)


def test_steps_of_the_rate_are_those_of_when_the_task_was_made() -> None:
    steps = [(10, 0.1)]
    task = from_frame(FRAME, linear, name="made", label="y", lr_steps=steps)
    steps.append((20, 0.01))
    assert task.lr_steps == ((10, 0.1),)
