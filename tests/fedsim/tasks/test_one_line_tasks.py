"""Tasks of one line: data sets of torch, folders of `datasets`, CSV files."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from fedsim import TASKS, Clients, DataError, RunConfig, Task, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.tasks import from_csv, from_datasets, from_frame, from_torch
from fedsim.tasks.datacache import load_data
from tests.support.markdown import ROOT, blocks

PYTHON = [b.text for b in blocks(ROOT / "docs" / "own-data.md") if b.language == "python"]
PETS, MARKS, WARDS = (
    next(text for text in PYTHON if f"{make}(" in text)
    for make in ("from_torch", "from_datasets", "from_csv")
)
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (40, 6, 5, 3), dtype=np.uint8)
LABELS = np.arange(40) % 4


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; tasks that a test adopts are out of the table again."""
    monkeypatch.chdir(tmp_path)
    before = dict(TASKS)
    yield tmp_path
    for name in set(TASKS) - set(before):
        del TASKS[name]


class Pairs:
    """A map-style data set without torch's class."""

    def __init__(self, xs: Any, ys: Any, transform: Callable[[Any], Any] = lambda x: x) -> None:
        self.xs, self.ys, self.transform = xs, ys, transform

    def __len__(self) -> int:
        return len(self.ys)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.transform(self.xs[index]), self.ys[index]


class Rows(Pairs):
    """The same as rows with named columns."""

    def __getitem__(self, index: int) -> Any:
        return {"pixels": self.xs[index], "label": self.ys[index], "writer": f"w{index % 3}"}


class Stream(IterableDataset[Any]):
    """Samples without numbers."""

    def __iter__(self) -> Iterator[Any]:
        return iter([])


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(90, 4))


def made(train: Any = None, test: Any = 0.25, **options: Any) -> Task:
    train = Pairs(IMAGES, LABELS) if train is None else train
    return from_torch(train, test, options.pop("model", linear), name="made", **options)


def read(task: Task, folder: Path | None = None) -> Any:
    return task.load(folder, False)


# ---- what is read


@pytest.mark.parametrize("given", [Image.fromarray, np.asarray, torch.from_numpy])
def test_images_stay_bytes_and_are_normalised_by_the_training_images(given: Any) -> None:
    xs = [given(i) for i in IMAGES]
    if given is torch.from_numpy:
        xs = [x.permute(2, 0, 1) for x in xs]
    data = read(made(Pairs(xs[:30], LABELS[:30]), Pairs(xs[30:], LABELS[30:])))
    assert data.train_x.stored.dtype == torch.uint8
    x = data.train_x[:]
    assert x.shape == (30, 3, 6, 5)
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std((0, 2, 3), correction=0), torch.ones(3))
    pixels = IMAGES[:30].astype(np.float64) / 255
    wanted = (IMAGES[30, 2, 4] / 255 - pixels.mean((0, 1, 2))) / pixels.std((0, 1, 2))
    np.testing.assert_allclose(data.test_x[0][:, 2, 4], wanted, rtol=1e-4)
    assert data.train_y.tolist() == LABELS[:30].tolist()


def test_grey_images_have_one_channel() -> None:
    data = read(made(Pairs([Image.fromarray(i[..., 0]) for i in IMAGES], LABELS)))
    assert data.train_x[:2].shape == (2, 1, 6, 5)


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.float32])
def test_images_that_are_no_bytes_are_refused(kind: Any) -> None:
    """Their conversion to bytes cuts off whatever is above 255, or below 1."""
    images = [Image.fromarray(i[..., 0].astype(kind) * kind(200)) for i in IMAGES]
    with pytest.raises(DataError, match="input of sample 0 is an image of mode .*transform"):
        read(made(Pairs(images, LABELS)))
    data = read(made(Pairs(images, LABELS, lambda x: np.array(x, np.float32)[None] / 51000)))
    assert data.train_x.shape[1:] == (1, 6, 5) and len(data.train_x.unique()) > 200


def test_a_channel_that_never_changes_is_zero() -> None:
    images = IMAGES.copy()
    images[..., 1] = 7
    other = images[:4].copy()
    other[..., 1] = 8
    data = read(made(Pairs(images, LABELS), Pairs(other, LABELS[:4])))
    assert data.train_x[:][:, 1].abs().max() < 1e-6
    torch.testing.assert_close(data.test_x[:][:, 1], torch.full((4, 6, 5), 1 / 255))


def test_numbers_are_float32_and_symbols_int64() -> None:
    assert read(made(Pairs(np.ones((8, 3)), LABELS[:8]))).train_x.dtype == torch.float32
    data = read(made(TensorDataset(torch.arange(32).view(8, 4), torch.arange(32).view(8, 4))))
    assert (data.train_x.dtype, data.train_y.shape) == (torch.int64, (6, 4))


def test_a_fraction_holds_out_the_same_samples_in_every_run() -> None:
    xs = np.arange(40.0)[:, None]
    first, second = (read(made(Pairs(xs, LABELS))) for _ in range(2))
    assert torch.equal(first.test_x, second.test_x) and len(first.test_x) == 10
    every = torch.cat([first.train_x, first.test_x]).flatten()
    assert sorted(every.tolist()) == list(range(40))
    assert first.test_x.flatten().tolist() != list(range(30, 40))


def test_words_are_classes_in_their_order() -> None:
    data = read(made(Pairs(IMAGES, ["dog", "cat"] * 20), Pairs(IMAGES[:2], ["cat", "eel"])))
    assert data.train_y[:2].tolist() == [1, 0] and data.test_y.tolist() == [0, 2]


def test_partitions_go_by_classes_or_by_groups() -> None:
    assert read(made()).groups().tolist() == read(made()).train_y.tolist()
    data = read(made(test=Pairs(IMAGES, LABELS), groups=["b", "a"] * 20))
    assert data.labels.tolist() == [1, 0] * 20
    config = RunConfig(
        task=made(test=Pairs(IMAGES, LABELS), groups=["b", "a"] * 20),
        clients=Clients(2, partition="natural"),
    )
    shards = ClientData.of(config).shards
    assert sorted(sorted({int(i) % 2 for i in shard}) for shard in shards) == [[0], [1]]


def test_rows_have_named_columns() -> None:
    data = read(made(Rows(IMAGES, LABELS), inputs="pixels", groups="writer"))
    assert data.train_x[:1].shape == (1, 3, 6, 5) and sorted(set(data.labels.tolist())) == [0, 1, 2]
    alone = Rows(IMAGES, LABELS)
    data = read(from_torch(alone, 0.5, linear, name="made", inputs="pixels"))
    assert data.labels is None


def test_what_a_transform_draws_is_alike_everywhere_and_moves_nothing_outside() -> None:
    def noisy(x: Any) -> Any:
        return x / 255 + torch.rand(()).item() + np.random.rand()

    torch.manual_seed(5)
    wanted = torch.rand(2)[1]
    torch.manual_seed(5)
    torch.rand(1)
    first = read(made(Pairs(IMAGES, LABELS, noisy)))
    assert torch.rand(()) == wanted
    torch.manual_seed(6)
    assert torch.equal(first.train_x, read(made(Pairs(IMAGES, LABELS, noisy))).train_x)


def test_augment_changes_training_batches_alone() -> None:
    task = made(augment=lambda x, generator: x + torch.rand(len(x), 1, 1, 1, generator=generator))
    data, index = read(task), torch.tensor([3, 1])
    x, y = data.batch(index, torch.Generator().manual_seed(1))
    again, _ = data.batch(index, torch.Generator().manual_seed(1))
    assert torch.equal(x, again) and not torch.equal(x, data.train_x[index])
    assert torch.equal(y, data.train_y[index])


def test_data_are_read_once_in_a_process_and_travel_with_the_task() -> None:
    calls = []

    def dataset() -> Pairs:
        calls.append(1)
        return Pairs(IMAGES, LABELS)

    task = made(dataset)
    first = load_data(task, None, False).data
    assert load_data(task, None, False).data is first and len(calls) == 1
    other = cloudpickle.loads(cloudpickle.dumps(task))
    assert other == task and load_data(other, None, False).data is first and len(calls) == 1
    assert torch.equal(read(other).train_y, first.train_y)
    large = made(lambda: Pairs(np.zeros((40, 3)), LABELS))
    assert len(cloudpickle.dumps(large)) < len(cloudpickle.dumps(made(Pairs(IMAGES, LABELS))))


def test_data_may_come_from_another_task_of_one_line() -> None:
    first = made()

    def dataset() -> TensorDataset:
        data = read(first)
        return TensorDataset(data.train_x[:], data.train_y)

    found: list[Any] = []
    waits = Thread(target=lambda: found.append(read(made(dataset))), daemon=True)
    waits.start()
    waits.join(60)
    assert found and len(found[0].train_x) == 22


# ---- the page's lines


def task_of(text: str, name: str, folder: Path) -> str:
    (folder / f"{name}.py").write_text(text)
    return f"{name}.py:{name}"


def pets(folder: Path) -> str:
    pytest.importorskip("torchvision")
    for i, kind in enumerate(["cat", "dog"] * 10):
        path = folder / "pets" / kind / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((40 + i, 36, 3), 255 * (i % 2), np.uint8)).save(path)
    return task_of(PETS, "pets", folder)


def marks(folder: Path) -> str:
    datasets = pytest.importorskip("datasets")
    x = RNG.normal(size=(60, 8, 8)).astype(np.float32)
    y = np.arange(60) % 10
    x[np.arange(60), 0, y % 8] += 9
    rows = {"grey": x, "label": y, "writer": [f"w{i % 4}" for i in range(60)]}
    whole = datasets.Dataset.from_dict(rows)
    datasets.disable_progress_bars()
    datasets.DatasetDict(train=whole, test=whole).save_to_disk(folder / "marks")
    return task_of(MARKS, "marks", folder)


def wards(folder: Path, **columns: Any) -> str:
    size, pulse = RNG.normal(170, 10, 200), RNG.normal(70, 8, 200)
    ill = np.where(pulse > 70, "yes", "no")
    table = {"size": size, "pulse": pulse, "ill": ill, "hospital": np.arange(200) % 5, **columns}
    rows = zip(*table.values(), strict=True)
    lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
    (folder / "wards.csv").write_text("\n".join(lines) + "\n")
    return task_of(WARDS, "wards", folder)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(pets, marks=pytest.mark.slow), marks, wards],  # torchvision comes slowly
)
def test_a_run_takes_the_page_s_line(kind: Callable[[Path], str], folder: Path) -> None:
    config = RunConfig.of(
        task=kind(folder),
        method="sbc(0.1)",
        temporal=2,
        iterations=4,
        clients=2,
        partition="dirichlet(1)",
    )
    summary = run(config, folder / "out", progress=False).summary
    assert summary["task"] == kind.__name__ and summary["clients"] == 2
    assert "all of them sha256" in summary["data_source"]


def test_a_digest_is_of_all_that_is_trained_and_scored() -> None:
    """Tasks of one name whose targets or test samples differ are not taken for the same."""
    frame = pd.DataFrame({"a": [float(x) for x in range(20)], "ill": [0, 1] * 10})
    other = frame.assign(ill=frame["ill"].to_numpy()[::-1])
    moved = pd.concat([frame[:10], frame[10:].assign(a=0.5)])
    sources = [
        from_frame(train, lambda: nn.Linear(1, 2), name="mine", label="ill", test=test)
        .load(None, False)
        .source
        for train, test in (
            (frame[:10], frame[10:]),
            (frame[:10], other[10:]),
            (other[:10], frame[10:]),
            (frame[:10], moved[10:]),
        )
    ]
    assert len({*sources}) == 4
    assert all(
        source.partition(" sha256 ")[0] == sources[0].partition(" sha256 ")[0] for source in sources
    )


def test_the_page_s_groups_are_what_natural_goes_by(folder: Path) -> None:
    for place, groups in ((marks(folder), 4), (wards(folder), 5)):
        config = RunConfig.of(task=place, clients=groups, partition="natural")
        data = ClientData.of(config)
        assert data.data.labels is not None
        held = [set(data.data.labels[torch.from_numpy(s)].tolist()) for s in data.shards]
        assert sorted(map(sorted, held)) == [[i] for i in range(groups)]


def test_a_csv_s_columns_are_standardized_over_the_training_rows(folder: Path) -> None:
    data: Any = RunConfig(task=wards(folder)).plan.task.load(None, False)
    assert data.train_x.shape == (160, 2)
    torch.testing.assert_close(data.train_x.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    assert abs(data.test_x.mean()) > 1e-4
    task = from_csv(
        "wards.csv",
        linear,
        name="made",
        label="ill",
        inputs="pulse",
        test="wards.csv",
        standardize=False,
    )
    data = read(task)
    assert data.test_x.shape == (200, 1) and 60 < data.test_x.mean() < 80


def test_columns_are_standardized_before_they_are_float32() -> None:
    """Unix seconds are 128 apart in float32; a constant's mean is not it in float64."""
    frame = pd.DataFrame(
        {"second": 1.7e9 + np.arange(1000), "one": 0.1, "odd": np.arange(1000) % 2}
    )
    data = read(from_frame(frame, linear, name="made", label="odd"))
    assert data.train_x.dtype == data.test_x.dtype == torch.float32
    assert len(data.train_x[:, 0].unique()) == 800 and not data.train_x[:, 1].any()
    torch.testing.assert_close(data.train_x[:, 0].std(correction=0), torch.tensor(1.0))
    raw = read(from_frame(frame, linear, name="made", label="odd", standardize=False))
    assert raw.train_x.dtype == torch.float32


def test_a_path_is_looked_for_in_the_data_folder_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wards(folder)
    (folder / "else").mkdir()
    monkeypatch.chdir(folder / "else")
    task = from_csv("wards.csv", linear, name="made", label="ill")
    assert len(read(task, folder).train_x) == 160
    with pytest.raises(DataError, match=r"wards.csv is not in .*else \(--data DIR"):
        read(task)


def test_another_loss_takes_fractions(folder: Path) -> None:
    wards(folder)
    task = from_csv(
        "wards.csv",
        lambda: nn.Sequential(nn.Linear(1, 1), nn.Flatten(0)),
        name="made",
        label="size",
        inputs=["pulse"],
        loss=nn.functional.mse_loss,
        metric=lambda outputs, targets: (outputs - targets).abs().sum(),
    )
    assert read(task).train_y.dtype == torch.float32


@pytest.mark.parametrize("column", ["label", "groups"])
def test_none_and_na_are_words_of_classes_and_groups(column: str, folder: Path) -> None:
    words = ["None", "NA", "mild"] * 10
    rows = [f"{i},{i % 2},{word}" for i, word in enumerate(words)]
    (folder / "words.csv").write_text("\n".join(["x,ill,word", *rows]) + "\n")
    names = (
        {"label": "word", "inputs": "x"}
        if column == "label"
        else {"label": "ill", "groups": "word"}
    )
    task = from_csv("words.csv", linear, name="made", test="words.csv", **names)
    assert read(task).groups().tolist() == [1, 0, 2] * 10


def test_a_number_that_is_missing_is_no_class(folder: Path) -> None:
    (folder / "gap.csv").write_text("x,y\n" + "1,0\n2,NA\n" * 5)
    with pytest.raises(DataError, match="column 'y' of gap.csv has 5 empty cells"):
        read(from_csv("gap.csv", linear, name="made", label="y"))


def test_the_index_that_pandas_wrote_is_no_input(folder: Path) -> None:
    wards(folder)
    frame = pd.read_csv("wards.csv").drop(columns="hospital").assign(ward="x")
    frame.to_csv("indexed.csv")  # with a column of words, which are no inputs either
    for task in (
        from_csv("indexed.csv", linear, name="made", label="ill"),
        from_frame(pd.read_csv("indexed.csv"), linear, name="made", label="ill"),
    ):
        with pytest.raises(
            DataError, match=r"'Unnamed: 0' of .*index=False.*inputs=\['size', 'pulse'\]"
        ):
            read(task)
    task = from_csv("indexed.csv", linear, name="made", label="ill", inputs=["Unnamed: 0"])
    assert read(task).train_x.shape == (160, 1)


def test_a_data_set_that_returns_one_tensor_again_and_again() -> None:
    class Buffered(Pairs):
        row = torch.zeros(2)

        def __getitem__(self, index: int) -> tuple[Any, Any]:
            return self.row.copy_(torch.tensor([index, -index])), self.ys[index]

    data = read(made(Buffered(IMAGES, LABELS), 0.5))
    assert sorted(torch.cat([data.train_x, data.test_x])[:, 0].tolist()) == list(range(40))


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train": iter([])}, "train is of type list_iterator; it is"),
        (
            {
                "train": DataLoader(
                    Pairs(IMAGES, LABELS), sampler=WeightedRandomSampler([1.0] * 40, 9)
                )
            },
            "task made: train is a DataLoader with sampler WeightedRandomSampler.*shuffle",
        ),
        ({"test": DataLoader(Stream())}, "test is a DataLoader of Stream, whose samples have no"),
        ({"train": torch.ones(4, 2)}, r"train is of type Tensor.*TensorDataset\(x, y\)"),
        ({"test": None}, "test is of type NoneType.*or a fraction of train"),
        ({"test": 1.0}, "test is 1.0; a fraction is above 0 and below 1"),
        ({"batchsize": 3}, "unknown option 'batchsize'.*batch_size"),
        ({"model": nn.Linear(2, 2)}, r"build is a model \(Linear\)"),
        ({"loss": nn.functional.mse_loss}, "loss is given and metric is not"),
    ],
)
def test_a_line_that_is_no_task(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        made(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"train": Pairs(IMAGES, LABELS - 1)}, "a target is -1; classes are numbered from 0"),
        ({"train": Pairs(IMAGES, LABELS / 2)}, "a target is 0.0; classes are whole numbers"),
        ({"train": Pairs([*IMAGES[:39], IMAGES[0, :2]], LABELS)}, r"sample 39 is .*\(3, 2, 5\)"),
        ({"train": Pairs(["a word"] * 40, LABELS)}, "input of sample 0 is 'a word'"),
        ({"train": Pairs(IMAGES[:0], LABELS[:0])}, "has no samples"),
        ({"train": TensorDataset(torch.ones(4))}, "sample 0 is of type tuple"),
        ({"test": Pairs(IMAGES[:, 1:], LABELS)}, r"train is torch.uint8 \(3, 6, 5\) and of test"),
        (
            {"test": Pairs(IMAGES, ["a", "b"] * 20)},
            "targets of train are numbers, such as 0, and those of test words, such as 'a'",
        ),
        (
            {"train": Pairs(IMAGES, ["1", "x"] * 20), "test": Pairs(IMAGES, LABELS)},
            "targets of train are words, such as '1', and those of test numbers, such as 0",
        ),
        ({"test": 0.001}, "test is 0.001, 0 of 40 samples"),
        ({"groups": [1, 2]}, r"groups has the shape \(2,\).*40 training samples"),
        ({"groups": "writer"}, "the samples are pairs without named columns"),
        ({"train": Rows(IMAGES, LABELS)}, r"the input \['writer'\] of sample 0 is 'w0'"),
        (
            {"train": Rows(IMAGES, LABELS), "label": "class", "inputs": "pixels"},
            "label is 'class'; the columns are pixels, label, writer",
        ),
    ],
)
def test_data_that_do_not_fit(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DataError, match=words):
        read(made(**options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"label": "sick"}, "label is 'sick'; the columns of wards.csv are size, pulse, ill, hosp"),
        ({"inputs": ["pulse", "name"]}, r"column 'name' of wards.csv .*inputs=\['pulse'\]"),
        ({"groups": "gap"}, "column 'gap' of wards.csv has 1 empty cells"),
        ({"inputs": ["pulse", "far"]}, "column 'far' of wards.csv has 2 infinite cells"),
        ({"label": "size", "inputs": "pulse"}, "task made: a target is .*; classes are whole"),
    ],
)
def test_a_csv_that_does_not_fit(options: dict[str, Any], words: str, folder: Path) -> None:
    wards(folder, name=["x"] * 200, gap=[*range(199), ""], far=[*range(198), "inf", "-inf"])
    task = from_csv("wards.csv", linear, **({"name": "made", "label": "ill"} | options))
    with pytest.raises(DataError, match=words):
        read(task)


def test_a_folder_of_datasets_that_does_not_fit(folder: Path) -> None:
    marks(folder)
    with pytest.raises(DataError, match=r"no split 'validation' \(splits: train, test\)"):
        read(from_datasets("marks", linear, name="made", test="validation", inputs="grey"))
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match="empty is no folder that datasets' save_to_disk wrote"):
        read(from_datasets("empty", linear, name="made"))
    data = read(
        from_datasets(
            "marks",
            linear,
            name="made",
            test=0.5,
            inputs="grey",
            transform=lambda x: np.array(x)[:4],
        )
    )
    assert data.train_x.shape == (30, 4, 8)


def test_a_frame_is_the_task_of_its_file(folder: Path) -> None:
    wards(folder)
    columns: dict[str, Any] = {"label": "ill", "inputs": ["size", "pulse"], "groups": "hospital"}
    frame = pd.read_csv(folder / "wards.csv")
    for test in (0.25, "wards.csv"):
        by_file = from_csv("wards.csv", linear, name="made", test=test, **columns)
        given = frame if test == "wards.csv" else 0.25
        by_frame = from_frame(frame, linear, name="made", test=given, **columns)
        one, other = (task.load(None, False) for task in (by_file, by_frame))
        for name in ("train_x", "train_y", "test_x", "test_y", "labels"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name
    with pytest.raises(DataError, match="label is 'sick'; the columns of the frame are size"):
        from_frame(frame, linear, name="made", label="sick").load(None, False)
