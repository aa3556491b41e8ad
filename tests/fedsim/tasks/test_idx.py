"""Image data sets on disk: layouts, copies, damage, what is missing."""

import gzip
import hashlib
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fedsim.ground.errors import DataError
from fedsim.tasks import get_task
from fedsim.tasks.data.idx import ARRAYS, read_idx

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
FASHION = Path("/usr/share/datasets/fashion-mnist")
FOLDER = {"mnist_lenet5": "MNIST", "fashion_lenet5": "FashionMNIST"}


def idx_bytes(array):
    sizes = np.array(array.shape, ">u4").tobytes()
    return bytes((0, 0, 8, array.ndim)) + sizes + array.astype(np.uint8).tobytes()


def write_set(folder, name="MNIST", packed=False):
    """A tiny data set in torchvision's layout: 30 training and 20 test images."""
    raw = folder / name / "raw"
    raw.mkdir(parents=True)
    draw = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", 30), ("t10k", 20)):
        arrays[f"{part}-images-idx3-ubyte"] = draw.integers(0, 256, (count, 28, 28))
        arrays[f"{part}-labels-idx1-ubyte"] = np.arange(count) % 10
    for file, array in arrays.items():
        content = idx_bytes(array)
        path = raw / (f"{file}.gz" if packed else file)
        path.write_bytes(gzip.compress(content) if packed else content)
    return arrays


@pytest.mark.parametrize("name", FOLDER)
@pytest.mark.parametrize("packed", [False, True])
def test_both_layouts_give_the_same(tmp_path, name, packed):
    arrays = write_set(tmp_path, FOLDER[name], packed)
    data = get_task(name).load(tmp_path, False)
    mean, std = {"MNIST": (0.1307, 0.3081), "FashionMNIST": (0.2860, 0.3530)}[FOLDER[name]]
    assert data.train_x.shape == (30, 1, 28, 28)
    assert data.test_x.shape == (20, 1, 28, 28)
    expected = (arrays["train-images-idx3-ubyte"] / 255 - mean) / std
    np.testing.assert_allclose(data.train_x[:, 0].numpy(), expected, atol=1e-5)
    assert data.test_y.tolist() == (np.arange(20) % 10).tolist()
    assert data.train_x.dtype == torch.float32
    assert data.train_y.dtype == torch.int64
    digest = hashlib.sha256(idx_bytes(arrays["train-images-idx3-ubyte"])).hexdigest()[:12]
    layout = "gzip idx" if packed else "unpacked idx"
    start = f"{FOLDER[name]}, torchvision layout, {layout}, training images sha256"
    assert data.source == f"{start} {digest}"
    assert str(tmp_path) not in data.source


@pytest.mark.parametrize("name", FOLDER)
def test_missing_data_says_where_to_put_what(tmp_path, monkeypatch, name):
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    for folder, place in ((tmp_path, str(tmp_path)), (None, "DIR")):
        with pytest.raises(DataError) as refused:
            get_task(name).load(folder, False)
        lines = str(refused.value).splitlines()
        assert len(lines) == 2
        assert f"{place}/{FOLDER[name]}/raw" in lines[1]
        assert f"--data {place}" in lines[1]
        assert f"$FEDSIM_DATA={place}" in lines[1]
        assert "--download" in lines[1]
        assert all(file in lines[1] for file in ARRAYS)


@pytest.mark.parametrize("packed", [False, True])
def test_three_files_are_not_enough(tmp_path, packed):
    write_set(tmp_path, packed=packed)
    next((tmp_path / "MNIST" / "raw").glob("t10k-labels*")).unlink()
    with pytest.raises(DataError, match="its files are not in"):
        read_idx("MNIST", tmp_path, False)


def damage(folder, packed, change):
    raw = folder / "MNIST" / "raw"
    path = raw / ("train-images-idx3-ubyte" + (".gz" if packed else ""))
    content = path.read_bytes()
    if packed:
        content = gzip.decompress(content)
    path.write_bytes(gzip.compress(change(content)) if packed else change(content))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"",
        lambda content: content[:10],
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: b"\x00\x00\x0e\x03" + content[4:],
        lambda content: b"\xff" * len(content),
        lambda content: idx_bytes(np.zeros((30, 27, 28))),
        lambda content: idx_bytes(np.zeros((29, 28, 28))),
    ],
    ids=["empty", "header", "short", "long", "type", "magic", "size", "count"],
)
def test_damaged_files_are_refused(tmp_path, packed, change):
    write_set(tmp_path, packed=packed)
    damage(tmp_path, packed, change)
    with pytest.raises(DataError) as refused:
        read_idx("MNIST", tmp_path, False)
    assert len(str(refused.value).splitlines()) == 2
    assert str(refused.value).startswith("MNIST: ")


def test_a_truncated_gzip_is_refused(tmp_path):
    write_set(tmp_path, packed=True)
    path = tmp_path / "MNIST" / "raw" / f"{ARRAYS[0]}.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=f"{ARRAYS[0]}.gz is damaged"):
        read_idx("MNIST", tmp_path, False)


def test_a_label_above_nine_is_refused(tmp_path):
    write_set(tmp_path)
    path = tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte"
    path.write_bytes(idx_bytes(np.full(20, 11)))
    with pytest.raises(DataError, match="a test label is 11, above 9"):
        read_idx("MNIST", tmp_path, False)


@pytest.mark.parametrize(
    "code",
    ["raise RuntimeError('operator torchvision::nms does not exist')", "import no_such_module"],
)
def test_a_broken_torchvision_is_said_plainly(tmp_path, monkeypatch, code):
    broken = tmp_path / "modules" / "torchvision"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text(code)
    for module in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.syspath_prepend(broken.parent)
    with pytest.raises(DataError, match="torchvision cannot be imported.*\nInstall the torchvis"):
        read_idx("MNIST", tmp_path, True)
    write_set(tmp_path)  # files that are there are read without it
    assert read_idx("MNIST", tmp_path, True)[0][0].shape == (30, 28, 28)


def test_a_failed_download_is_said(tmp_path, monkeypatch):
    from torchvision.datasets import MNIST

    def fail(self):
        raise RuntimeError("Error downloading train-images\nTried ...")

    monkeypatch.setattr(MNIST, "download", fail)
    with pytest.raises(DataError, match="cannot be downloaded into.*Error downloading.*\nPut"):
        read_idx("MNIST", tmp_path, True)


def test_nothing_is_downloaded_that_is_there(tmp_path, monkeypatch):
    from torchvision.datasets import MNIST

    monkeypatch.setattr(MNIST, "download", lambda self: pytest.fail("download was called"))
    write_set(tmp_path / "a")
    write_set(tmp_path / "b", packed=True)
    assert len(read_idx("MNIST", tmp_path / "a", True)[0][0]) == 30
    assert len(read_idx("MNIST", tmp_path / "b", True)[0][0]) == 30


@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "MNIST").is_dir(), reason="real MNIST is not in ../shared/data")
def test_real_mnist():
    (train_x, _, _, test_y), _ = read_idx("MNIST", SHARED, False)
    assert train_x.shape == (60000, 28, 28)
    assert np.bincount(test_y).tolist() == [
        980,
        1135,
        1032,
        1010,
        982,
        892,
        958,
        1028,
        974,
        1009,
    ]
    assert train_x.mean() / 255 == pytest.approx(0.1307, abs=1e-4)
    assert train_x.std() / 255 == pytest.approx(0.3081, abs=1e-4)


@pytest.mark.skipif(not FASHION.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")
@pytest.mark.slow
def test_real_fashion_mnist_both_ways(tmp_path):
    packed = tmp_path / "packed" / "FashionMNIST" / "raw"
    unpacked = tmp_path / "unpacked" / "FashionMNIST" / "raw"
    packed.mkdir(parents=True)
    unpacked.mkdir(parents=True)
    for file in ARRAYS:
        os.symlink(FASHION / f"{file}.gz", packed / f"{file}.gz")
        with gzip.open(FASHION / f"{file}.gz") as source, open(unpacked / file, "wb") as target:
            shutil.copyfileobj(source, target)
    first, source = read_idx("FashionMNIST", tmp_path / "packed", False)
    second, other_source = read_idx("FashionMNIST", tmp_path / "unpacked", False)
    assert np.bincount(first[1]).tolist() == [6000] * 10
    assert first[0].mean() / 255 == pytest.approx(0.2860, abs=1e-4)
    assert first[0].std() / 255 == pytest.approx(0.3530, abs=1e-4)
    assert all(map(np.array_equal, first, second))
    assert source.split(", ")[-1] == other_source.split(", ")[-1]
