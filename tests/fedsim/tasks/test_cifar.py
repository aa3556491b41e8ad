"""CIFAR-10: its forms on disk, how it is packed, and its augmentation."""

import hashlib
import pickle
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from compressors import derive
from fedsim.ground.errors import DataError
from fedsim.tasks.data import cifar
from fedsim.tasks.data.images import CropAndFlip, Pixels, cropped
from fedsim.tasks.data.images import crops as drawn_crops
from fedsim.tasks.pack_cifar import pack
from tests.support.images import arrays
from tests.support.markdown import ROOT

MADE = runpy.run_path(str(ROOT / "docs" / "make_cifar.py"))
pack_command, read_source = MADE["pack_command"], MADE["read_source"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with a small ``cifar10.npz``."""
    pack(tmp_path / "cifar10.npz", **arrays(), source="made up")
    return tmp_path


def strips(folder: Path, made: dict[str, Any]) -> None:
    """Lossless strips of twenty images, as they are handed around."""
    image = pytest.importorskip("PIL.Image")
    for part in ("train", "test"):
        x = made[f"{part}_x"]
        for number, start in enumerate(range(0, len(x), 20)):
            strip = x[start : start + 20].reshape(-1, 32, 3)
            image.fromarray(strip).save(folder / f"{part}_{number:03d}.webp", lossless=True)
    labels = {f"{part}_labels": made[f"{part}_y"] for part in ("train", "test")}
    np.savez(folder / "labels.npz", **labels, approx_train=np.array([3, 5]), approx_test=[1])


def batches(folder: Path, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision's layout: five pickled batches and one."""
    datasets = pytest.importorskip("torchvision.datasets")
    layout = folder / cifar.LAYOUT
    layout.mkdir()
    names = [f"data_batch_{i}" for i in range(1, 6)]
    parts = [*np.array_split(np.arange(len(made["train_x"])), 5), np.arange(len(made["test_x"]))]
    for name, part in zip([*names, "test_batch"], parts, strict=True):
        which = "test" if name == "test_batch" else "train"
        rows = made[f"{which}_x"][part].transpose(0, 3, 1, 2).reshape(len(part), -1)
        entry = {"data": rows, "labels": made[f"{which}_y"][part].tolist()}
        (layout / name).write_bytes(pickle.dumps(entry))
    (layout / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    # not the real sums
    monkeypatch.setattr(datasets.CIFAR10, "_check_integrity", lambda self: True)
    md5 = hashlib.md5((layout / "batches.meta").read_bytes()).hexdigest()
    monkeypatch.setitem(datasets.CIFAR10.meta, "md5", md5)


def test_what_is_packed_is_what_is_read(folder: Path) -> None:
    made, data = arrays(), cifar.load_cifar(folder)
    assert len(data.train_x) == 40 and len(data.test_x) == 12
    x = data.train_x[torch.tensor([7, 3])]
    assert x.shape == (2, 3, 32, 32) and x.dtype == torch.float32
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    for channel in range(3):
        expected = (made["train_x"][7, :, :, channel] / 255 - mean[channel]) / std[channel]
        np.testing.assert_allclose(x[0, channel].numpy(), expected, rtol=1e-5, atol=1e-6)
    assert data.train_y.tolist() == made["train_y"].tolist()
    digest = hashlib.sha256(made["train_x"].tobytes()).hexdigest()[:12]
    assert data.source == f"CIFAR-10, cifar10.npz (made up), training images sha256 {digest}"


def test_channels_may_come_first(tmp_path: Path) -> None:
    made = arrays()
    first = {n: x.transpose(0, 3, 1, 2) if n.endswith("_x") else x for n, x in made.items()}
    np.savez(tmp_path / "cifar10.npz", **first)
    data = cifar.load_cifar(tmp_path)
    assert "of unknown origin" in data.source
    (tmp_path / "last").mkdir()
    pack(tmp_path / "last" / "cifar10.npz", **made, source="last")
    assert torch.equal(data.train_x[:], cifar.load_cifar(tmp_path / "last").train_x[:])


@pytest.mark.parametrize("form", ["strips", "torchvision"])
def test_any_form_packs_to_the_same(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = arrays()
    strips(tmp_path, made) if form == "strips" else batches(tmp_path, made, monkeypatch)
    out = tmp_path / "packed.npz"
    assert pack_command([str(tmp_path), str(out)]) == 0
    said = capsys.readouterr().out
    assert "40 training and 12 test images" in said
    assert ("3 images not exact" in said) == (form == "strips")
    with np.load(out, allow_pickle=False) as file:
        for name, x in made.items():
            assert (file[name] == x).all() and file[name].shape == x.shape


def test_strips_that_cannot_be_packed(tmp_path: Path) -> None:
    strips(tmp_path, arrays())
    for labels in ({"train_labels": arrays()["train_y"]}, None):
        if labels is None:
            (tmp_path / "labels.npz").write_bytes(b"PK\x03\x04 cut off")
        else:
            np.savez(tmp_path / "labels.npz", **labels)
        with pytest.raises(DataError, match="labels.npz cannot be used"):
            read_source(tmp_path)


def test_torchvisions_layout_is_read_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches(tmp_path, arrays(), monkeypatch)
    layout = cifar.load_cifar(tmp_path)
    assert "torchvision layout" in layout.source
    pack(tmp_path / "cifar10.npz", **arrays(), source="made up")
    packed = cifar.load_cifar.__wrapped__(tmp_path, False)
    assert "cifar10.npz" in packed.source  # it goes first
    assert torch.equal(layout.test_x[:], packed.test_x[:])
    (empty := tmp_path / "empty" / cifar.LAYOUT).mkdir(parents=True)
    with pytest.raises(DataError, match=f"cannot be read from {empty}"):
        cifar.load_cifar(empty.parent)


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "labels above 9": ({"test_y": np.full(12, 10)}, "label of test_y is 10"),
    "labels of other length": ({"train_y": np.zeros(39, np.int64)}, r"train_y is int64 \(39,\)"),
    "floats": ({"train_x": np.zeros((40, 32, 32, 3))}, "train_x is float64"),
    "another size": ({"test_x": np.zeros((12, 28, 28, 3), np.uint8)}, r"\(12, 28, 28, 3\)"),
}


@pytest.mark.parametrize(("change", "words"), BROKEN.values(), ids=BROKEN)
def test_damaged_files_are_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "cifar10.npz", **(arrays() | change))
    with pytest.raises(DataError, match=words):
        cifar.load_cifar(tmp_path)
    with pytest.raises(DataError, match=words):
        pack(tmp_path / "new.npz", **(arrays() | change), source="")
    assert not (tmp_path / "new.npz").exists()


def test_missing_files_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    for folder in (None, tmp_path):
        with pytest.raises(DataError, match=r"\n.*pack_cifar.*--data"):
            cifar.load_cifar(folder)
    (tmp_path / "cifar10.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="cifar10.npz cannot be used"):
        cifar.load_cifar(tmp_path)
    pack(tmp_path / "cifar10.npz", **arrays(), source="made up")
    whole = (tmp_path / "cifar10.npz").read_bytes()
    for kept in (len(whole) // 2, len(whole) - 3):
        (tmp_path / "cifar10.npz").write_bytes(whole[:kept])
        with pytest.raises(DataError, match="cifar10.npz cannot be used"):
            cifar.load_cifar(tmp_path)
    np.savez(tmp_path / "cifar10.npz", train_x=np.zeros(3))
    with pytest.raises(DataError, match="train_y"):
        cifar.load_cifar(tmp_path)
    assert pack_command([str(tmp_path), str(tmp_path / "out.npz")]) == 2


def test_arguments_of_the_command_have_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        pack_command(["--help"])
    assert len(re.findall("^  (source|path)  +[a-z]", capsys.readouterr().out, re.M)) == 2


# ---- augmentation


def test_every_crop_is_a_crop_and_half_are_mirrored() -> None:
    x = torch.randn(400, 3, 6, 5, generator=torch.Generator().manual_seed(1))
    y = cropped(x, 2, drawn_crops(len(x), 2, torch.Generator().manual_seed(0)))
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2))
    seen: dict[tuple[int, int, bool], int] = {}
    for image, around in zip(y, padded, strict=True):
        crops = [
            (top, left, mirrored)
            for top in range(5)
            for left in range(5)
            for mirrored in (False, True)
            if torch.equal(image, _crop(around, top, left, mirrored))
        ]
        assert len(crops) == 1
        seen[crops[0]] = seen.get(crops[0], 0) + 1
    assert len(seen) == 50  # every place, both ways
    assert 160 <= sum(n for (_, _, mirrored), n in seen.items() if mirrored) <= 240


def _crop(around: torch.Tensor, top: int, left: int, mirrored: bool) -> torch.Tensor:
    part = around[:, top : top + 6, left : left + 5]
    return part.flip(2) if mirrored else part


def test_a_batch_follows_from_its_generator_alone() -> None:
    stored = torch.randint(0, 256, (30, 3, 8, 8), dtype=torch.uint8)
    draw = CropAndFlip(Pixels(stored, (0.5,) * 3, (0.25,) * 3), torch.arange(30))
    index = torch.tensor([4, 9, 2])
    torch.randn(5)
    first, y = draw(index, torch.Generator().manual_seed(derive(0, "step", 1, 2)))
    other, _ = draw(index, torch.Generator().manual_seed(derive(0, "step", 1, 2)))
    third, _ = draw(index, torch.Generator().manual_seed(derive(0, "step", 1, 3)))
    assert torch.equal(first, other) and not torch.equal(first, third)
    assert y.tolist() == [4, 9, 2]
