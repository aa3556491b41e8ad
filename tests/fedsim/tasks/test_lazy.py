"""Samples that are read when a batch needs them: which, how often, and how many at once."""

import gc
import os
import random
import re
import subprocess
import sys
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from fedsim import Data, DataError, RunConfig, Task, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.tasks import from_datasets, from_torch, lazy_data
from fedsim.tasks.base import check_data
from fedsim.tasks.data.lazy import Lazy
from fedsim.tasks.datacache import load_data
from tests.support.encoders import Encoder, Sentences, padded
from tests.support.markdown import ROOT
from tests.support.runs import assert_same, rounds
from tests.support.together import Together

SETTINGS: dict[str, Any] = {"method": "sbc(0.1)", "temporal": 2, "iterations": 4, "clients": 2}


def ran(out: Path, task: Task, **settings: Any) -> Path:
    run(RunConfig.of(task=task, **(SETTINGS | settings)), out, progress=False)
    return out


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 2))


class Folder(Dataset[tuple[Tensor, int]]):
    """Image files, light and dark, as tensors; counts those that are read and are still there."""

    there = 0
    most = 0
    read = 0

    def __init__(self, place: Path) -> None:
        self.files = sorted(place.glob("*.png"))
        self.targets = [i % 2 for i in range(len(self.files))]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = np.asarray(Image.open(self.files[index]).convert("RGB"), np.float32)
        made = torch.from_numpy(image.transpose(2, 0, 1) / 255)
        Folder.there += 1
        Folder.read += 1
        Folder.most = max(Folder.most, Folder.there)
        weakref.finalize(made, self._gone)
        return made, self.targets[index]

    @staticmethod
    def _gone() -> None:
        Folder.there -= 1


def folder(place: Path, count: int) -> Path:
    """So many images of 4 x 4, every second one light."""
    place.mkdir()
    draw = np.random.default_rng(0)
    for i in range(count):
        pixels = draw.integers(0, 128, (4, 4, 3), dtype=np.uint8) + np.uint8(128 * (i % 2))
        Image.fromarray(pixels).save(place / f"{i:06}.png")
    return place


def folder_task(place: Path, **options: Any) -> Task:
    usual: dict[str, Any] = {"batch_size": 8, "evaluation_batch": 20}
    return from_torch(partial(Folder, place), 0.25, linear, name="folder", **(usual | options))


def test_a_folder_of_images_is_never_whole_in_memory(tmp_path: Path) -> None:
    """Training and evaluation hold a batch: of 400 files 20 at most, and the model is the same."""
    place = folder(tmp_path / "images", 400)
    one = ran(tmp_path / "one", folder_task(place), evaluate_every=1)
    gc.collect()
    Folder.there = Folder.most = Folder.read = 0
    task = folder_task(place, lazy=True)
    other = ran(tmp_path / "other", task, evaluate_every=1)
    assert_same(one, other)
    assert Folder.most <= 20 < Folder.read
    data, index, noise = load_data(task, None, False).data, torch.arange(16), torch.Generator()
    Folder.read = 0
    assert torch.equal(data.batch(index, noise)[0], data.batch(index, noise)[0])
    assert Folder.read == 32 and Folder.there == 0


@pytest.mark.slow
@pytest.mark.processes
def test_memory_does_not_grow_with_the_data_set() -> None:
    """2,400 files are 450 MiB of tensors; a process of its own, whose peak is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.manyfiles", "2400"],
        cwd=ROOT,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"2400 files, 450 MiB, grown by (\d+) MiB\n", done.stdout)
    assert found and int(found[1]) < 225, done.stdout


def test_padded_batches_train_through_a_loader(tmp_path: Path, together: Together) -> None:
    """Each batch has a length of its own; what a sentence comes to does not depend on it."""
    uneven, even = (Sentences(120, padded) for padded in (False, True))
    one = from_torch(even, 0.25, Encoder, name="films", batch_size=8)
    other = from_torch(
        DataLoader(uneven, shuffle=True, collate_fn=padded),
        0.25,
        Encoder,
        name="films",
        batch_size=8,
    )
    data: Data = other.load(None, False)
    x, y = data.batch(torch.tensor([5, 3]), torch.Generator())
    lengths = x["attention_mask"].sum(1).tolist()
    assert x["input_ids"].shape == (2, max(lengths)) and y.tolist() == [
        data.read_train(torch.tensor([i]))[1].item() for i in (5, 3)
    ]
    settings: dict[str, Any] = {"method": "raw", "evaluate_every": 1, "validation": 0.2}
    frames = [
        rounds(ran(tmp_path / name, task, **settings)) for name, task in (("a", one), ("b", other))
    ]
    np.testing.assert_allclose(frames[0]["loss"], frames[1]["loss"], rtol=1e-4)
    together(2)
    assert_same(tmp_path / "b", ran(tmp_path / "c", other, **settings))


class Noisy(Dataset[tuple[Tensor, int]]):
    """Samples with noise from one of the global generators."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        draws = {
            "torch": lambda: torch.rand(48),
            "numpy": lambda: torch.from_numpy(np.random.rand(48)).float(),
            "random": lambda: torch.tensor([random.random() for _ in range(48)]),
        }
        return draws[self.kind]() + index % 2, index % 2


@pytest.mark.parametrize("kind", ["torch", "numpy", "random"])
def test_what_a_transform_draws_is_new_in_each_batch_and_alike_in_each_run(
    kind: str, tmp_path: Path
) -> None:
    task = from_torch(partial(Noisy, kind), 0.25, linear, name="noisy", lazy=True, batch_size=30)
    outs = []
    for i in range(2):
        random.seed(i)
        np.random.seed(i)
        torch.manual_seed(i)
        outs.append(ran(tmp_path / str(i), task, partition="whole", clients=1, keep_payloads=True))
        assert random.random() == random.Random(i).random()
        assert torch.rand(()) == torch.rand((), generator=torch.Generator().manual_seed(i))
    assert_same(*outs)
    data: Data = task.load(None, False)
    index, noise = torch.arange(4), torch.Generator()
    first, second = (data.batch(index, noise.manual_seed(seed))[0] for seed in (1, 2))
    assert not torch.equal(first, second)


def test_images_in_bytes_are_numbers_from_0_to_1() -> None:
    pixels = np.zeros((2, 3, 3), np.uint8)
    pixels[0, 1] = 51, 102, 255
    x, y = Lazy("mine", [(Image.fromarray(pixels), True)]).batch(torch.tensor([0]))
    assert x.shape == (1, 3, 2, 3) and y.dtype == torch.int64
    torch.testing.assert_close(x[0, :, 0, 1], torch.tensor([0.2, 0.4, 1.0]))


def test_partitions_go_by_what_is_given(tmp_path: Path) -> None:
    """No sample is read for it."""
    place = folder(tmp_path / "images", 40)
    task = folder_task(place, lazy=True, groups=lambda images: images.targets)
    Folder.read = 0
    data = ClientData.of(RunConfig.of(task=task, clients=2, partition="natural"))
    held = [{int(data.data.labels[i]) for i in shard} for shard in data.shards]  # type: ignore[index]
    assert held == [{0}, {1}] or held == [{1}, {0}]
    numbers = data.data.train_x.numbers
    assert data.data.labels.tolist() == [int(i) % 2 for i in numbers]  # type: ignore[union-attr]
    assert Folder.read <= 2 * 40  # some, for a digest: their number is that of so small a folder
    with pytest.raises(UsageError, match="--partition is 'dirichlet"):
        ClientData.of(RunConfig.of(task=folder_task(place, lazy=True), partition="dirichlet(1)"))


def test_augmented_batches_draw_from_the_step_s_generator(tmp_path: Path) -> None:
    def noise(x: Tensor, generator: torch.Generator) -> Tensor:
        return x + torch.rand(x.shape, generator=generator)

    place = folder(tmp_path / "images", 40)
    one = ran(tmp_path / "one", folder_task(place, augment=noise))
    assert_same(one, ran(tmp_path / "other", folder_task(place, augment=noise, lazy=True)))


def test_a_digest_sees_other_samples() -> None:
    def content(*labels: int) -> str:
        rows = [([float(i)], y) for i, y in enumerate(labels)]
        return load_data(from_torch(rows, 0.5, linear, name="mine", lazy=True), None, False).content

    assert content(0, 1, 0, 1) == content(0, 1, 0, 1)
    assert len({content(0, 1, 0, 1), content(1, 1, 0, 1), content(0, 1, 0, 1, 0, 1)}) == 3


def test_an_own_load_returns_it(make_data: Any, tmp_path: Path) -> None:
    rows = [([float(i), 1.0], i % 2) for i in range(20)]

    def load(given: Path | None, download: bool) -> Data:
        return make_data(rows)

    task = Task(
        "mine",
        partial(nn.Linear, 2, 2),
        load,
        partial(torch.optim.SGD, lr=0.1),
        nn.functional.cross_entropy,
        lambda outputs, y: (outputs.argmax(1) == y).sum(),
    )
    ran(tmp_path, task)
    data = load_data(task, None, False).data
    assert data.labels is not None and data.labels.tolist() == [0, 1] * 10


@pytest.fixture
def make_data() -> Any:
    def made(rows: Any) -> Data:
        return lazy_data(rows, rows[:4], "made up", name="mine", labels=["a", "b"] * 10)

    return made


def test_rows_of_datasets_stay_in_their_file(tmp_path: Path) -> None:
    """A transform makes a dict of a row's text; lazily and in memory it is the same."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    rows = {"text": ["good film", "bad play"] * 20, "label": [1, 0] * 20, "by": ["x", "y"] * 20}
    datasets.Dataset.from_dict(rows).save_to_disk(tmp_path / "texts")

    def tokens(text: str) -> dict[str, list[int]]:
        ids = [len(word) for word in text.split()]
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}

    outs = [
        ran(
            tmp_path / str(lazy),
            from_datasets(
                tmp_path / "texts",
                Encoder,
                name="texts",
                test=0.25,
                transform=tokens,
                inputs="text",
                lazy=lazy,
                groups=lambda split: split["by"],
            ),
            partition="natural",
        )
        for lazy in (False, True)
    ]
    assert_same(*outs)


# ---- what is refused


class Broken(Sentences):
    def __getitem__(self, index: int) -> Any:
        if index == 7:
            raise OSError("truncated file")
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        (Broken(12), r"sample 7 cannot be read \(OSError: truncated file\)"),
        (Sentences(12, padded=False), "samples 7, 1 make no batch .* collate_fn"),
        ([([1.0], "a word")] * 12, "the target of sample 7 is 'a word'.*number"),
        ([([1.0],)] * 12, "sample 7 is of type tuple"),
        ([({"a": "x"}, 1)] * 12, r"the input \['a'\] of sample 7 is 'x'"),
    ],
)
def test_samples_that_make_no_batch(dataset: Any, words: str) -> None:
    with pytest.raises(DataError, match=f"task mine: {words}"):
        Lazy("mine", dataset).batch(torch.tensor([7, 1]))


def test_a_collate_that_makes_no_batch() -> None:
    lazy = Lazy("mine", Sentences(4), collate=lambda rows: torch.zeros(2))
    with pytest.raises(DataError, match="collate returned Tensor; it returns a tuple"):
        lazy.batch(torch.tensor([0]))


def test_options_that_do_not_fit() -> None:
    with pytest.raises(UsageError, match="groups is 'writer'.*lambda rows"):
        from_torch(Sentences, 0.25, Encoder, name="films", lazy=True, groups="writer").load(
            None, False
        )
    with pytest.raises(DataError, match=r"groups has the shape \(2,\)"):
        lazy_data(Sentences(9), 0.5, "made up", name="mine", labels=[0, 1])
    with pytest.raises(DataError, match="test is 0.01, 0 of 9 samples"):
        lazy_data(Sentences(9), 0.01, "made up", name="mine")
    lazy, y = Lazy("mine", Sentences(9)), torch.zeros(9)
    with pytest.raises(DataError, match=r"train_y is a torch.Tensor, and train_x is Lazy"):
        check_data("mine", Data(lazy, y, lazy, None, "made up"))
